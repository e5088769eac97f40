# systemd_override: variables of one unit, in a drop-in of ours that sorts behind all others. Where the unit reads
# environment files, which beat Environment= wherever that stands, also in an environment file of ours that is read
# behind them. Arguments of all: UNIT, and for each variable NAME LINE-FOR-THE-DROP-IN LINE-FOR-THE-FILE; the last two
# empty: it is unset.

_header='# Of trueup: variables that this unit needs. Rolling the run back takes them away again.
[Service]'

# Into $_block: the unit as systemd has it now.
_override_unit() {
  _show "$1" -p Id,LoadState,UnitFileState,FragmentPath,DropInPaths,NeedDaemonReload,ExecStart,PAMName \
    -p Environment,EnvironmentFiles,UnsetEnvironment || return
  _block=$_shown
}

# Into $_conf, $_env: our files. A drop-in that sorts behind the usual name makes ours sort behind it.
_override_files() {
  _last=zz-trueup.conf
  set -f
  for _path in $(_of DropInPaths); do
    _base=${_path##*/}
    case $_base in *trueup.conf) continue ;; esac
    [ "$(printf '%s\n%s\n' "$_last" "$_base" | sort | tail -n 1)" = "$_last" ] || _last=$_base-trueup.conf
  done
  set +f
  _conf=/etc/systemd/system/$1.d/$_last
  _env=${_conf%.conf}.env
}

# Does the unit read environment files of others?
_reads_files() { _of EnvironmentFiles | grep -v "^$_env (" | grep -q .; }

# _with_line LINE PREFIX [OTHER]: of a text the same with LINE, where one began with PREFIX, else at the end; none
# with OTHER.
_with_line() {
  LINE=$1 PREFIX=$2 OTHER=$3 awk '
    BEGIN { line = ENVIRON["LINE"]; prefix = ENVIRON["PREFIX"]; other = ENVIRON["OTHER"] }
    other != "" && index($0, other) == 1 { next }
    index($0, prefix) == 1 { if (!done++) print line; next }
    { print }
    END { if (!done) print line }'
}

# The two texts as they shall be: what stands in ours now, with these lines in place of earlier ones of the same names.
_override_texts() {
  _unit=$1
  shift
  _conf_text=$(_kept "$_conf")
  _env_text=$(_kept "$_env")
  [ "$_conf_text" ] || _conf_text=$_header
  [ "$(printf '%s\n' "$_conf_text" | grep '^\[' | tail -n 1)" = '[Service]' ] ||
    _conf_text="$_conf_text$newline[Service]"
  _with_file=
  if [ -e "$_env" ] || _reads_files; then
    _with_file=1
    [ "$_env_text" ] || _env_text='# Of trueup: read by the drop-in beside it.'
  fi
  _free=$(_of UnsetEnvironment | _words) _reset=
  while [ $# -ge 3 ]; do
    if [ -z "$2" ]; then
      _line="UnsetEnvironment=\"$1\""
      _conf_text=$(printf '%s\n' "$_conf_text" | _with_line "$_line" "$_line" "Environment=\"$1=")
      _env_text=$(printf '%s\n' "$_env_text" | grep -v "^$1=")
    else
      _conf_text=$(printf '%s\n' "$_conf_text" | _with_line "$2" "Environment=\"$1=" "UnsetEnvironment=\"$1\"")
      [ -z "$_with_file" ] || _env_text=$(printf '%s\n' "$_env_text" | _with_line "$3" "$1=")
      # What another unsets at the end no pin survives: the list begins anew, without this name.
      ! printf '%s\n' "$_free" | grep -qx -e "$1" -e "$1=.*" || _reset=1
      _free=$(printf '%s\n' "$_free" | grep -vx -e "$1" -e "$1=.*")
    fi
    shift 3
  done
  if [ "$_reset" ]; then
    _conf_text=$(printf '%s\n' "$_conf_text" | grep -v '^UnsetEnvironment=')${newline}UnsetEnvironment=
    [ -z "$_free" ] || _conf_text=$_conf_text$newline$(printf '%s\n' "$_free" | sed 's/.*/UnsetEnvironment="&"/')
  fi
  if [ "$_env_text" ]; then
    _conf_text=$(printf '%s\n' "$_conf_text" | grep -vxF "EnvironmentFile=$_env")${newline}EnvironmentFile=$_env
  fi
}

# NAME: what the unit would start with; status 1: it would not be set.
_effective() {
  _manager='' _user='' _all=$(_unit_variables)
  case $newline$_all in *"$newline!"*) printf '%s\n' "$_all" | grep '^!' | head -n 1; return 2 ;; esac
  for _word in $(_of UnsetEnvironment | _words); do case $1 in "${_word%%=*}") return 1 ;; esac; done
  printf '%s\n' "$_all" | grep -q "^$1=" || return 1
  printf '%s\n' "$_all" | _value "$1"
}

# Names of loaded units whose files changed since systemd read them, but UNIT.
_pending() {
  _show '*' -p Id,NeedDaemonReload || return
  printf '%s\n' "$_shown" | UNIT=$1 awk -F= '
    BEGIN { unit = ENVIRON["UNIT"] }
    $1 == "Id" { id = substr($0, 4) }
    $1 == "NeedDaemonReload" { reload = $2 }
    $0 == "" { if (reload == "yes" && id != unit) print id; id = reload = "" }
    END { if (reload == "yes" && id != unit) print id }' | sort
}

# KEY PATH SUFFIX: a text that systemd reads, with the powers of whoever may change it.
_unit_text() {
  _seen "$1" "$(as_owner "$2" cat -- "$2" | _digest)$3"
  as_owner "$2" cat -- "$2" | _lines text
}

systemd_override_inspect() {
  command -v systemctl >/dev/null 2>&1 || unknown 'systemd is not here (no systemctl)'
  _override_unit "$1" || unknown 'systemd does not answer (systemctl show)'
  for _key in Id LoadState UnitFileState FragmentPath PAMName; do _seen "$_key" "$(_of "$_key")"; done
  _override_files "$1"
  _seen drop_in "$_conf"
  _fragment=$(_of FragmentPath)
  # The texts are for whoever reads why a plan no longer fits.
  [ -z "$_fragment" ] || _unit_text fragment "$_fragment" ""
  set -f
  for _path in $(_of DropInPaths); do
    [ "$_path" = "$_conf" ] || _unit_text other "$_path" " $_path"
  done
  set +f
  _of EnvironmentFiles | while IFS= read -r _line; do
    _path=${_line% (ignore_errors=*}
    [ "$_path" = "$_env" ] || _seen reads "$( { as_owner "$_path" cat -- "$_path" | _digest; } 2>/dev/null) $_path"
  done
  _pending "$1" | while IFS= read -r _line; do _seen pending "$_line"; done
  [ -z "$(_of PAMName)" ] || [ ! -r /etc/environment ] ||
    _seen pam "$(_env_file </etc/environment | sed 's/=.*//' | tr '\n' ' ')"
  _argv=$(_of ExecStart | sed 's/.*argv\[\]=//; s/ ; .*//')
  _override_texts "$@"
  _unit=$1
  shift
  while [ $# -ge 3 ]; do
    _now=$(_effective "$1")
    case $? in
      0) _seen "now.$1" "$(printf '%s=%s\n' "$1" "$_now" | redact | sed "s/^$1=//")" ;;
      1) _seen "unset.$1" yes ;;
      *) _seen "unknown.$1" "${_now#!}" ;;
    esac
    _where=$(bounded 3 _who_sets "$1" "$_argv")
    [ -z "$_where" ] || _seen "own.$1" "$_where"
    shift 3
  done
  _seen conf_is "$(_file_digest "$_conf")"
  _seen conf_wanted "$(printf '%s\n' "$_conf_text" | _digest)"
  _kept "$_conf" | _lines conf_current
  printf '%s\n' "$_conf_text" | _lines conf_content
  _seen env_is "$(_file_digest "$_env")"
  [ -z "$_env_text" ] || {
    _seen env_wanted "$(printf '%s\n' "$_env_text" | _digest)"
    printf '%s\n' "$_env_text" | _lines env_content
  }
  _kept "$_env" | _lines env_current
  case " $(_of DropInPaths) " in *" $_conf "*) _seen loaded yes ;; *) _seen loaded no ;; esac
}

_file_digest() {
  if [ -L "$1" ] || { [ -e "$1" ] && [ ! -f "$1" ]; }; then echo other
  elif [ -e "$1" ]; then _digest "$1"
  else echo absent
  fi
}

# NAME COMMAND: what of the start command sets it itself, whatever the unit says: the command, or a shell script in
# it. What only fills a gap (${NAME:-...}) does not count.
_who_sets() {
  set -f
  {
    printf '%s\n' "$2" | sed 's/^/command: /'
    for _word in $2; do
      case $_word in /*) [ ! -f "$_word" ] || _script "$_word" | sed "s|^|$_word: |" ;; esac
    done
  } | grep -v '^[^ ]*: *#' | grep -vE "$1=[\"']?\\\$\\{$1:?-" |
    grep -E "(^|[^A-Za-z0-9_\$])$1=" | sed 's/: .*//' | head -n 1
}

# _override_file FUNCTION conf|env: one of the two files, by what file.sh has.
_override_file() {
  record=$2
  if [ "$2" = conf ]; then "$1" "$_conf" present 644 root root "$_conf_text$newline"
  elif [ "$_env_text" ]; then "$1" "$_env" present 644 root root "$_env_text$newline"
  fi
}

systemd_override_apply() {
  _override_unit "$1" || _fail 'systemd does not answer (systemctl show)'
  if [ ! -e names ]; then
    _override_files "$1"
    _override_texts "$@"
    _override_file _file_record env
    _override_file _file_record conf
    _keep conf_text "$_conf_text" && _keep env_text "$_env_text" && _keep names "$_conf" || _fail "cannot write to $PWD"
  fi
  _override_kept
  _override_file file_apply env
  _override_file file_apply conf
  systemctl daemon-reload || _fail 'systemctl daemon-reload failed'
}

# As apply found and decided it.
_override_kept() {
  _conf=$(_kept names)
  _env=${_conf%.conf}.env
  _conf_text=$(_kept conf_text)
  _env_text=$(_kept env_text)
}

systemd_override_verify() {
  _override_kept
  _override_file file_verify env
  _override_file file_verify conf
  _override_unit "$1" || _fail 'systemd does not answer (systemctl show)'
  [ "$(_of NeedDaemonReload)" = no ] || _fail "$1: systemd has not read its files anew"
  _paths=$(_of DropInPaths)
  [ "${_paths##* }" = "$_conf" ] || _fail "$_conf is not the last drop-in of $1: $_paths"
  _name=$1
  shift
  while [ $# -ge 3 ]; do
    _now=$(_effective "$1")
    _ended=$?
    case $_ended in
      0) [ "$2" ] || _fail "$1 is still set in $_name" ;;
      1) [ -z "$2" ] || _fail "$1 is not set in $_name" ;;
      *) _fail "$_name: ${_now#!}" ;;
    esac
    if [ "$2" ]; then
      _want=$(printf '%s\n' "$3" | _env_file)
      [ "$1=$_now" = "$_want" ] || _fail "$1 is not what was written for $_name: something sets it behind us"
    fi
    shift 3
  done
}

systemd_override_undo() {
  [ -e names ] || return 0
  _override_kept
  _override_file _file_untouched env
  _override_file file_undo conf
  _override_file file_undo env
  systemctl daemon-reload || _fail 'systemctl daemon-reload failed'
}
