#!/bin/bash
# N plans, one loss, over MPI: pipe 1, 2, 4 x gpipe/1f1b x recompute on/off x 1, 2, 3 threads per rank give the losses,
# norms and weights of one rank in one process, bit for bit. Under exact accumulation, so do data 2 and 4, and ZeRO over
# three replicas.
# Arguments: compile_tiny weft-run
set -uo pipefail
compile=$1 run=$2
work=$TEST_TMPDIR
text=$work/text.txt
steps=20

fail() { echo "FAILED: $*"; exit 1; }
columns() { grep -o '^step [0-9]*  loss [^ ]*  lr [^ ]*  norm [^ ]*' "$1"; }

# reference EXACT: trains on one rank in one process.
reference() {
  "$compile" "$work/reference$1.weft" "$text" 1 1 gpipe "$1" $steps || fail "compile"
  "$run" run "$work/reference$1.weft" --data "$text" --transport inproc --save-weights "$work/reference$1.safetensors" \
    > "$work/reference$1.out" || fail "reference"
  [[ $(columns "$work/reference$1.out" | wc -l) -eq $steps ]] || fail "the reference has not $steps steps"
}

# compare PIPE DATA SCHEDULE EXACT RECOMPUTE THREADS
compare() {
  "$compile" "$work/plan.weft" "$text" "$1" "$2" "$3" "$4" $steps "$5" || fail "compile $*"
  tools/run_mpi.sh $(($1 * $2)) "$run" run "$work/plan.weft" --data "$text" --transport mpi --threads "$6" \
    --save-weights "$work/plan.safetensors" > "$work/plan.out" || fail "run $*"
  diff <(columns "$work/reference$4.out") <(columns "$work/plan.out") || fail "losses of $*"
  cmp "$work/reference$4.safetensors" "$work/plan.safetensors" || fail "weights of $*"
}

reference 0
reference 1
for pipe in 1 2 4; do
  for schedule in gpipe 1f1b; do
    for recompute in 0 1; do
      for threads in 1 2 3; do compare $pipe 1 $schedule 0 $recompute $threads; done
    done
    for data in 2 4; do compare $pipe $data $schedule 1 0 1; done
  done
done

# Three replicas divide no matrix of the model, so ZeRO's parts are rounded up. The batch differs, so the reference does
# too.
uneven() {
  "$compile" "$work/$1.weft" "$text" 1 "$2" 1f1b 1 $steps 0 0.5 "$3" "" 6 || fail "compile $*"
}
uneven one 1 ""
"$run" run "$work/one.weft" --data "$text" --transport inproc --save-weights "$work/one.safetensors" > "$work/one.out" ||
  fail "reference of six sequences"
for stage in 1 2 3; do
  uneven three 3 "zero { stage: $stage }"
  tools/run_mpi.sh 3 "$run" run "$work/three.weft" --data "$text" --transport mpi --save-weights "$work/three.safetensors" \
    > "$work/three.out" || fail "run of stage $stage over three replicas"
  diff <(columns "$work/one.out") <(columns "$work/three.out") || fail "losses of stage $stage over three replicas"
  cmp "$work/one.safetensors" "$work/three.safetensors" || fail "weights of stage $stage over three replicas"
done
echo "51 plans agree"
