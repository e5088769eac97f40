# Runs the steps of a run on the host, detached from whoever started it: sh executor STATE RUN WHAT ANSWER
#   WHAT    apply (its own directory is still the staged one), resume, undo
#   ANSWER  a file that is made once it is settled whether it runs: `started`, `already STATE`, `refused CODE WORDS`
# What it leaves, and the journal: docs/host-state.md. An event is appended and synced before its work begins, so that whatever
# ends this process, the journal names every step that may have been touched. host_state.sh stands in front of it.

main() {
  state=$1 run=$2 what=$3 answer=$4
  exec </dev/null
  umask 077
  ulimit -c 0
  cd /
  PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C
  export PATH LC_ALL
  staged=${0%/*} dir=$state/runs/$run by='' refused=''
  while IFS='=' read -r name rest; do
    case $name in
      by) by=$rest ;;
      plan) plan=$rest ;;
    esac
  done <"$staged/about"
  take_lock "$run" || reply "refused $refused"
  "prepare_$what"
  replay "$dir"
  journal start "$what" || {
    # What never began needs no undoing, and its plan is not used.
    [ "$what" != apply ] || rm -rf "$dir" "$state/used/$plan"
    refuse "refused disk-full cannot write $dir/journal: $(df -Pk "$state" 2>/dev/null | tail -n 1)"
  }
  printf 'started\n' >"$answer.new" && mv "$answer.new" "$answer"
  # A run whose plan failed was on its way back, and stays so.
  if [ "$what" = undo ] || [ "$direction" = undo ]; then undo_all; else apply_all; fi
}

# reply WORDS: the answer, and the end; nothing was touched.
reply() {
  printf '%s\n' "$*" >"$answer.new" && mv "$answer.new" "$answer"
  exit 0
}

refuse() {
  release_lock
  reply "$*"
}

prepare_apply() {
  [ ! -e "$dir" ] || refuse "already $(replay "$dir"; printf %s "${ended:-interrupted}")"
  if [ -e "$state/used/$plan" ]; then
    read -r other <"$state/used/$plan"
    refuse "refused used plan $plan was applied here before, as run $other"
  fi
  timeout -k 5 5 true 2>/dev/null || refuse "refused no-tool timeout (coreutils, busybox) with -k is missing"
  printf '%s\n' "$run" >"$state/used/.$plan.new" && sync && mv "$state/used/.$plan.new" "$state/used/$plan" &&
    mv "$staged" "$dir" && sync || refuse "refused disk-full cannot write below $state"
}

prepare_resume() {
  replay "$dir"
  case $ended in applied | undone) refuse "already $ended" ;; esac
  refuse_later_runs
}

prepare_undo() {
  replay "$dir"
  [ "$ended" != undone ] || refuse "already undone"
  refuse_later_runs
}

# Later runs that changed the same things, and still stand: what this one would put there, they may need as it is.
refuse_later_runs() {
  { read -r began _ <"$dir/journal"; } 2>/dev/null || began=0
  for other in "$state"/runs/*/; do
    other=${other%/}
    [ "$other" != "$dir" ] && { read -r later _ <"$other/journal"; } 2>/dev/null || continue
    case $began$later in *[!0-9]*) continue ;; esac
    [ "$later" -gt "$began" ] || { [ "$later" = "$began" ] && [ "${other##*/}" \> "$run" ]; } || continue
    (replay "$other" && [ "$ended" != undone ]) || continue
    both=$({ sed 's/^[^ ]* //' "$dir/steps" | sort -u; sed 's/^[^ ]* //' "$other/steps" | sort -u; } | sort | uniq -d | head -n 1)
    [ -z "$both" ] || refuse "refused later-run run ${other##*/} changed the same later ($both): roll that back first"
  done
}

# journal EVENT [NN] [DETAIL...]: appended, synced. A disk that is full by now still has what was put by for this.
journal() {
  line="$(date +%s) $*"
  append || { rm -f "$dir/reserve" && sync && append; }
}

append() {
  cut=
  [ ! -s "$dir/journal" ] || [ "$(tail -c 1 "$dir/journal" | wc -l)" -eq 1 ] || cut='
'
  { printf '%s%s\n' "$cut" "$line" >>"$dir/journal"; } 2>/dev/null && [ "$(tail -n 1 "$dir/journal")" = "$line" ] || return 1
  sync "$dir/journal" 2>/dev/null || sync
}

# note EVENT...: into the journal, or nothing more is done: the lock stays, the run counts as interrupted.
note() { journal "$@" || exit 1; }

finish() {
  note end "$1"
  release_lock
  exit 0
}

apply_all() {
  for nn in $steps; do
    eval "was=\$S_$nn"
    case $was in
      done) continue ;;
      begun) resume_step || give_up ;;
      *) first_step || give_up ;;
    esac
    eval "S_$nn=done"
    note "done" "$nn"
  done
  finish applied
}

first_step() {
  see "$nn" || {
    note changed "$nn" "$why"
    return 1
  }
  note begin "$nn"
  eval "S_$nn=begun" resumed=
  { run_script "$nn" apply && run_script "$nn" verify; } || {
    note failed "$nn" "$why"
    return 1
  }
}

# It began once: done by now, or to be done again.
resume_step() {
  await_rest "$nn"
  resumed=1
  run_script "$nn" verify && return
  # It began, and nothing of it was done: still as at the beginning, or somebody else's by now.
  has_record "$nn" || see "$nn" || {
    eval "S_$nn="
    note changed "$nn" "$why"
    return 1
  }
  resumed=1
  note begin "$nn"
  { run_script "$nn" apply && run_script "$nn" verify; } || {
    note failed "$nn" "$why"
    return 1
  }
}

# has_record NN: whether it has put down what its undo needs, which each step does before its first change.
has_record() {
  for file in "$dir/step/$1"/*; do
    case ${file##*/} in
      inspect | apply | verify | undo | prune | expected | *.limit | *.new) ;;
      *) return 0 ;;
    esac
  done
  return 1
}

give_up() {
  if [ "$keep" ]; then
    note stuck "$nn" "kept as it is, as was asked for"
    finish stuck
  fi
  undo_all
}

# Backwards. One that cannot be undone ends it, for what came before may need it: a person is needed.
undo_all() {
  backwards=
  for nn in $steps; do backwards="$nn $backwards"; done
  for nn in $backwards; do
    eval "was=\$S_$nn"
    [ "$was" ] || continue
    await_rest "$nn"
    note undo "$nn"
    run_script "$nn" undo && see "$nn" || {
      note stuck "$nn" "$why"
      finish stuck
    }
    note undone "$nn"
  done
  finish undone
}

# see NN: whether inspect prints what it printed when the plan was made.
see() {
  resumed=
  run_script "$1" inspect || return
  seen=$dir/output/$1.inspect expected=$dir/step/$1/expected
  [ "$(cat "$seen")" != "$(cat "$expected")" ] || return 0
  why=$(
    exec 3<"$expected"
    found=1
    while IFS= read -r line || [ "$line" ]; do
      IFS= read -r wanted <&3 || [ "$wanted" ] || wanted='(nothing)'
      [ "$line" = "$wanted" ] || {
        found=
        break
      }
    done <"$seen"
    [ -z "$found" ] || {
      line='(nothing)'
      IFS= read -r wanted <&3
    }
    printf "expected '%s', found '%s'\n" "$wanted" "$line" | clean
  )
  return 1
}

# clean: one line for the journal.
clean() { tr '\000-\011\013-\037\177' ' ' | cut -c 1-300; }

# run_script NN WHICH: its exit status; `why`, where that is not 0. One that takes too long is ended with all that it started.
run_script() {
  out=$dir/output/$1.$2 step=$dir/step/$1 why=
  read -r limit <"$step/$2.limit"
  read -r before _ </proc/uptime
  # What inspect prints is compared; its errors stand apart.
  if [ "$2" = inspect ]; then
    errors=$out.errors
    step_script "$@" >"$out" 2>"$errors"
  else
    errors=$out
    step_script "$@" >"$out" 2>&1
  fi
  status=$?
  [ "$status" != 0 ] || {
    shrink "$out"
    return 0
  }
  read -r after _ </proc/uptime
  if [ $((${after%.*} - ${before%.*})) -ge "$limit" ]; then
    end_rest "$1"
    why="$2 took longer than $limit s"
  else
    why="$2 ended with status $status"
  fi
  [ "$status" != 222 ] || errors=$out  # lib.sh: unknown REASON
  said=$(tail -n 20 "$errors" 2>/dev/null | (. "$dir/lib" && redact) | grep -v '^[[:space:]]*$' | tail -n 1 | clean)
  # A full disk also swallows what the script says of it.
  [ "$said" ] || said=$(df -Pk "$dir" 2>/dev/null | awk 'NR == 2 && $4 < 64 { print "no space left on " $6 }')
  why=$why${said:+": $said"}
  shrink "$out"
  shrink "$errors"
  return "$status"
}

step_script() {
  timeout -k 10 "$limit" env -i "PATH=$PATH" LC_ALL=C "TRUEUP_RUN=$run" "TRUEUP_STEP=$step" ${resumed:+TRUEUP_RESUMED=1} \
    /bin/sh -c 'umask 077; cd "$TRUEUP_STEP" && . ../../lib && . "./$0"' "$2"
}

# Only the last of it is kept.
shrink() {
  [ "$(($(wc -c <"$1")))" -gt 65536 ] || return 0
  tail -c 65536 "$1" >"$1.new" && mv "$1.new" "$1"
}

# rest_of NN: processes that its scripts started and that are still there: they carry the step in their environment, or, where
# they changed user (lib.sh, as_uid), only the run. One in state D is not asked: that can hang.
rest_of() {
  asked=
  for file in /proc/[0-9]*; do
    { read -r line <"$file/stat"; } 2>/dev/null || continue
    case ${line##*) } in [DZX]*) continue ;; esac
    asked="$asked $file/environ"
  done
  for file in $(grep -l -a -F "TRUEUP_RUN=$run" $asked 2>/dev/null); do
    text=$(tr '\000' '\n' <"$file" 2>/dev/null)
    case "
$text
" in
      *"
TRUEUP_STEP=$dir/step/$1
"*) ;;
      *"
TRUEUP_STEP="*) continue ;;
      *"
TRUEUP_RUN=$run
"*) ;;
      *) continue ;;
    esac
    file=${file%/environ}
    printf '%s\n' "${file#/proc/}"
  done
}

# await_rest NN: an executor that was ended may have left the step's script at work; it gets the time it had.
await_rest() {
  patience=0
  for which in inspect apply verify undo; do
    read -r limit <"$dir/step/$1/$which.limit"
    [ "$limit" -le "$patience" ] || patience=$limit
  done
  while [ "$patience" -gt 0 ] && [ "$(rest_of "$1")" ]; do
    sleep 1
    patience=$((patience - 1))
  done
  end_rest "$1"
}

end_rest() {
  for signal in TERM KILL; do
    for round in 1 2 3 4 5; do
      left=$(rest_of "$1")
      [ "$left" ] || return 0
      kill "-$signal" $left 2>/dev/null
      sleep 1
    done
  done
}

main "$@"
exit
