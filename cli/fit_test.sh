#!/usr/bin/env bash
# weft fit: memory by rank and class, remedies that really fit, the fewest devices.
set -uo pipefail
WEFT=$(readlink -m "$1")
source "$(dirname "$0")/expect.sh"
cd "$TEST_TMPDIR" || exit 1
tiny=(--model=gpt2-tiny --cluster=dgx-a100-80g --set seq=64 --set gbs=32)

# A device on which the tiny model is tight.
cat >small.textproto <<'END'
name: "small"
device { name: "d" memory_bytes: 16000000 memory_bytes_per_second: 1e12 launch_seconds: 1e-6
  peaks { dtype: FP32 flops_per_second: 1e13 } peaks { dtype: BF16 flops_per_second: 1e14 } }
nodes: 2 devices_per_node: 4
intra_node { bytes_per_second: 1e11 latency_seconds: 1e-6 }
inter_node { bytes_per_second: 1e10 latency_seconds: 1e-5 }
nics_per_node: 4
END

# The report agrees with weft simulate, for weft's own executor and for a framework.
for runtime in weft megatron-core; do
  plan=("${tiny[@]}" --set pp=2 --set dp=2 --set mbs=2 --runtime=$runtime)
  "$WEFT" fit "${plan[@]}" --exact --format=json >fit.json 2>/dev/null || fail "fit as JSON"
  "$WEFT" simulate "${plan[@]}" --format=json >simulated.json 2>/dev/null || fail "simulate"
  python3 - $runtime <<'END' || fail "the report of $runtime"
import json, sys
fit, simulated = json.load(open("fit.json")), json.load(open("simulated.json"))
assert fit["runtime"] == sys.argv[1] == simulated["runtime"], fit["runtime"]
assert fit["basis"] == "COMPILED" and fit["devices"] == 4 and fit["fits"] == simulated["fits"]
assert set(fit) == {"schema_version", "runtime", "model", "cluster", "devices", "fits", "basis", "stages",
                    "headroom_bytes", "planned_host_bytes", "host_capacity_bytes", "remedies", "relaxations", "fewest", "error"}
assert fit["fewest"] is None
everything = [s["planned_bytes"] + s["reserve_bytes"] for s in fit["stages"]]
assert max(everything) == simulated["device_bytes"], (everything, simulated["device_bytes"])
assert max(s["planned_bytes"] for s in fit["stages"]) == simulated["planned_bytes"]
for stage in fit["stages"]:
    assert stage["planned_bytes"] == sum(stage["classes"].values()), stage
    assert stage["capacity_bytes"] == simulated["capacity_bytes"]
    assert stage["headroom_bytes"] == stage["capacity_bytes"] - stage["planned_bytes"] - stage["reserve_bytes"]
assert [s["stages"] for s in fit["stages"]] == [[0], [1]] and sum(s["rank_count"] for s in fit["stages"]) == 4
END
done
expect 0 '^runtime weft: gpt2-tiny on dgx-a100-80g, 4 ranks$' fit "${tiny[@]}" --set pp=2 --set dp=2
expect 0 '^runtime torchtitan: ' fit "${tiny[@]}" --set dp=2 --runtime=torchtitan
expect 0 '^  MiB +params +grads +optim +activ +flight +work +gaps +reserve +left$' fit "${tiny[@]}" --set dp=2
expect 0 '^  ranks 0-1  stage 0 ' fit "${tiny[@]}" --set dp=2
expect 0 '^fits: [0-9.]+ GiB left on the fullest device, which has ' fit "${tiny[@]}" --set dp=2
expect 0 'it would still fit with one of these:' fit "${tiny[@]}" --set dp=2 --set recompute.mode=FULL
expect 0 '^  --set recompute.mode=NONE ' fit "${tiny[@]}" --set dp=2 --set recompute.mode=FULL

# Every remedy compiles, and its program fits.
tight=(--model=gpt2-tiny --cluster=small.textproto --set seq=64 --set gbs=64 --set mbs=8 --set dp=2)
expect 0 '^DOES NOT FIT: [0-9.]+ [KM]iB too much for a device with ' fit "${tight[@]}"
# As with weft simulate, the report is printed even if --require-fit fails.
"$WEFT" fit "${tight[@]}" --require-fit >report.txt 2>error.txt
[ $? = 1 ] || fail "--require-fit: exit status"
grep -q '^DOES NOT FIT' report.txt || fail "--require-fit: $(cat report.txt)"
grep -qE '^weft fit: the plan needs [0-9.]+ [KM]iB more than a device of small has$' error.txt || fail "$(cat error.txt)"
"$WEFT" fit "${tight[@]}" --format=json >tight.json 2>/dev/null || fail "fit of a tight plan"
python3 -c 'import json; print("\n".join(r["settings"] for r in json.load(open("tight.json"))["remedies"]))' >remedies.txt
[ "$(wc -l <remedies.txt)" -ge 3 ] || fail "remedies: $(cat remedies.txt)"
while read -r remedy; do
  # A setting replaces the one that the plan has.
  kept=(--model=gpt2-tiny --cluster=small.textproto --set seq=64 --set gbs=64)
  case $remedy in *mbs=*) ;; *) kept+=(--set mbs=8) ;; esac
  case $remedy in *dp=*) ;; *) kept+=(--set dp=2) ;; esac
  read -ra words <<<"$remedy"
  "$WEFT" compile "${kept[@]}" "${words[@]}" -o remedy.weft 2>error.txt || fail "$remedy: $(cat error.txt)"
done <remedies.txt

# Parts of a cluster, and the fewest devices.
expect 0 '^runtime weft: .*, 8 ranks$' fit "${tiny[@]}" --gpus=8
expect 0 '^fewest devices: 1, with ' fit "${tiny[@]}" --gpus=?
"$WEFT" fit --model=gpt2-tiny --cluster=small.textproto --set seq=64 --set gbs=64 --gpus=? --format=json >fewest.json \
  2>/dev/null || fail "the fewest devices"
python3 - <<'END' || fail "the fewest devices: $(grep -A30 fewest fewest.json)"
import json
report = json.load(open("fewest.json"))
fewest = report["fewest"]
assert report["fits"] and fewest["devices"] == report["devices"] > 0
assert 0 < fewest["bytes"] <= fewest["capacity_bytes"] == 16000000, fewest
END

# Bad input is one line.
expect 2 '--cluster=NAME.FILE is needed' fit --model=gpt2-tiny --set seq=64 --set gbs=8
sed 's/memory_bytes: 16000000 //' small.textproto >unknown.textproto
expect 1 "device.memory_bytes" fit --model=gpt2-tiny --cluster=unknown.textproto --set seq=64 --set gbs=8
expect 1 'plan.mesh' fit --model=gpt2-tiny --cluster=small.textproto --set seq=64 --set gbs=32 --set dp=16
expect 1 "cluster 'small' has 8 devices, not 16; nearest: 8" fit --model=gpt2-tiny --cluster=small.textproto --gpus=16 \
  --set seq=64 --set gbs=32
expect 1 'devices are not whole nodes; nearest: 4, 8' fit --model=gpt2-tiny --cluster=small.textproto --gpus=6 \
  --set seq=64 --set gbs=32
expect 1 '--gpus=8: the mesh has 3 ranks, which must divide the number of devices; nearest: --gpus=9' fit "${tiny[@]}" --gpus=8 --set pp=3
sed 's/16000000/900000/' small.textproto >tiny.textproto
expect 1 "no number of devices of 'small' is enough; the nearest plan is on [0-9]+ devices and takes " fit \
  --model=gpt2-tiny --cluster=tiny.textproto --set seq=64 --set gbs=32 --gpus=?
expect 2 "expected a number of devices, or \? for the fewest that fit" fit "${tiny[@]}" --gpus=many
expect 2 '' fit "${tiny[@]}" surplus
expect 1 'recipe.global_batch_sequences' fit --model=gpt2-tiny --cluster=dgx-a100-80g --set seq=64
finish
