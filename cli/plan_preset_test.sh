#!/usr/bin/env bash
# weft plan --preset: plans as the planner of a paper, writes the plan, and refuses what the planner cannot handle.
set -uo pipefail
WEFT=$(readlink -m "$1")
source "$(dirname "$0")/expect.sh"
cd "$TEST_TMPDIR" || exit 1
tiny=(--model=gpt2-tiny --cluster=dgx-a100-80g --gpus=4 --set seq=64 --set gbs=16)

# Each preset's file and microbatch simulate as its report says.
for preset in axonn axonn-4d chimera hanayo; do
  "$WEFT" plan --preset=$preset "${tiny[@]}" --format=json -o $preset.textproto >$preset.json || fail "$preset"
  size=$(python3 -c "import json; r = json.load(open('$preset.json')); \
    print(r['plans'][r['chosen']]['run']['microbatch_sequences'])")
  "$WEFT" simulate --model=gpt2-tiny --cluster=dgx-a100-80g --plan=$preset.textproto --set seq=64 --set gbs=16 \
    --set mbs="$size" --format=json >simulated.json 2>/dev/null || fail "simulate the plan of $preset"
  python3 - $preset <<'END' || fail "the JSON report of $preset"
import json, sys
report, simulated = json.load(open(sys.argv[1] + ".json")), json.load(open("simulated.json"))
chosen = report["plans"][report["chosen"]]
assert report["preset"] == sys.argv[1] and report["devices"] == simulated["ranks"] == 4
assert chosen["fits"] and chosen["run"]["iteration_seconds"] == simulated["iteration_seconds"]
END
done
expect 0 '^Preset chimera \(Li and Hoefler 2021, arXiv:2107.06925, sec. 3.4\): ' plan --preset=chimera "${tiny[@]}"
expect 0 'pp=2 dp=2 mbs=4 schedule=chimera .* C_f=2 C_b=2' plan --preset=chimera "${tiny[@]}"
expect 0 '^The preset chooses dp=4 mbs=[0-9]+ ' plan --preset=axonn "${tiny[@]}"
expect 0 'rank 2, collectives ' plan --preset=axonn-4d "${tiny[@]}" --top=2

# What the user states is fixed.
expect 0 'mbs=1 schedule=hanayo' plan --preset=hanayo "${tiny[@]}" --set mbs=1
expect 0 'runtime hanayo, network nccl' plan --preset=hanayo "${tiny[@]}" --runtime=hanayo --network=nccl

# Bad input is one line.
expect 2 "chimera" plan --preset=chimeras "${tiny[@]}"
expect 2 '^weft plan: --from steers the search, which --preset replaces' plan --preset=hanayo "${tiny[@]}" --from=dp=4
expect 2 '^weft plan: --budget steers the search' plan --preset=hanayo "${tiny[@]}" --budget=5
expect 1 "plan.mesh: preset chimera has no axis 'x' \(given size 2\); its axes: pipe, data" \
  plan --preset=chimera "${tiny[@]}" --set tp=2
expect 1 "plan.schedule = '1f1b': preset chimera chooses the schedule itself" \
  plan --preset=chimera "${tiny[@]}" --set schedule=1f1b
expect 1 'no plan fits: of [0-9]+ plans the smallest takes ' plan --preset=chimera "${tiny[@]}" --at-most=memory=1MiB
expect 1 "the plan is for 4096 devices; cluster 'dgx-a100-80g' has 1024" plan --preset=axonn "${tiny[@]:0:2}" \
  --gpus=4096 --set seq=64 --set gbs=4096
expect 1 'is one of images' plan --preset=axonn-4d --model=unet-tiny --cluster=dgx-a100-80g --gpus=4 --set seq=64 --set gbs=16
expect 1 'no number of pipeline ranks is possible' plan --preset=hanayo "${tiny[@]:0:2}" --gpus=5 --set seq=64 --set gbs=16

# Nothing is written if no plan fits.
"$WEFT" plan --preset=hanayo "${tiny[@]}" --at-most=memory=1MiB -o none.textproto 2>/dev/null && fail "a plan that fits 1 MiB"
[[ -e none.textproto ]] && fail "a plan was written"
finish
