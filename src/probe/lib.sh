# What probe scripts may use: POSIX sh and utilities, read in front of each of them.

# Our own uid, without asking `id` each time.
while read -r _key _real self_uid _rest; do [ "$_key" != Uid: ] || break; done </proc/self/status

# The fact is absent: we looked, and it is not there. Ends the probe.
absent() { exit 221; }

# unknown REASON...: the fact cannot be known here. Ends the probe; the reason is the last line of its output.
unknown() {
  printf '\n%s\n' "$*"
  exit 222
}

# kv KEY VALUE: one line that cannot be two.
kv() {
  case $1$2 in
    *[![:print:]]*)
      printf '%s=%s' "$1" "$2" | tr '\000-\037\177' '?'
      printf '\n'
      ;;
    *) printf '%s=%s\n' "$1" "$2" ;;
  esac
}

end_record() { printf '\n'; }

# owner_uid PATH: prints whose powers are enough, and safe, to touch PATH. 0 where root alone decides what it is: every
# component is root's and writable by root alone; else the uid of the first other who does, or nobody's where many can.
# Root's links are followed, step by step; another's ends the walk. In a sticky directory nobody can replace what is root's,
# but what else is in it is other people's. Not root: our own uid, always, for we have no powers to lend.
owner_uid() {
  if [ "$self_uid" != 0 ]; then printf '%s\n' "$self_uid"
  else
    _who=$(_decider "$1") || return
    printf '%s\n' "${_who#many}"
  fi
}

# PATH: the uid that decides what it is, as above; `many65534` where many can.
_decider() {
  _at='' _rest=$1 _open='' _sticky='' _hops=0
  while [ "$_rest" ]; do
    case $_at:$_rest in
      :/*)
        for _known in $root_owned; do
          case $_rest/ in "$_known"/*) [ ${#_known} -le ${#_at} ] || _at=$_known ;; esac
        done
        _rest=${_rest#"$_at"}
        ;;
    esac
    _part=${_rest%%/*}
    case $_rest in */*) _rest=${_rest#*/} ;; *) _rest='' ;; esac
    case $_part in
      '' | .) continue ;;
      ..)
        # From the start again: what is above may be sticky.
        _rest=${_at%/*}/$_rest _at='' _sticky=''
        continue
        ;;
    esac
    if ! _line=$(ls -ldn -- "$_at/$_part" 2>/dev/null); then
      [ -e "$_at/$_part" ] || [ -h "$_at/$_part" ] || break
      _line=
    fi
    set -f
    set -- $_line
    set +f
    case $3 in
      '' | *[!0-9]*)
        printf 'many65534\n' # what it is cannot be told
        return
        ;;
    esac
    [ "$3" = 0 ] || {
      printf '%s\n' "$3"
      return
    }
    [ -z "$_open" ] || break
    _sticky=
    case $1 in
      l*)
        _hops=$((_hops + 1))
        [ "$_hops" -le 40 ] || return 1
        case $_line in *" $_at/$_part -> "*) ;; *) return 1 ;; esac
        _line=${_line#*" $_at/$_part -> "}
        case $_line in /*) _at='' ;; esac
        _rest=$_line/$_rest
        continue
        ;;
      d???????w[tT]* | d????w???[tT]* | d????????[tT]+) _sticky=1 ;;
      d????????[tT]*) ;;
      ????????w* | *+) _open=1 ;;
      ?????w*) [ "$4" = 0 ] || _open=1 ;;
    esac
    _at=$_at/$_part
  done
  [ "$_open$_sticky" ] && printf 'many65534\n' || printf '0\n'
}

# Of some directories that many paths lead through those that root alone decides about, and that are no links: what stands
# in $root_owned is not looked at again each time. None of them is where a server is mounted that may be gone.
list_root_owned() {
  [ "$self_uid" = 0 ] || return 0
  set -- /bin /etc /lib /root /usr /usr/bin /usr/lib /usr/lib/python3 /usr/lib/python3/dist-packages /usr/local /usr/local/bin \
    /usr/local/lib /usr/sbin
  _asked=" $* "
  ls -ldn -- "$@" 2>/dev/null | {
    _owned=' '
    while read -r _mode _links _owner _group _rest; do
      _dir=/${_rest#*/}
      case $_asked in *" $_dir "*) ;; *) continue ;; esac
      case $_mode:$_group in
        d???????w* | d????????[tT]* | *+:* | [!d]*) continue ;;
        d????w*:0) ;;
        d????w*) continue ;;
      esac
      case $_owned in *" ${_dir%/*} "*) ;; *) [ -z "${_dir%/*}" ] || continue ;; esac
      [ "$_owner" != 0 ] || _owned="$_owned$_dir "
    done
    printf '%s\n' "$_owned"
  }
}

# note_root_owned DIR: likewise, of a directory below which much is to be looked at.
note_root_owned() {
  case $self_uid$1/ in
    0*[!A-Za-z0-9/._+@-]* | 0*//* | 0*/./* | 0*/../*) ;;
    0/*) [ -d "$1" ] && [ ! -h "$1" ] && [ "$(_decider "$1")" = 0 ] && root_owned="$root_owned $1" ;;
  esac
}

# trusted_path PATH: of it and the usual places, the directories where root alone decides which programs there are.
trusted_path() {
  _path='' _more=''
  set -f
  _ifs=$IFS
  IFS=:
  set -- $1 /usr/local/sbin /usr/local/bin /usr/sbin /sbin
  IFS=$_ifs
  for _dir do
    case :$_path: in *:"$_dir":*) continue ;; esac
    case $_dir in
      /*) [ "$(owner_uid "$_dir")" = 0 ] && _path=${_path:+$_path:}$_dir && continue ;;
    esac
    _more=:/usr/bin:/bin
  done
  set +f
  printf '%s\n' "$_path$_more"
}

# may_run FILE: may we execute it with the powers that we have? Where root alone decides, or we ourselves.
may_run() { [ -x "$1" ] && case $(_decider "$1") in 0 | "$self_uid") ;; *) false ;; esac; }

# as_uid UID CMD ARGS...: runs CMD as that user, without root's groups (in those that $as_uid_groups names, the main one
# first), privileges and environment. 126, with the reason on standard error, where that cannot be done.
as_uid() {
  _uid=$1
  shift
  if [ "$self_uid" = "$_uid" ]; then
    "$@"
    return
  fi
  _gid=${as_uid_groups%% *}
  # A directory service may not answer.
  [ -n "$_gid" ] || _gid=$(timeout 2 id -g "$_uid" 2>/dev/null) || _gid=65534
  if [ "$self_uid" != 0 ]; then
    printf 'cannot run as uid %s: we are not root\n' "$_uid" >&2
    return 126
  fi
  set -- env -i "PATH=$PATH" LC_ALL=C TZ=UTC PYTHONDONTWRITEBYTECODE=1 "TRUEUP_RUN=$TRUEUP_RUN" "$@"
  _gids=--clear-groups
  [ -z "$as_uid_groups" ] || _gids=--groups=$(printf %s "$as_uid_groups" | tr ' ' ,)
  if setpriv --reuid "$_uid" --regid "$_gid" "$_gids" --inh-caps=-all --bounding-set=-all --no-new-privs true 2>/dev/null; then
    setpriv --reuid "$_uid" --regid "$_gid" "$_gids" --inh-caps=-all --bounding-set=-all --no-new-privs "$@"
  else
    printf 'cannot run as uid %s: setpriv (util-linux) is missing or refuses\n' "$_uid" >&2
    return 126
  fi
}

# Hides values that look secret: a line NAME=VALUE whole, KEY=VALUE within one and "key": "value" by name, --api-key VALUE, Bearer tokens, users in URLs, tokens
# by their shape. Names of tokenizers and counts of tokens stay readable.
redact() {
  _name='[A-Za-z0-9_.-]*([Kk][Ee][Yy]|[Tt][Oo][Kk][Ee][Nn]|[Ss][Ee][Cc][Rr][Ee][Tt]|[Pp][Aa][Ss][Ss]|[Cc][Rr][Ee][Dd][Ee][Nn][Tt]|[Aa][Uu][Tt][Hh]|[Pp][Ww][Dd])[A-Za-z0-9_.-]*'
  sed -E \
    -e 's/([Tt])(okeniz|okens[ =][0-9])/\1~~\2/g' \
    -e 's/([Kk]ey)(Error|board)/\1~~\2/g' \
    -e 's/^-/~~-/' \
    -e 's/([Bb][Ee][Aa][Rr][Ee][Rr]|[Bb][Aa][Ss][Ii][Cc]) +[A-Za-z0-9._~+/=-]{8,}/\1 ***/g' \
    -e "s/^($_name)=.*/\\1=***/" \
    -e "s/\"($_name)=[^\"]*\"/\"\\1=***\"/g" \
    -e "s/'($_name)=[^']*'/'\\1=***'/g" \
    -e "s/($_name)([\"']?[ ]*[:=][ ]*)[[({][^])}]*/\\1\\3***/g" \
    -e "s/($_name)([\"']?[ ]*[:=][ ]*)\"[^\"]*\"/\\1\\3\"***\"/g" \
    -e "s/($_name)([\"']?[ ]*[:=][ ]*)'[^']*'/\\1\\3'***'/g" \
    -e "s/($_name)=[^ \"']+/\\1=***/g" \
    -e "s/($_name): *[^ \"',;]+/\\1: ***/g" \
    -e "s/(--?$_name) +\"([^\"\\\\]|\\\\.)*(\"|\$)/\\1 ***/g" \
    -e "s/(--?$_name) +'[^']*('|\$)/\\1 ***/g" \
    -e "s/(--?$_name) +-?[^ \"'-][^ ]*/\\1 ***/g" \
    -e 's/(--?[A-Za-z0-9_.-]*[Kk][Ee][Yy][Ss]? \*\*\*)( +[^ -][^ ]*)+/\1/g' \
    -e 's/([Pp]assword|[Pp]assphrase|[Tt]oken|[Ss]ecret) +(is|was) +[^ ]+/\1 \2 ***/g' \
    -e 's,([A-Za-z][A-Za-z0-9+.-]*://)[^@ ]+@,\1***@,g' \
    -e 's,([A-Za-z][A-Za-z0-9+.-]*://[^? ]*\?)[^ "]+,\1***,g' \
    -e 's/eyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_.-]+/***/g' \
    -e 's/(hf_|sk-|gh[opsu]_|github_pat_|glpat-|nvapi-|AKIA)[A-Za-z0-9_-]{8,}/\1***/g' \
    -e 's/-----BEGIN [A-Z ]*PRIVATE KEY-----.*/***/' \
    -e 's/~~//g'
}

# Variables that decide which compiler, libraries and caches are used; no others leave the host.
_allowed='(CUDA[A-Z0-9_]*|PATH|LD_LIBRARY_PATH|LD_PRELOAD|CPATH|LIBRARY_PATH|(FLASHINFER|TORCH|TORCHINDUCTOR|TRITON|TVM_FFI|TILELANG|DG|SGLANG|VLLM|NCCL|NVIDIA|NVCC)_[A-Za-z0-9_]*|CC|CXX|MAX_JOBS|HOME|XDG_CACHE_HOME|TMPDIR|VIRTUAL_ENV|CONDA_PREFIX|PYTHON(PATH|HOME|NOUSERSITE|USERBASE)|HF_HOME)'

# Of lines NAME=VALUE those of such variables.
env_allow() { grep -E "^$_allowed=" | redact; }

# Command lines, reduced to what is known to be harmless: nobody can list the options that carry secrets. Programs,
# options, numbers and paths stay; words stay where they follow an option (or subcommand) that is known to name no secret.
redact_arguments() {
  ALLOWED=$_allowed awk '
    function number_or_path(w) {
      return w ~ /^[0-9][0-9.,:]*[A-Za-z%]?$/ || w ~ /^(true|false|True|False|auto|none|None)$/ ||
        w ~ /^[.~]?\/[A-Za-z0-9_.\/+-]*$/ || w ~ /^[A-Za-z0-9_.-]+\.(py|sh|ya?ml|toml|conf)$/
    }
    # A value as it may be shown after an option of that kind: words, number_or_path, nothing.
    function shown(w, kind,   core) {
      core = w
      gsub(/^["\047({[]+|["\047)}\];,]+$/, "", core)
      if (core == "" || kind != "secret" && number_or_path(core)) return w
      if (kind == "words" && core ~ /^[A-Za-z0-9_.\/:,@+-]+$/ && core !~ /:[^\/]*@/) return w
      return "***"
    }
    function kind_of(option) {
      gsub(/^-+/, "", option)
      option = tolower(option)
      gsub(/-/, "_", option)
      if (option ~ /key|token$|tokens?_file|secret|pass|cred|auth|header|cookie|user|bearer|signature|login/) return "secret"
      if (option == "m" || option ~ /(^|_)(model|models|name|host|port|backend|dtype|type|format|quantization|parser|device|devices|mode|level|policy|size|tokenizer|revision|module|algorithm|algo|scheduler|distributed|attention|template|role|method|strategy|standalone)($|_)/)
        return "words"
      return ""
    }
    {
      line = ""
      program = 1
      kind = ""
      for (i = 1; i <= NF; i++) {
        word = $i
        equals = index(word, "=")
        bare = word
        gsub(/^["\047]+|["\047]+$/, "", bare)
        if (word ~ /^([;|&{}()]+|&&|\|\||then|do|else|if|!)$/) { program = 1; kind = "" }
        else if (bare ~ /^-+[A-Za-z]/) {
          program = 0
          if (equals > 1) {
            name = substr(word, 1, equals - 1)
            kind = kind_of(name)
            word = name "=" shown(substr(word, equals + 1), kind)
          } else if (word ~ /^-[A-Za-z]*c$/ && length(word) <= 4) { program = 1; kind = "" }
          else if (bare ~ /^-[A-Za-z]/ && length(bare) > 4 && kind_of(bare) != "words") { word = substr(bare, 1, 2) "***"; kind = "" }
          else kind = kind_of(bare)
        } else if (bare ~ "^" ENVIRON["ALLOWED"] "=") kind = ""
        else if (bare ~ /^[A-Za-z_][A-Za-z0-9_]*=/) { word = substr(word, 1, equals) "***"; kind = "secret" }
        else if (program) {
          if (bare !~ /^[A-Za-z0-9_.\/+-]+;?$/) word = "***"
          program = bare ~ /^(.*\/)?(exec|sudo|env|nohup|nice|ionice|numactl|time|export|setsid)$/
          kind = ""
        } else if (kind != "secret" && bare ~ /^(serve|run|launch|start|server|worker|bench|-m)$/) kind = "words"
        else word = shown(word, kind)
        if ($i ~ /;$/) { program = 1; kind = "" }
        line = line (i > 1 ? " " : "") word
      }
      print line
    }' | redact
}
