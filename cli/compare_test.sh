#!/usr/bin/env bash
# weft compare: shows programs, and plans that it compiles first, side by side.
set -uo pipefail
WEFT=$(readlink -m "$1")
source "$(dirname "$0")/expect.sh"
cd "$TEST_TMPDIR" || exit 1
tiny=(--model=gpt2-tiny --cluster=dgx-a100-80g --set seq=64 --set gbs=16)
"$WEFT" compile "${tiny[@]}" --set pp=4 --set dp=2 -o deep.weft >/dev/null 2>&1 || fail "compile"
"$WEFT" compile "${tiny[@]}" --set dp=8 -o wide.weft >/dev/null 2>&1 || fail "compile"
"$WEFT" compile "${tiny[@]:0:4}" --set gbs=32 --set dp=8 -o large.weft >/dev/null 2>&1 || fail "compile"

# The figures of every program equal those of weft simulate. The parts of a step's time add up to it.
"$WEFT" compare deep.weft wide.weft --format=json >both.json 2>/dev/null || fail "compare as JSON"
for program in deep wide; do
  "$WEFT" simulate $program.weft --format=json >$program.json 2>/dev/null || fail "simulate"
done
python3 - <<'END' || fail "the JSON report"
import json
both, alone = json.load(open("both.json")), [json.load(open(f)) for f in ("deep.json", "wide.json")]
assert both["cluster"] == "dgx-a100-80g", both["cluster"]
assert [p["file"] for p in both["programs"]] == ["deep.weft", "wide.weft"]
assert [p["report"] for p in both["programs"]] == alone
for program, report in zip(both["programs"], alone):
    step = program["step_seconds"]
    assert step == report["iteration_seconds"]
    assert abs(sum(row["seconds"] for row in program["sources"]) - step) < 1e-9 * step, program["sources"]
    ranks = report["per_rank"]
    exposed = sum(rank["exposed_communication_seconds"] for rank in ranks) / len(ranks)
    assert abs(program["exposed_communication_seconds"] - exposed) < 1e-9 * step
gain = alone[1]["tokens_per_second"] / alone[0]["tokens_per_second"] - 1
assert both["programs"][0]["gain"] == 0 and abs(both["programs"][1]["gain"] - gain) < 1e-9 and gain != 0
deep, wide = ({row["source"]: row for row in program["sources"]} for program in both["programs"])
assert list(deep) == list(wide), (deep, wide)
row = "waiting for gradient input"
assert deep[row]["seconds"] > 0 and wide[row]["difference"] == -deep[row]["seconds"], (deep[row], wide[row])
END
expect 0 '^runtime weft: 2 programs on dgx-a100-80g \(cost tiles, network analytic\); differences from deep.weft$' \
  compare deep.weft wide.weft
expect 0 '^  wide.weft +8 .* [-+][0-9.]+ % .* yes ' compare deep.weft wide.weft
expect 0 '^  waiting for gradient input +[0-9.]+ [mu]?s +0 +-[0-9.]+ [mu]?s$' compare deep.weft wide.weft
expect 0 '^The programs have different numbers of tokens per step \(1024 in wide.weft, 2048 in large.weft\)' \
  compare wide.weft large.weft

# All programs are costed on one machine: the first program's, or the one that is given.
"$WEFT" compile --model=gpt2-tiny --cluster=dgx-h100 --set seq=64 --set gbs=16 --set dp=8 -o hopper.weft \
  >/dev/null 2>&1 || fail "compile"
expect 0 '2 programs on dgx-a100-80g' compare wide.weft hopper.weft
"$WEFT" compare wide.weft hopper.weft 2>&1 >/dev/null |
  grep >/dev/null "^note: hopper.weft: the program was compiled for cluster 'dgx-h100'; it is simulated on 'dgx-a100-80g'" ||
  fail "no note on the other cluster"
expect 0 '2 programs on dgx-h100' compare wide.weft hopper.weft --cluster=dgx-h100

# Cost and network models are those of weft simulate.
expect 0 '^runtime megatron-core: .*\(cost roofline, network flow\)' compare deep.weft wide.weft \
  --runtime=megatron-core --cost=roofline --network=flow
expect 0 '\(cost unit, network none\)' compare deep.weft wide.weft --cost=unit --network=none --forward=2 --backward=4
"$WEFT" list clusters --show dgx-a100-80g >noisy.textproto
echo 'noise { step_deviation: 0.05 }' >>noisy.textproto
expect 0 '^  iteration of 3 runs, seed 2 +10th percentile +median' compare deep.weft wide.weft \
  --cluster=noisy.textproto --runs=3 --seed=2

# Several plans for one model.
echo 'mesh { axes { name: "data" size: 8 } }' >wide.textproto
echo 'mesh { axes { name: "data" size: 2 } axes { name: "pipe" size: 4 } } schedule { name: "1f1b" }' >deep.textproto
echo 'mesh { axes { name: "data" size: 3 } }' >odd.textproto
expect 0 '^  wide.textproto +8 .* [-+][0-9.]+ % ' compare deep.textproto wide.textproto "${tiny[@]}"
expect 1 '^weft compare: odd.textproto: recipe.global_batch_sequences = 16 must be a multiple' \
  compare deep.textproto odd.textproto "${tiny[@]}"

# An iteration of an asynchronous schedule is several steps (rule P14); the table compares single steps.
echo 'mesh { axes { name: "pipe" size: 2 } } schedule { name: "1f1b" }' >flush.textproto
sed 's/1f1b/pipedream-2bw/' flush.textproto >ahead.textproto
"$WEFT" compare flush.textproto ahead.textproto --model=llama-tiny --cluster=dgx-a100-80g --set seq=64 --set gbs=16 \
  --set recipe.clip_norm=0 --format=json 2>/dev/null >ahead.json || fail "compare a schedule without a flush"
python3 - <<'END' || fail "steps of a schedule without a flush"
import json
for program, steps in zip(json.load(open("ahead.json"))["programs"], (1, 2)):
    report, step = program["report"], program["step_seconds"]
    assert max(1, report["steps_per_repetition"]) == steps
    assert abs(step * steps - report["iteration_seconds"]) < 1e-12
    assert abs(sum(row["seconds"] for row in program["sources"]) - step) < 1e-9 * step
END

# A program that does not fit is shown; --require-fit names it.
sed 's/memory_bytes: [0-9]*/memory_bytes: 2147500000/' noisy.textproto >small.textproto
expect 0 '^  deep.weft .* NO ' compare deep.weft wide.weft --cluster=small.textproto
"$WEFT" compare deep.weft wide.weft --cluster=small.textproto --require-fit >shown 2>errors
[ $? -eq 1 ] || fail "--require-fit let it pass"
grep -q '^weft compare: deep.weft: the program needs .* per device; dgx-a100-80g has 2 GiB' errors ||
  fail "$(cat errors)"
grep -q ' NO ' shown || fail "no report with --require-fit"
expect 0 ' yes ' compare deep.weft wide.weft --require-fit

# The table shortens long names; JSON has them as given.
mkdir -p "a folder with a long name/"$'\033[31m'
long="a folder with a long name/"$'\033[31m'"/deep.weft"
cp deep.weft "$long"
expect 0 '^  …name/\\x1b\[31m/deep.weft +8 ' compare "$long" wide.weft
"$WEFT" compare "$long" wide.weft --format=json 2>/dev/null |
  LONG=$long python3 -c \
    'import json, os, sys; assert json.load(sys.stdin)["programs"][0]["file"] == os.environ["LONG"]' ||
  fail "the name in JSON is not the one given"

# Invalid usage.
expect 2 '^weft compare: 65 files are given; one table holds at most 64' \
  compare $(for i in $(seq 65); do echo deep.weft; done)
expect 2 "^weft compare: a file name is empty; give the path of a program or plan" compare deep.weft ''
expect 1 '^weft compare: missing.weft: cannot open' compare deep.weft missing.weft
expect 1 '^weft compare: wide.textproto: is not a compiled program' compare deep.weft wide.textproto
expect 2 'an argument is missing' compare deep.weft
expect 2 "--set needs --model, which compiles plans; without --model, 'deep.weft' must be a program" \
  compare deep.weft wide.weft --set pp=2
expect 2 '--cluster=NAME|FILE is needed' compare deep.textproto wide.textproto --model=gpt2-tiny
expect 2 '--seed needs --runs=N' compare deep.weft wide.weft --seed=3
expect 2 '--forward is for --cost=unit$' compare deep.weft wide.weft --forward=2
expect 2 '--cost=unit does not know the times of kernels' compare deep.weft wide.weft --runtime=torchtitan --cost=unit
expect 2 '--exceeded needs a program that was compiled with plan.post_validation' compare deep.weft wide.weft --exceeded
"$WEFT" compare deep.weft wide.weft >&- 2>/dev/null && fail "closed output went unnoticed"
finish
