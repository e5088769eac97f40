# Who may run CUDA code on this host: what several probes start from. Read in front of each, after lib.sh. For them:
# bounded, as_owner, network_mounts, passwd_entry, services, processes, need_all, python_prefixes, $elf_reader,
# units, $newline. The rest is ours.

newline='
'

# bounded SECONDS CMD...: the standard output of CMD. After SECONDS its reader gives up, even where no signal reaches CMD any
# more; it holds nothing of ours open that somebody else would wait for.
bounded() {
  _seconds=$1
  shift
  { exec 2>/dev/null; "$@" & } | timeout "$_seconds" cat
}

# as_owner PATH CMD...: CMD as the user that must be used to touch PATH.
as_owner() {
  _touched=$1
  shift
  if [ "$self_uid" = 0 ]; then as_uid "$(owner_uid "$_touched")" "$@"; else "$@"; fi
}

# $_manager_uid: the user whose own systemd is asked, and whose units are read; empty: it is the system's. $_patience: seconds
# that it has for an answer.
_manager_uid= _patience=8

_systemctl() {
  if [ -z "$_manager_uid" ]; then systemctl "$@"
  else as_uid "$_manager_uid" env "XDG_RUNTIME_DIR=/run/user/$_manager_uid" systemctl --user "$@"
  fi
}

# PATH CMD...: CMD as the user that must be used to read PATH, of which the unit told us.
_as_reader() {
  if [ -z "$_manager_uid" ]; then as_owner "$@"
  else
    shift
    as_uid "$_manager_uid" "$@"
  fi
}

# Into $_shown: what `systemctl show` says. Fails where systemd does not answer, or not in time: nothing is another answer.
_show() {
  _shown=$(bounded "$_patience" _show_all "$@")
  case $_shown in *!end) _shown=${_shown%!end} ;; *) return 1 ;; esac
}

# A failure, not `unknown`: probes that read the list must not take it for whole.
_silent() {
  echo 'systemd does not answer (systemctl show)' >&2
  exit 1
}

_show_all() { _systemctl show --no-pager "$@" 2>/dev/null && echo '!end'; }

# Names of the loaded services that matter here: what serves models or works for GPUs, and what has failed. Of those that are
# down, what serves models once the host boots again. Fails as above.
units() {
  [ -d /run/systemd/system ] || return 0
  _show --all '*.service' -p Id -p LoadState -p ActiveState -p UnitFileState -p ExecStart -p Environment || return
  printf '%s\n' "$_shown" | awk '
    BEGIN { RS = ""; FS = "\n" }
    /(^|\n)LoadState=(not-found|masked)/ { next }
    /(^|\n)ActiveState=inactive/ && !(/(^|\n)UnitFileState=enabled/ &&
      /(^|\n)ExecStart=[^\n]*(python|vllm|sglang|triton|ollama|llama|torch|[ =\/]ray )/) { next }
    /(^|\n)ActiveState=failed/ || /(^|\n)Id=[^\n]*(nvidia|dcgm|cuda|gpu|vllm|sglang|triton|ollama|llama|inference)/ ||
    /(^|\n)ExecStart=[^\n]*(python|nvidia|dcgm|cuda|vllm|sglang|triton|ollama|llama|torch|[ =\/]ray )/ ||
    /(^|\n)Environment=[^\n]*(CUDA|NVIDIA|HF_|VLLM|SGLANG|FLASHINFER|TORCH|TRITON)/ {
      for (i = 1; i <= NF; i++) if ($i ~ /^Id=/) print substr($i, 4)
    }'
}

# Mount points whose server may be gone; reading mountinfo never blocks.
network_mounts() {
  awk '{ for (i = 7; i < NF && $i != "-"; i++) ; if ($(i + 1) ~ /^(nfs|cifs|smb|ceph|lustre|gpfs|glusterfs|beegfs|9p|afs|autofs|fuse|wekafs|virtiofs)/) {
    gsub(/\\040/, " ", $5); gsub(/\\011/, "\t", $5); gsub(/\\134/, "\\", $5); print $5 } }' /proc/self/mountinfo
}

# Text for a shell that runs as somebody else. elf_needed FILE: the CUDA libraries that a 64-bit ELF file is linked to, a line
# each: its DT_NEEDED entries (elf(5)). What else its string table holds may be left from before it was patched.
# cuda_release FILE...: the CUDA releases of the assemblers that made these cubins.
elf_reader='
_numbers="function u(o, n,  v) { v = 0; while (n-- > 0) v = v * 256 + b[o + n]; return v } { for (i = 1; i <= NF; i++) b[k++] = \$i }"
elf_needed() {
  _file=$1
  set -- $(od -An -v -tu1 -N 4096 "$_file" 2>/dev/null | awk "$_numbers
    END {
      if (u(0, 4) != 1179403647 || b[4] != 2 || b[5] != 1) exit
      p = u(32, 8)
      for (n = u(56, 2); n-- > 0 && p + 56 <= k; p += u(54, 2)) {
        if (u(p, 4) == 2) dynamic = sprintf(\"%.0f %.0f\", u(p + 8, 8), u(p + 32, 8))
        if (u(p, 4) == 1) loads = loads sprintf(\" %.0f %.0f %.0f\", u(p + 8, 8), u(p + 16, 8), u(p + 32, 8))
      }
      if (dynamic != \"\") print dynamic loads
    }")
  [ $# -ge 5 ] && [ "$2" -le 65536 ] || return 0
  _at="-j $1 -N $2"
  shift 2
  set -- $(od -An -v -tu1 $_at "$_file" 2>/dev/null | awk -v loads="$*" "$_numbers
    END {
      for (i = 0; i + 16 <= k && u(i, 8) > 0; i += 16) {
        if (u(i, 8) == 1) names = names sprintf(\" %.0f\", u(i + 8, 8))
        if (u(i, 8) == 5) at = u(i + 8, 8)
        if (u(i, 8) == 10) size = u(i + 8, 8)
      }
      n = split(loads, load, \" \")
      for (i = 1; i + 2 <= n; i += 3) if (at >= load[i + 1] + 0 && at < load[i + 1] + load[i + 2]) {
        printf \"%.0f %.0f%s\", at - load[i + 1] + load[i] + 1, size, names; exit }
    }")
  [ $# -ge 3 ] && [ "$2" -le 33554432 ] || return 0
  _at=$1 _size=$2
  shift 2
  tail -c "+$_at" "$_file" 2>/dev/null | head -c "$_size" | tr "\000" "\n" | awk -v names="$*" "
    BEGIN { n = split(names, name, \" \") }
    /^.*[.]so[.]/ { for (i = 1; i <= n; i++) if (name[i] + 0 >= at + 0 && name[i] + 0 <= at + length(\$0)) print substr(\$0, name[i] - at + 1) }
    { at += length(\$0) + 1 }" |
    grep -xE "lib(cuda|cudart|cublas|cublasLt|cudnn|nccl|nvrtc|nvJitLink|cusparse|cusolver|cufft|curand)\.so\.[0-9]+" | sort -u
}
cuda_release() {
  for _file do
    od -An -v -tu1 -N 24 "$_file" 2>/dev/null | awk "$_numbers
      END { if (u(0, 4) == 1179403647 && u(18, 2) == 190) { if (b[8] >= 8) print \"text\"; else if (u(20, 4) >= 100) printf \"%d.%d\n\", u(20, 4) / 10, u(20, 4) % 10 } }"
  done | sort -u | while read -r _release; do
    if [ "$_release" = text ]; then
      head -q -c 1048576 "$@" 2>/dev/null | grep -aoE "release [0-9]+\.[0-9]+, V" | sed "s/release //; s/,.*//"
    else echo "$_release"
    fi
  done | sort -u
}
'

# Words of a systemd property: blanks between them, "..." with backslashes, '...', $'...'.
_words() {
  awk '{
    word = ""; open = 0; quote = ""; n = length($0)
    for (i = 1; i <= n; i++) {
      c = substr($0, i, 1)
      if (quote == "") {
        if (c == " ") { if (open) print word; word = ""; open = 0; continue }
        if (c == "$" && !open && substr($0, i + 1, 1) == "\047") { quote = "$"; i++ }
        else if (c == "\"" || c == "\047") quote = c
        else if (c == "\\") word = word substr($0, ++i, 1)
        else word = word c
        open = 1
      } else if (c == (quote == "$" ? "\047" : quote)) quote = ""
      else if (c == "\\" && quote != "\047") {
        c = substr($0, ++i, 1)
        if (quote == "$" && substr($0, i, 3) ~ /^[0-3][0-7][0-7]$/) {
          c = c * 64 + substr($0, i + 1, 1) * 8 + substr($0, i + 2, 1)
          i += 2
          word = word (c < 32 || c == 127 ? " " : sprintf("%c", c))
        } else word = word (quote == "$" && c ~ /[abfnrtv]/ ? " " : c)
      } else word = word c
    }
    if (open) print word
  }'
}

# An environment file as systemd reads it (systemd.exec(5)): NAME=VALUE, quotes, no expansion. A value of several lines
# becomes one.
_env_file() {
  tr '\r' '\n' | awk '
    function end() {
      if (at == "value") sub(/[ \t]+$/, "", value)
      if (key ~ /^[A-Za-z_][A-Za-z0-9_]*$/) print key "=" value
      at = ""
    }
    { text = text $0 "\n" }
    END {
      n = length(text)
      for (i = 1; i <= n; i++) {
        c = substr(text, i, 1)
        if (at == "") {
          if (c ~ /[#;]/) at = "#"
          else if (c !~ /[ \t\n]/) { at = "key"; key = c }
        } else if (at == "#") {
          if (c == "\n") at = ""
        } else if (at == "key") {
          if (c == "\n") at = ""
          else if (c == "=") { sub(/[ \t]+$/, "", key); at = "before"; value = "" }
          else key = key c
        } else if (at == "\047" || at == "\"") {
          if (c == at) at = "before"
          else if (c == "\\" && at == "\"") {
            c = substr(text, ++i, 1)
            if (c != "\n") value = value (c ~ /["\\`$]/ ? "" : "\\") c
          } else value = value (c == "\n" ? " " : c)
        } else if (c == "\n") end()
        else if (c == "\\") {
          c = substr(text, ++i, 1)
          at = "value"
          if (c != "\n") value = value c
        } else if (at == "before" && (c == "\047" || c == "\"")) at = c
        else if (at == "value" || c !~ /[ \t]/) { value = value c; at = "value" }
      }
    }'
}

# NAME or number: its line. What a directory service does not answer in time, the files may.
passwd_entry() { _entry_of passwd "$1"; }
_entry_of() {
  timeout 2 getent "$1" "$2" 2>/dev/null || awk -F: -v who="$2" '$1 == who || $3 == who { print; exit }' "/etc/$1"
}

# NAME: its value in NAME=VALUE lines on the standard input.
_value() { sed -n "s/^$1=//p" | tail -n 1; }

# PROGRAM: the Python environment in whose bin directory it lies, or that its first line names.
_prefix() {
  _home=${1%/bin/*}
  if [ -e "$_home/pyvenv.cfg" ] || [ -d "$_home/conda-meta" ]; then
    printf '%s\n' "$_home"
    return
  fi
  case $1 in
  /bin/*sh|/usr/bin/*sh|/usr/bin/env) ;;
  /bin/python*) echo /usr ;;
  */bin/python*) printf '%s\n' "$_home" ;;
  *)
    _first=$(as_owner "$1" head -c 256 "$1" 2>/dev/null | tr '\0' '\n' | head -n 1)
    case $_first in '#!'*/bin/python*) _first=${_first#'#!'} && _prefix "${_first%% *}" ;; esac ;;
  esac
}

# FILE: its text, if it is a script of a shell.
_script() {
  _text=$(as_owner "$1" head -c 4096 "$1" 2>/dev/null | tr '\0' ' ')
  case ${_text%%"$newline"*} in '#!'*sh|'#!'*sh' '*) printf '%s\n' "$_text" ;; esac
}

# COMMAND: the first variable of those that choose a toolkit which it, or a script in it, sets itself.
_sets() {
  set -f
  {
    printf '%s\n' "$1"
    for _word in $1; do case $_word in /*) [ ! -f "$_word" ] || _script "$_word" ;; esac; done
  } | grep -v '^[ \t]*#' | grep -oE '(^|[^A-Za-z0-9_$])(CUDA_HOME|CUDA_PATH|PATH)=' | grep -oE '[A-Z_]+' | head -n 1
}

# COMMAND PATH: the environment that a command line runs, through sh -c, activate, env, conda and scripts. The system's
# own (/usr, /usr/local) only where there is no other.
_python_env() {
  set -f
  _last= _conda= _system=
  for _word in $(printf '%s\n' "$1" | tr "\"';&|()" '       ' | awk '
      /^[ \t]*#/ { next }
      { for (i = 1; i <= NF; i++) {
          word = $i
          if (word ~ /^[A-Za-z_]+=\//) {
            at = index(word, "=")
            set[substr(word, 1, at - 1)] = substr(word, at + 1)
            continue
          }
          if (match(word, /^\$[{]?[A-Za-z_]+[}]?/)) {
            name = substr(word, 1, RLENGTH)
            rest = substr(word, RLENGTH + 1)
            gsub(/[${}]/, "", name)
            if (name in set) word = set[name] rest
          }
          print word
        } }'); do
    case $_last in
    '') ;;
    -p|--prefix) printf '%s\n' "$_word"; return ;;
    *)
      for _home in "${_conda%/*/*}" "$HOME/miniconda3" "$HOME/miniforge3" "$HOME/anaconda3" /opt/conda /opt/miniconda3 \
        /opt/miniforge3; do
        [ ! -d "$_home/envs/$_word" ] || { printf '%s\n' "$_home/envs/$_word"; return; }
      done ;;
    esac
    _last= _program=
    case $_word in
    /*/bin/activate) printf '%s\n' "${_word%/bin/activate}"; return ;;
    conda|*/conda|mamba|*/mamba) _conda=$_word ;;
    -n|--name|-p|--prefix|activate) [ -z "$_conda" ] || _last=$_word ;;
    /*) _program=$_word ;;
    python|python3*|vllm|sglang|torchrun)
      for _home in $(printf %s "$2" | tr : ' '); do
        [ ! -x "$_home/$_word" ] || { _program=$_home/$_word; break; }
      done ;;
    esac
    [ -n "$_program" ] && [ -f "$_program" ] || case $_program in */bin/python*) ;; *) continue ;; esac
    _env=
    case $_program in
    */bin/*)
      _env=$(_prefix "$_program")
      case $_env in
      '') ;;
      /usr|/usr/local) _system=$_env; continue ;;
      *) printf '%s\n' "$_env"; return ;;
      esac ;;
    esac
    # A script is read as a command line of its own, but not what it calls.
    [ -n "$3" ] || _env=$(_python_env "$(_script "$_program")" "$2" script)
    [ -z "$_env" ] || { printf '%s\n' "$_env"; return; }
  done
  [ -z "$_system" ] || printf '%s\n' "$_system"
}

_environ() { tr '\000\001-\037' '\n ' 2>/dev/null <"/proc/$1/environ"; }

_command() { tr '\0\n' '  ' 2>/dev/null <"/proc/$1/cmdline"; }

# PID COMMAND: the environment that a process runs.
_env_of_process() {
  _vars=$(_environ "$1")
  _found=$(_python_env "$2" "$(printf '%s\n' "$_vars" | _value PATH)")
  case $_found in
  ''|/usr|/usr/local)
    _lib=$(grep -o '/[^ ]*/lib/python3[^/]*/site-packages/torch/lib/libtorch' "/proc/$1/maps" 2>/dev/null | head -n 1)
    _lib=${_lib%/lib/python3*}
    [ -n "$_lib" ] || _lib=$(printf '%s\n' "$_vars" | _value VIRTUAL_ENV)
    [ -n "$_lib" ] || _lib=$(printf '%s\n' "$_vars" | _value CONDA_PREFIX)
    _found=${_lib:-$_found} ;;
  esac
  [ -z "$_found" ] || printf '%s\n' "$_found"
}

# Of records as `services` and `processes` print them, the directories where JIT libraries keep what they built: lines KIND
# TAB PATH, each once. Where those are is in $cache_places (cache_places.txt).
cache_roots() {
  PLACES=$cache_places awk '
    # $NAME and ${NAME:-WORD} with the variables of `set`.
    function expand(text,   out, at, name, start, end, depth, c) {
      while ((at = index(text, "$")) > 0) {
        out = out substr(text, 1, at - 1)
        text = substr(text, at + 1)
        if (match(text, /^[A-Z_]+/)) {
          out = out set[substr(text, 1, RLENGTH)]
          text = substr(text, RLENGTH + 1)
          continue
        }
        match(text, /^[{][A-Z_]+/)
        name = substr(text, 2, RLENGTH - 1)
        start = RLENGTH + 3
        depth = 1
        for (end = start; depth > 0 && end <= length(text); end++) {
          c = substr(text, end, 1)
          depth += (c == "{") - (c == "}")
        }
        out = out (name in set ? set[name] : expand(substr(text, start, end - 1 - start)))
        text = substr(text, end)
      }
      return out text
    }
    BEGIN { n = split(ENVIRON["PLACES"], places, "\n") }
    { at = index($0, "="); key = substr($0, 1, at - 1); value = substr($0, at + 1) }
    key == "home" { home = value }
    # As torch writes it into the name of a directory.
    key == "user" { user = value; gsub(/[\\\/:*?"<>|]/, "_", user) }
    # What the running process has counts; the unit says what the next one gets.
    key ~ /^(unit_env|process_env|env)\./ { sub(/^[^.]*\./, "", key); if (value != "") set[key] = value }
    $0 == "" {
      # Without a home or an account, a name that is none: such places are nowhere.
      if (!("HOME" in set)) set["HOME"] = home == "" ? "?" : home
      set["USER"] = user == "" ? "?" : user
      for (i = 1; i <= n; i++) {
        at = index(places[i], " ")
        if (at == 0) continue
        kind = substr(places[i], 1, at - 1)
        path = expand(substr(places[i], at + 1))
        gsub(/\/(\.?\/)+/, "/", path)
        sub(/\/\.?$/, "", path)
        if (path ~ /^\/[^?]+$/ && !seen[kind, path]++) print kind "\t" path
      }
      home = user = ""; split("", set)
    }'
}

# LD_LIBRARY_PATH: the libcuda.so.1 that it leads to. Fails where a directory of it cannot be looked into as its owner.
_libcuda() {
  set -f
  _ifs=$IFS
  IFS=:
  set -- $1
  IFS=$_ifs
  for _dir do
    case $_dir in /*) ;; *) continue ;; esac
    _dir=$_dir/libcuda.so.1
    _file=$(as_owner "$_dir" sh -c '[ ! -e "$1" ] || readlink -f "$1"; echo end' sh "$_dir" 2>/dev/null)
    case $_file in
    end) ;;
    /*) printf '%s\n' "${_file%%"$newline"*}"; return ;;
    *) return 1 ;;
    esac
  done
}

# LD_LIBRARY_PATH: the key libcuda, where it leads to one.
_libcuda_found() {
  [ -n "$1" ] || return 0
  _file=$(bounded 2 _libcuda_told "$1")
  case $_file in
  end) ;;
  *"${newline}end") kv libcuda "${_file%"${newline}end"}" ;;
  *) kv unknown.libcuda 'a directory of LD_LIBRARY_PATH could not be looked into as its owner, or not in time' ;;
  esac
}
_libcuda_told() { _libcuda "$1" && echo end; }

# The gids of the unit in $_block, whose account is $_account with the entry $_entry, its main one first. Group= takes the
# place of the account's own, which then counts only where that lists the account. Fails where they cannot be had.
_unit_groups() {
  _gids=$(timeout 2 id -G "$_account" 2>/dev/null) || return
  _group=$(_of Group)
  if [ -n "$_group" ]; then
    _gid=$(_entry_of group "$_group" | cut -d : -f 3)
    [ -n "$_gid" ] || return
    _own=$(printf '%s\n' "$_entry" | cut -d : -f 4)
    case ,$(_entry_of group "$_own" | cut -d : -f 4), in
    *,"$_account",*) ;;
    *) _gids=$(printf '%s\n' $_gids | grep -vx "$_own" | tr '\n' ' ') ;;
    esac
    _gids="$_gid $_gids"
  fi
  for _group in $(_of SupplementaryGroups); do
    _gid=$(_entry_of group "$_group" | cut -d : -f 3)
    [ -n "$_gid" ] || return
    _gids="$_gids $_gid"
  done
  printf '%s\n' $_gids | awk '!seen[$0]++ { printf "%s%s", n++ ? " " : "", $0 }'
}

# UID GIDS: device nodes of GPUs that it cannot open. Where there are access lists nobody can tell from the mode. In a
# container no program of the driver makes a node that is not there.
_denied() {
  [ ! -c /dev/nvidiactl ] || [ -e /dev/nvidia-uvm ] || ! systemd-detect-virt -cq || kv denied /dev/nvidia-uvm
  [ "$1" != 0 ] || return 0
  (set +f; ls -ln /dev/nvidia[0-9]* /dev/nvidiactl /dev/nvidia-uvm 2>/dev/null) | awk -v uid="$1" -v gids=" $2 " '
    $1 !~ /^c/ || $1 ~ /\+$/ { next }
    { may = substr($1, $3 == uid ? 2 : index(gids, " " $4 " ") ? 5 : 8, 2) }
    may != "rw" { print "denied=" $NF }'
}

# USER: file systems, by the device that quota(1) names, where it can write no more. An asterisk marks what is over its soft
# limit, with the time of grace behind it.
_quotas() {
  _quota=$(command -v quota) && may_run "$_quota" || return 0
  timeout -k 1 3 "$_quota" -w -u "$1" 2>/dev/null | awk '
    function over(used, limit, grace) { return used ~ /\*$/ && (limit > 0 && used + 0 >= limit + 0 || grace == "none") }
    $1 ~ /^Filesystem$/ { table = 1; next }
    table && NF >= 4 {
      at = $2 ~ /\*$/ ? 6 : 5
      if (over($2, $4, $5) || over($at, $(at + 2), $(at + 3))) print $1
    }'
}

# MOUNTINFO QUOTAS, with lines KIND TAB EXISTS TAB WRITABLE TAB PLACE TAB PATH: records of cache_dirs. A device that quota(1)
# names and no mount has (an alias) is taken for that of HOME.
_on_mounts() {
  awk -F '\t' -v quotas="$2" '
    NR == FNR {
      n = split($0, w, " ")
      for (i = 7; i < n && w[i] != "-"; i++) ;
      at = w[5]
      gsub(/\\040/, " ", at)
      if (!(at in options)) mounts[++m] = at
      options[at] = "," w[6] "," w[i + 3] ","
      device[at] = w[i + 2]
      mounted[w[i + 2]] = 1
      next
    }
    BEGIN { k = split(quotas, full, "\n") }
    {
      best = "/"
      for (i = 1; i <= m; i++) if (index($4 "/", mounts[i] "/") == 1 && length(mounts[i]) > length(best)) best = mounts[i]
      if ($1 == "home") home = best
      over = "no"
      for (i = 1; i <= k; i++) if (full[i] == device[best] || !(full[i] in mounted) && best == home) over = "yes"
      print "cache_dirs=" $1 "|" $2 "|" $3 "|" (options[best] ~ /,ro,/ ? "yes" : "no") "|" (options[best] ~ /,noexec,/ ? "yes" : "no") "|" over "|" best "|" $5
    }' "$1" -
}

# HOME RECORD: cache_dirs of that consumer, as its user $_account, of $_uid and the groups $_groups, sees them.
_cache_dirs() {
  # Each path, or what is there of the way to it. `?`: not tried.
  _try='while IFS="	" read -r kind path; do
      place=$path
      until [ -e "$place" ]; do
        case $place in */*) place=${place%/*} ;; *) place= ;; esac
        [ -n "$place" ] || { place=/; break; }
      done
      exists=no writable=no
      [ "$place" != "$path" ] || exists=yes
      [ ! -d "$place" ] || [ ! -w "$place" ] || [ ! -x "$place" ] || writable=yes
      printf "%s\t%s\t%s\t%s\t%s\n" "$kind" $exists $writable "$(cd -P "$place" 2>/dev/null && pwd || printf %s "$place")" "$path"
    done'
  _roots=$({ printf 'home\t%s\n' "${1:-/}"; printf '%s\n\n' "$2" | cache_roots; } | grep -v '|')
  _seen=
  if [ "$_uid" = "$self_uid" ]; then _seen=$(printf '%s\n' "$_roots" | sh -c "$_try")
  elif [ -n "$_groups" ]; then
    _seen=$(printf '%s\n' "$_roots" | as_uid_groups="$_groups" as_uid "$_uid" sh -c "$_try" 2>/dev/null)
  fi
  [ -n "$_seen" ] || _seen=$(printf '%s\n' "$_roots" | awk -F '\t' '{ print $1 "\t\t\t" $2 "\t" $2 }')
  _info=/proc/self/mountinfo
  [ "${_pid:-0}" = 0 ] || [ ! -r "/proc/$_pid/mountinfo" ] || _info=/proc/$_pid/mountinfo
  printf '%s\n' "$_seen" | _on_mounts $_info "$(_quotas "$_account")"
}

_of() { printf '%s\n' "$_block" | sed -n "s/^$1=//p"; }

# NAME=VALUE lines in the order in which systemd sets them, and `!REASON` where one cannot be known. `@unit` stands before those
# of Environment=, `@FILE` before those of an environment file.
_unit_variables() {
  printf '%s\n' "$_manager"
  if [ -n "$_user" ]; then
    printf '%s\n' "$_entry" | awk -F: '{ print "HOME=" $6; print "SHELL=" $7; print "USER=" $1; print "LOGNAME=" $1 }'
  fi
  echo @unit
  _of Environment | _words
  _of EnvironmentFiles | while IFS= read -r _line; do
    # Patterns are allowed, blanks are not separators.
    _ifs=$IFS
    IFS=$newline
    set +f
    set -- ${_line% (ignore_errors=*}
    IFS=$_ifs
    for _file do
      if [ ! -e "$_file" ]; then
        case $_line in *=no\)) printf '!%s is missing, and the unit cannot start without\n' "$_file" ;; esac
      elif ! _as_reader "$_file" test -r "$_file"; then
        # What a user's own systemd may not read and can do without, it passes over.
        case $_manager_uid$_line in [0-9]*=yes\)) ;; *) printf '!no permission to read %s\n' "$_file" ;; esac
      else
        printf '@%s\n' "$_file"
        _as_reader "$_file" head -c 65536 "$_file" | _env_file
      fi
    done
  done
}

# Of lines as _unit_variables prints them: NAME TAB FILE TAB VALUE, where Environment= gives VALUE and FILE another one.
_overridden() {
  awk '
    /^@/ { from = substr($0, 2); next }
    /^!/ || from == "" { next }
    { at = index($0, "="); name = substr($0, 1, at - 1) }
    from == "unit" { declared[name] = substr($0, at + 1); next }
    { file[name] = from; value[name] = substr($0, at + 1) }
    END { for (name in file) if (name in declared && declared[name] != value[name]) print name "\t" file[name] "\t" declared[name] }' | sort
}

# LINES of _overridden: records NAME|FILE|SET_IN|VALUE of the names that may leave the host. SET_IN is the last of the unit's
# own files that has the name in Environment=.
_overridden_records() {
  printf '%s\n' "$1" | while IFS="$(printf '\t')" read -r _name _file _set; do
    _set=$(printf '%s=%s\n' "$_name" "$_set" | env_allow)
    [ -n "$_set" ] || continue
    _from=
    for _word in $(_of FragmentPath) $(_of DropInPaths); do
      if _as_reader "$_word" head -c 65536 "$_word" 2>/dev/null | grep -qE "^[ \t]*Environment=(.*[ \"'])?$_name="; then _from=$_word; fi
    done
    case $_file$_from$_set in *'|'*) continue ;; esac
    kv overridden "$_name|$_file|$_from|${_set#*=}"
  done
}

# STATUS of the search that gave $_env: none found is not the same as a search that was cut.
_python_env_found() {
  case $1$_env in
  124|143) kv unknown.python_env 'the search for it took too long' ;;
  *) kv python_env "$_env" ;;
  esac
}

_service() {
  _user=$(_of User)
  _unit=$(_of Id)
  if [ -n "$_manager_uid" ]; then
    # Its manager is the user's, who may say anything.
    case $_unit in ''|*[!A-Za-z0-9:_.@\\-]*) return ;; esac
    _user=$(passwd_entry "$_manager_uid" | cut -d : -f 1)
    [ -n "$_user" ] || return
    kv manager "$_user"
    _unit="user unit $_unit of $_user"
  fi
  kv unit "$_unit"
  kv state "$(_of ActiveState)"
  kv sub_state "$(_of SubState)"
  kv result "$(_of Result)"
  kv exit_code "$(_of ExecMainCode)"
  kv exit_status "$(_of ExecMainStatus)"
  kv restarts "$(_of NRestarts)"
  kv stale "$(_of NeedDaemonReload)"
  for _word in $(_of DropInPaths); do kv drop_ins "$_word"; done
  _pid=$(_of MainPID)
  kv main_pid "$_pid"
  _entry=$(passwd_entry "${_user:-root}")
  kv user "${_user:-root}"
  kv home "$(printf '%s\n' "$_entry" | cut -d: -f6)"

  # { path=/x ; argv[]=/x a b ; ignore_errors=no ; ... }, one for each command.
  _exec=$(_of ExecStart | head -n 1)
  _argv=${_exec#*'argv[]='}
  _argv=${_argv%%' ; ignore_errors='*}
  _exec=${_exec#*path=}
  kv exec "${_exec%% ;*}"
  kv command "$(printf '%s\n' "$_argv" | redact_arguments | cut -c 1-2000)"

  _listed=$(bounded 3 _unit_variables)
  _variables=$(printf '%s\n' "$_listed" | UNSET=$(_of UnsetEnvironment | _words) awk '
    BEGIN { n = split(ENVIRON["UNSET"], unset, "\n"); for (i = 1; i <= n; i++) gone[unset[i]] }
    /^!/ { print; next }
    /^@/ { next }
    { name = substr($0, 1, index($0, "=") - 1); line[name] = $0 }
    END { for (name in line) if (!(name in gone) && !(line[name] in gone)) print line[name] }' | sort)
  printf '%s\n' "$_variables" | env_allow | sed 's/^/unit_env./'
  _listed=$(printf '%s\n' "$_listed" | _overridden)
  [ -z "$_listed" ] || bounded 3 _overridden_records "$_listed"
  _word=$(bounded 3 _sets "$_argv")
  { [ -z "$_word" ] || printf '!its start command or script sets %s itself\n' "$_word"; printf '%s\n' "$_variables"; } |
    sed -n 's/^!/unknown.unit_env=/p' | head -n 1

  _env=$(bounded 3 _python_env "$_argv" "$(printf '%s\n' "$_variables" | _value PATH)")
  _ended=$?
  _vars=
  if [ "${_pid:-0}" != 0 ]; then
    _vars=$(bounded 2 _environ "$_pid")
    if [ -n "$_vars" ]; then printf '%s\n' "$_vars" | env_allow | sed 's/^/process_env./'
    else kv unknown.process_env "no permission to read /proc/$_pid/environ"
    fi
    case $_env in
    ''|/usr|/usr/local)
      _env=$(bounded 3 _env_of_process "$_pid" "$(_command "$_pid")")
      _ended=$? ;;
    esac
  fi
  _python_env_found $_ended
  _service_details
  end_record
}

_service_details() {
  # A property with several lines has a device in each.
  printf '%s\n' "$_block" | awk -F = '
    /^DeviceAllow=./ { devices = devices (devices == "" ? "" : ", ") substr($0, 13); next }
    /^(Memory(Max|High)|LimitMEMLOCK|Protect(Home|System)|Private(Devices|Tmp)|DevicePolicy|DynamicUser|(ReadOnly|ReadWrite|Inaccessible|NoExec|Bind)Paths|(Cache|State|Runtime|Logs)Directory|KillMode)=./ &&
    $2 !~ /^(no|auto|infinity|\[not set\]|18446744073709551615|control-group)$/ { print "settings." $0 }
    END { if (devices != "") print "settings.DeviceAllow=" devices }'
  [ -n "$_vars" ] || _vars=$_variables
  _libcuda_found "$(printf '%s\n' "$_vars" | _value LD_LIBRARY_PATH)"
  [ -n "$_env" ] || return 0
  _account=${_user:-root}
  # DynamicUser= makes accounts that are not there while nothing runs.
  _uid=$(printf '%s\n' "$_entry" | cut -d : -f 3)
  [ -n "$_uid" ] || return 0
  if _groups=$(_unit_groups); then for _word in $_groups; do kv groups "$_word"; done
  else kv unknown.groups "which groups $_account has here could not be told, or not in time"
  fi
  if [ -n "$_groups" ] || [ "$_uid" = 0 ]; then _denied "$_uid" "$_groups"
  else kv unknown.denied "which groups $_account has here could not be told, or not in time"
  fi
  _word=$(printf '%s\n' "$_vars" | _value HOME)
  [ -n "$_word" ] || _word=$(printf '%s\n' "$_entry" | cut -d : -f 6)
  bounded 5 _cache_dirs "$_word" "$(kv home "$_word"; printf '%s\n' "$_vars" | env_allow | sed 's/^/env./')"
}

# The section `services`, as records of K=V.
services() {
  _units=$(units) || _silent
  _services || _silent
  # Users decide how many there are and how long they take: that must not cost the system's services.
  _patience=2
  read -r _begun _rest </proc/uptime
  for _manager_uid in $(_user_managers); do
    read -r _now _rest </proc/uptime
    if [ $((${_now%.*} - ${_begun%.*})) -ge 6 ]; then _unasked "the systemds of users took too long, and this one was not asked"
    elif ! { _units=$(units) && _services; }; then _unasked "the user's own systemd does not answer"
    fi
  done
  _manager_uid= _patience=8
}

# Users whose own systemd runs and can be asked.
_user_managers() {
  for _word in /run/user/[0-9]*; do
    [ -S "$_word/systemd/private" ] || continue
    case $self_uid in 0|"${_word##*/}") echo "${_word##*/}" ;; esac
  done
}

# WHY: a record that stands for all units of $_manager_uid.
_unasked() {
  _entry=$(passwd_entry "$_manager_uid")
  [ -n "$_entry" ] || return
  kv manager "${_entry%%:*}"
  kv unit "user units of ${_entry%%:*}"
  kv user "${_entry%%:*}"
  kv home "$(printf '%s\n' "$_entry" | cut -d : -f 6)"
  kv unknown.python_env "$1"
  end_record
}

# The records of $_units.
_services() {
  [ -n "$_units" ] || return 0
  _manager=$(bounded $((_patience / 2)) _systemctl show-environment 2>/dev/null)
  _show -p Id,ActiveState,SubState,Result,MainPID,FragmentPath,DropInPaths,NeedDaemonReload,NRestarts,User \
    -p ExecMainCode,ExecMainStatus,Environment,EnvironmentFiles,UnsetEnvironment,ExecStart \
    -p MemoryMax,MemoryHigh,LimitMEMLOCK,ProtectHome,ProtectSystem,PrivateDevices,PrivateTmp,DevicePolicy,DeviceAllow \
    -p DynamicUser,ReadOnlyPaths,ReadWritePaths,InaccessiblePaths,NoExecPaths,BindPaths,CacheDirectory,StateDirectory \
    -p RuntimeDirectory,LogsDirectory,Group,SupplementaryGroups,KillMode -- $_units || return
  printf '%s\n\n' "$_shown" | {
    _block=
    set -f
    while IFS= read -r _line; do
      if [ -n "$_line" ]; then _block=$_block$newline$_line
      else
        [ -z "$_block" ] || _service
        _block=
      fi
    done
  }
}

# Processes that run Python in a unit of their user's own systemd, of which the system's knows nothing.
_in_user_units() {
  grep -lE '/user@[0-9]+\.service/.*\.service(/[^/]*)?$' /proc/[0-9]*/cgroup 2>/dev/null | while IFS=/ read -r _word _word _pid _word; do
    case $(readlink "/proc/$_pid/exe") in *python*) echo "$_pid" ;; esac
  done
}

# The section `processes`: who has a GPU open, names a toolkit, or runs a Python environment in a user's unit, and is no unit
# of `services`. Of those that only name a toolkit (all that a profile exports it to), the first of each user and toolkit,
# Python apart. Root sees them all.
processes() {
  _units=$(units) || _silent
  # What is left of a unit that does not run is no part of it.
  if [ -n "$_units" ]; then
    _show -p Id,ActiveState -- $_units || _silent
    _units=$(printf '%s\n' "$_shown" | awk '
      BEGIN { RS = ""; FS = "\n" }
      !/(^|\n)ActiveState=(failed|inactive)/ { for (i = 1; i <= NF; i++) if ($i ~ /^Id=/) print substr($i, 4) }')
  fi
  _open=$(ls -ln /proc/[0-9]*/fd 2>/dev/null | awk '
    /^\/proc\// { split($0, part, "/") }
    / -> \/dev\/nvidia[0-9]+$/ { sub(/.*nvidia/, ""); print part[3], $0 }' | sort -u)
  _apps=
  _smi=$(command -v nvidia-smi)
  if [ -n "$_open" ] && [ -d /sys/module/nvidia ] && [ -n "$_smi" ] && may_run "$_smi"; then
    _apps=$(bounded 4 timeout -k 1 3 "$_smi" --query-compute-apps=pid,used_memory --format=csv,noheader,nounits 2>/dev/null)
  fi
  _seen=
  _mine=$newline$(_in_user_units)$newline
  {
    printf '%s\n' "$_open" | cut -d ' ' -f 1
    # Our own carry this very text.
    grep -l -e CUDA_HOME= -e CUDA_PATH= /proc/[0-9]*/environ 2>/dev/null | xargs grep -L TRUEUP_RUN= 2>/dev/null | cut -d / -f 3
    printf '%s\n' "$_mine"
  } | awk '/^[0-9]/ && !seen[$0]++ && ++n <= 101 { print $0, n }' | while read -r _pid _count; do
    if [ "$_count" -gt 100 ]; then
      kv pid "$_pid"
      kv unknown.env 'more than 100 processes: neither this nor the rest was looked into'
      kv unknown.python_env 'more than 100 processes: not looked into'
      end_record
      continue
    fi
    _vars=$(_environ "$_pid" 2>/dev/null)
    _root=$(printf '%s\n' "$_vars" | grep -e '^TRUEUP_RUN=' -e '^CUDA_\(HOME\|PATH\)=')
    case $_root in TRUEUP_RUN=*|*"${newline}TRUEUP_RUN="*) continue ;; esac
    _gpus=$(printf '%s\n' "$_open" | sed -n "s/^$_pid //p")
    _uid= _parent=
    while read -r _word _uid _rest; do
      case $_word in PPid:) _parent=$_uid ;; Uid:) break ;; esac
    done 2>/dev/null <"/proc/$_pid/status"
    _exe=$(readlink "/proc/$_pid/exe") || continue
    if [ -z "$_gpus$_root" ]; then
      case $_mine in *"$newline$_pid$newline"*) ;; *) continue ;; esac
      # An environment of its own makes it one of ours; the system's runs anything.
      case $(bounded 3 _env_of_process "$_pid" "$(_command "$_pid")") in ''|/usr|/usr/local) continue ;; esac
    elif [ -z "$_gpus" ]; then
      case $_exe in *python*) _key=python ;; *) _key=other ;; esac
      _key=$newline$newline$_uid$_key$_root$newline$newline
      case $_seen in *"$_key"*) continue ;; esac
      _seen=$_seen$_key
    fi
    _cgroup=$(sed -n 's/^0:://p; s/^[0-9]*:name=systemd://p' "/proc/$_pid/cgroup" 2>/dev/null | head -n 1)
    for _word in $_units; do
      case $_cgroup/ in
      */user@*) ;; # a user's unit may have the name of one of the system's
      */"$_word"/*) continue 2 ;;
      esac
    done
    kv pid "$_pid"
    kv uid "$_uid"
    kv user "$(passwd_entry "$_uid" | cut -d: -f1)"
    kv exe "$_exe"
    _argv=$(_command "$_pid")
    kv command "$(printf '%s\n' "$_argv" | redact_arguments | cut -c 1-2000)"
    kv cgroup "$_cgroup"
    for _word in $_gpus; do kv gpus "$_word"; done
    _process_details
    printf '%s\n' "$_vars" | env_allow | sed 's/^/env./'
    if [ "$(readlink "/proc/$_pid/ns/mnt")" = "$(readlink /proc/self/ns/mnt)" ]; then
      _env=$(bounded 3 _env_of_process "$_pid" "$_argv")
      _python_env_found $?
    else kv unknown.python_env 'it has file systems of its own (a container): not looked into'
    fi
    end_record
  done
}

_process_details() {
  kv parent "${_parent:-0}"
  case $_cgroup in
  *docker*|*libpod*|*kubepods*|*containerd*|*crio*)
    kv container "$(printf '%s\n' "$_cgroup" | grep -oE '[0-9a-f]{64}' | tail -n 1)" ;;
  # Not systemd's of this machine: it knows nothing of them.
  */user@*|*machine.slice*|*lxc*) ;;
  *.service|*.scope)
    [ -z "$_gpus" ] || kv scope "$(bounded 2 systemctl show -p ActiveState --value -- "${_cgroup##*/}" 2>/dev/null)" ;;
  esac
  _word=$(printf '%s\n' "$_apps" | awk -F ', *' -v pid="$_pid" '$1 == pid && $2 ~ /^[0-9]+$/ { print $2; exit }')
  [ -z "$_word" ] || kv memory_bytes "$_word"
  # In a container the same names are other directories.
  _word=$(printf '%s\n' "$_vars" | _value LD_LIBRARY_PATH)
  [ -z "$_word" ] || [ "$(readlink "/proc/$_pid/ns/mnt")" != "$(readlink /proc/self/ns/mnt)" ] || _libcuda_found "$_word"
}

# RECORDS (what the probes `services` and `processes` printed): ends the probe where they are not all.
need_all() {
  for _word in services processes; do
    case $newline$1$newline in
    *"$newline!end $_word$newline"*) ;;
    *) unknown "the list of consumers is not whole: $_word failed, took too long or gave a line above 4000 bytes" ;;
    esac
  done
}

# RECORDS (of services and processes): prefixes of the Python environments that they name, then of those that a bounded
# search of the usual places finds. Mounts of a server are not entered, and of a directory above one only its children.
# `!DIR`: the search below DIR was cut.
python_prefixes() {
  {
    printf '%s\n' "$1" | sed -n 's/^python_env=//p'
    _nets=$(network_mounts)
    for _top in /root /home /opt /srv /data /workspace /app; do
      case $(_remote $_top) in
      '') _search $_top ;;
      above) for _dir in $_top/*; do [ -n "$(_remote "$_dir")" ] || _search "$_dir"; done ;;
      esac
    done
  } | awk '/^!?\// && !seen[$0]++'
}

# DIR: `in` a mount of $_nets, `above` one, or neither.
_remote() {
  printf '%s\n' "$_nets" | while IFS= read -r _net; do
    [ -n "$_net" ] || continue
    case $1/ in "${_net%/}"/*) echo in; return ;; esac
    case $_net/ in "$1"/*) echo above; return ;; esac
  done
}

_search() {
  [ -d "$1" ] || return 0
  _found=$(bounded 5 _find "$1")
  printf '%s\n' "${_found%!end}" | sed 's,/pyvenv\.cfg$,,; s,/conda-meta$,,'
  case $_found in *!end) ;; *) printf '!%s\n' "$1" ;; esac
}

_find() {
  timeout 3 find "$1" -xdev -maxdepth 5 \
    \( -name site-packages -o -name .cache -o -name .git -o -name node_modules \) -prune \
    -o \( -name pyvenv.cfg -o -name conda-meta \) -print 2>/dev/null
  case $? in 124 | 143) ;; *) echo '!end' ;; esac
}
