#!/bin/bash
# weft-run on the command line: both transports, failures, signals, bad input.
# Arguments: compile_tiny weft-run
set -uo pipefail
compile=$1 run=$2
cd_dir=$TEST_TMPDIR
text=$cd_dir/text.txt

fail() { echo "FAILED: $*"; exit 1; }
# The reproducible columns of the steps.
losses() { grep -o '^step [0-9]*  loss [^ ]*  lr [^ ]*  norm [^ ]*' "$1"; }
# expect_error FILE PATTERN: the file has exactly one line of weft's own, and the line matches. When a launcher ends the
# other processes, they may print further lines.
expect_error() {
  local lines; lines=$(grep '^weft run: ' "$1" | grep -vc ': stopping after the step in progress')
  [[ $lines -eq 1 ]] || { cat "$1"; fail "$lines error lines, expected one"; }
  grep -q "^weft run: .*$2" "$1" || { cat "$1"; fail "no error like '$2'"; }
}

"$compile" "$cd_dir/p2.weft" "$text" 2 1 1f1b 0 6 || fail compile
"$compile" "$cd_dir/p2d2.weft" "$text" 2 2 gpipe 1 6 || fail compile
"$compile" "$cd_dir/p1.weft" "$text" 1 1 gpipe 1 6 || fail compile
"$compile" "$cd_dir/long.weft" "$text" 2 1 1f1b 0 100000 || fail compile

# ---- Both transports give one loss.
for name in p1 p2 p2d2; do
  "$run" run "$cd_dir/$name.weft" --data "$text" --save-weights "$cd_dir/$name.safetensors" \
    > "$cd_dir/$name.out" 2> "$cd_dir/$name.err" || { cat "$cd_dir/$name.err"; fail "inproc $name"; }
  [[ $(losses "$cd_dir/$name.out" | wc -l) -eq 6 ]] || { cat "$cd_dir/$name.out"; fail "steps of $name"; }
done
grep -q 'transport inproc (auto)' "$cd_dir/p2.out" || fail "the choice of transport is not shown"
for name in p2:2 p2d2:4; do
  ranks=${name#*:}; name=${name%:*}
  tools/run_mpi.sh "$ranks" "$run" run "$cd_dir/$name.weft" --data "$text" --threads 2 \
    --save-weights "$cd_dir/$name.mpi.safetensors" --trace "$cd_dir/$name.json" --report "$cd_dir/$name.report.json" \
    > "$cd_dir/$name.mpi.out" 2> "$cd_dir/$name.err" || { cat "$cd_dir/$name.err"; fail "mpi $name"; }
  grep -q 'transport mpi (auto)' "$cd_dir/$name.mpi.out" || fail "mpi was not chosen"
  diff <(losses "$cd_dir/$name.out") <(losses "$cd_dir/$name.mpi.out") || fail "losses of $name differ"
  cmp "$cd_dir/$name.safetensors" "$cd_dir/$name.mpi.safetensors" || fail "weights of $name differ"
  grep -q '"weft_trace":' "$cd_dir/$name.json" || fail "trace"
  grep -q '"transport": "mpi"' "$cd_dir/$name.report.json" || fail "report"
done
diff <(losses "$cd_dir/p1.out") <(losses "$cd_dir/p2d2.out") || fail "exact plans differ"
cmp "$cd_dir/p1.safetensors" "$cd_dir/p2d2.safetensors" || fail "exact plans give different weights"

# ---- A rank that fails ends the job, with one error that names the rank, and all ranks report their last actions.
start=$SECONDS
# reports NAME RANKS FIRST: there is one report for each of RANKS ranks, and one of them states that it failed first.
reports() {
  for rank in $(seq 0 $(($2 - 1))); do
    python3 - "$cd_dir/$1-$rank.json" "$rank" "$3" << 'PY' || fail "the report of rank $rank in $1"
import json, sys
report = json.load(open(sys.argv[1]))
assert report["rank"] == int(sys.argv[2]) and report["schema_version"] == 1, report["rank"]
assert report["first_to_fail"] == (sys.argv[2] == sys.argv[3]), report["first_to_fail"]
assert 0 < len(report["actions"]) <= 1000 and report["reason"], report
assert all(a["end_ns"] is None or a["end_ns"] >= a["begin_ns"] for a in report["actions"])
assert any(a["kind"] == "SEND" and a["peer"] is not None and a["communicator"] for a in report["actions"])
PY
  done
}
for wrong in 9223372036854775808:0:0 -1:0:0 0:-1:0 0:0 0:0:0:0:0; do
  "$run" run "$cd_dir/p2d2.weft" --data "$text" --inject-failure "$wrong" > /dev/null 2> "$cd_dir/err"
  [[ $? -eq 2 ]] || fail "exit status of what is no failure"
  expect_error "$cd_dir/err" "--inject-failure='$wrong': expected RANK:STEP:ACTION"
done
# An injected failure that cannot occur is an error, not a run that survives it.
while read -r wrong pattern; do
  "$run" run "$cd_dir/p2d2.weft" --data "$text" --inject-failure "$wrong" > /dev/null 2> "$cd_dir/err"
  [[ $? -eq 1 ]] || fail "exit status of a failure that cannot come about: $wrong"
  expect_error "$cd_dir/err" "--inject-failure: $pattern"
done << 'EOF'
4:0:0 rank 4: the last rank of this program is 3
1:7:0:flip flip needs --check-replicas N, because nothing else detects a flipped bit
3:2:99999 action 99999: rank 3 has no action of that number .*; nearest valid: [0-9]
3:6:4 step 6: this run has 6 steps, counted from 0; nearest valid: 5
1:3:0:flip flip needs --check-replicas N, because nothing else detects a flipped bit
EOF
"$run" run "$cd_dir/p2d2.weft" --data "$text" --inject-failure 3:2:4 --fault-report "$cd_dir/a.json" > /dev/null 2> "$cd_dir/err"
[[ $? -eq 5 ]] || fail "exit status after a failure (inproc)"
expect_error "$cd_dir/err" "rank 3, step 2, action 4 '.*': injected failure; the last actions .* are in .*/a-\*.json"
reports a 4 3
tools/run_mpi.sh 4 "$run" run "$cd_dir/p2d2.weft" --data "$text" --inject-failure 3:2:4 --fault-report "$cd_dir/b.json" > /dev/null 2> "$cd_dir/err"
[[ $? -eq 5 ]] || fail "exit status after a failure (mpi)"
expect_error "$cd_dir/err" "rank 3, step 2, action 4 '.*': injected failure"
reports b 4 3
tools/run_mpi.sh 4 "$run" run "$cd_dir/p2d2.weft" --data "$text" --inject-failure 2:3:5:kill --fault-report none > /dev/null 2> "$cd_dir/err"
[[ $? -ne 0 ]] || fail "exit status after a death (mpi)"
expect_error "$cd_dir/err" "rank 2 died .* in step 3, action 5 '"
# A rank that is stuck in a kernel is named, not the ranks that wait for it. Its process still ends.
for launcher in "" "tools/run_mpi.sh 4"; do
  before=$SECONDS
  $launcher "$run" run "$cd_dir/p2d2.weft" --data "$text" --inject-failure 1:2:4:stall --timeout 1.5 \
    --fault-report "$cd_dir/c.json" > /dev/null 2> "$cd_dir/err"
  [[ $? -eq 3 ]] || fail "exit status of a stalled run ($launcher)"
  (( SECONDS - before < 13 )) || fail "a stalled run took $((SECONDS - before)) s to end ($launcher)"
  expect_error "$cd_dir/err" "rank 1, step 2, action 4 '.*' has run for more than 1.5 s"
  for rank in 0 1 2 3; do [[ -s $cd_dir/c-$rank.json ]] || fail "no report of rank $rank ($launcher)"; done
  rm -f "$cd_dir"/c-*.json
done
(( SECONDS - start < 90 )) || fail "failures took $((SECONDS - start)) s"
# Deadlines follow predicted times, not measured ones.
"$run" run "$cd_dir/p2d2.weft" --data "$text" --cluster dgx-a100-80g > "$cd_dir/out" || fail "--cluster"
grep -q deadlines "$cd_dir/out" && fail "microseconds are longer than the timeout"
"$run" run "$cd_dir/p2d2.weft" --data "$text" --predicted "$cd_dir/p2d2.json" > /dev/null 2> "$cd_dir/err"
[[ $? -eq 1 ]] || fail "exit status of a measured trace as a prediction"
expect_error "$cd_dir/err" "--predicted=.*: the trace is measured; allowed: .* .weft simulate PROGRAM --trace=FILE."
# Replicas agree throughout, unless a bit of one flips.
"$run" run "$cd_dir/p2d2.weft" --data "$text" --check-replicas 2 > /dev/null || fail "replicas"
"$run" run "$cd_dir/p2d2.weft" --data "$text" --check-replicas 2 --inject-failure 1:3:0:flip --fault-report none \
  > "$cd_dir/out" 2> "$cd_dir/err"
[[ $? -eq 6 ]] || fail "exit status after a flipped bit"
expect_error "$cd_dir/err" "replicas differ after step 4: tensor '.*' (PARAM): .*rank 1 holds [0-9a-f]"
grep -q '^step 3 ' "$cd_dir/out" || fail "the flipped bit was found too early"

# ---- On a signal the run finishes the step, saves the state and exits with status 0; the run can be resumed.
wait_for_step() { for _ in $(seq 300); do grep -q "^step $2 " "$1" 2> /dev/null && return; sleep 0.1; done; fail "no step $2"; }
"$run" run "$cd_dir/long.weft" --data "$text" --checkpoint "$cd_dir/ckpt" > "$cd_dir/long.out" 2> "$cd_dir/err" &
pid=$!
wait_for_step "$cd_dir/long.out" 3
# No other run may save into the folder meanwhile.
"$run" run "$cd_dir/long.weft" --data "$text" --checkpoint "$cd_dir/ckpt" --resume > /dev/null 2> "$cd_dir/second.err" &&
  fail "two runs in one folder"
expect_error "$cd_dir/second.err" "ckpt: another run is still saving its checkpoints here"
kill -TERM $pid
wait $pid || { cat "$cd_dir/err"; fail "exit status after SIGTERM"; }
grep -q '^weft run: stopping after the step in progress' "$cd_dir/err" || fail "SIGTERM is not answered"
stopped=$(sed -n 's/^stopped by signal after step \([0-9]*\); saved in .*/\1/p' "$cd_dir/long.out")
[[ -n $stopped ]] || { tail -3 "$cd_dir/long.out"; fail "SIGTERM is not reported"; }
tools/run_mpi.sh 2 "$run" run "$cd_dir/long.weft" --data "$text" --checkpoint "$cd_dir/ckpt" --resume \
  --steps $((stopped + 4)) > "$cd_dir/resumed.out" 2> "$cd_dir/err" || { cat "$cd_dir/err"; fail "resume"; }
grep -q "^resuming after step $stopped from" "$cd_dir/resumed.out" || fail "the resume is not reported"
[[ $(losses "$cd_dir/resumed.out" | head -1) == "step $stopped "* ]] || fail "the first step after a resume"
[[ $(losses "$cd_dir/resumed.out" | wc -l) -eq 4 ]] || fail "steps after a resume"
"$run" run "$cd_dir/long.weft" --data "$text" --steps $((stopped + 4)) > "$cd_dir/whole.out" || fail "whole"
diff <(losses "$cd_dir/whole.out" | tail -4) <(losses "$cd_dir/resumed.out") || fail "a resumed run differs"

# If the reader of its output ends, a run saves and ends too.
"$run" run "$cd_dir/long.weft" --data "$text" --checkpoint "$cd_dir/unread" 2> "$cd_dir/err" | head -1 > /dev/null
[[ ${PIPESTATUS[0]} -eq 1 ]] || fail "exit status of a run that nobody reads"
expect_error "$cd_dir/err" "cannot write to standard output: Broken pipe"
[[ -s $cd_dir/unread/latest ]] || fail "a run that nobody reads has not saved"

# Over MPI, a rank that SIGSTOP stops is given up at its deadline. Ten seconds later all ranks have ended.
tools/run_mpi.sh 2 "$run" run "$cd_dir/long.weft" --data "$text" --timeout 2 --fault-report "$cd_dir/stopped.json" \
  > "$cd_dir/stop.out" 2> "$cd_dir/err" &
job=$!
wait_for_step "$cd_dir/stop.out" 3
victim=$(pgrep -f "$cd_dir/long.weft.*stopped.json" | while read -r pid; do
  tr '\0' '\n' < "/proc/$pid/environ" 2> /dev/null | grep >/dev/null '^OMPI_COMM_WORLD_RANK=1$' && echo "$pid"
done)
[[ $(wc -w <<< "$victim") -eq 1 ]] || fail "processes of rank 1: $victim"
kill -STOP "$victim"
start=$SECONDS
wait $job && fail "exit status after SIGSTOP (mpi)"
(( SECONDS - start < 13 )) || fail "SIGSTOP took $((SECONDS - start)) s (mpi)"
# The rank may be stopped in an action or between two steps.
where="\(, step [0-9]*, action [0-9]* '.*'\)\?"
expect_error "$cd_dir/err" "rank 0$where has waited for rank 1 \(on '.*'\|to end its step\) for more than 3 s"
[[ -s $cd_dir/stopped-0.json ]] || fail "no report after SIGSTOP (mpi)"
for _ in $(seq 50); do kill -0 "$victim" 2> /dev/null || break; sleep 0.1; done
kill -0 "$victim" 2> /dev/null && fail "the stopped rank has survived"

# SIGUSR1 has the same effect, for launchers that pass on only that.
"$run" run "$cd_dir/long.weft" --data "$text" > "$cd_dir/int.out" 2> "$cd_dir/err" &
pid=$!
wait_for_step "$cd_dir/int.out" 3
kill -USR1 $pid
wait $pid || fail "exit status after SIGUSR1"
grep -q '^stopped by signal after step' "$cd_dir/int.out" || fail "SIGUSR1 is not reported"
# /dev/full is full, and stays a device.
"$run" run "$cd_dir/p1.weft" --data "$text" --steps 1 --report /dev/full > /dev/null 2> "$cd_dir/err"
[[ $? -eq 1 && -c /dev/full ]] || { cat "$cd_dir/err"; fail "a report to a full device"; }
expect_error "$cd_dir/err" "/dev/full: cannot"

# ---- Bad input gives one clear line and status 1; wrong usage gives status 2.
refused() {
  local status=$1 pattern=$2; shift 2
  "$run" "$@" > "$cd_dir/out" 2> "$cd_dir/err"
  local got=$?
  [[ $got -eq $status ]] || { cat "$cd_dir/err"; fail "status $got, expected $status: $*"; }
  expect_error "$cd_dir/err" "$pattern"
}
: > "$cd_dir/empty"
head -c 1000 "$cd_dir/p2.weft" > "$cd_dir/cut.weft"
refused 2 '--data' run "$cd_dir/p2.weft"
refused 2 'eval-every' run "$cd_dir/p2.weft" --data "$text" --eval-data "$text"
refused 2 'checkpoint' run "$cd_dir/p2.weft" --data "$text" --resume
# A folder next to a new checkpoint folder may have any name.
mkdir -p "$cd_dir/others/latest"
"$run" run "$cd_dir/p2.weft" --data "$text" --checkpoint "$cd_dir/others/new" --steps 1 > /dev/null || fail "a folder beside"
[ -e "$cd_dir/others/new/latest" ] && [ "$(ls -A "$cd_dir/others" | tr '\n' ' ')" = "latest new " ] || fail "left beside"
refused 2 'threads' run "$cd_dir/p2.weft" --data "$text" --threads 0
refused 2 'transport' run "$cd_dir/p2.weft" --data "$text" --transport pigeons
refused 1 '--lib-path: .*/nodir: there is no such folder' run "$cd_dir/p2.weft" --data "$text" --lib-path "$cd_dir/nodir"
refused 1 '--checkpoint: /proc/x: cannot write in /proc: ' run "$cd_dir/p2.weft" --data "$text" --checkpoint /proc/x
grep -q latest "$cd_dir/err" && fail "a file that nobody named is blamed: $(cat "$cd_dir/err")"
refused 1 '--checkpoint: .*/others/latest: is a folder, but weft writes a file of this name to mark the newest' \
  run "$cd_dir/p2.weft" --data "$text" --checkpoint "$cd_dir/others"
refused 1 'missing.weft' run "$cd_dir/missing.weft" --data "$text"
refused 1 'cut.weft' run "$cd_dir/cut.weft" --data "$text"
refused 1 'empty' run "$cd_dir/empty" --data "$text"
refused 1 'empty' run "$cd_dir/p2.weft" --data "$cd_dir/empty"
refused 1 'missing.txt' run "$cd_dir/p2.weft" --data "$cd_dir/missing.txt"
refused 1 'missing.safetensors' run "$cd_dir/p2.weft" --data "$text" --weights "$cd_dir/missing.safetensors"
refused 1 'text.txt' run "$cd_dir/p2.weft" --data "$text" --weights "$text"
refused 2 'weights and --resume' run "$cd_dir/p2.weft" --data "$text" --checkpoint "$cd_dir/fresh" --resume \
  --weights "$cd_dir/any.safetensors"
refused 1 'add --resume' run "$cd_dir/long.weft" --data "$text" --checkpoint "$cd_dir/ckpt"
refused 1 'the models differ\|recipe\.' run "$cd_dir/p2.weft" --data "$text" --checkpoint "$cd_dir/ckpt" --resume

# If a checkpoint is damaged, the error names the newest undamaged one, and the flag that selects it.
"$run" run "$cd_dir/p2.weft" --data "$text" --checkpoint "$cd_dir/damaged" --checkpoint-every 2 --keep 3 > /dev/null || fail "save"
file=$cd_dir/damaged/step-00000006/rank-0001.safetensors
advice='; the newest undamaged checkpoint is .*step-00000004; --resume-step 4 continues from it'
printf 'x' | dd of="$file" bs=1 seek=$(($(stat -c %s "$file") - 9)) conv=notrunc 2> /dev/null
refused 1 "rank [01]: .*step-00000006/rank-0001.safetensors: CRC32C is .*$advice" \
  run "$cd_dir/p2.weft" --data "$text" --checkpoint "$cd_dir/damaged" --resume --steps 6
printf 'x' | dd of="$file" bs=1 seek=2000 conv=notrunc 2> /dev/null
refused 1 "rank [01]: .*step-00000006/rank-0001.safetensors: .*$advice" \
  run "$cd_dir/p2.weft" --data "$text" --checkpoint "$cd_dir/damaged" --resume --steps 6
[[ ! -e $cd_dir/damaged/weft-fault-0.json ]] || fail "a refused run leaves reports"
: > "$cd_dir/damaged/step-00000006/manifest.textproto"
refused 1 "manifest.textproto: .*; the newest undamaged checkpoint is .*step-00000004; --resume-step 4 continues from it" \
  run "$cd_dir/p2.weft" --data "$text" --checkpoint "$cd_dir/damaged" --resume --steps 6
refused 1 "has no checkpoint of step 5; steps with a checkpoint: 2, 4, 6; nearest valid: 6" \
  run "$cd_dir/p2.weft" --data "$text" --checkpoint "$cd_dir/damaged" --resume-step 5
"$run" run "$cd_dir/p2.weft" --data "$text" --checkpoint "$cd_dir/damaged" --resume-step 4 > "$cd_dir/out" || fail "--resume-step"
grep -q '^resuming after step 4 from .*step-00000004$' "$cd_dir/out" || fail "the step that is resumed from"
grep -q '^this run branches off an earlier run, whose later checkpoints (after 6 steps) move to .*/abandoned-1 when this run saves$' \
  "$cd_dir/out" || fail "the run that is left is not named"
[[ -s $cd_dir/damaged/step-00000006/manifest.textproto && -e $cd_dir/damaged/abandoned-1/step-00000006 ]] ||
  fail "the run that is left is mixed with this one"
diff <(losses "$cd_dir/p2.out" | tail -2) <(losses "$cd_dir/out") || fail "a run resumed from an older checkpoint differs"

# A resume that finds no checkpoint reports that in addition to the results.
"$run" run "$cd_dir/p2.weft" --data "$text" --steps 1 --checkpoint "$cd_dir/fresh" --resume > "$cd_dir/out" \
  2> "$cd_dir/err" || fail "a resume without a checkpoint"
grep -q "fresh has no checkpoint: starting at step 0$" "$cd_dir/err" || fail "a resume of nothing is not reported"

# A refused command leaves no folder behind, whatever is wrong.
for wrong in "--resume-step 5" "--weights $cd_dir/missing.safetensors" "--inject-failure 9:0:0"; do
  refused 1 "" run "$cd_dir/p2.weft" --data "$text" --checkpoint "$cd_dir/mistyped/deeper" $wrong
  [[ ! -e $cd_dir/mistyped ]] || fail "a folder is left behind by a run that is refused for $wrong"
done
# Errors in a weights file name the flag.
refused 1 "--weights: $cd_dir/missing.safetensors: " run "$cd_dir/p1.weft" --data "$text" \
  --weights "$cd_dir/missing.safetensors"
refused 1 "--weights: $text: " run "$cd_dir/p1.weft" --data "$text" --weights "$text"
# The flag accepts the word with which the first line names how the run was started, whatever a launcher has set.
"$run" run "$cd_dir/p1.weft" --data "$text" --steps 1 > "$cd_dir/out" || fail "one step"
bootstrap=$(sed -n '1s/.*bootstrap \([a-z]*\).*/\1/p' "$cd_dir/out")
RANK=0 WORLD_SIZE=7 "$run" run "$cd_dir/p1.weft" --data "$text" --steps 1 --bootstrap "$bootstrap" > "$cd_dir/out" \
  || fail "--bootstrap=$bootstrap"
grep -q 'bootstrap none,' "$cd_dir/out" || fail "--bootstrap=none is not what it is"

# An input file is never overwritten, two outputs need two files, and a refused command prints nothing on stdout.
cp "$cd_dir/p1.weft" "$cd_dir/mine.weft"
ln -sf "$cd_dir/mine.weft" "$cd_dir/also-mine"
for flag in --trace --report --save-weights; do
  refused 2 "$flag $cd_dir/also-mine would overwrite the program $cd_dir/mine.weft" \
    run "$cd_dir/mine.weft" --data "$text" $flag "$cd_dir/also-mine"
done
refused 2 "--report $cd_dir/x and --trace $cd_dir/x are the same file" \
  run "$cd_dir/mine.weft" --data "$text" --trace "$cd_dir/x" --report "$cd_dir/x"
refused 2 "would overwrite --data" run "$cd_dir/mine.weft" --data "$text" --trace "$text"
cmp "$cd_dir/p1.weft" "$cd_dir/mine.weft" || fail "the program was overwritten"
"$run" run "$cd_dir/p2.weft" --data "$text" --weights "$text" > "$cd_dir/out" 2> "$cd_dir/err" && fail "text as weights"
[[ ! -s $cd_dir/out ]] || { cat "$cd_dir/out"; fail "a run that is refused prints"; }

# With closed streams, sockets and files must not get the streams' numbers, or lines would be written into them.
"$run" run "$cd_dir/p2.weft" --data "$text" --steps 2 --bootstrap=local --checkpoint "$cd_dir/closed" >&- 2> "$cd_dir/err"
[[ $? -eq 1 ]] || { cat "$cd_dir/err"; fail "exit status with standard output closed"; }
expect_error "$cd_dir/err" "cannot write to standard output: Bad file descriptor"
[[ -s $cd_dir/closed/latest ]] || fail "nothing is saved where nobody reads"
"$run" run "$cd_dir/p2.weft" --data "$text" --steps 6 --save-weights "$cd_dir/closed.safetensors" --bootstrap=local \
  <&- 2>&- > "$cd_dir/out" || fail "a run without standard error"
cmp "$cd_dir/closed.safetensors" "$cd_dir/p2.safetensors" || fail "a run without standard error has written elsewhere"

# A full disk, here simulated by files that may not grow beyond 1 KiB: the partial checkpoint is removed, and errors use
# the user's file names. (The lines of the steps go through a pipe.)
small() { (trap '' XFSZ; ulimit -f 1; exec "$@") 2> >(cat > "$cd_dir/err") | cat > "$cd_dir/out"; }
small "$run" run "$cd_dir/p2.weft" --data "$text" --steps 1 --checkpoint "$cd_dir/full" --fault-report none
sleep 0.2
grep -q "full/.tmp-step-00000001/rank-000[01].safetensors: cannot write: File too large" "$cd_dir/err" || {
  cat "$cd_dir/err"; fail "a disk that is full"; }
[[ -z $(find "$cd_dir/full" -name '.tmp-*' 2> /dev/null) ]] || fail "what cannot be saved is left behind"
small "$run" run "$cd_dir/p2.weft" --data "$text" --steps 1 --save-weights "$cd_dir/full.safetensors"
sleep 0.2
grep -q "^weft run: $cd_dir/full.safetensors: cannot write: File too large$" "$cd_dir/err" || {
  cat "$cd_dir/err"; fail "weights on a disk that is full"; }
[[ -z $(ls "$cd_dir"/full.safetensors* 2> /dev/null) ]] || fail "weights that cannot be written are left behind"

# An output that could not be written at the end is refused at the start.
for flag in --trace --save-weights --report; do
  refused 1 "$flag: /nonexistent/x.json: " run "$cd_dir/p1.weft" --data "$text" $flag /nonexistent/x.json
  [[ ! -s $cd_dir/out ]] || { cat "$cd_dir/out"; fail "$flag is looked at after the training"; }
done
for flag in --trace --report; do
  refused 1 "$flag: /dev/full: cannot write: No space left" run "$cd_dir/p1.weft" --data "$text" $flag /dev/full
  [[ ! -s $cd_dir/out ]] || { cat "$cd_dir/out"; fail "$flag=/dev/full is looked at after the training"; }
done
# A note about the steps is printed only if the run starts.
refused 1 'text.txt' run "$cd_dir/p1.weft" --data "$text" --weights "$text" --steps 100
refused 1 "--checkpoint: $text: " run "$cd_dir/p1.weft" --data "$text" --checkpoint "$text"
refused 1 '--trace-steps: .*nearest valid: [1-9]' \
  run "$cd_dir/long.weft" --data "$text" --trace "$cd_dir/t.json" --trace-steps 1000000
[[ ! -e $cd_dir/t.json ]] || fail "a trial leaves a file behind"
refused 1 '--save-weights: /dev/full: is not a regular file' run "$cd_dir/p1.weft" --data "$text" \
  --save-weights /dev/full
[[ ! -s $cd_dir/out ]] || { cat "$cd_dir/out"; fail "a device for weights is refused after the training"; }
# If one output fails at the end anyway, the others are still written.
rm -f "$cd_dir/trace" "$cd_dir/report"
(
  # No file may become larger than this; the weights alone would.
  trap '' XFSZ
  ulimit -f $(($(stat -c %s "$cd_dir/p2d2.safetensors") / 1024 - 1))
  refused 1 'too large' run "$cd_dir/p2d2.weft" --data "$text" --steps 2 --trace-steps 1 \
    --save-weights "$cd_dir/large.safetensors" --trace "$cd_dir/trace" --report "$cd_dir/report"
) || exit 1
[[ -s $cd_dir/trace && -s $cd_dir/report ]] || fail "trace and report are lost with the weights"
trace_bytes=$(stat -c %s "$cd_dir/trace")
rm -f "$cd_dir/trace" "$cd_dir/report"
(
  trap '' XFSZ
  ulimit -f $((trace_bytes / 2048))
  refused 1 'trace: .*too large' run "$cd_dir/p2d2.weft" --data "$text" --steps 2 --trace-steps 1 \
    --trace "$cd_dir/trace" --report "$cd_dir/report"
) || exit 1
[[ -s $cd_dir/report && ! -e $cd_dir/trace ]] || fail "the report is lost with the trace"

# Pipes are refused as data and as weights, without waiting for a writer.
mkfifo "$cd_dir/pipe"
refused 1 'pipe: is not a regular file' run "$cd_dir/p1.weft" --data "$cd_dir/pipe"
refused 1 'pipe: is not a regular file' run "$cd_dir/p1.weft" --data "$text" --weights "$cd_dir/pipe"
for read in --predicted --cluster; do
  refused 1 "$read: .*pipe: is not a regular file" run "$cd_dir/p1.weft" --data "$text" "$read" "$cd_dir/pipe"
done
refused 1 'the program: .*pipe: is not a regular file' run "$cd_dir/pipe" --data "$text"
for written in --trace --report; do
  refused 1 "$written: .*pipe: is a named pipe" run "$cd_dir/p1.weft" --data "$text" "$written" "$cd_dir/pipe"
done
# A pipe without a name is already open.
"$run" run "$cd_dir/p1.weft" --data "$text" --steps 2 --report /dev/stdout 2> "$cd_dir/err" |
  grep '"transport": "inproc"' > /dev/null ||
  { cat "$cd_dir/err"; fail "a report to a pipe"; }

# A run that ends immediately leaves no empty checkpoint folder.
"$run" run "$cd_dir/long.weft" --data "$text" --checkpoint "$cd_dir/at/once" --inject-failure 0:3:4:stall \
  > "$cd_dir/once.out" 2> "$cd_dir/err" &
pid=$!
wait_for_step "$cd_dir/once.out" 2
[[ -d $cd_dir/at/once ]] || fail "a run has no folder for its checkpoints"
kill -INT $pid
for _ in $(seq 100); do grep -q 'stopping after the step' "$cd_dir/err" && break; sleep 0.1; done
kill -INT $pid
wait $pid
[[ $? -eq 130 ]] || fail "exit status after the second signal"
[[ ! -e $cd_dir/at ]] || fail "an empty folder is left"
echo "all as expected"
