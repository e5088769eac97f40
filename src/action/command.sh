# command: a program with a check of its own, and one that takes back what it did.

# _command SECONDS PROGRAM ARGS...: as root, if root may run it.
_command() {
  _seconds=$1
  _program=$(_trusted "$2") || return 126
  shift 2
  _bounded "$_seconds" "$_program" "$@"
}

# command_inspect SECONDS CHECK...
command_inspect() {
  _trusted "$2" >/dev/null || unknown "$2 is missing, or others than root may write to it"
  _command "$@" >/dev/null 2>&1
  _seen status $?
}

# command_apply SECONDS PROGRAM...
command_apply() {
  _keep began yes || _fail "cannot write to $PWD"
  _command "$@" || _fail "$2: status $?"
}

command_verify() {
  _command "$@" || _fail "the check $2 says that it is not as wanted: status $?"
}

# command_undo SECONDS WHY-NOT PROGRAM...
command_undo() {
  [ -e began ] || return 0
  [ -z "$2" ] || _changed "cannot be undone: $2"
  _seconds=$1
  shift 2
  _command "$_seconds" "$@" || _fail "$1: status $?"
}
