# What the controller asks of a host about its runs, each a probe of its own (host_run.cpp). host_state.sh and
# kubernetes.sh stand in front, and in front of those the settings: state, by, run, stage.

# Ends the call; what else it would have done is left.
refuse() {
  printf 'refused %s\n' "$*"
  exit 0
}

# into FILE TEXT: appends to a file of the staged run.
into() {
  printf %s "$2" >>"$stage/$1" || {
    printf 'cannot write %s/%s\n' "$stage" "$1" >&2
    exit 1
  }
}

# open_stage NN...: a place where the run is written before it is one, with a directory for each step.
open_stage() {
  umask 077
  open_state make || refuse "$refused"
  mkdir "$stage" "$stage/step" "$stage/output" || exit 1
  for nn; do mkdir "$stage/step/$nn" || exit 1; done
  # Put by for the journal's last lines, should the disk be full then.
  head -c 65536 /dev/zero >"$stage/reserve" || exit 1
}

# may_begin PLAN: whether it is our turn. Asked after the host was looked at, so that a run that changes it meanwhile is told
# for what it is; standard input holds what was seen, and is not needed.
may_begin() {
  cat >/dev/null
  if ! open_state; then
    case $refused in no-state*) ;; *) refuse "$refused" ;; esac
  elif read_lock "$state/lock" && is_taken "$run"; then
    refuse "$refused"
  elif [ -e "$state/used/$1" ]; then
    read -r other <"$state/used/$1"
    refuse "used plan $1 was applied here before, as run $other"
  fi
  printf 'free\n'
}

# start_run PARTS [drained]: begins, once all parts of the stage were written, each of which says so on standard input.
start_run() {
  umask 077
  parts=0 refused=
  while read -r mark rest; do
    case $mark in
      '!end') parts=$((parts + 1)) ;;
      refused) refused=$rest ;;
    esac
  done
  [ "$parts" = "$1" ] || refused=${refused:-"disk-full cannot write $stage: $(df -Pk "$state" 2>/dev/null | tail -n 1)"}
  [ "$refused" ] || open_state
  [ "$refused" ] || [ "$2" ] || ! is_kubernetes_node ||
    refused="kubernetes it is a node of Kubernetes, and the inventory gives no before_host program that drains it"
  if [ "$refused" ]; then printf 'refused %s\n' "$refused"; else launch "$stage" apply; fi
  # A stage that became the run is no longer here; one whose executor gave no answer may still become it.
  [ "$unanswered" ] || rm -rf "$stage"
}

# continue_run WHAT: resume, undo.
continue_run() {
  umask 077
  open_state || refuse "$refused"
  [ -e "$state/runs/$run/executor" ] || refuse "no-run there is no run $run on this host"
  launch "$state/runs/$run" "$1"
}

# launch DIRECTORY WHAT: the executor, in a place where the end of this login does not reach it; prints its answer.
launch() {
  answer=$state/.answer.${stage##*.} unanswered=
  rm -f "$answer"
  if [ -d /run/systemd/system ] && command -v systemd-run >/dev/null 2>&1 &&
    systemd-run --quiet --collect --unit="trueup-$run" --property=KillMode=process --description="trueup $2 of run $run" \
      /bin/sh "$1/executor" "$state" "$run" "$2" "$answer" </dev/null >/dev/null; then
    :
  elif command -v setsid >/dev/null 2>&1; then
    (setsid env -i "PATH=$PATH" /bin/sh "$1/executor" "$state" "$run" "$2" "$answer" </dev/null >/dev/null 2>&1 &)
  else
    refuse "no-tool neither systemd-run nor setsid (util-linux) is here"
  fi
  rounds=0
  while [ ! -e "$answer" ]; do
    rounds=$((rounds + 1))
    [ "$rounds" -le 250 ] || {
      unanswered=1
      printf 'unanswered\n'
      return
    }
    sleep 0.1 2>/dev/null || sleep 1
  done
  cat "$answer"
  rm -f "$answer"
}

# follow_run LINES SECONDS: waits until the journal has more than LINES lines, or nothing works on the run, at most SECONDS;
# then prints whether something does, and those lines.
follow_run() {
  open_state || refuse "$refused"
  dir=$state/runs/$run
  [ -d "$dir" ] || refuse "no-run there is no run $run on this host"
  read -r now _ </proc/uptime
  end=$((${now%.*} + $2))
  while :; do
    lives=no
    run_lives "$run" && lives=yes
    there=$(($(cat "$dir/journal" 2>/dev/null | wc -l)))
    read -r now _ </proc/uptime
    [ "$lives" = yes ] && [ "$there" -le "$1" ] && [ "${now%.*}" -lt "$end" ] || break
    sleep 0.2 2>/dev/null || sleep 1
  done
  printf 'lives %s\n' "$lives"
  tail -n "+$(($1 + 1))" "$dir/journal" 2>/dev/null | sed 's/^/journal /'
}

# look_at_runs RUN...: all of them, where none is named.
look_at_runs() {
  open_state || refuse "$refused"
  if read_lock "$state/lock"; then
    lives=no
    lock_lives && lives=yes
    printf 'lock %s %s\n' "$lives" "$_line"
  fi
  if [ $# = 0 ]; then
    for dir in "$state"/runs/*/; do look_at_run "${dir%/}"; done
  else
    for id; do look_at_run "$state/runs/$id"; done
  fi
}

look_at_run() {
  [ -e "$1/about" ] || return 0
  lives=no
  run_lives "${1##*/}" && lives=yes
  printf 'run %s\nlives %s\n' "${1##*/}" "$lives"
  sed 's/^/about /' "$1/about"
  sed 's/^/step /' "$1/steps"
  sed 's/^/expects /' "$1/expects"
  [ ! -e "$1/journal" ] || sed 's/^/journal /' "$1/journal"
  # What the last step that went wrong printed.
  nn=$(sed -nE 's/^[0-9]+ (failed|stuck) ([0-9][0-9]).*/\2/p' "$1/journal" 2>/dev/null | tail -n 1)
  [ -z "$nn" ] || for out in "$1/output/$nn".*; do
    [ ! -s "$out" ] || tail -n 20 "$out" | redact | sed "s/^/output ${out##*/} /"
  done
}

# mark_verified: the controller's audit agreed with the plan.
mark_verified() {
  umask 077
  open_state || refuse "$refused"
  dir=$state/runs/$run
  [ -e "$dir/about" ] || refuse "no-run there is no run $run on this host"
  take_lock "$run" || refuse "$refused"
  replay "$dir"
  if [ "$ended" = applied ]; then
    printf '%s verified\n' "$(date +%s)" >>"$dir/journal" && printf 'verified\n'
    sync "$dir/journal" 2>/dev/null || sync
  else
    printf 'refused not-applied run %s is %s\n' "$run" "${ended:-interrupted}"
  fi
  release_lock
}

# prune_runs RUN...: what was kept to undo them is removed for good.
prune_runs() {
  umask 077
  open_state || refuse "$refused"
  for run; do
    dir=$state/runs/$run
    [ -e "$dir/about" ] || continue
    take_lock "$run" || {
      printf 'kept %s %s\n' "$run" "${refused#* }"
      continue
    }
    replay "$dir"
    if [ -z "$ended" ] || [ "$ended" = stuck ]; then
      printf 'kept %s it is %s\n' "$run" "${ended:-interrupted}"
    elif failed=$(prune_steps); then
      mv "$dir" "$state/runs/.gone.$run" && rm -rf "$state/runs/.gone.$run" && printf 'pruned %s\n' "$run"
    else
      printf 'kept %s %s\n' "$run" "$failed"
    fi
    release_lock
  done
  # What runs that never began left behind, a day ago or earlier.
  find "$state"/.[!.]* "$state"/runs/.[!.]* -prune -mtime +0 -exec rm -rf {} + 2>/dev/null || :
}

prune_steps() {
  for nn in $steps; do
    step=$dir/step/$nn
    [ -s "$step/prune" ] || continue
    read -r limit <"$step/prune.limit"
    said=$(timeout -k 10 "$limit" env -i "PATH=$PATH" LC_ALL=C "TRUEUP_RUN=$run" "TRUEUP_STEP=$step" \
      /bin/sh -c 'umask 077; cd "$TRUEUP_STEP" && . ../../lib && . ./prune' </dev/null 2>&1) || {
      printf 'step %s: %s\n' "$nn" "$(printf '%s\n' "$said" | redact | tail -n 1)"
      return 1
    }
  done
}
