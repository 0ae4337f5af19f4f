#!/usr/bin/env bash
# The deadlines of a run follow the predicted times of its actions: predicted by weft-run, on a given cluster, or taken
# from a trace.
set -uo pipefail
WEFT=$(readlink -m "$1")
source "$(dirname "$0")/expect.sh"
cd "$TEST_TMPDIR" || exit 1
head -c 20000 /dev/urandom | od -An -tx1 >data.txt

"$WEFT" compile --model gpt2-tiny --cluster dgx-a100-80g --set pp=2 --set gbs=8 --set mbs=4 --set seq=32 -o a.weft ||
  fail compile
"$WEFT" compile --model gpt2-tiny --cluster dgx-a100-80g --set pp=2 --set gbs=16 --set mbs=4 --set seq=32 -o b.weft ||
  fail compile
"$WEFT" simulate a.weft --trace=a.trace >/dev/null || fail simulate
"$WEFT" simulate b.weft --trace=b.trace >/dev/null || fail simulate
run=(run a.weft --data data.txt --steps 1 --fault-report none)
expect 0 '^1 step,' "${run[@]}"
expect 0 '^1 step,' "${run[@]}" --predicted a.trace
expect 1 "--predicted=b.trace: the trace is of program .* the run is of" "${run[@]}" --predicted b.trace
"$WEFT" "${run[@]}" --trace=measured.trace >/dev/null || fail "trace"
expect 1 '--predicted=measured.trace: the trace is measured' "${run[@]}" --predicted measured.trace
expect 2 'give one of them' "${run[@]}" --predicted a.trace --cluster dgx-h100
expect 1 "cluster 'dgx-h10' is neither a file nor in the catalog.*nearest: 'dgx-h100'" "${run[@]}" --cluster dgx-h10

# By default the prediction uses the program's cluster: 20 times the prediction is longer than a timeout of
# microseconds.
says='^deadlines: up to [0-9.e+-]+ s, 20 times the predicted time$'
# This machine is slower than that, so the run fails, but it prints the deadlines.
"$WEFT" "${run[@]}" --timeout 0.000001 >out.txt 2>/dev/null
grep -qE "$says" out.txt || fail "nothing was predicted: $(cat out.txt)"
"$WEFT" "${run[@]}" --timeout 0.000001 --cluster none >out.txt 2>/dev/null
grep -q deadlines out.txt && fail "predicted, though it was not to be"
# On a slow enough machine, the deadlines of actions are longer than the timeout.
"$WEFT" list clusters --show dgx-a100-80g --format=json >slow.json || fail "list clusters --show"
python3 - <<'PY'
import json
cluster = json.load(open("slow.json"))
cluster["name"] = "slow"
cluster["device"]["launch_seconds"] = 1
json.dump(cluster, open("slow.json", "w"))
PY
expect 0 '^deadlines: up to [0-9.e+]{4,} s' "${run[@]}" --cluster slow.json --timeout 20
finish
