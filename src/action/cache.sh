# cache: a directory of a JIT cache, set aside by a rename beside itself. All below what another user owns is done as
# that user.

# _cache_look PATH: what it is, into $_owner (decides about it), $_who, $_real, $_identity, $_device, $_above (its device).
_cache_look() {
  _owner=$(owner_uid "$1") || return
  _real=$(as_uid "$_owner" readlink -f -- "$1") || return
  _decide "$_real" || return
  _identity=$(_identity_of "$_real")
  _device=$(as_uid "$_owner" stat -c %d -- "$_real" 2>/dev/null)
  _above=$(as_uid "$_owner" stat -c %d -- "${_real%/*}" 2>/dev/null)
}

# _fstype PATH: of the mount that holds it.
_fstype() {
  MOUNTED=$1 awk '
    BEGIN { path = ENVIRON["MOUNTED"] }
    {
      at = $5
      gsub(/\\040/, " ", at)
      type = ""
      for (i = 7; i < NF; i++) if ($i == "-") type = $(i + 1)
      if (at != "/" && path != at && index(path, at "/") != 1 || length(at) < length(best)) next
      best = at
      found = type
    }
    END { print found }' /proc/self/mountinfo
}

# _cache_users PATH UNIT...: who has something of it open, mapped or as its directory: unit or program; not those of
# the units.
_cache_users() {
  _below=$1
  shift
  {
    grep -lF -e " $_below/" /proc/[0-9]*/maps
    ls -ld /proc/[0-9]*/cwd /proc/[0-9]*/fd/*
  } 2>/dev/null | BELOW=$_below awk '
    BEGIN { below = ENVIRON["BELOW"] }
    {
      at = index($0, " -> ")
      target = substr($0, at + 4)
      if (at ? target != below && index(target, below "/") != 1 : !/^\/proc\//) next
      if (match($0, "/proc/[0-9]+/")) print substr($0, RSTART + 6, RLENGTH - 7)
    }' | sort -u | while read -r _process; do
    [ "$_process" != "$$" ] || continue
    _unit=$(sed -n 's|.*/\([^/]*\.service\)\(/.*\)\{0,1\}$|\1|p' "/proc/$_process/cgroup" 2>/dev/null | head -n 1)
    for _name do [ "$_unit" != "$_name" ] || continue 2; done
    _name=$(cat "/proc/$_process/comm" 2>/dev/null) || continue
    printf '%s\n' "${_unit:-program $_name}"
  done | sort -u
}

# cache_inspect PATH UNIT...
cache_inspect() {
  _cache_look "$1" || unknown "$1: too many links on the way"
  _kind=$(_kind_of "$_owner" "$1")
  _seen kind "$_kind"
  [ "$_kind" = directory ] || [ "$_kind" = link ] || return 0
  _seen real "$_real"
  _seen identity "$_identity"
  _seen decided_by "$_who"
  _uid=${_identity##*:}
  _entry=$(passwd_entry "$_uid")
  _entry=${_entry%:*}
  _seen home "${_entry##*:}"
  _seen account "${_entry%%:*}"
  [ "$_device" = "$_above" ] || _seen mount yes
  _seen fstype "$(_fstype "$_real")"
  shift
  _cache_users "$_real" "$@" | while IFS= read -r _line; do _seen user "$_line"; done
}

_cache_aside() { printf '%s.trueup-%s\n' "$_real" "$(_run_id)"; }

# When it was made, where the file system tells, its inode and its owner: which directory it is, also after a reboot. The
# device is another then: its number is given anew.
_identity_of() { as_uid "$_owner" stat -c '%W:%i:%u' -- "$1" 2>/dev/null; }

# cache_apply PATH IDENTITY
cache_apply() {
  # In a shell of its own: what it finds wrong ends that.
  [ -e real ] && (cache_verify) >/dev/null 2>&1 && return 0
  _cache_look "$1" || _fail "$1: too many links on the way"
  [ "$_identity" = "$2" ] ||
    _fail "$1 is another directory than the one that was looked at: expected $2, found $_identity"
  _users=$(_cache_users "$_real" | tr '\n' ' ')
  [ -z "$_users" ] || _fail "$1 is in use: $_users"
  _keep owner "$_owner" && _keep identity "$_identity" && _keep real "$_real" || _fail "cannot write to $PWD"
  # Not by what a name leads to: this name, with -T, to that name.
  as_uid "$_who" mv -T -- "$_real" "$(_cache_aside)" || _fail "cannot rename $_real"
}

# As apply found it.
_cache_kept() {
  _real=$(_kept real) _owner=$(_kept owner) _identity=$(_kept identity)
  _aside=$(_cache_aside)
  _decide "$_real" || _fail "$_real: too many links on the way"
  # In a sticky directory nobody decides about a name that is free; our two are its owner's.
  [ "$_who" != 65534 ] || _who=$_owner
}

cache_verify() {
  _cache_kept
  [ "$(_identity_of "$_aside")" = "$_identity" ] || _fail "$_aside is not what $_real was"
}

# _cache_remove PATH: with the powers of its owner.
_cache_remove() {
  as_uid "$_who" test -e "$1" || return 0
  as_uid "$_owner" rm -rf -- "$1" 2>/dev/null
  as_uid "$_who" test ! -e "$1" || as_uid "$_who" rmdir -- "$1" 2>/dev/null
}

# What has been built there since goes: it is built again, and the old one needs the name.
cache_undo() {
  [ -e real ] || return 0
  _cache_kept
  if [ "$(_identity_of "$_real")" != "$_identity" ]; then
    [ "$(_identity_of "$_aside")" = "$_identity" ] || _changed "$_aside is not what $_real was"
    if as_uid "$_who" test -e "$_real" || as_uid "$_who" test -L "$_real"; then
      _users=$(_cache_users "$_real" | tr '\n' ' ')
      [ -z "$_users" ] || _changed "$_real is in use: $_users"
      as_uid "$_who" mv -T -- "$_real" "$_aside-new" || _fail "cannot rename $_real"
    fi
    as_uid "$_who" mv -T -- "$_aside" "$_real" || _fail "cannot rename $_aside"
  fi
  _cache_remove "$_aside-new" || printf 'left behind: %s-new\n' "$_aside"
}

cache_prune() {
  [ -e real ] || return 0
  _cache_kept
  _cache_remove "$_aside-new"
  [ "$(_identity_of "$_aside")" != "$_identity" ] || _cache_remove "$_aside" || _fail "cannot remove all of $_aside"
}
