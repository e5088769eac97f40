# cuda_toolkit: a toolkit beside the others, in packages. What /usr/local/cuda and /usr/local/cuda-MAJOR lead to stays.
# Arguments: VERSION, then as each function says.

# VERSION: the two groups, each with its link.
_toolkit_groups() { printf 'cuda /usr/local/cuda\ncuda-%s /usr/local/cuda-%s\n' "${1%%.*}" "${1%%.*}"; }

# NAME...: what NVIDIA calls them where rpm is: libcublas-devel-13-0 is libcublas-dev-13-0 for apt.
_toolkit_names() {
  if [ "$_pm" = apt ]; then printf '%s\n' "$@"
  else printf '%s\n' "$@" | sed 's/-dev-\([0-9]\)/-devel-\1/'
  fi
}

# VERSION NAME...
cuda_toolkit_inspect() {
  _version=$1
  shift
  _pm_setup
  set -- $(_toolkit_names "$@")
  _pm_inspect toolkit 2097152 "$@"
  _at=/usr/local/cuda-$_version
  if [ ! -e "$_at/bin/nvcc" ]; then _seen toolkit absent
  elif { dpkg -S "$_at/bin/nvcc" || rpm -qf "$_at/bin/nvcc"; } >/dev/null 2>&1; then _seen toolkit packages
  else _seen toolkit other
  fi
  [ ! -e "$_at" ] || [ "$(owner_uid "$_at")" = 0 ] || _seen owner "$(owner_uid "$_at")"
  _alt_setup || return 0
  _toolkit_groups "$_version" | while read -r _group _link; do _alt_seen "$_group." "$_group" "$_link"; done
}

# What a path is registered with: 128 for /usr/local/cuda-12.8.
_toolkit_priority() {
  _digits=$(printf '%s\n' "${1##*cuda-}" | tr -d .)
  case $_digits in '' | *[!0-9]*) _digits=1 ;; esac
  printf '%s\n' "$_digits"
}

# GROUP LINK: before the packages come. In auto the newest toolkit becomes the default, and a link made by hand is
# replaced: so what it leads to is chosen by hand. What leads nowhere cannot be chosen; that is put back afterwards.
_toolkit_hold() {
  _alt_keep "$1" "$2" || _fail "cannot keep the state of $2"
  _leads_to=$(readlink -f -- "$2")
  [ -e "default.$1" ] || _keep "default.$1" "$(_alt_link "$2") at $_leads_to" || _fail "cannot write to $PWD"
  [ -L "$2" ] && [ -d "$_leads_to" ] || return 0
  _text=$(_alt_query "$1")
  _value=$(printf '%s\n' "$_text" | sed -n 's/^value //p')
  [ "$_value" ] && [ "$(readlink -f -- "$_value")" = "$_leads_to" ] || _value=$_leads_to
  _alt_pin "$1" "$2" "$_value" "$(_toolkit_priority "$_value")" || _fail "$_alt_tool cannot keep $2 at $_value"
}

# GROUP LINK: afterwards. What led nowhere is put back. Nobody's default was at the first toolkit of a major version:
# its own link it gets as everywhere.
_toolkit_release() {
  _was=$(_kept "default.$1")
  case $1:$_was in
    cuda-*:absent*) _back= ;;
    *:absent*) _back=1 ;;
    *:'to '*) [ -d "${_was##* at }" ] && _back= || _back=1 ;;
    *) _back= ;;
  esac
  [ -z "$_back" ] || _alt_put_back "$1" "$2" || _fail "cannot put $2 back"
  _alt_left "$1" "$2" || _fail "cannot write to $PWD"
}

# [links]: ends the script where somebody changed a group since.
_toolkit_untouched() {
  while read -r _group _link; do
    _alt_ours "$_group" "$_link" "$1" || _changed "the alternatives of $_group were changed since"
  done <groups
}

# GROUP LINK: does it lead where it led?
_toolkit_default_kept() {
  _was=$(_kept "default.$1")
  case $1:$_was in cuda-*:absent*) return 0 ;; esac
  _was=${_was##* at }
  [ "$(readlink -f -- "$2")" = "$_was" ]
}

# cuda_toolkit_apply VERSION SECONDS TRANSACTION LIMIT-KIB URL SUITE COMPONENTS FINGERPRINT KEY NAME...: without a
# transaction it is found now, with what the repository of that URL offers, and has to pass the same gate.
cuda_toolkit_apply() {
  _version=$1 _patience=$2 _list=$3 _limit=$4
  _pm_setup
  _alt_setup || _fail 'there is neither update-alternatives nor alternatives here'
  if [ "$5" ]; then
    mkdir -p repository || _fail "cannot write to $PWD"
    _repository_key "$9" "$8"
    "_repository_$_pm" "$5" "$6" "$7" || _fail "$5 could not be read"
  fi
  shift 9
  set -- $(_toolkit_names "$@")
  [ "$_list" ] || _toolkit_resolve "$@"
  _toolkit_groups "$_version" >groups
  _toolkit_untouched
  rm -f alt.*.after
  while read -r _group _link; do _toolkit_hold "$_group" "$_link"; done <groups
  _pm_install "$_patience" "$_list" "$@"
  while read -r _group _link; do _toolkit_release "$_group" "$_link"; done <groups
  _repository_gone
}

# NAME...: into $_list the transaction, kept so that a second run makes the same.
_toolkit_resolve() {
  _list=$(_kept resolved)
  [ -z "$_list" ] || return 0
  _list=$(_pm_simulate "$@") || _fail "it cannot be installed: $_list"
  _why=$(printf '%s\n' "$_list" | _pm_gate toolkit "$@" | tr '\n' ';')
  [ -z "$_why" ] || _fail "refused: $_why"
  _size=$(printf '%s\n' "$_list" | _pm_cost | sed -n 's/^download //p')
  [ "${_size:-0}" -le "$_limit" ] || _fail "refused: the download is $_size KiB, and $_limit are agreed to"
  _keep resolved "$_list" || _fail "cannot write to $PWD"
}

# KEY FINGERPRINT: into repository/key.gpg, if it is that one key.
_repository_key() {
  case $1 in
    *'BEGIN PGP'*)
      printf '%s\n' "$1" | tr -d '\r' | awk '/^-----END/ { exit } body && !/^=/ { print } /^$/ { body = 1 }' |
        base64 -d >repository/key.gpg ||
        _fail 'the key of the repository cannot be decoded' ;;
    *) _fail 'the key of the repository is no armored OpenPGP key' ;;
  esac
  # RFC 4880, 4.2: packets. A primary key is tag 6; a second one would be trusted as much.
  _found=$(od -An -v -tu1 repository/key.gpg | awk '
    { for (i = 1; i <= NF; i++) b[n++] = $i }
    END {
      at = 0
      while (at < n) {
        c = b[at]
        if (c < 128) break
        if (c >= 192) {
          tag = c - 192; l = b[at + 1]
          if (l < 192) { size = l; head = 2 }
          else if (l < 224) { size = (l - 192) * 256 + b[at + 2] + 192; head = 3 }
          else if (l == 255) { size = ((b[at + 2] * 256 + b[at + 3]) * 256 + b[at + 4]) * 256 + b[at + 5]; head = 6 }
          else break
        } else {
          tag = int((c - 128) / 4); l = c % 4
          if (l == 0) { size = b[at + 1]; head = 2 }
          else if (l == 1) { size = b[at + 1] * 256 + b[at + 2]; head = 3 }
          else if (l == 2) { size = ((b[at + 1] * 256 + b[at + 2]) * 256 + b[at + 3]) * 256 + b[at + 4]; head = 5 }
          else break
        }
        if (tag == 6) print at + head, size, b[at + head]
        at += head + size
      }
      if (at != n) print "rest"
    }')
  set -- "$2" $_found
  [ $# -eq 4 ] && [ "$4" = 4 ] || _fail 'the key of the repository is not one OpenPGP key of version 4'
  _print=$({
    printf '\231'
    printf "\\$(printf %03o $(($3 / 256)))\\$(printf %03o $(($3 % 256)))"
    tail -c "+$(($2 + 1))" repository/key.gpg | head -c "$3"
  } | sha1sum)
  _print=$(printf '%s' "${_print%% *}" | tr a-f A-F)
  [ "$_print" = "$1" ] || _fail "the key of the repository has the fingerprint $_print, expected $1"
  printf '%s\n' "$_print" | tail -c 9 | tr A-F a-f >repository/id
}

# URL SUITE COMPONENTS: for our calls alone, in the step's directory, so that nothing has to be taken away again. Its
# packages come last where another repository has them too.
_repository_apt() {
  mkdir -p repository/ours repository/all repository/lists/partial repository/pins || return
  printf 'deb [signed-by=%s/repository/key.gpg] %s %s %s\n' "$PWD" "$1" "$2" "$3" >repository/ours/trueup.list
  cp -p /etc/apt/sources.list.d/* repository/all/ 2>/dev/null
  cp -p repository/ours/trueup.list repository/all/ || return
  cp -p /etc/apt/preferences.d/* repository/pins/ 2>/dev/null
  _host=${1#*://}
  _host=${_host%%[/:]*}
  printf 'Package: *\nPin: origin "%s"\nPin-Priority: 100\n' "$_host" >repository/pins/trueup
  ln -s /var/lib/apt/lists/*_* repository/lists/ 2>/dev/null
  _apt_options="-o APT::Sandbox::User=root -o Dir::State::lists=$PWD/repository/lists"
  _apt_get -o Dir::Etc::sourcelist=/dev/null -o "Dir::Etc::sourceparts=$PWD/repository/ours" \
    -o APT::Get::List-Cleanup=0 -o Acquire::Languages=none --error-on=any -q update || return
  _apt_options="$_apt_options -o Dir::Etc::sourceparts=$PWD/repository/all"
  _apt_options="$_apt_options -o Dir::Etc::preferencesparts=$PWD/repository/pins"
}

# The same: by options, a cache that goes again, and a key in rpm's database that does.
_repository_dnf() {
  {
    printf '%s\n\n' '-----BEGIN PGP PUBLIC KEY BLOCK-----'
    base64 repository/key.gpg
    printf '%s\n' '-----END PGP PUBLIC KEY BLOCK-----'
  } >repository/key.asc || return
  [ -e repository/keys ] || {
    rpm -qa 'gpg-pubkey*' | sort >repository/keys.new && mv repository/keys.new repository/keys
  } || return
  _dnf_options="--repofrompath=trueup,$1 --setopt=trueup.gpgcheck=1"
  _dnf_options="$_dnf_options --setopt=trueup.gpgkey=file://$PWD/repository/key.asc"
  _dnf_options="$_dnf_options --setopt=trueup.repo_gpgcheck=0 --setopt=trueup.priority=200"
  _dnf_options="$_dnf_options --setopt=trueup.skip_if_unavailable=0"
  _keep repository/options "$_dnf_options" || return
  _dnf --repo=trueup makecache --refresh
}

# What the package manager has of it beyond our calls: its index, and its key, and no other that came meanwhile.
_repository_gone() {
  [ -e repository/keys ] || return 0
  rpm -qa 'gpg-pubkey*' | sort | grep -vxFf repository/keys | grep -F -e "-$(cat repository/id)-" |
    while read -r _key; do rpm -e -- "$_key"; done
  # That a key is there is noted too.
  [ -s repository/keys ] || rm -f /var/cache/dnf/.gpgkeyschecked.yum
  rm -rf /var/cache/dnf/trueup-* /var/cache/dnf/trueup.solv*
  rm -f repository/keys
}

# cuda_toolkit_verify VERSION TRANSACTION
cuda_toolkit_verify() {
  _pm_setup
  _pm_verify "${2:-$(_kept resolved)}"
  _nvcc=/usr/local/cuda-$1/bin/nvcc
  may_run "$_nvcc" || _fail "$_nvcc is missing, or others than root may write to it"
  _bounded 20 "$_nvcc" --version | grep -qF "release $1," || _fail "$_nvcc does not say that it is release $1"
  while read -r _group _link; do
    _toolkit_default_kept "$_group" "$_link" || _fail "$_link leads to $(readlink -f -- "$_link"), and led to $_was"
  done <groups
}

# cuda_toolkit_undo SECONDS
cuda_toolkit_undo() {
  _pm_setup
  [ -e groups ] || {
    _repository_gone
    return 0
  }
  # What was broken off is made to its end first, which may need it.
  [ -e after ] || _dnf_options=$(_kept repository/options)
  _alt_setup
  # Packages that go take their own entries out of the records; where they were broken off at that, the links still tell.
  if [ -e undoing ]; then _toolkit_untouched links; else _toolkit_untouched; fi
  _keep undoing yes || _fail "cannot write to $PWD"
  # In a shell of its own, whose end is not ours: whatever it came to, what is left is known then.
  (_pm_undo "$1")
  _ended=$?
  _known=1
  while read -r _group _link; do _alt_left "$_group" "$_link" || _known=; done <groups
  [ -z "$_known" ] || rm -f undoing
  [ "$_ended" = 0 ] || exit "$_ended"
  while read -r _group _link; do _alt_put_back "$_group" "$_link" || _fail "cannot put $_link back"; done <groups
  _repository_gone
}
