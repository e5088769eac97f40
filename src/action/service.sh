# service: a unit stopped, or started and healthy.

# Into $_block: the unit as systemd has it now. Also $_active: up or down; a unit that systemd starts again and again
# is up.
_service_unit() {
  _show "$1" -p Id,LoadState,ActiveState,SubState,FragmentPath,DropInPaths,InvocationID,NRestarts,ControlGroup \
    -p RequiredBy,BoundBy,ConsistsOf,TriggeredBy || return
  _block=$_shown
  case $(_of ActiveState) in inactive | failed) _active=down ;; *) _active=up ;; esac
}

# service_inspect UNIT STATE RESTART: for a stop what runs, and from which texts; for the start that follows one only
# what no step between them changes.
service_inspect() {
  command -v systemctl >/dev/null 2>&1 || unknown 'systemd is not here (no systemctl)'
  _service_unit "$1" || unknown 'systemd does not answer (systemctl show)'
  for _key in Id LoadState FragmentPath; do _seen "$_key" "$(_of "$_key")"; done
  _path=$(_of FragmentPath)
  [ -z "$_path" ] || _seen fragment "$(as_owner "$_path" cat -- "$_path" | _digest)"
  [ "$2$3" = startedyes ] || _seen active "$_active"
  if [ "$2" = stopped ]; then
    [ -z "$_path" ] || as_owner "$_path" cat -- "$_path" | _lines text
    set -f
    for _path in $(_of DropInPaths); do
      _seen drop_in "$(as_owner "$_path" cat -- "$_path" | _digest) $_path"
      as_owner "$_path" cat -- "$_path" | _lines text
    done
    # What systemd stops with it, or starts it again meanwhile.
    for _key in RequiredBy BoundBy ConsistsOf TriggeredBy; do
      for _other in $(_of "$_key"); do
        case $(bounded 2 systemctl show -p ActiveState -- "$_other" 2>/dev/null) in
          *=inactive | *=failed) ;;
          *) _seen "$_key" "$_other" ;;
        esac
      done
    done
    set +f
  else
    if command -v curl >/dev/null 2>&1; then _seen http curl
    elif command -v python3 >/dev/null 2>&1; then _seen http python3
    else _seen http none
    fi
  fi
}

# service_stop UNIT SECONDS DRAIN...
service_stop() {
  _unit=$1 _patience=$2
  shift 2
  _service_unit "$_unit" || _fail 'systemd does not answer (systemctl show)'
  [ "$_active" = up ] || return 0
  _keep was_up "$(_of ControlGroup)" || _fail "cannot write to $PWD"
  # A unit that came back, as after a restart of the host, is drained again.
  if [ $# -gt 0 ] && { [ ! -e drained ] || [ "$(_kept drained)" != "$(_of InvocationID)" ]; }; then
    _program=$(_trusted "$1") || _fail "$1 cannot be run as root: missing, or others may write to it"
    shift
    _bounded "$_patience" "$_program" "$@" || _fail "$_program did not drain $_unit: status $?"
    rm -f drained
    _keep drained "$(_of InvocationID)"
  fi
  _bounded "$_patience" systemctl stop -- "$_unit" || _fail "systemctl stop $_unit: status $?"
  service_stopped "$_unit"
}

# service_stopped UNIT: it is down, and nothing of it is left.
service_stopped() {
  _service_unit "$1" || _fail 'systemd does not answer (systemctl show)'
  [ "$_active" = down ] || _fail "$1 is $(_of ActiveState) ($(_of SubState))"
  _group=$(_kept was_up)
  _left=
  [ -z "$_group" ] ||
    _left=$(cat "/sys/fs/cgroup$_group/cgroup.procs" "/sys/fs/cgroup/systemd$_group/cgroup.procs" 2>/dev/null |
      tr '\n' ' ')
  [ -z "$_left" ] || _fail "processes of $1 are left after its stop: $_left"
}

# _stop_patience UNIT SECONDS: how long its stop may take: SECONDS, or what systemd gives it to end by itself and then
# once more after it was killed (systemd.service(5), TimeoutStopSec=), but no more than half an hour.
_stop_patience() {
  bounded 2 systemctl show -p TimeoutStopUSec -- "$1" 2>/dev/null | sed 's/^[^=]*=//' | awk -v least="$2" '
    BEGIN { of["us"] = 1e-6; of["ms"] = 1e-3; of["s"] = 1; of["min"] = 60; of["h"] = 3600; of["d"] = 86400 }
    {
      for (i = 1; i <= NF; i++) {
        unit = $i
        sub(/^[0-9.]+/, "", unit)
        s += (unit in of) ? $i * of[unit] : 1e9
      }
    }
    END { s = 2 * s + 5; if (s < least) s = least; if (s > 1800) s = 1800; printf "%d\n", s }'
}

# service_stop_undo UNIT SECONDS: up again, if it was.
service_stop_undo() {
  [ -e was_up ] || return 0
  _service_unit "$1" || _fail 'systemd does not answer (systemctl show)'
  # Where its stop took too long for us, that is still under way, and it is neither up nor down.
  _patience=$(_stop_patience "$1" "$2")
  _until=$(($(date +%s) + _patience))
  while [ "$(_of ActiveState)" = deactivating ]; do
    [ "$(date +%s)" -lt "$_until" ] || _fail "$1 is still being stopped, after $_patience s"
    sleep 1
    _service_unit "$1" || _fail 'systemd does not answer (systemctl show)'
  done
  [ "$_active" = down ] || return 0
  systemctl reset-failed -- "$1" 2>/dev/null
  systemctl start --no-block -- "$1" || _fail "systemctl start $1: status $?"
  service_is_up "$1" "$2"
}

# service_is_up UNIT SECONDS: waits until it is active.
service_is_up() {
  _until=$(($(date +%s) + $2))
  while _service_unit "$1" || _fail 'systemd does not answer (systemctl show)'; do
    case $(_of ActiveState) in
      active) return 0 ;;
      failed) _fail "$1 failed: $(bounded 2 systemctl show -p Result -- "$1" 2>/dev/null)" ;;
    esac
    [ "$(date +%s)" -lt "$_until" ] || _fail "$1 is $(_of ActiveState) ($(_of SubState)) after $2 s"
    sleep 1
  done
}

# service_start UNIT SECONDS RESTART
service_start() {
  _service_unit "$1" || _fail 'systemd does not answer (systemctl show)'
  if [ "$_active$3" = upyes ] && [ ! -e started ]; then
    # It came back by itself, as after a restart of the host, with what it was started with before.
    _bounded "$2" systemctl stop -- "$1" || _fail "systemctl stop $1: status $?"
    _service_unit "$1" || _fail 'systemd does not answer (systemctl show)'
  fi
  if [ "$_active" = down ]; then
    # Before it acts, so that undo knows whose start this is.
    _keep started "$(_of NRestarts)" || _fail "cannot write to $PWD"
    systemctl reset-failed -- "$1" 2>/dev/null
    systemctl start --no-block -- "$1" || _fail "systemctl start $1: status $?"
  fi
  service_is_up "$1" "$2"
  _keep invocation "$(_of InvocationID) $(_of NRestarts)"
}

# service_start_undo UNIT SECONDS: down again, if we started it.
service_start_undo() {
  [ -e started ] || return 0
  _bounded "$(_stop_patience "$1" "$2")" systemctl stop -- "$1" || _fail "systemctl stop $1: status $?"
  _service_unit "$1" || _fail 'systemd does not answer (systemctl show)'
  [ "$_active" = down ] || _fail "$1 is $(_of ActiveState) ($(_of SubState))"
}

# The same start as at the beginning?
_same_start() {
  _service_unit "$1" || _fail 'systemd does not answer (systemctl show)'
  _now="$(_of InvocationID) $(_of NRestarts)"
  [ "$_now" = "$(_kept invocation)" ] && [ "$(_of ActiveState)" = active ] ||
    _fail "$1 did not stay up: $(_of ActiveState) ($(_of SubState)), restarts $(_of NRestarts)"
}

# service_healthy UNIT URL STATUS SECONDS REQUEST_URL TYPE HEADERS REQUEST_STATUS CONTAINS REQUEST_SECONDS BODY: it is
# the start that was made, answers URL with STATUS within SECONDS, and then the request. Without an HTTP client it
# says so.
service_healthy() {
  _same_start "$1"
  [ "$2" ] || return 0
  _client=
  for _program in curl python3; do
    _path=$(_trusted "$_program") && _client=$_program && break
  done
  if [ -z "$_client" ]; then
    echo "not exercised: there is neither curl nor python3 here"
    return 0
  fi
  _until=$(($(date +%s) + $4))
  until [ "$(_http 10 "$2" '' '' '' </dev/null 2>/dev/null)" = "$3" ]; do
    _same_start "$1"
    [ "$(date +%s)" -lt "$_until" ] ||
      _fail "$1 did not answer $2 with $3 within $4 s: $(_http 10 "$2" '' '' '' </dev/null 2>&1)"
    sleep 2
  done
  _same_start "$1"
  [ "$5" ] || return 0
  _status=$(printf %s "${11}" | _http "${10}" "$5" "$6" "$7" answer 2>&1)
  [ "$_status" = "$8" ] || _fail "$1 answered the request to $5 with '$_status', expected $8"
  [ -z "$9" ] || grep -qF -e "$9" answer || _fail "the answer of $1 to $5 lacks what was expected"
  rm -f answer
  _same_start "$1"
}

# _http SECONDS URL TYPE HEADERS FILE <BODY: its status; with TYPE a POST of BODY; the answer to FILE. HEADERS is a
# file on this host. URL, body and headers are in no argument.
_http() {
  if [ "$_client" = curl ]; then
    [ -z "$3" ] || cat >body
    {
      printf '%s\n' silent show-error globoff 'noproxy = "*"' 'write-out = "%{http_code}"' \
        "url = \"$2\"" "max-time = $1" "output = \"${5:-/dev/null}\""
      [ -z "$3" ] || printf 'header = "Content-Type: %s"\ndata-binary = "@body"\n' "$3"
      [ -z "$4" ] || as_owner "$4" cat -- "$4" | sed 's/["\\]/\\&/g; s/.*/header = "&"/'
    } | "$_path" -q --config -
    _ended=$?
    rm -f body
    return "$_ended"
  fi
  URL=$2 TYPE=$3 HEADERS=$([ -z "$4" ] || as_owner "$4" cat -- "$4") ANSWER=$5 LIMIT=$1 "$_path" -I -c '
import os, sys, urllib.request, urllib.error
e = os.environ
request = urllib.request.Request(e["URL"], sys.stdin.buffer.read() if e["TYPE"] else None)
if e["TYPE"]: request.add_header("Content-Type", e["TYPE"])
lines = e["HEADERS"].splitlines()
[request.add_header(*(part.strip() for part in line.split(":", 1))) for line in lines if ":" in line]
try: answer = urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=float(e["LIMIT"]))
except urllib.error.HTTPError as error: answer = error
if e["ANSWER"]: open(e["ANSWER"], "wb").write(answer.read(1 << 20))
print(answer.status, end="")'
}
