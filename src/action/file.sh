# file: one file's content, mode and owner. Below a directory that somebody else owns everything is done as that user.
# $record: the name under which the step's directory keeps what was there. Arguments of all: PATH STATE MODE OWNER
# GROUP CONTENT.

record=file

# Beside PATH, then renamed, so that it is never half there. Arguments: PATH MODE OWNER:GROUP or nothing; content from
# stdin.
_put_program='
new=$1.trueup-new
rm -f -- "$new" && cat >"$new" && chmod -- "$2" "$new" && { [ -z "$3" ] || chown -- "$3" "$new"; } &&
{ sync -- "$new" 2>/dev/null || sync; } && mv -f -- "$new" "$1" && exit
rm -f -- "$new"
exit 1'

# _put UID PATH MODE OWNER:GROUP <CONTENT
_put() {
  as_uid "$1" sh -c "$_put_program" put "$2" "$3" "$4" || return
  [ "$1" != 0 ] || ! command -v restorecon >/dev/null 2>&1 || restorecon -- "$2" 2>/dev/null || :
}

# _file_state UID PATH: KIND, and of a file mode, owner, group and digest.
_file_state() {
  _kind=$(_kind_of "$1" "$2")
  [ "$_kind" = file ] || {
    printf '%s\n' "$_kind"
    return
  }
  printf 'file %s %s\n' "$(as_uid "$1" stat -c '%a %U %G' -- "$2")" "$(as_uid "$1" cat -- "$2" | _digest)"
}

# The same of what it shall be.
_file_wanted() {
  if [ "$2" = absent ]; then echo absent
  else printf 'file %s %s %s %s\n' "$3" "$4" "${5:-$(id -gn -- "$4")}" "$(printf %s "$6" | _digest)"
  fi
}

file_inspect() {
  _decide "$1" || unknown "$1: too many links on the way"
  _seen decided_by "$_who"
  if [ "$2" = present ]; then
    _seen owner_uid "$(id -u -- "$4" 2>/dev/null)"
  fi
  _state=$(_file_state "$_who" "$1")
  _seen state "$_state"
  _seen wanted "$(_file_wanted "$@")"
  case $_state in
    file*)
      as_uid "$_who" test -r "$1" || unknown "no permission to read $1"
      as_uid "$_who" cat -- "$1" | _lines current
      ;;
    link) _seen target "$(as_uid "$_who" readlink -- "$1")" ;;
  esac
  [ "$2" = absent ] || printf %s "$6" | _lines content
}

# Once, before the first change: what is there.
_file_keep() {
  [ ! -e "$record.state" ] || return 0
  case $2 in
    absent) ;;
    file*)
      if [ "$1" = 0 ]; then cp -a -- "$3" "$record.copy.new"
      else as_uid "$1" cat -- "$3" >"$record.copy.new"
      fi && _sync "$record.copy.new" && mv -f -- "$record.copy.new" "$record.copy" || _fail "cannot keep a copy of $3"
      ;;
    *) _fail "$3 is no file but: $2" ;;
  esac
  _keep "$record.state" "$2" || _fail "cannot write to $PWD"
}

# _make_parents UID DIR: with what is missing above it; each is noted before it is made. It calls itself: arguments
# only.
_make_parents() {
  as_uid "$1" test ! -d "$2" || return 0
  _make_parents "$1" "${2%/*}" && printf '%s\n' "$2" >>"$record.made" && _sync "$record.made" || return
  as_uid "$1" mkdir -m 755 -- "$2"
}

_remove_made() {
  [ -s "$record.made" ] || return 0
  awk '{ line[NR] = $0 } END { while (NR) print line[NR--] }' "$record.made" | while IFS= read -r _made; do
    as_uid "$1" rmdir -- "$_made" 2>/dev/null
  done
  return 0
}

# What is there is kept, and is ours to replace: what we found at first, or what we made of it.
_file_record() {
  _file_untouched "$@"
  _decide "$1" || _fail "$1: too many links on the way"
  _state=$(_file_state "$_who" "$1")
  [ "$_state" = "$(_file_wanted "$@")" ] || _file_keep "$_who" "$_state" "$1"
}

file_apply() {
  _file_record "$@"
  [ "$_state" != "$(_file_wanted "$@")" ] || return 0
  if [ "$2" = absent ]; then
    as_uid "$_who" rm -f -- "$1" || _fail "cannot remove $1"
    return
  fi
  _make_parents "$_who" "${1%/*}" || _fail "cannot make ${1%/*}"
  _group=
  [ "$_who" != 0 ] || _group=$4:${5:-$(id -gn -- "$4")}
  printf %s "$6" | _put "$_who" "$1" "$3" "$_group" || _fail "cannot write $1"
}

file_verify() {
  _decide "$1" || _fail "$1: too many links on the way"
  _state=$(_file_state "$_who" "$1")
  _wanted=$(_file_wanted "$@")
  [ "$_state" = "$_wanted" ] || _fail "$1: expected $_wanted, found $_state"
}

# Ends the script where somebody changed since what we found or made.
_file_untouched() {
  [ -e "$record.state" ] || return 0
  _decide "$1" || _fail "$1: too many links on the way"
  _state=$(_file_state "$_who" "$1")
  [ "$_state" = "$(_kept "$record.state")" ] || [ "$_state" = "$(_file_wanted "$@")" ] ||
    _changed "$1 was changed since: expected $(_file_wanted "$@"), found $_state"
}

file_undo() {
  _file_untouched "$@"
  _decide "$1" || _fail "$1: too many links on the way"
  if [ -e "$record.state" ] && [ "$(_file_state "$_who" "$1")" != "$(_kept "$record.state")" ]; then
    set -- "$1" $(_kept "$record.state")
    if [ "$2" = absent ]; then as_uid "$_who" rm -f -- "$1" || _fail "cannot remove $1"
    elif [ "$_who" = 0 ]; then
      rm -f -- "$1.trueup-new" && cp -a -- "$record.copy" "$1.trueup-new" && _sync "$1.trueup-new" &&
        mv -f -- "$1.trueup-new" "$1" || _fail "cannot put $1 back"
    else _put "$_who" "$1" "$3" '' <"$record.copy" || _fail "cannot put $1 back"
    fi
  fi
  _remove_made "$_who"
}
