# package: packages through the host's package manager. A transaction is a list of lines, sorted:
#   install NAME VERSION     upgrade NAME OLD NEW     remove NAME OLD
# Found by a simulation, shown in the plan, and found again just before it is made: exactly that one is made.

# Into $_pm: apt, dnf, dnf5 (which has other words), zypper, none.
_pm_setup() {
  if command -v apt-get >/dev/null 2>&1 && command -v dpkg-query >/dev/null 2>&1; then _pm=apt
  elif command -v dnf >/dev/null 2>&1; then
    case $(readlink -f -- "$(command -v dnf)") in */dnf5) _pm=dnf5 ;; *) _pm=dnf ;; esac
  elif command -v zypper >/dev/null 2>&1; then _pm=zypper
  else _pm=none
  fi
}

# Options for all calls of apt-get: nothing asked, nothing removed that nobody named, no cache files written by a look.
_apt_get() {
  DEBIAN_FRONTEND=noninteractive APT_LISTCHANGES_FRONTEND=none NEEDRESTART_MODE=l NEEDRESTART_SUSPEND=1 \
    apt-get -o APT::Get::AutomaticRemove=0 -o APT::Install-Recommends=0 -o DPkg::Options::=--force-confdef \
    -o DPkg::Options::=--force-confold -o DPkg::Lock::Timeout=600 -o APT::Keep-Downloaded-Packages=0 \
    -o Dpkg::Use-Pty=0 $_apt_options "$@"
}
_apt_options=''
_apt_look='-o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= -o Dir::Log::Planner= -o Debug::NoLocking=1'

# dnf, for all calls: nothing that nobody named is brought or taken away, and what is known of the repositories stays as
# it is. Not -q: with that nothing is said of the transaction.
_dnf_settings='--setopt=install_weak_deps=False --setopt=clean_requirements_on_remove=False --setopt=color=never'
_dnf_settings="$_dnf_settings --setopt=keepcache=False --setopt=metadata_expire=-1"
_dnf() { dnf -y $_dnf_settings $_dnf_options "$@"; }
_dnf_options=''

# dnf that only looks. It locks its cache and keeps logs and a history, so these are in memory, in a mount namespace
# that ends with it; what the cache holds is seen there through links, and cannot be written to. With a repository of
# the step's own, that one's index is fetched, so it is no mere look.
_dnf_look() {
  if [ "$_dnf_options" ]; then
    dnf $_dnf_settings $_dnf_options "$@"
    return
  fi
  unshare -m sh -c '
mount -t tmpfs tmpfs /var/log && mkdir /var/log/cache /var/log/modulefailsafe || exit
if [ -d /var/lib/dnf ]; then
  cp -p /var/lib/dnf/modulefailsafe/* /var/log/modulefailsafe/ 2>/dev/null
  mount -t tmpfs tmpfs /var/lib/dnf && mv /var/log/modulefailsafe /var/lib/dnf/ || exit
fi
if [ -d /var/cache/dnf ]; then
  mount --bind /var/cache/dnf /var/log/cache && mount -o remount,bind,ro /var/log/cache &&
    mount -t tmpfs tmpfs /var/cache/dnf && ln -s /var/log/cache/* /var/cache/dnf/ || exit
  rm -f /var/cache/dnf/*.pid
fi
exec dnf -C "$@"' dnf $_dnf_settings "$@"
}

# NAME: its version, if it is installed; status 1: it is not.
_pm_version() {
  if [ "$_pm" = apt ]; then
    _text=$(dpkg-query -W -f '${db:Status-Abbrev}|${Version}' -- "$1" 2>/dev/null) || return 1
    case $_text in ?i*\|*) printf '%s\n' "${_text#*|}" ;; *) return 1 ;; esac
  else
    rpm -q --qf '%{EPOCHNUM}:%{VERSION}-%{RELEASE}\n' -- "$1" 2>/dev/null |
      tail -n 1 | sed 's/^0://' | grep -v 'not installed'
  fi
}

# All that is installed: NAME VERSION.
_pm_list() {
  if [ "$_pm" = apt ]; then dpkg-query -W -f '${db:Status-Abbrev} ${binary:Package} ${Version}\n'
  else rpm -qa --qf 'ii %{NAME}.%{ARCH} %{EPOCHNUM}:%{VERSION}-%{RELEASE}\n'
  fi | sort
}

# What is half done: nothing, or lines that say what. rpm knows only of an upgrade that was broken off: it leaves both
# versions, which but kernels and their like never have.
_pm_broken() {
  if [ "$_pm" = apt ]; then dpkg --audit 2>&1
  elif ! _all=$(rpm -qa --qf '%{NAME}.%{ARCH}\n' 2>/dev/null); then echo 'the database of rpm cannot be read'
  else
    printf '%s\n' "$_all" | sort | uniq -d | grep -v '^gpg-pubkey' | while read -r _double; do
      rpm -q --provides -- "$_double" | grep -qE '^(kernel |installonlypkg\(|multiversion\()' ||
        printf '%s is installed in two versions\n' "$_double"
    done
  fi
}

# SPEC...: those that are not as wanted yet. NAME=VERSION, or a NAME that is there in any version.
_pm_todo() {
  for _spec do
    _have=$(_pm_version "${_spec%%=*}") || _have=
    case $_spec in
      *=*) [ "$_have" = "${_spec#*=}" ] || printf '%s\n' "$_spec" ;;
      *) [ "$_have" ] || printf '%s\n' "$_spec" ;;
    esac
  done
}

# SPEC...: the transaction that would bring them; else status 1, with the package manager's reason.
_pm_simulate() {
  if [ "$_pm" = apt ]; then
    _text=$(_apt_get $_apt_look -s --allow-downgrades install "$@" 2>&1) || {
      printf '%s\n' "$_text" | grep -E '^(E:| )' | tr '\n' ' '
      return 1
    }
    printf '%s\n' "$_text" | _apt_transaction
  else
    _wanted_specs=$(printf '%s\n' "$@")
    for _spec do
      shift
      case $_spec in *=*) _spec=${_spec%%=*}-${_spec#*=} ;; esac
      set -- "$@" "$_spec"
    done
    # It ends with 1 in any case, for nobody said yes.
    _text=$(_dnf_look --assumeno install "$@" 2>&1)
    case $_text in
      *'Transaction Summary'*) ;;
      *)
        _why=$(printf '%s\n' "$_text" |
          grep -E '^(Error|No match|You have| *Problem( [0-9]+)?:| +- )' | head -n 4 | tr '\n' ' ')
        printf '%s\n' "${_why:-$(printf '%s\n' "$_text" | tail -n 3 | tr '\n' ' ')}"
        return 1
        ;;
    esac
    _text=$(printf '%s\n' "$_text" | _dnf_transaction) || {
      printf '%s\n' "$_text"
      return 1
    }
    # To dnf NAME may be what another package provides, and VERSION a part of one.
    _other=$(printf '%s\n' "$_wanted_specs" | while IFS= read -r _spec; do
      case $_spec in *=*) _version="${_spec#*=}" ;; *) _version='' ;; esac
      printf '%s\n' "$_text" | awk -v name="${_spec%%=*}" -v version="$_version" '
        $1 != "remove" && $2 == name && (version == "" || $NF == version) { found = 1 } END { exit !found }' ||
        printf '%s ' "$_spec"
    done)
    [ -z "$_other" ] || {
      printf 'no package is %s(NAME, or NAME=VERSION-RELEASE, is expected); dnf would %s\n' "$_other" \
        "$(printf '%s\n' "$_text" | tr '\n' ';')"
      return 1
    }
    printf '%s\n' "$_text"
  fi
}

# Inst NAME [OLD] (NEW ORIGIN [ARCH]) ...   Remv NAME [OLD] ...
_apt_transaction() {
  awk '
    function bare(w) { gsub(/[][()]/, "", w); return w }
    $1 == "Inst" && $3 ~ /^\[/ { print "upgrade", $2, bare($3), bare($4) }
    $1 == "Inst" && $3 !~ /^\[/ { print "install", $2, bare($3) }
    $1 == "Remv" || $1 == "Purg" { print "remove", $2, bare($3) }' | sort -u
}

# <TEXT of dnf: its transaction; else status 1 and why not. The table: headings that end with a colon, rows NAME ARCH
# VERSION REPOSITORY SIZE behind one blank, what did not fit into a column on further lines behind more. What is counted
# below it must have been understood.
_dnf_transaction() {
  _rows=$(awk '
    function row() {
      n = split(held, w, " ")
      held = ""
      if (n == 0 || what == "skip") return
      if (what == "") { print "? " heading " " w[1]; bad = 1; exit }
      if (w[2] ~ /^i[3-6]86$/) { print "? " w[1] " for " w[2]; bad = 1; exit }
      if (n >= 5) { print what, w[1], w[3]; rows++ }
    }
    /^Transaction Summary/ { row(); below = 1; next }
    below && /^(Install|Upgrade|Remove|Downgrade) +[0-9]+ / {
      counted += $2
      if ($4 ~ /^\(\+[0-9]+$/) counted += substr($4, 3)
    }
    below { next }
    /^[^ ].*:$/ {
      row(); seen = 1; heading = $0; what = ""
      if (/^Installing( (weak )?dependencies)?:$/) what = "install"
      if (/^(Upgrading|Downgrading):$/) what = "upgrade"
      if (/^Removing( [a-z ]+)?:$/) what = "remove"
      if (/^(Skipping |\(add )/) what = "skip"
      next
    }
    /^ +replacing / {
      row(); sub(/\.[^.]*$/, "", $2); print "remove", $2, $3; next
    }
    seen && /^ [^ ]/ { row(); held = $0; next }
    seen && /^  / { held = held " " $0 }
    END { if (!bad && rows != counted) print "? " counted " packages, of which " rows + 0 " can be read" }' |
    sort -u)
  case $_rows in
    *'? '*)
      printf 'dnf would also do what cannot be undone or is not understood: %s\n' \
        "$(printf '%s\n' "$_rows" | sed -n 's/^? //p' | tr '\n' ' ')"
      return 1
      ;;
  esac
  printf '%s\n' "$_rows" | while read -r _what _name _new; do
    case $_what in
      upgrade) printf 'upgrade %s %s %s\n' "$_name" "$(_pm_version "$_name")" "$_new" ;;
      ?*) printf '%s %s %s\n' "$_what" "$_name" "$_new" ;;
    esac
  done | sort
}

# <TRANSACTION: download and disk it needs, in KiB, and `old no NAME` for each version that could not be fetched again.
_pm_cost() {
  _text=$(cat)
  [ "$_pm" = apt ] || {
    _dnf_cost
    return
  }
  set -f
  set -- $(printf '%s\n' "$_text" | awk '$1 == "install" { print $2 "=" $3 } $1 == "upgrade" { print $2 "=" $4 }')
  set +f
  [ $# -eq 0 ] || apt-cache $_apt_options $_apt_look show "$@" 2>/dev/null | awk '
    $1 == "Size:" { size += $2 } $1 == "Installed-Size:" { disk += $2 }
    END { printf "download %d\ndisk %d\n", (size + 1023) / 1024, disk }'
  printf '%s\n' "$_text" | while read -r _what _name _old _new; do
    [ "$_what" = upgrade ] || continue
    apt-cache $_apt_options $_apt_look show "$_name=$_old" 2>/dev/null | grep -q '^Filename:' ||
      printf 'old no %s\n' "$_name"
  done
}

# The same for the transaction in $_text. In bytes there.
_dnf_cost() {
  set -f
  set -- $(printf '%s\n' "$_text" | awk '$1 == "upgrade" { print $2 "-" $3 } $1 != "remove" { print $2 "-" $NF }')
  set +f
  [ $# -gt 0 ] || return 0
  { printf '%s\n' "$_text" &&
    _dnf_look -q repoquery --qf 'has %{name} %{evr} %{downloadsize} %{installsize}' "$@" 2>/dev/null; } | awk '
    $1 != "has" { step[NR] = $0; next }
    { size[$2 " " $3] = $4; disk[$2 " " $3] = $5 }
    END {
      for (i in step) {
        n = split(step[i], w, " ")
        if (w[1] == "remove") continue
        download += size[w[2] " " w[n]]; room += disk[w[2] " " w[n]]
        if (w[1] == "upgrade" && !((w[2] " " w[3]) in size)) old[w[2]]
      }
      printf "download %d\ndisk %d\n", (download + 1023) / 1024, (room + 1023) / 1024
      for (name in old) print "old no " name
    }'
}

# Drivers and kernels are changes of their own; so is what a service would be restarted for.
_pm_drivers='^(nvidia-([0-9]|driver|dkms|kernel|open|utils|compute|fabric-?manager|modprobe|persistenced|settings'
_pm_drivers=$_pm_drivers'|firmware|kmod|xconfig|imex|libXNVCtrl)|libnvidia-|xserver-xorg-video-nvidia'
_pm_drivers=$_pm_drivers'|xorg-x11-(drv-)?nvidia|cuda-drivers|cuda-compat|a?kmod-nvidia|dkms-nvidia'
_pm_drivers=$_pm_drivers'|linux-modules-nvidia)'
_pm_system='^(linux-(image|headers|modules)|kernel|libc6|glibc|libstdc\+\+6|libgcc|systemd'
_pm_system=$_pm_system'|docker|containerd|runc|podman|nvidia-container)'
# What belongs to a toolkit: all else that a toolkit would bring is refused.
_pm_toolkit='^(cuda-|lib|gds-tools|nsight-|nvidia-gds|default-jre|openjdk|java|fonts-|zlib|xcb|mesa-|ncurses)'

# any|toolkit NAME... <TRANSACTION: a line for each reason not to make it. The names may be upgraded, others not.
_pm_gate() {
  _mode=$1
  shift
  MODE=$_mode NAMES=" $* " DRIVERS=$_pm_drivers SYSTEM=$_pm_system TOOLKIT=$_pm_toolkit awk '
    { sub(/:.*/, "", $2); asked = index(ENVIRON["NAMES"], " " $2 " ") }
    $1 == "remove" { print "it would remove " $2; next }
    $2 ~ ENVIRON["DRIVERS"] { print "it would " $1 " " $2 ", which belongs to the driver"; next }
    $1 == "upgrade" && $2 ~ /^cuda-toolkit(-[0-9]+)*-config-common$/ { next }
    $1 == "upgrade" && !asked {
      print "it would upgrade " $2 " from " $3 " to " $4 ", which nobody asked for"
      next
    }
    $2 ~ ENVIRON["SYSTEM"] && !asked {
      print "it would " $1 " " $2 ", which is part of the system"
      next
    }
    ENVIRON["MODE"] == "toolkit" && $2 !~ ENVIRON["TOOLKIT"] && !asked {
      print "it would " $1 " " $2 ", which is no part of a toolkit"
    }'
}

# DOWNLOAD DISK SPARE, in KiB: a line for each file system that has too little room.
_pm_room() {
  { printf '%s 0\n' "$(($2 + $3))" && df -Pk /usr 2>/dev/null | tail -n 1 &&
    printf '%s 0\n' "$1" && df -Pk /var/cache 2>/dev/null | tail -n 1; } | awk '
    NR % 2 { need = $1; next }
    { sum[$NF] += need; free[$NF] = $4 }
    END { for (at in sum) if (sum[at] > free[at]) print at }' | sort
}

# any|toolkit SPARE-KIB SPEC...: what is there and what would be done.
_pm_inspect() {
  _mode=$1 _spare=$2
  shift 2
  _pm_setup
  _seen manager "$_pm"
  case $_pm in apt | dnf) ;; *) return 0 ;; esac
  _pm_broken | head -n 5 | while IFS= read -r _line; do [ -z "$_line" ] || _seen broken "$_line"; done
  for _spec do _seen asked "$_spec $(_pm_version "${_spec%%=*}")"; done
  set -f
  set -- $(_pm_todo "$@")
  set +f
  [ $# -gt 0 ] || return 0
  if ! _transaction=$(_pm_simulate "$@"); then
    _seen unresolved "$_transaction"
    return 0
  fi
  printf '%s\n' "$_transaction" | while IFS= read -r _line; do [ -z "$_line" ] || _seen step "$_line"; done
  _names=$(printf '%s\n' "$@" | sed 's/=.*//' | tr '\n' ' ')
  printf '%s\n' "$_transaction" | _pm_gate "$_mode" $_names | while IFS= read -r _line; do _seen gate "$_line"; done
  _cost=$(printf '%s\n' "$_transaction" | _pm_cost)
  printf '%s\n' "$_cost" | while IFS= read -r _line; do [ -z "$_line" ] || _seen "${_line%% *}" "${_line#* }"; done
  _sizes=$(printf '%s\n' "$_cost" | awk '{ v[$1] = $2 } END { print v["download"] + 0, v["disk"] + 0 }')
  _room=$(_pm_room $_sizes "$_spare")
  [ -z "$_room" ] || _seen short "$_room"
}

# FILE...: who holds a lock on one of them: PID (NAME). fcntl(2) locks: that the file is there means nothing.
_lock_holder() {
  for _file do
    [ -e "$_file" ] || continue
    case $_file in
      *.pid) _holder=$(cat "$_file" 2>/dev/null) && [ -d "/proc/${_holder:-none}" ] || continue ;;
      *)
        _holder=$(awk -v inode="$(stat -c %i -- "$_file")" '
          { n = split($6, at, ":"); if (at[n] == inode && $2 != "->") print $5 }' /proc/locks | head -n 1)
        [ "$_holder" ] || continue
        ;;
    esac
    printf '%s (%s)\n' "$_holder" "$(cat "/proc/$_holder/comm" 2>/dev/null || echo unknown)"
    return
  done
  return 1
}

# SECONDS: waits for the package manager, and names who has it.
_pm_wait() {
  _until=$(($(date +%s) + $1))
  if [ "$_pm" = apt ]; then _locks='/var/lib/dpkg/lock-frontend /var/lib/dpkg/lock'
  else
    _locks='/var/lib/dnf/rpmdb_lock.pid /var/cache/dnf/metadata_lock.pid /var/cache/dnf/download_lock.pid'
    _locks="$_locks $(rpm -E %_dbpath)/.rpm.lock"
  fi
  while _holder=$(_lock_holder $_locks); do
    [ "$(date +%s)" -lt "$_until" ] || _fail "the package manager is held by process $_holder, for $1 s now"
    sleep 2
  done
}

# ours or nothing: what we left half done is finished; what others did is not ours to repair, and what is broken after our
# transaction ended is not ours either. Nobody holds the package manager now.
_pm_repair() {
  _ours=
  { [ ! -e began ] || [ -e after ]; } && [ ! -e removing ] || _ours=$1
  [ -z "$_ours" ] || [ "$_pm" != apt ] || for _dir in /tmp/apt-dpkg-install-??????; do
    # Links to archives, which apt takes away itself unless it is ended.
    [ -d "$_dir" ] && [ ! -L "$_dir" ] && [ "$(owner_uid "$_dir")" = 0 ] && rm -rf -- "$_dir"
  done
  ! _dnf_broken_off || _dnf_again
  _broken=$(_pm_broken | head -n 3 | tr '\n' ' ')
  [ "$_broken" ] || return 0
  [ "$_ours" ] ||
    _fail "the package manager left something half done, and it was not us: $_broken"
  [ "$_pm" != apt ] || DEBIAN_FRONTEND=noninteractive dpkg --force-confdef --force-confold --configure -a || :
}

# Named one by one they count as asked for; only those of $_asked are.
_dnf_mark() {
  [ "$_asked" ] || return 0
  _auto=$(awk -v asked=" $_asked " '$1 == "install" && !index(asked, " " $2 " ") { print $2 }' transaction)
  [ -z "$_auto" ] || dnf -q mark remove $_auto >/dev/null 2>&1
}

# Our transaction did not come to its end: rpm does not know which script did not, nor which files lie there of a
# package that is not in its database yet.
_dnf_broken_off() { [ "$_pm" = dnf ] && [ -e began ] && [ ! -e after ] && [ ! -e removing ]; }

# So all of it is made once more. What cannot be made is left as it is.
_dnf_again() {
  while read -r _what _name _old _new; do
    # Both are there: what an upgrade does last is to take the old one away.
    [ "$_what" != upgrade ] || ! rpm -q -- "$_name-$_old" >/dev/null 2>&1 ||
      ! rpm -q -- "$_name-$_new" >/dev/null 2>&1 || rpm -e --nodeps -- "$_name-$_old"
  done <transaction
  set -f
  set -- $(_pm_left <transaction | awk '$1 != "remove" { print $2 "-" $NF }')
  _there=$(printf '%s\n' "$(cat transaction)" | grep -vxF "$(_pm_left <transaction)" |
    awk '$1 != "remove" { print $2 "-" $NF }')
  [ -z "$_there" ] || _dnf reinstall $_there || :
  [ $# -eq 0 ] || _dnf install "$@" || :
  set +f
  _dnf_mark
  _pm_list >after
}

# <TRANSACTION: what of it is not done yet.
_pm_left() {
  while read -r _what _name _old _new; do
    _have=$(_pm_version "$_name") || _have=
    case $_what in
      install) [ "$_have" = "$_old" ] ;;
      upgrade) [ "$_have" = "$_new" ] ;;
      *) [ -z "$_have" ] ;;
    esac || printf '%s\n' "$_what $_name $_old${_new:+ $_new}"
  done
}

# <TRANSACTION: which packages it leaves in which versions.
_pm_goals() { awk '$1 == "remove" { print "no", $2; next } { print $2, $NF }'; }

# SECONDS TRANSACTION SPEC...: makes exactly that one.
_pm_install() {
  _seconds=$1 _wanted=$2
  shift 2
  _asked=$(printf '%s\n' "$@" | sed 's/=.*//' | tr '\n' ' ')
  [ "$(printf '%s\n' "$_wanted" | _pm_left)" ] || _dnf_broken_off || return 0
  _pm_wait "$_seconds"
  _pm_repair "$TRUEUP_RESUMED"
  _left=$(printf '%s\n' "$_wanted" | _pm_left)
  [ "$_left" ] || return 0
  set -f
  set -- $(_pm_todo "$@")
  set +f
  if [ $# -gt 0 ]; then
    _found=$(_pm_simulate "$@") || _fail "it can no longer be installed: $_found"
    # What a broken run has left over is less than the whole. What it left half unpacked is installed again, in the same
    # version, which counts as an upgrade.
    _more=$(printf '%s\n' "$_found" | _pm_goals | grep -vxF "$(printf '%s\n' "$_left" | _pm_goals)")
    [ -z "$_more" ] || _fail "the package manager would now do something else: $(printf '%s\n' "$_more" | tr '\n' ';')"
  fi
  [ -e transaction ] || {
    _pm_list >before.new && mv before.new before && _pm_fetch_old "$_wanted" && _keep transaction "$_wanted"
  } || _fail "cannot keep what is needed to go back"
  if [ "$_pm" = apt ]; then
    set -f
    set -- $(printf '%s\n' "$_left" | awk '$1 == "install" { print $2 "=" $3 } $1 == "upgrade" { print $2 "=" $4 }')
    set +f
    # All of it is here before anything is begun.
    _apt_get -y --allow-downgrades -d install "$@" || _fail "the packages could not be fetched"
    _keep began yes || _fail "cannot write to $PWD"
    _apt_get -y --allow-downgrades install "$@" || _fail "apt-get install: status $?"
    # Named one by one they count as asked for; only those are that were.
    _auto=$(printf '%s\n' "$_wanted" | awk -v asked=" $_asked " '
      $1 == "install" && !index(asked, " " $2 " ") { print $2 }')
    [ -z "$_auto" ] || apt-mark auto $_auto >/dev/null 2>&1
  else
    set -f
    set -- $(printf '%s\n' "$_left" | awk '{ print $2 "-" $NF }')
    set +f
    # All of it is here, and its signatures were looked at, before anything is begun.
    _dnf --downloadonly install "$@" || _fail "the packages could not be fetched"
    _keep began yes || _fail "cannot write to $PWD"
    _dnf install "$@" || {
      # rpm came to its end by itself, whatever that is.
      _status=$?
      _pm_list >after
      _fail "dnf install: status $_status"
    }
    _dnf_mark
  fi
  _pm_list >after
}

# TRANSACTION: the packages that an upgrade replaces, kept for the way back.
_pm_fetch_old() {
  mkdir -p old && printf '%s\n' "$1" | while read -r _what _name _old _new; do
    [ "$_what" = upgrade ] || continue
    if [ "$_pm" = apt ]; then (cd old && _apt_get download "$_name=$_old")
    else _dnf reinstall --downloadonly --destdir="$PWD/old" "$_name-$_old"
    fi >/dev/null 2>&1 </dev/null || printf '%s %s cannot be fetched any more\n' "$_name" "$_old"
  done
}

_pm_verify() {
  _left=$(printf '%s\n' "$1" | _pm_left)
  [ -z "$_left" ] || _fail "not installed as planned: $(printf '%s\n' "$_left" | tr '\n' ';')"
  _broken=$(_pm_broken | head -n 3 | tr '\n' ' ')
  [ -z "$_broken" ] || _fail "the package manager left something half done: $_broken"
}

# NAME: broken off while it was unpacked, so that only force takes it away.
_half_installed() {
  [ "$_pm" = apt ] || return
  case $(dpkg-query -W -f '${db:Status-Abbrev}' -- "$1" 2>/dev/null) in ?[HF]*) ;; *) false ;; esac
}

# SECONDS: takes away exactly what was newly installed, and puts back the versions that were there.
_pm_undo() {
  [ -e began ] || return 0
  _pm_wait "$1"
  _pm_repair ours
  _new='' _back='' _wrong=''
  while read -r _what _name _old _to; do
    _have=$(_pm_version "$_name") || _have=
    case $_what in
      install)
        case $_have in
          '') ! _half_installed "$_name" || dpkg --purge --force-remove-reinstreq -- "$_name" ;;
          "$_old") _new="$_new $_name" ;;
          *) _wrong="$_wrong $_name $_have" ;;
        esac
        ;;
      upgrade)
        case $_have in
          "$_old") ;;
          "$_to") _back="$_back $_name=$_old" ;;
          *) _wrong="$_wrong $_name $_have" ;;
        esac
        ;;
    esac
  done <transaction
  [ -z "$_wrong" ] || _changed "changed since:$_wrong"
  [ "$_new$_back" ] || return 0
  if [ "$_pm" = apt ]; then
    _files=$(for _file in old/*.deb; do [ ! -e "$_file" ] || printf './%s ' "$_file"; done)
    set -- $(for _name in $_new; do printf '%s- ' "$_name"; done) ${_back:+${_files:-$_back}}
    _text=$(_apt_get $_apt_look -s --allow-downgrades install "$@" 2>&1) ||
      _fail "cannot be taken away: $(printf '%s\n' "$_text" | grep '^E:' | tr '\n' ' ')"
    _text=$(printf '%s\n' "$_text" | _apt_transaction)
  else
    _dnf_back >back
    # Nothing has to be fetched, but where it could not be kept: it has to work without the repositories too.
    _alone='--disablerepo=*'
    ! grep -q '^install [^/]' back || _alone=
    _text=$(_dnf_look --assumeno ${_alone:+"$_alone"} shell "$PWD/back" 2>&1)
    case $_text in *'Transaction Summary'*) ;; *)
      _fail "cannot be taken away: $(printf '%s\n' "$_text" | grep -A 3 -E '^(Error| Problem)' | tr '\n' ' ')" ;;
    esac
    _text=$(printf '%s\n' "$_text" | _dnf_transaction) || _fail "cannot be taken away: $_text"
  fi
  _more=$([ -z "$_text" ] || printf '%s\n' "$_text" | while read -r _what _name _rest; do
    case "$_what $_new $_back " in
      "remove "*" $_name "* | "upgrade "*" $_name="*) ;;
      *) printf '%s %s, ' "$_what" "$_name" ;;
    esac
  done)
  [ -z "$_more" ] || _changed "others need what would be taken away: $_more"
  _keep removing yes
  if [ "$_pm" = apt ]; then _apt_get -y --purge --allow-downgrades install "$@" || _fail "apt-get: status $?"
  else
    _dnf ${_alone:+"$_alone"} shell "$PWD/back"
    # Its status says nothing.
    _left=$(while read -r _what _name _old _to; do
      _have=$(_pm_version "$_name") || _have=
      case $_what:$_have in install: | "upgrade:$_old") ;; *) printf '%s %s; ' "$_name" "$_have" ;; esac
    done <transaction)
    [ -z "$_left" ] || _fail "dnf did not take all of it away: $_left"
  fi
  rm -f removing
}

# What brings back what was, for `dnf shell`, in one transaction: old and new may need each other. From what was kept,
# else from a repository. Files have to come first there.
_dnf_back() {
  for _spec in $_back; do
    _file=
    for _kept_one in old/*.rpm; do
      [ -e "$_kept_one" ] && [ "$(rpm -qp --qf '%{NAME}=%{EPOCHNUM}:%{VERSION}-%{RELEASE}' -- "$_kept_one" 2>/dev/null |
        sed 's/=0:/=/')" = "$_spec" ] && _file=$PWD/$_kept_one
    done
    printf 'install %s\n' "${_file:-${_spec%%=*}-${_spec#*=}}"
  done | sort
  [ -z "$_new" ] || printf 'remove%s\n' "$_new"
  echo run
}

# package_inspect SPEC...
package_inspect() { _pm_inspect any 262144 "$@"; }

# package_apply SECONDS TRANSACTION SPEC...
package_apply() {
  _seconds=$1 _list=$2
  shift 2
  _pm_setup
  _pm_install "$_seconds" "$_list" "$@"
}

package_verify() {
  _pm_setup
  _pm_verify "$1"
}

package_undo() {
  _pm_setup
  _pm_undo "$1"
}
