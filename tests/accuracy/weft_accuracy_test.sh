#!/bin/bash
# weft-accuracy on the collection: the result of a run, the same bytes for the same input, and errors.
set -u
here=tests/accuracy
tool=$here/weft-accuracy
fail() {
  echo "FAIL: $*" >&2
  exit 1
}
out=$TEST_TMPDIR/out

"$tool" --data=$here/published.json --only=mlm2020-a100 --format=json > "$out.json" || fail "a family"
"$tool" --data=$here/published.json --only=mlm2020-a100 --format=json > "$out.again" || fail "a family again"
cmp "$out.json" "$out.again" || fail "the same input gives other bytes"
python3 - "$out.json" <<'PY' || fail "the report as JSON"
import json, math, sys
report = json.load(open(sys.argv[1]))
assert report["families"][0]["family"].startswith("Megatron-LM 2020")
assert len(report["rows"]) + len(report["inexpressible"]) == 4, report
for row in report["rows"]:
    assert row["predicted_seconds"] > 0 and row["measured_seconds"] > 0
    # A larger error would mean a bug, not an inaccurate prediction.
    assert abs(math.log(row["predicted_seconds"] / row["measured_seconds"])) < 0.7, row
PY

# The held-out runs have the same format, and all of their fields are read.
"$tool" --data=$here/held_out.json --only=mpt-a100-40-125m > "$out" 2> "$out.err" || fail "$(cat "$out.err")"
grep -q "[1-9][0-9]* rows predicted, 0 cannot" "$out" || fail "$(cat "$out")"
[[ ! -s "$out.err" ]] || fail "$(cat "$out.err")"

# The same holds for the unseen runs.
"$tool" --data=$here/unseen.json --only=bignlp2207-5b-n8 > "$out" 2> "$out.err" || fail "$(cat "$out.err")"
grep -q "[1-9][0-9]* rows predicted, 0 cannot" "$out" || fail "$(cat "$out")"
[[ ! -s "$out.err" ]] || fail "$(cat "$out.err")"

# A run that cannot be read is refused by name. The other runs and the ranking sets are not affected.
python3 - $here/published.json "$TEST_TMPDIR" <<'PY' || fail "writing runs"
import json, sys
runs = [run for run in json.load(open(sys.argv[1])) if run["id"] == "mlm2020-a100-1b"]
json.dump(runs + [{"id": "x", "family": "f"}], open(sys.argv[2] + "/odd.json", "w"))
sets = [{"group": "g", "metric": "m", "ids_best_to_worst": ["mlm2020-a100-1b", "gone"], "values": [2, 1]}, {"group": "h"}]
json.dump(sets, open(sys.argv[2] + "/sets.json", "w"))
PY
"$tool" --data="$TEST_TMPDIR/odd.json" --ranking="$TEST_TMPDIR/sets.json" > "$out" 2> "$out.err" || fail "$(cat "$out.err")"
grep -q "1 rows predicted, 1 cannot" "$out" && grep -q "source is missing; it must be a string  x" "$out" || fail "$(cat "$out")"
grep -q "ranking set 'g': not in the data: gone" "$out.err" || fail "$(cat "$out.err")"
grep -q "ranking set 'h': metric is missing" "$out.err" || fail "$(cat "$out.err")"
echo '{"id": "x"}' > "$TEST_TMPDIR/bad.json"
"$tool" --data="$TEST_TMPDIR/bad.json" > "$out" 2> "$out.err"
[[ $? == 1 ]] || fail "a bad file must exit with 1"
grep -q "bad.json holds an object, not a list of runs" "$out.err" || fail "$(cat "$out.err")"
[[ $(wc -l < "$out.err") == 1 ]] || fail "an error is one line"
"$tool" > /dev/null 2>&1
[[ $? == 2 ]] || fail "usage"
"$tool" --data=$here/published.json --figure=dgx-h1000.device.launch_seconds=1 > /dev/null 2> "$out.err"
[[ $? == 2 ]] && grep -q "nearest: 'dgx-h100'" "$out.err" || fail "an unknown machine"
echo ok
