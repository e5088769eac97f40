# What the scripts of actions call; lib.sh and consumers.sh stand in front. A step's script is one call of a function
# of its kind, KIND_inspect, _apply, _verify, _undo or _prune, in the step's own directory. Functions that begin with
# _ are the library's own, for all kinds.

# _fail REASON: the step did not succeed; the reason is the last line of its output.
_fail() {
  printf '%s\n' "$*"
  exit 1
}

# _changed REASON: what undo would replace is not what apply made.
_changed() {
  printf '%s\n' "$*"
  exit 3
}

# _seen KEY VALUE: a line of what was inspected, in ASCII, so that it is the same text wherever it was kept meanwhile.
_seen() {
  case $1$2 in
    *[!\ -~]*)
      printf '%s=%s' "$1" "$2" | tr '\000-\037\177-\377' '?'
      printf '\n'
      ;;
    *) printf '%s=%s\n' "$1" "$2" ;;
  esac
}

# _lines KEY <TEXT: its lines as lines of what was inspected, without secrets; nothing of what is no text, or much.
_lines() {
  _text=$(head -c 65537 | tr '\000' '\001')
  case $_text in *"$_one"*) return ;; esac
  [ "${#_text}" -le 65536 ] || return
  [ -z "$_text" ] ||
    printf '%s\n' "$_text" | redact | tr '\001-\010\011\013-\037\177-\377' '????????\040?' | sed "s/^/$1=/"
}
_one=$(printf '\001')

# _digest [FILE]: SHA-256.
_digest() {
  _sum=$(sha256sum "$@") || return
  _sum=${_sum%% *}
  printf '%s\n' "${_sum#'\'}"
}

# _kind_of UID PATH: absent, file, link, directory or other, as that user sees it.
_kind_of() {
  if as_uid "$1" test -L "$2"; then echo link
  elif as_uid "$1" test -f "$2"; then echo file
  elif as_uid "$1" test -d "$2"; then echo directory
  elif as_uid "$1" test -e "$2"; then echo other
  else echo absent
  fi
}

# _decide PATH: into $_who whose powers are enough, and safe, to make, read, rename and remove PATH: theirs who decide
# about its directory; in a sticky one, theirs whose PATH is. 65534: many accounts can.
_decide() {
  _who=$(owner_uid "${1%/*}/") || return
  [ "$_who" != 65534 ] || _who=$(owner_uid "$1")
}

# _keep NAME TEXT: a file in the step's directory, there as a whole or not at all.
_keep() {
  printf '%s\n' "$2" >"$1.new" && _sync "$1.new" && mv -f -- "$1.new" "$1"
}
_kept() { cat -- "$1" 2>/dev/null; }

_sync() { sync -- "$1" 2>/dev/null || sync; }

# The run's id, from its step's directory: .../runs/RUN/step/NN.
_run_id() {
  _id=${TRUEUP_STEP%/step/*}
  printf '%s\n' "${_id##*/}"
}

# _trusted PROGRAM: its path, where root may run it. Names are looked up in PATH.
_trusted() {
  case $1 in
    /*) _program=$1 ;;
    *) _program=$(command -v -- "$1") || return ;;
  esac
  case $_program in /*) may_run "$_program" && printf '%s\n' "$_program" ;; *) false ;; esac
}

# _bounded SECONDS CMD...: CMD with a limit, its descendants in its session included.
_bounded() { timeout -k 5 "$@"; }
