#!/usr/bin/env bash
# weft plan: searches for the fastest plan, says how far it is from the best, and writes it.
set -uo pipefail
WEFT=$(readlink -m "$1")
source "$(dirname "$0")/expect.sh"
cd "$TEST_TMPDIR" || exit 1
# Profiles are measured once for all searches of the same kind.
export XDG_CACHE_HOME=$TEST_TMPDIR/cache
tiny=(--model=gpt2-tiny --cluster=dgx-a100-80g --gpus=2 --set seq=64 --set gbs=8 --schedules=1f1b --exclude=offload)

# The best plan's file and microbatch simulate as the report says, on the devices of the plan.
"$WEFT" plan "${tiny[@]}" --format=json -o best.textproto >report.json 2>/dev/null || fail "plan as JSON"
size=$(python3 -c 'import json; print(json.load(open("report.json"))["plans"][0]["microbatch_sequences"])')
"$WEFT" simulate --model=gpt2-tiny --cluster=dgx-a100-80g --plan=best.textproto --set seq=64 --set gbs=8 \
  --set mbs="$size" --format=json >simulated.json 2>/dev/null || fail "simulate the plan"
python3 - <<'END' || fail "the JSON report"
import json
report, simulated = json.load(open("report.json")), json.load(open("simulated.json"))
best = report["plans"][0]
assert best["iteration_seconds"] == simulated["iteration_seconds"], (best, simulated["iteration_seconds"])
assert best["device_bytes"] >= simulated["planned_bytes"], (best["device_bytes"], simulated["planned_bytes"])
assert simulated["ranks"] == report["devices"] == 2
times = [plan["iteration_seconds"] for plan in report["plans"]]
assert times == sorted(times) and len(times) == 5, times
assert report["complete"] and 0 <= report["gap"] <= 0.01, report["gap"]
assert report["lower_bound_seconds"] <= times[0]
parts = [report[part] for part in ("refused", "does_not_fit", "slower", "simulated", "open")]
assert sum(parts) == report["space"] > 50, (parts, report["space"])
assert [d["name"] for d in report["dimensions"]] == [
    "mesh", "microbatch", "schedule", "zero", "zero-group", "reshard", "sequence-parallel", "between-halves",
    "recompute", "offload"]
END
expect 0 '^gpt2-tiny on 2 devices of dgx-a100-80g \(runtime weft, network analytic, cost tiles\)$' plan "${tiny[@]}"
expect 0 '^No plan that fits, of the [0-9,]+ in this space, simulates (faster|more than 0\.[0-9]+ % faster) than the first\.$' \
  plan "${tiny[@]}"
expect 0 '^The space has [0-9,]+ plans: [0-9]+ were compiled, proven and simulated, ' plan "${tiny[@]}"

# What the user states is fixed.
expect 0 '^   1 .* pp=2 schedule=1f1b' plan "${tiny[@]}" --set pp=2 --set dp=1 --set mbs=4
[[ $("$WEFT" plan "${tiny[@]}" --set dp=2 --top=3 2>/dev/null | grep -c '^ *[0-9] .* dp=2') = 3 ]] || fail "dp is fixed"
expect 0 'runtime megatron-core, network nccl' plan "${tiny[@]:0:8}" --runtime=megatron-core --network=nccl
# A mode of recompute that a framework has by default and that is not searched is left to the search.
expect 0 '^gpt2-tiny on 2 devices of dgx-a100-80g \(runtime torchtitan, network nccl' \
  plan "${tiny[@]}" --runtime=torchtitan --network=nccl
"$WEFT" plan "${tiny[@]}" --runtime=torchtitan --network=nccl 2>&1 >/dev/null | grep >/dev/null \
  "^note: runtime 'torchtitan' has recompute.mode EVERY unless the plan says otherwise; the search chooses" ||
  fail "no note of the mode that is not searched"
expect 1 'plan.recompute.mode = EVERY is not searched; allowed: NONE' \
  plan "${tiny[@]}" --runtime=torchtitan --network=nccl --set recompute.mode=EVERY --set recompute.every=2
# The user's own plan takes the time that simulate says, with the framework's cut into stages.
gpt2=(--model=gpt2 --cluster=dgx-a100-80g --runtime=megatron-core --network=nccl --set seq=128 --set gbs=8)
"$WEFT" plan "${gpt2[@]}" --gpus=4 --schedules=1f1b --set x=1 --set pp=4 --set dp=1 --from "pp=4 mbs=1 schedule=1f1b" \
  --format=json >from.json 2>/dev/null || fail "a search from a plan of Megatron"
"$WEFT" simulate "${gpt2[@]}" --set pp=4 --set mbs=1 --set schedule=1f1b --format=json >simulated.json 2>/dev/null ||
  fail "simulate the plan of Megatron"
python3 - <<'END' || fail "the time of the user's plan"
import json
report, simulated = json.load(open("from.json")), json.load(open("simulated.json"))
assert report["changes"]["start"]["iteration_seconds"] == simulated["iteration_seconds"], report["changes"]
END

expect 0 '^Popular choices:$' plan "${tiny[@]}"
expect 0 '^  ZeRO 3 alone: .* slower \(dp=2 ' plan "${tiny[@]}"

# The plan that the user runs today: settings, a file, or both.
expect 0 '^Your plan: .* slower than the first\.$' plan "${tiny[@]}" --from="dp=2 mbs=1"
expect 0 '^  The fewest changes with most of the gain: .*mbs=' plan "${tiny[@]}" --from="dp=2 mbs=1"
expect 0 '^Your plan: ' plan "${tiny[@]}" --from="best.textproto mbs=$size"
expect 1 '^weft plan: --from: .*schedul' plan "${tiny[@]}" --from="schedul=1f1b"
expect 1 '^weft plan: --from may set only fields of the plan and mbs' plan "${tiny[@]}" --from="dp=2 gbs=16"
expect 1 '--from: the plan is for 1 devices; the search is for 2' plan "${tiny[@]}" --from="mbs=1"
expect 1 'none.textproto' plan "${tiny[@]}" --from=none.textproto

# The same answer whatever the number of threads.
for threads in 1 3; do
  "$WEFT" plan "${tiny[@]}" --threads=$threads >threads$threads.txt 2>/dev/null || fail "plan with $threads threads"
done
cmp threads1.txt threads3.txt || fail "the answer depends on the number of threads"

# What was measured is kept and used again; a cache that is damaged or cannot be made changes nothing.
"$WEFT" plan "${tiny[@]}" --cache=kept >first.txt 2>/dev/null || fail "plan with a new cache"
[[ $(ls kept/*.profiles | wc -l) = 1 ]] || fail "one file is kept"
"$WEFT" plan "${tiny[@]}" --cache=kept >second.txt 2>/dev/null || fail "plan with a cache"
# A copy of the program uses the cache of the program.
cp "$WEFT" copy && touch copy
./copy plan "${tiny[@]}" --cache=kept >copied.txt 2>/dev/null || fail "plan with a copy of weft"
[[ $(ls kept/*.profiles | wc -l) = 1 ]] || fail "a copy of weft uses the same file"
cmp first.txt copied.txt || fail "a copy of weft answers otherwise"
printf 'damaged' >>"$(ls kept/*.profiles)"
"$WEFT" plan "${tiny[@]}" --cache=kept >third.txt 2>/dev/null || fail "plan with a damaged cache"
"$WEFT" plan "${tiny[@]}" --cache=/proc/none >fourth.txt 2>/dev/null || fail "plan without a cache"
cat first.txt first.txt first.txt >expected.txt
cat second.txt third.txt fourth.txt | cmp - expected.txt || fail "the cache changes the answer"
cmp first.txt threads1.txt || fail "--cache changes the answer"

# How wrong the cluster's figures may be.
expect 0 "^How wrong may the cluster's figures be before another of these plans is the fastest" plan "${tiny[@]}"

# Several numbers of devices, compared by an objective.
range=("${tiny[@]:0:2}" --gpus=1..4 "${tiny[@]:3}")
expect 0 '^         4  .* dp=|^         4  .* pp=|^         4  .* x=' plan "${range[@]}"
expect 1 "cluster 'dgx-a100-80g' does not state dollars_per_device_hour" plan "${range[@]}" --objective=dollars
"$WEFT" list clusters --show dgx-a100-80g >priced.textproto
printf 'dollars_per_device_hour: 2\nwatts_per_device: 900\n' >>priced.textproto
priced=(--model=gpt2-tiny --cluster=priced.textproto "${range[@]:2}")
"$WEFT" plan "${priced[@]}" --objective=dollars --format=json >front.json 2>/dev/null ||
  fail "plan by dollars"
python3 - <<'END' || fail "the front"
import json
report = json.load(open("front.json"))
front = report["front"]
assert [point["devices"] for point in front] == [1, 2, 4] and report["objective"] == "dollars"
for point in front:
    seconds = point["run"]["iteration_seconds"]
    assert abs(point["cost"] - 2 / 3600 * point["devices"] * seconds) < 1e-9 * point["cost"]
best = min(front, key=lambda point: point["cost"])
assert report["devices"] == best["devices"]
assert report["plans"][0]["settings"] == best["run"]["settings"]
END
expect 0 '^  .* tokens/J ' plan "${priced[@]}" --objective=energy
# With one number of devices, each plan of the table has its tokens per cost.
one=(--model=gpt2-tiny --cluster=priced.textproto "${tiny[@]:2}")
expect 0 '^ +iteration +tokens/s +tokens/dollar +MFU ' plan "${one[@]}" --objective=dollars
expect 0 '^ +iteration +tokens/s +tokens/J +MFU ' plan "${one[@]}" --objective=energy
expect 1 "cluster 'dgx-a100-80g' does not state dollars_per_device_hour" plan "${tiny[@]}" --objective=dollars
expect 0 '^ +2 .* MiB ' plan "${tiny[@]}" --memory-front
expect 1 '^weft plan: --memory-front: it searches for one number of devices' plan "${range[@]}" --memory-front
expect 2 "--gpus='8..4': expected a number or a range" plan "${tiny[@]:0:2}" --gpus=8..4
expect 2 "--gpus='x': expected a number or a range" plan "${tiny[@]:0:2}" --gpus=x

# No time: nothing is found, nothing is written.
expect 1 'no plan was found before the search was stopped' plan "${tiny[@]}" --budget=0.001 -o none.textproto
[[ -e none.textproto ]] && fail "a plan was written"

# Bad input is one line.
expect 1 'no plan fits: each of [0-9]+ plans takes more than .* the smallest takes at least [0-9.]+ MiB' plan "${tiny[@]}" --at-most=memory=1MiB
expect 2 "--at-most='70': expected memory=SIZE with a unit, e.g. memory=70GiB" plan "${tiny[@]}" --at-most=70
expect 1 "^weft plan: --at-most: memory=200 GiB is more than a plan may use on any device of 'dgx-a100-80g'; allowed: up to 7" \
  plan "${tiny[@]}" --at-most=memory=200GiB
expect 2 'memory=-1GiB' plan "${tiny[@]}" --at-most=memory=-1GiB
expect 1 "the search is for 4096 devices; cluster 'dgx-a100-80g' has 1024" plan "${tiny[@]:0:2}" --gpus=4096 \
  --set seq=64 --set gbs=8
expect 1 "no dimension is called 'offlod'; known: mesh" plan "${tiny[@]:0:7}" --exclude=offlod
expect 1 'zb-h1' plan "${tiny[@]:0:7}" --schedules=zb-h3
expect 1 "schedule 'pipedream' updates the weights without a flush" plan "${tiny[@]:0:7}" --schedules=pipedream
expect 1 "schedule 'pipedream' updates the weights without a flush" plan "${tiny[@]}" --schedule=pipedream
expect 1 'plan.recompute.mode = EVERY is not searched' plan "${tiny[@]}" --set recompute.mode=EVERY --set recompute.every=2
expect 1 'recipe.global_batch_sequences' plan --model=gpt2-tiny --cluster=dgx-a100-80g --gpus=2 --set seq=64
expect 1 'no mesh of 2 devices has the axes that plan.mesh fixes' plan "${tiny[@]}" --set tp=3
expect 2 '--cluster' plan --model=gpt2-tiny --set seq=64 --set gbs=8
expect 2 '' plan "${tiny[@]}" surplus
finish
