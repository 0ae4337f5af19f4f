#!/bin/bash
# How users measure the error of a prediction, on this machine's cores: calibrate with the program, simulate, run,
# report.
set -uo pipefail
WEFT=$(readlink -m "$1")
source "$(dirname "$0")/expect.sh"
cd "$TEST_TMPDIR" || exit 1
head -c 20000 /dev/urandom | base64 > text.txt
must() { "$WEFT" "$@" > out 2> err || { cat err; fail "weft $*"; }; }

must compile --model=gpt2-tiny --cluster=dgx-a100-80g --set seq=32 --set gbs=4 --set precision.compute=FP32 \
  --set precision.params=FP32 --set precision.grads=FP32 --set recipe.dropout=0 --set recipe.steps=8 -o tiny.weft
must calibrate --backend=cpu --ranks=1 --threads=1 --seconds=3 --program=tiny.weft -o cores.textproto
grep -q 'kernel: "MATMUL fp32\*[23]>fp32 ' cores.textproto || fail "no rates of the program's own products"
grep -q 'kernel: "ADAMW fp32' cores.textproto || fail "no rates of its optimizer"
must simulate tiny.weft --cluster=cores.textproto --trace=predicted.trace --trace-repetitions=4
grep -q 'similar shapes\|no measured rate' err && fail "a step has no rate of its own: $(cat err)"
must run tiny.weft --data=text.txt --backend=cpu --trace=measured.trace --trace-steps=6 --report=run.json
# The prediction comes first in the output, whatever the order of the arguments.
expect 0 '^.*: time per step simulated .*, measured .* off$' report measured.trace predicted.trace --program=tiny.weft
expect 0 '^  (compute|waiting) .* % *$' report predicted.trace measured.trace --program=tiny.weft
expect 0 '^  MATMUL +[0-9]+ ' report measured.trace predicted.trace --program=tiny.weft
expect 0 '^device memory of the rank with most: planned ([0-9]+) bytes, allocated \1 bytes: equal$' \
  report measured.trace predicted.trace --program=tiny.weft
"$WEFT" report measured.trace --program=tiny.weft --cluster=cores.textproto --format=json > report.json || fail "report"
python3 - <<'P' || fail "the report does not add up"
import json
report, run = json.load(open("report.json")), json.load(open("run.json"))
for side in ("first", "second"):
    total = sum(row[side + "_seconds"] for row in report["sources"])
    whole = report[side]["iteration_seconds"]
    assert abs(total - whole) < 1e-12, (side, total, whole)
    compute = report["sources"][0][side + "_seconds"]
    assert report["sources"][0]["source"] == "compute"
    assert abs(sum(row[side + "_seconds"] for row in report["kernels"]) - compute) < 1e-12
assert abs(sum(row["share"] for row in report["kernels"]) - 1) < 1e-9
assert len(report["kernels"]) > 10 and len(report["steps"]) > 20
assert run["planned_bytes"] == run["allocated_bytes"] == report["second"]["buffer_bytes"] > 0
P
# A damaged trace is refused instead of being read as another measurement.
"$(command -v python3)" - <<'P'
data = bytearray(open("measured.trace", "rb").read())
data[len(data) // 2] ^= 1
open("damaged.trace", "wb").write(data)
P
expect 1 'damaged.trace: ' report damaged.trace
finish
