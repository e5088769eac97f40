# What the scripts share that work on the host's state (docs/host-state.md). Set in front: `state`, its directory, and `by`, who
# asks (user@controller).

# Refuses a directory in which anybody but us decides. `make`: it is made where it is missing. `refused` says why not.
open_state() {
  if [ "$1" = make ] && [ ! -e "$state" ] && [ ! -L "$state" ]; then
    mkdir -m 700 "$state" 2>/dev/null || [ -d "$state" ] || {
      refused="state-unsafe cannot make $state: $(mkdir -m 700 "$state" 2>&1)"
      return 1
    }
  fi
  [ -e "$state" ] || [ -L "$state" ] || {
    refused="no-state there is no $state: nothing was ever applied here"
    return 1
  }
  _line=$(ls -ldn -- "$state")
  case $_line in
    drwx------[!+]*) ;;
    *)
      refused="state-unsafe expected $state to be a directory with mode 0700, found: $_line"
      return 1
      ;;
  esac
  if [ "$(owner_uid "$state/lock")" != "$self_uid" ] || [ "$(ls -ldn -- "$state" | awk '{print $3}')" != "$self_uid" ]; then
    refused="state-unsafe expected $state and all above it to be ours alone, found: $_line"
    return 1
  fi
  [ "$1" != make ] || for _part in used runs; do
    mkdir -m 700 "$state/$_part" 2>/dev/null || [ -d "$state/$_part" ] || {
      refused="state-unsafe cannot make $state/$_part: $(mkdir -m 700 "$state/$_part" 2>&1)"
      return 1
    }
  done
}

# look_at_process PID: `ticks`, when it started (proc(5), stat, field 22). Fails where there is none, or only its remains.
look_at_process() {
  case $1 in '' | *[!0-9]*) return 1 ;; esac
  { read -r _line <"/proc/$1/stat"; } 2>/dev/null || return 1
  set -f
  set -- ${_line##*) }
  set +f
  [ "$1" != Z ] && [ "$1" != X ] || return 1
  ticks=${20}
}

# read_lock FILE: lock_run, lock_boot, lock_pid, lock_start, lock_by, lock_since.
read_lock() {
  lock_run='' lock_boot='' lock_pid='' lock_start='' lock_by='' lock_since=''
  { read -r _line <"$1"; } 2>/dev/null || return 1
  for _word in $_line; do
    case $_word in
      run=*) lock_run=${_word#*=} ;;
      boot=*) lock_boot=${_word#*=} ;;
      pid=*) lock_pid=${_word#*=} ;;
      start=*) lock_start=${_word#*=} ;;
      by=*) lock_by=${_word#*=} ;;
      since=*) lock_since=${_word#*=} ;;
    esac
  done
}

# Whether the process that the lock read last names still is that process.
lock_lives() {
  read -r _boot </proc/sys/kernel/random/boot_id
  [ "$lock_boot" = "$_boot" ] && look_at_process "$lock_pid" && [ "$ticks" = "$lock_start" ]
}

# run_lives RUN: whether an executor works on it.
run_lives() { read_lock "$state/lock" && [ "$lock_run" = "$1" ] && lock_lives; }

# take_lock RUN: the lock is ours when it succeeds; else `refused` says who has it. link(2) makes it, so there is never half
# of one. One that was left behind is taken over by RUN itself, or by anybody once its run has ended. Who takes over the lock
# of process X first makes .after.X, which only one can, and then still finds X's lock there, or gives up: whoever had that
# claim before replaced the lock before giving the claim away.
take_lock() {
  read -r _boot </proc/sys/kernel/random/boot_id
  look_at_process $$
  my_id=$_boot.$$.$ticks
  _mine=$state/.lock.$$.$ticks
  printf 'run=%s boot=%s pid=%s start=%s by=%s since=%s\n' "$1" "$_boot" $$ "$ticks" "$by" "$(date +%s)" 2>/dev/null >"$_mine" || {
    rm -f "$_mine"
    refused="disk-full cannot write $_mine: $(df -Pk "$state" 2>/dev/null | tail -n 1)"
    return 1
  }
  sync "$_mine" 2>/dev/null || sync
  for _try in 1 2 3 4 5; do
    if ln "$_mine" "$state/lock" 2>/dev/null; then
      rm -f "$_mine"
      return 0
    fi
    try_to_take_over "$1" && return 0
    [ -z "$refused" ] || break
  done
  rm -f "$_mine"
  refused=${refused:-"lock-held the lock $state/lock changes hands; try again"}
  return 1
}

# is_taken RUN: whether the lock that was read last keeps RUN out; `refused` says whose it is.
is_taken() {
  _words="run $lock_run of $lock_by, since $(date -u -d "@$lock_since" +%Y-%m-%dT%H:%M:%SZ 2>/dev/null || printf %s "$lock_since")"
  if lock_lives; then
    refused="lock-held $_words, works here (process $lock_pid)"
    return 0
  fi
  [ "$lock_run" != "$1" ] && [ -d "$state/runs/$lock_run" ] || return 1
  replay "$state/runs/$lock_run"
  [ -z "$ended" ] || return 1
  refused="left-behind $_words, was interrupted here: resume or roll back that run first"
}

try_to_take_over() {
  refused='' _claims=''
  read_lock "$state/lock" || return 1
  _first=$lock_boot.$lock_pid.$lock_start
  ! is_taken "$1" || return 1
  while :; do
    if lock_lives; then
      refused="lock-held $_words, works here (process $lock_pid)"
      return 1
    fi
    _claim=$state/.after.$lock_boot.$lock_pid.$lock_start
    _claims="$_claims $_claim"
    if ln "$_mine" "$_claim" 2>/dev/null; then
      read_lock "$state/lock" && [ "$lock_boot.$lock_pid.$lock_start" = "$_first" ] && mv -f "$_mine" "$state/lock" || {
        rm -f "$_claim"
        return 1
      }
      rm -f $_claims
      return 0
    fi
    read_lock "$_claim" || return 1
  done
}

release_lock() {
  read_lock "$state/lock" && [ "$lock_boot.$lock_pid.$lock_start" = "$my_id" ] && rm -f "$state/lock"
}

# replay RUN-DIRECTORY: what its journal says (the grammar: docs/host-state.md). S_NN of each step: `begun` (perhaps half
# done), `done`, or empty (untouched or put back); `direction`: apply or undo; `ended`: applied, undone, stuck, or empty;
# `steps`: all numbers in order.
replay() {
  steps='' direction=apply ended='' keep=''
  while read -r _nn _rest; do
    case $_nn in [0-9][0-9]) steps="$steps $_nn" && eval "S_$_nn=" ;; esac
  done <"$1/steps"
  while IFS='=' read -r _name _rest; do
    case $_name in
      keep) [ "$_rest" != 1 ] || keep=1 ;;
    esac
  done <"$1/about"
  [ -e "$1/journal" ] || return 0
  while IFS= read -r _line; do
    case ${_line%% *} in '' | *[!0-9]* | ???????????????????*) continue ;; esac
    _line=${_line#* }
    case $_line in
      'start apply' | 'start resume') ended='' ;;
      'start undo') ended='' direction=undo ;;
      'end applied' | 'end undone' | 'end stuck') ended=${_line#end } ;;
    esac
    _nn=${_line#* }
    _nn=${_nn%% *}
    case $_nn in [1-9][0-9] | 0[1-9]) ;; *) continue ;; esac
    case ${_line%% *} in
      begin) eval "S_$_nn=begun" ;;
      done) eval "S_$_nn=done" ;;
      undone) eval "S_$_nn=" && direction=undo ;;
      undo) eval "S_$_nn=begun" && direction=undo ;;
      failed) eval "S_$_nn=begun" && [ "$keep" ] || direction=undo ;;
      changed) eval "S_$_nn=" && [ "$keep" ] || direction=undo ;;
    esac
  done <"$1/journal"
}
