#!/bin/bash
# Half precision with a dynamic loss scale over MPI: losses, scales, skipped steps and weights equal those of one
# process bit for bit. Also resumes while steps are being skipped.
# Arguments: compile_tiny weft-run
set -uo pipefail
compile=$1 run=$2
work=$TEST_TMPDIR
text=$work/text.txt

fail() { echo "FAILED: $*"; cat "$work"/*.err; exit 1; }
columns() { grep -o '^step .*  norm .*' "$1" | sed 's/  [0-9]* tokens\/s$//'; }

# PIPE 2, DATA 2, EXACT; the first steps overflow.
"$compile" "$work/plan.weft" "$text" 2 2 1f1b 1 8 0 0.5 "loss_scale { initial: 2097152 growth_interval: 2 }" \
  "fp16 grads" 2> "$work/compile.err" || fail "compile"
"$run" run "$work/plan.weft" --data "$text" --transport inproc --save-weights "$work/one.safetensors" \
  > "$work/one.out" 2> "$work/one.err" || fail "in one process"
[[ $(columns "$work/one.out" | wc -l) -eq 8 ]] || fail "eight steps"
grep -q '^step 0 .*  norm 0  scale 2.09715e+06  skipped: gradients overflowed' "$work/one.out" || fail "the first step"
tools/run_mpi.sh 4 "$run" run "$work/plan.weft" --data "$text" --transport mpi --save-weights "$work/four.safetensors" \
  > "$work/four.out" 2> "$work/four.err" || fail "over MPI"
diff <(columns "$work/one.out") <(columns "$work/four.out") || fail "losses and scales"
cmp "$work/one.safetensors" "$work/four.safetensors" || fail "weights"

tools/run_mpi.sh 4 "$run" run "$work/plan.weft" --data "$text" --transport mpi --steps 3 --checkpoint "$work/c" \
  > "$work/first.out" 2> "$work/first.err" || fail "the first three steps"
grep -q '^loss_scale {' "$work"/c/step-00000003/manifest.textproto || fail "the manifest has no scale"
"$run" run "$work/plan.weft" --data "$text" --transport inproc --checkpoint "$work/c" --resume \
  --save-weights "$work/resumed.safetensors" > "$work/second.out" 2> "$work/second.err" || fail "resume"
diff <(columns "$work/one.out") <(columns "$work/first.out"; columns "$work/second.out") || fail "losses after a resume"
cmp "$work/one.safetensors" "$work/resumed.safetensors" || fail "weights after a resume"

# A run that skips all of its steps reports that at the end; other runs do not.
"$run" run "$work/plan.weft" --data "$text" --transport inproc --steps 1 > "$work/skipped.out" 2> "$work/skipped.err" ||
  fail "a run of one skipped step"
tail -n 1 "$work/skipped.out" | grep >/dev/null '^1 of 1 step skipped because gradients overflowed' || fail "no word of skips"
grep -qE 'steps? skipped because' "$work/one.out" && fail "a word of skips in a run that has learned"
echo "one process, four and a resume agree"
