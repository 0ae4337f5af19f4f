#!/bin/bash
# plan_rows.py: published runs become inputs of weft whose published plan takes the time that results.md states, and the
# plan that weft finds is not slower than the published one, nor faster than weft's own bound.
# Argument: weft
set -u
here=tests/accuracy
weft=$(readlink -f "$1")
out=$TEST_TMPDIR/out
fail() {
  cat "$out" "$out.err" >&2
  echo "FAIL: $*" >&2
  exit 1
}
# Two small searches without a time limit, which end by themselves: a tensor-parallel run and one with ZeRO 1.
rows=vtrain-single-h2048-l16-n8-b32-tp4-pp1-dp2-mb2,internevo-7b-ac-n8-mb8
python3 $here/plan_rows.py --weft="$weft" --budget=0 --only=$rows --set=pp=1 --check --json="$out.json" > "$out" \
  2> "$out.err" || fail "a result contradicts weft's claims"
grep -q "^2 of [0-9]* runs; 2 were searched, in [0-9] of them a faster plan was found, 0 problems" "$out" ||
  fail "the summary"
python3 - "$out.json" $here <<'PY' || fail "the results as JSON"
import json, sys
sys.path.insert(0, sys.argv[2])
import plan_rows, row_inputs
results = json.load(open(sys.argv[1]))
assert len(results) == 2
for result in results:
    # Nothing is left open, so the result is the same on every machine.
    assert result["open"] == 0 and result["gap"] <= plan_rows.WANTED_GAP, result
    assert result["best"] <= result["published"] * (1 + plan_rows.WANTED_GAP), result
    assert result["bound"] <= result["best"]
    # A contradiction is found: other times, a plan that is too slow, and a bound that is too high.
    published = result["published"]
    assert plan_rows.problems_of(result, f"{published:.4g}") == []
    assert "results.md" in plan_rows.problems_of(result, str(1.1 * published))[0]
    assert "slower than the published" in plan_rows.problems_of(dict(result, best=1.1 * published), None)[0]
    assert "lower bound" in plan_rows.problems_of(dict(result, bound=1.1 * published, outside=[]), None)[0]

# The conversion covers what it states, and names the reason for each run that it leaves out.
skipped = plan_rows.collections.Counter()
data = json.load(open(sys.argv[2] + "/published.json"))
rows = plan_rows.planned_rows(data, skipped)
assert len(rows) > 300 and skipped["context or expert parallelism"] > 0, (len(rows), skipped)
sample = plan_rows.sample_of(rows, 24)
assert len(sample) == 24 and len({row["id"] for row in sample}) == 24
assert len({row["family"] for row in sample}) >= 10
by_id = {row["id"]: row for row in rows}
assert row_inputs.outside_of_space(by_id["vtrain-39.1b-tp8-pp4-dp16-mb6"]) == [
    "microbatches of 6", "recomputes every layer", "no ZeRO"]
assert row_inputs.runtime_of(by_id["titan-8b-fsdp8cf8"]) == "torchtitan-compile-fp8"
PY
python3 $here/plan_rows.py --weft="$weft" --only=none > "$out" 2> "$out.err" && fail "an unknown run"
grep -q -e "--only: none: not a run of published.json that can be planned" "$out.err" || fail "the error about an unknown run"
echo ok
