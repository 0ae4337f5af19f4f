#!/bin/bash
# PipeDream and PipeDream-2BW on the command line: compile, simulate, run on both transports, and errors.
# Arguments: weft weft-run config.json text.txt
set -uo pipefail
weft=$1 run=$2 config=$3 text=$4
work=$TEST_TMPDIR

fail() { echo "FAILED: $*"; exit 1; }
losses() { grep -o '^step [0-9]*  loss [^ ]*  lr [^ ]*' "$1"; }
# refuse PATTERN COMMAND...: the command must exit with status 1 and an error that matches.
refuse() {
  local pattern=$1; shift
  "$@" > "$work/out" 2> "$work/err"
  [[ $? -eq 1 ]] || { cat "$work/err"; fail "exit status of $*"; }
  grep -q -- "$pattern" "$work/err" || { cat "$work/err"; fail "no error like '$pattern'"; }
}

cat > "$work/cluster.textproto" <<'C'
name: "laptop" nodes: 1 devices_per_node: 4
device {
  name: "cpu" memory_bytes: 1000000000 memory_bytes_per_second: 1e10
  peaks { dtype: FP32 flops_per_second: 1e11 }
}
intra_node { bytes_per_second: 1e10 latency_seconds: 1e-6 }
inter_node { bytes_per_second: 1e10 latency_seconds: 1e-6 }
nics_per_node: 1
host { bytes_per_second: 1e10 }
C
compile() { "$weft" compile --model="$config" --cluster="$work/cluster.textproto" --set seq=16 --set recipe.steps=12 \
  --set pp=4 --set recipe.clip_norm=0 "$@"; }

for case in pipedream:1 pipedream-2bw:5; do
  schedule=${case%:*}; batch=${case#*:}
  program=$work/$schedule.weft
  compile --set schedule="$schedule" --set gbs="$batch" -o "$program" > "$work/out" 2> "$work/err" \
    || { cat "$work/err"; fail "compile $schedule"; }
  "$weft" simulate "$program" --cluster="$work/cluster.textproto" --cost=unit --network=none --format=json \
    > "$work/sim.json" 2> "$work/err" || { cat "$work/err"; fail "simulate $schedule"; }
  # 4 or 10 microbatches of 1 + 2 us.
  period=$([[ $schedule == pipedream ]] && echo 1.2e-05 || echo 3e-05)
  grep -q "\"iteration_seconds\": $period" "$work/sim.json" \
    || { grep iteration "$work/sim.json"; fail "the period of $schedule is not $period s: it has a bubble"; }
  steps=$([[ $schedule == pipedream ]] && echo 4 || echo 2)
  "$weft" simulate "$program" --cluster="$work/cluster.textproto" 2> "$work/err" > "$work/out"
  grep -q "iteration, $steps steps" "$work/out" || { cat "$work/out"; fail "simulate $schedule as text"; }
  "$weft" inspect "$program" > "$work/out" 2> "$work/err" || { cat "$work/err"; fail "inspect $schedule"; }
  "$run" run "$program" --data "$text" --checkpoint "$work/$schedule.checkpoint" \
    --save-weights "$work/$schedule.safetensors" > "$work/$schedule.out" 2> "$work/err" \
    || { cat "$work/err"; fail "run $schedule"; }
  [[ $(losses "$work/$schedule.out" | wc -l) -eq 12 ]] || { cat "$work/$schedule.out"; fail "steps of $schedule"; }
  for threads in 1 2; do
    tools/run_mpi.sh 4 "$run" run "$program" --data "$text" --threads $threads --trace "$work/trace.json" \
      --save-weights "$work/mpi.safetensors" > "$work/mpi.out" 2> "$work/err" || { cat "$work/err"; fail "mpi $schedule"; }
    diff <(losses "$work/$schedule.out") <(losses "$work/mpi.out") || fail "losses of $schedule over mpi"
    cmp "$work/$schedule.safetensors" "$work/mpi.safetensors" || fail "weights of $schedule over mpi"
    rm "$work/mpi.safetensors"
  done
  "$weft" report "$work/trace.json" --program="$program" --cluster="$work/cluster.textproto" > "$work/out" 2> "$work/err" \
    || { cat "$work/err"; fail "report $schedule"; }
  grep -q "a repetition of $steps optimizer steps" "$work/out" || { cat "$work/out"; fail "report $schedule"; }
  # A run of fewer repetitions is the beginning of the same run; the learning rate follows the recipe.
  "$run" run "$program" --data "$text" --steps 4 > "$work/short.out" 2> "$work/err" || { cat "$work/err"; fail "--steps"; }
  diff <(losses "$work/$schedule.out" | head -4) <(losses "$work/short.out") || fail "the first steps of $schedule"
done

program=$work/pipedream.weft
refuse 'steps = 5; allowed: multiples of 4 (the optimizer steps of a repetition); nearest valid: 4' "$run" run "$program" --data "$text" --steps 5
refuse 'a checkpoint every 2 steps would have to drain the pipeline' \
  "$run" run "$program" --data "$text" --checkpoint "$work/c" --checkpoint-every 2
refuse 'cannot continue the run' "$run" run "$program" --data "$text" --checkpoint "$work/pipedream.checkpoint" --resume
refuse 'has no evaluation program' "$run" run "$program" --data "$text" --eval-data "$text" --eval-every 4
refuse 'set recipe.clip_norm=0' "$weft" compile --model="$config" --cluster="$work/cluster.textproto" --set seq=16 \
  --set gbs=1 --set pp=4 --set schedule=pipedream -o "$work/x.weft"
refuse 'nearest valid: 4' compile --set schedule=pipedream-2bw --set gbs=3 -o "$work/x.weft"
echo "both schedules run"
