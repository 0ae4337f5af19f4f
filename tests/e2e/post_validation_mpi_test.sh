#!/bin/bash
# Post-validation over MPI: whether every optimizer step is undone, none or some, losses, norms and weights equal bit
# for bit those of the plan that waits for its norms, in one process.
# Arguments: compile_tiny weft-run
set -uo pipefail
compile=$1 run=$2
work=$TEST_TMPDIR
text=$work/text.txt

fail() { echo "FAILED: $*"; exit 1; }
columns() { grep -o '^step [0-9]*  loss [^ ]*  lr [^ ]*  norm [^ ]*' "$1"; }

# compare SCHEDULE PIPE DATA CLIP EXCEEDED: how many of 6 norms must be above CLIP: all, none or some.
compare() {
  local above
  "$compile" "$work/plain.weft" "$text" "$2" "$3" "$1" 0 6 0 "$4" || fail "compile $*"
  "$compile" "$work/late.weft" "$text" "$2" "$3" "$1" 0 6 0 "$4" "post_validation: true" || fail "compile $*, late"
  "$run" run "$work/plain.weft" --data "$text" --transport inproc --save-weights "$work/plain.safetensors" \
    > "$work/plain.out" || fail "run $*"
  tools/run_mpi.sh $(($2 * $3)) "$run" run "$work/late.weft" --data "$text" --transport mpi \
    --save-weights "$work/late.safetensors" > "$work/late.out" || fail "run $*, late"
  [[ $(columns "$work/late.out" | wc -l) -eq 6 ]] || fail "$* has not 6 steps"
  above=$(columns "$work/late.out" | awk -v clip="$4" '$NF > clip' | wc -l)
  case $5:$above in
    all:6 | none:0 | some:[1-5]) ;;
    *) fail "$above norms are above clip_norm in $*" ;;
  esac
  diff <(columns "$work/plain.out") <(columns "$work/late.out") || fail "losses of $*"
  cmp "$work/plain.safetensors" "$work/late.safetensors" || fail "weights of $*"
}

for clip in "0.001 all" "1000 none" "2.2 some"; do
  compare zb-h2 2 1 $clip
  compare zb-v 2 2 $clip
done
compare zb-h2 4 1 2.2 some
echo "7 plans agree"
