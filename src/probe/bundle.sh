# The bundle: runs the probes side by side, each in a session of its own with its own limit, and frames what they print.
# Sent on the standard input of /bin/sh (dash, bash, busybox ash); everything here is a function, run by the last line, so
# that a script cut on its way runs nothing. Set in front of it: N nonce, tag, W workers, host_limit, count, lifeline (empty:
# the end of standard input means nothing), lib (text of lib.sh), and for each probe I its text P$I, its limit L$I in seconds,
# its greatest output M$I, the programs it needs D$I, the earlier probes that it reads U$I, and where others read it its name F$I.
# N is no exported variable: only this text and the memory of our shells hold it.
#
# Processes: scheduler -> job (one a probe) -> { runner -> probe's session } | cat | framer, with the errors beside it.
# Descriptors: 3 events (a pipe, read and written), 4 what was standard input (its end is the connection's), 5 frames.
# Frames, one write of at most 512 bytes each, so that they do not mix; only the scheduler writes b and x:
#   NONCE I b UPTIME               probe I begins
#   NONCE I o BASE64 | h HEX       standard output
#   NONCE I e TEXT                 standard error, lines cut at 300 bytes
#   NONCE I x STATUS UPTIME WORDS  it ended: exit status; `missing` and the program; `timeout` and what was left behind;
#                                  `stopped`, for the limit of the whole bundle passed
#   NONCE end
# Packed (PackedBundle), what starts this may say `NONCE plain` before: there is no gzip, the plain text is to be sent.

say() { put "$N $*" >&5; }
event() { put "$*" >&3; }
# One line. The end of a child interrupts busybox's printf while the pipe is full, and it writes nothing: again, then. Not for
# ever, for the other end may be gone.
put() {
  tries=0
  until printf '%s\n' "$1" || [ $((tries += 1)) -ge 100 ]; do :; done
}
# This very process, also in a subshell, where $$ is the main shell's.
whoami_pid() { read -r pid rest </proc/self/stat; }
# Uptime as the kernel writes it, and in hundredths of a second.
look_at_clock() {
  read -r now rest </proc/uptime
  clock=$((${now%.*} * 100 + 1${now#*.} - 100))
}

main() {
  exec 4<&0 5>&1 </dev/null
  trap : HUP INT TERM
  umask 077
  ulimit -c 0
  cd /
  # What changes what shells and utilities do or print, though it came from a login's environment or through sudo.
  unset ENV BASH_ENV CDPATH TERM root_owned TIME_STYLE QUOTING_STYLE POSIXLY_CORRECT BLOCK_SIZE LS_BLOCK_SIZE DF_BLOCK_SIZE \
    BLOCKSIZE LS_COLORS GREP_OPTIONS GREP_COLOR GREP_COLORS COLUMNS
  TRUEUP_RUN=$tag TRUEUP_LOGIN_PATH=$PATH
  while read -r what _ uid rest; do [ "$what" != Uid: ] || break; done </proc/self/status
  if [ "$uid" = 0 ]; then PATH=/usr/sbin:/usr/bin:/sbin:/bin; else PATH=${PATH:-/usr/bin:/bin}:/usr/local/sbin:/usr/sbin:/sbin; fi
  LC_ALL=C TZ=UTC PAGER=cat SYSTEMD_PAGER='' SYSTEMD_COLORS=0 NO_COLOR=1 PYTHONDONTWRITEBYTECODE=1
  export TRUEUP_RUN TRUEUP_LOGIN_PATH PATH LC_ALL TZ PAGER SYSTEMD_PAGER SYSTEMD_COLORS NO_COLOR PYTHONDONTWRITEBYTECODE
  command -v renice >/dev/null 2>&1 && renice -n 19 -p $$ >/dev/null 2>&1
  command -v ionice >/dev/null 2>&1 && ionice -c 3 -p $$ >/dev/null 2>&1
  since_when
  : | scheduler || sweep KILL 2>/dev/null
  exit
}

# Our own start, in ticks since boot (proc(5), stat, field 22): nothing of ours is older.
since_when() {
  whoami_pid
  self=$pid
  set -- ${rest##*) }
  since=${20}
}

scheduler() {
  exec 3<>/proc/self/fd/0 </dev/null >/dev/null 2>&1
  trap 'event q' HUP INT TERM
  trap : PIPE
  since_when
  [ -z "$lifeline" ] || { while read -r _; do :; done; event q; } <&4 5>&- &
  while sleep 1; do event t; done 4<&- 5>&- &
  look_at_clock
  end=$((clock + host_limit * 100)) patience=$((clock + 300))
  next=0 busy=0 running='' settled='' newline='
'
  # Not by ourselves: a directory of PATH may lie on a server that is gone.
  if [ "$uid" = 0 ]; then
    (
      eval "$lib"
      event k "$(list_root_owned)"
      event w "$(trusted_path "${TRUEUP_LOGIN_PATH:-/usr/bin:/bin}")"
    ) 4<&- 5>&- &
  else
    settle "$PATH"
  fi
  start_more
  while [ -z "$settled" ] || [ "$running" ]; do
    read -r what i rest <&3 || continue
    case $what in
      w) settle "$i${rest:+ $rest}" ;;
      k) root_owned="$i $rest" ;;
      p) eval "C$i=${rest%% *} K$i=${rest#* }" ;;
      r) eval "R$i=\"\$R$i $rest\"" ;;
      c) eval "F$i=" ;;
      o) eval "O$i=\$O$i\$rest\$newline" ;;
      s) eval "S$i=$rest K$i=" ;;
      m) ended "$i" missing "$rest" ;;
      l) eval "B$i=\$rest" ;;
      d) finish "$i" ;;
      t) tick ;;
      q) quit ;;
    esac
    start_more
  done
  sweep KILL
  say end
}

# settle PATH: with it, and with the tools that it leads to, the probes begin. Only once.
settle() {
  [ -z "$settled" ] || return
  settled=1 PATH=$1
  setsid=
  command -v setsid >/dev/null 2>&1 && setsid=setsid
  kind=o
  if [ "$(printf a | base64 -w 384 2>/dev/null)" = YQ== ]; then
    encode() { base64 -w 384; }
  elif [ "$(printf a | base64 2>/dev/null)" = YQ== ]; then
    encode() { base64; }
  else
    kind=h
    encode() { od -An -v -tx1 | tr -d ' \n' | fold -w 384; }
  fi
}

start_more() {
  while [ "$settled" ] && [ "$next" -lt "$count" ] && [ "$busy" -lt "$W" ]; do
    eval "reads=\$U$next"
    for i in $reads; do
      eval "[ \"\$E$i\" ]" || return
    done
    start "$next"
    next=$((next + 1))
  done
}

start() {
  look_at_clock
  say "$1 b $now"
  eval "limit=\$L$1"
  eval "T$1=$((clock + limit * 100)) A$1=$((clock + 200)) C$1= K$1= R$1= S$1= B$1= X$1="
  busy=$((busy + 1)) running="$running $1"
  job "$1" &
}

# Once a second: what takes long makes room for others; what is over its limit is ended, and given up where that fails.
tick() {
  look_at_clock
  [ "$clock" -lt "$end" ] || quit
  [ "$clock" -lt "$patience" ] || settle "$PATH"
  for i in $running; do
    eval "deadline=\$T$i slow=\$A$i expired=\$X$i"
    if [ "$slow" ] && [ "$clock" -ge "$slow" ]; then
      eval "A$i="
      busy=$((busy - 1))
    fi
    if [ -z "$expired" ] && [ "$clock" -ge "$deadline" ]; then
      eval "X$i=x\$S$i; reap $i \"\$C$i\" \"\$K$i\" \"\$R$i\" &"
    elif [ "$expired" ] && [ "$clock" -ge $((deadline + 600)) ]; then
      finish "$i"
    fi
  done
}

finish() {
  eval "status=\$S$1 left=\$B$1 expired=\$X$1"
  if [ "$expired" ]; then
    status=${expired#x}
    [ "$status" ] && left="ended with status $status, but its output was kept open${left:+; $left}"
    ended "$1" timeout "$left"
  else
    ended "$1" "${status:-255}"
  fi
}

# ended I STATUS WORDS: only once for each.
ended() {
  case " $running " in *" $1 "*) ;; *) return ;; esac
  look_at_clock
  say "$1 x $2 $now $3"
  eval "E$1=\$2"
  eval "slow=\$A$1"
  [ -z "$slow" ] || busy=$((busy - 1))
  rest=
  for other in $running; do [ "$other" = "$1" ] || rest="$rest $other"; done
  running=$rest
}

# The connection is gone, or the time is up.
quit() {
  sweep TERM
  sleep 1
  sweep KILL
  look_at_clock
  for i in $running; do say "$i x stopped $now"; done
  say end
  exit 0
}

job() {
  exec 4<&-
  trap - HUP INT TERM
  eval "text=\$P$1 max=\$M$1 needs=\$D$1"
  for program in $needs; do
    command -v "$program" >/dev/null 2>&1 && continue
    event m "$1" "$program"
    exit
  done
  {
    run "$1" 2>&7 7>&- | reader "$1" cat 7>&- | frame "$1" 7>&-
  } 7>&1 | frame_errors "$1"
  event d "$1"
}

# reader I COMMAND: a process that waits for the end of a pipe, and is ended where that does not come. `cat` holds nothing
# back, as `head` does.
reader() {
  whoami_pid
  event r "$1" "$pid"
  shift
  exec "$@" 3>&- 5>&- 2>/dev/null
}

# The text goes by the environment: arguments are for everyone to read.
run() {
  eval "reads=\$U$1"
  head="root_owned='$root_owned'$newline"
  if [ "$reads" ]; then
    hand_on 2>/dev/null 3>&- 5>&- |
      TRUEUP_RUN=$tag.$1 TRUEUP_PROBE="$head$lib$text" $setsid /bin/sh -c 'eval "unset TRUEUP_PROBE;$TRUEUP_PROBE"' 3>&- 5>&- &
  else
    TRUEUP_RUN=$tag.$1 TRUEUP_PROBE="$head$lib$text" $setsid /bin/sh -c 'eval "unset TRUEUP_PROBE;$TRUEUP_PROBE"' </dev/null 3>&- 5>&- &
  fi
  whoami_pid
  event p "$1" $! "$pid"
  exec >/dev/null 2>&1 5>&-
  wait $!
  event s "$1" $?
}

# What the probes that this one reads printed, each with a mark where it came whole.
hand_on() {
  for i in $reads; do
    eval "text=\$O$i status=\$E$i name=\$F$i"
    printf '%s' "$text"
    case $status in 0 | 221 | 222 | missing) [ -z "$name" ] || printf '!end %s\n' "$name" ;; esac
  done
}

frame() {
  eval "name=\$F$1"
  if [ -z "$name" ]; then
    head -c "$max" 3>&- 5>&- | frame_output "$1"
    return
  fi
  text=$(head -c "$max" 3>&- 5>&-; echo .)
  printf '%s' "${text%.}" | frame_output "$1"
  [ ${#text} -le "$max" ] || event c "$1"
  printf '%s' "${text%.}" | while IFS= read -r line || [ "$line" ]; do
    # One write each, as long as a pipe keeps whole.
    if [ ${#line} -le 4000 ]; then event o "$1" "$line"; else event c "$1"; fi
  done
}

frame_output() {
  for line in $(encode 3>&- 5>&-); do printf '%s %s %s %s\n' "$N" "$1" "$kind" "$line"; done >&5
}

frame_errors() {
  text=$(reader "$1" head -c 2048)
  [ ${#text} -lt 2000 ] || (reader "$1" cat >/dev/null)
  set -f
  IFS='
'
  for line in $text; do printf '%s %s e %.300s\n' "$N" "$1" "$line"; done >&5
}

# reap I SESSION RUNNER READER: ends what is left of probe I. What cannot be ended (state D) stays behind and is named; its
# runner and the reader of its output go, so that what it printed arrives.
reap() {
  trap - HUP INT TERM
  exec 4<&- 5>&-
  kill -TERM $(ours "$tag.$1" "$3" "$2")
  sleep 1
  kill -KILL $(ours "$tag.$1" "$3" "$2")
  sleep 1
  left=
  for pid in $(ours "$tag.$1" "$3" "$2"); do
    read -r line <"/proc/$pid/stat" || continue
    name=${line#*(}
    state=${line##*) }
    left="$left $pid (${name%)*}) in state ${state%% *}"
  done
  [ -z "$left" ] || event l "$1" "left behind: process$left"
  kill -KILL $3 $4
}

# sweep SIGNAL: everything that we or our probes started, and that is still there; again, for it may have had children
# meanwhile.
sweep() {
  sessions='' n=0
  while [ "$n" -lt "$count" ]; do
    eval "sessions=\"\$sessions \$C$n\""
    n=$((n + 1))
  done
  for round in 1 2 3 4 5; do
    pids=$(ours "$tag" "$self" "$sessions")
    [ "$pids" ] || return
    kill "-$1" $pids
    [ "$1" = KILL ] || return
  done
}

# ours COOKIE ANCESTOR SESSIONS: processes started since we were that descend from ANCESTOR, belong to one of SESSIONS, or
# carry TRUEUP_RUN=COOKIE (or COOKIE.anything); not we ourselves. A process in state D is not asked for its environment:
# reading that can hang as well.
ours() {
  whoami_pid
  skip=" $pid $self $$ " asker=$pid ancestor=" $2 " found=" $2 " all=
  for file in /proc/[0-9]*/stat; do
    read -r line <"$file" || continue
    pid=${file#/proc/} pid=${pid%/stat}
    set -- "$1" "$2" "$3" ${line##*) }
    [ "${23}" -ge "$since" ] || continue
    case $skip in *" $pid "*) continue ;; esac
    [ "$4" = Z ] || [ "$5" = "$asker" ] || all="$all $pid:$5:$7:$4"
  done
  for process in $all; do
    pid=${process%%:*} process=${process#*:} process=${process#*:}
    mine=
    case " $3 " in *" ${process%:*} "*) mine=1 ;; esac
    if [ -z "$mine" ] && [ "${process#*:}" != D ]; then
      case "
$(tr '\0' '\n' <"/proc/$pid/environ")
" in
        *"
TRUEUP_RUN=$1
"* | *"
TRUEUP_RUN=$1."*) mine=1 ;;
      esac
    fi
    [ -z "$mine" ] || found="$found$pid "
  done
  grown=1
  while [ "$grown" ]; do
    grown=
    for process in $all; do
      pid=${process%%:*} process=${process#*:}
      case $found in *" $pid "*) continue ;; esac
      case $found in *" ${process%%:*} "*) found="$found$pid " grown=1 ;; esac
    done
  done
  for pid in $found; do
    case $skip$ancestor in *" $pid "*) ;; *) printf '%s\n' "$pid" ;; esac
  done
}
