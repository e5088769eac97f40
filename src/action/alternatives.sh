# alternatives: which alternative of a group its links lead to. What undo puts back is the three things that a group
# is: its link, the entry in /etc/alternatives, and its record; so every state comes back, one that somebody made by
# hand too.

# Into $_alt_tool and $_alt_records: Debian's program, or that of chkconfig, which has other words.
_alt_setup() {
  if command -v update-alternatives >/dev/null 2>&1; then _alt_tool=update-alternatives
  elif command -v alternatives >/dev/null 2>&1; then _alt_tool=alternatives
  else return 1
  fi
  if [ -d /var/lib/dpkg/alternatives ]; then _alt_records=/var/lib/dpkg/alternatives
  else _alt_records=/var/lib/alternatives
  fi
}

# GROUP: lines `link PATH`, `status auto|manual`, `value PATH`, `best PATH`, `candidate PATH PRIORITY`, `slaves yes`. Nothing: no
# such group.
_alt_query() {
  _text=$("$_alt_tool" --query "$1" 2>/dev/null) && case $_text in Name:*)
    printf '%s\n' "$_text" | awk '
      { at = index($0, ": "); key = at ? substr($0, 1, at - 1) : $0; value = at ? substr($0, at + 2) : "" }
      key == "Link" { print "link " value }
      /^Slaves:/ && !slaves++ { print "slaves yes" }
      key == "Status" { print "status " value }
      key == "Value" { print "value " value }
      key == "Best" { print "best " value }
      key == "Alternative" { path = value }
      key == "Priority" { print "candidate " path " " value }'
    return ;;
  esac
  # Its second line is the link; of the group's own words only those that chkconfig has too.
  _text=$("$_alt_tool" --display "$1" 2>/dev/null) || return 0
  [ -z "$_text" ] || printf '%s\n%s\n' "link $(sed -n 2p "$_alt_records/$1" 2>/dev/null)" "$_text" | awk '
    /^link / { print; next }
    /^ +(slave|follower) / && !slaves++ { print "slaves yes" }
    / - status is / { status = $NF; sub(/\.$/, "", status); print "status " status }
    /link currently points to / { print "value " $NF }
    / - (family .* )?priority / { print "candidate " $1 " " $NF }
    /^Current .best. version is / { best = $NF; sub(/\.$/, "", best); print "best " best }'
}

# PATH: what it is, in a word; a link with where it leads.
_alt_link() {
  if [ -L "$1" ]; then printf 'to %s\n' "$(readlink -- "$1")"
  elif [ -d "$1" ]; then echo directory
  elif [ -e "$1" ]; then echo other
  else echo absent
  fi
}

# GROUP LINK: all that the group is, on three lines, in the order in which it is put back.
_alt_state() {
  if [ -f "$_alt_records/$1" ]; then _digest "$_alt_records/$1"; else echo absent; fi
  _alt_link "/etc/alternatives/$1"
  _alt_link "$2"
}

# PREFIX GROUP LINK: the same and what the group says of itself, as lines of what was inspected.
_alt_seen() {
  _seen "$1link_is" "$(_alt_link "$3")"
  _seen "$1entry" "$(_alt_link "/etc/alternatives/$2")"
  _seen "$1leads_to" "$(readlink -f -- "$3")"
  [ ! -d "$3" ] || _seen "$1exists" yes
  _alt_query "$2" | while IFS= read -r _line; do _seen "$1${_line%% *}" "${_line#* }"; done
}

# GROUP LINK: once, before the first change.
_alt_keep() {
  [ ! -e "alt.$1.before" ] || return 0
  [ ! -f "$_alt_records/$1" ] || cp -p -- "$_alt_records/$1" "alt.$1.record" || return
  _keep "alt.$1.before" "$(_alt_state "$1" "$2")"
}

# GROUP LINK: what a script of ours left. While it is not there, one is at work, or was broken off.
_alt_left() { _keep "alt.$1.after" "$(_alt_state "$1" "$2")"; }

# GROUP LINK [links]: nobody else changed it: it is as we left it, or put back as far as some part of it; `links`: whatever
# its record is. What a script of ours left that was broken off nobody can tell.
_alt_ours() {
  [ -e "alt.$1.before" ] && [ -e "alt.$1.after" ] || return 0
  _now=$(_alt_state "$1" "$2") _is_back=1
  if [ "$3" ]; then _parts='2 3'; else _parts='1 2 3'; fi
  for _part in $_parts; do
    _is=$(printf '%s\n' "$_now" | sed -n "${_part}p")
    if [ "$_is" = "$(sed -n "${_part}p" "alt.$1.before")" ] && [ "$_is_back$3" ]; then continue; fi
    _is_back=
    [ "$_is" = "$(sed -n "${_part}p" "alt.$1.after")" ] || return 1
  done
}

# GROUP LINK: what was kept, put back.
_alt_put_back() {
  [ -e "alt.$1.before" ] || return 0
  {
    IFS= read -r _want_record
    IFS= read -r _want_entry
    IFS= read -r _want_link
  } <"alt.$1.before"
  if [ "$_want_record" = absent ]; then rm -f -- "$_alt_records/$1"
  elif [ "$(_digest "$_alt_records/$1" 2>/dev/null)" != "$_want_record" ]; then
    cp -p -- "alt.$1.record" "$_alt_records/$1.trueup-new" &&
      mv -f -- "$_alt_records/$1.trueup-new" "$_alt_records/$1" || return
  fi
  _alt_put_link "/etc/alternatives/$1" "$_want_entry" && _alt_put_link "$2" "$_want_link" &&
    [ "$(_alt_state "$1" "$2")" = "$(_kept "alt.$1.before")" ]
}

# PATH STATE
_alt_put_link() {
  [ "$(_alt_link "$1")" != "$2" ] || return 0
  case $2 in
    absent) [ ! -L "$1" ] || rm -f -- "$1" ;;
    'to '*) rm -f -- "$1.trueup-new" && ln -s -- "${2#to }" "$1.trueup-new" && mv -fT -- "$1.trueup-new" "$1" ;;
    *) return 1 ;;
  esac
}

# GROUP LINK PATH PRIORITY: the group's links lead to PATH, whatever comes to the group later. A link that somebody
# turned by hand is taken away first: the program would follow the hand, not us.
_alt_pin() {
  _alt_query "$1" | grep -qF "candidate $3 " || "$_alt_tool" --install "$2" "$1" "$3" "$4" >/dev/null || return
  "$_alt_tool" --set "$1" "$3" >/dev/null || return
  _alt_put_link "/etc/alternatives/$1" "to $3" && _alt_put_link "$2" "to /etc/alternatives/$1"
}

# alternatives_inspect GROUP PATH
alternatives_inspect() {
  _alt_setup || unknown 'there is neither update-alternatives nor alternatives here'
  _link=$(_alt_query "$1" | sed -n 's/^link //p')
  [ "$_link" ] || _link=$3
  _alt_seen '' "$1" "$_link"
  [ ! -e "$2" ] || _seen target yes
}

# alternatives_apply GROUP PATH LINK PRIORITY
alternatives_apply() {
  _alt_setup || _fail 'there is neither update-alternatives nor alternatives here'
  _link=$(_alt_query "$1" | sed -n 's/^link //p')
  [ "$_link" ] || _link=$3
  _alt_ours "$1" "$_link" || _changed "the alternatives of $1 were changed since"
  _alt_keep "$1" "$_link" && _keep link "$_link" && rm -f "alt.$1.after" || _fail "cannot write to $PWD"
  _alt_pin "$1" "$_link" "$2" "$4" || _fail "$_alt_tool cannot set $1 to $2"
  _alt_left "$1" "$_link" || _fail "cannot write to $PWD"
}

alternatives_verify() {
  _alt_setup
  _text=$(_alt_query "$1")
  for _line in "status manual" "value $2"; do
    printf '%s\n' "$_text" | grep -qxF "$_line" || _fail "$1: expected $_line"
  done
  [ "$(readlink -f -- "$(_kept link)")" = "$(readlink -f -- "$2")" ] || _fail "$(_kept link) does not lead to $2"
}

alternatives_undo() {
  [ -e "alt.$1.before" ] || return 0
  _alt_setup
  _link=$(_kept link)
  [ "$_link" ] || return 0
  _alt_ours "$1" "$_link" || _changed "the alternatives of $1 were changed since"
  # It was apply that was broken off: from here on it is known what was left.
  [ -e "alt.$1.after" ] || _alt_left "$1" "$_link" || :  # a full disk is no reason to leave it so
  _alt_put_back "$1" "$_link" || _fail "cannot put the alternatives of $1 back"
}
