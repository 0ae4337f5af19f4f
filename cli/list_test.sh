#!/usr/bin/env bash
# weft list --show: the flags accept what it prints as a file with the same meaning.
set -uo pipefail
WEFT=$(readlink -m "$1")
source "$(dirname "$0")/expect.sh"
cd "$TEST_TMPDIR" || exit 1

compile=(compile --model gpt2-tiny --set pp=2 --set gbs=8 --set mbs=4 --set seq=32)
for cluster in dgx-a100-80g dgx-h100; do
  "$WEFT" "${compile[@]}" --cluster "$cluster" -o whole.weft >out.txt || fail "compile for $cluster: $(cat out.txt)"
  for format in text json; do
    "$WEFT" list clusters --show "$cluster" --format "$format" >copy || fail "show $cluster"
    "$WEFT" "${compile[@]}" --cluster ./copy -o copy.weft >out.txt || fail "compile for a copy: $(cat out.txt)"
    cmp whole.weft copy.weft || fail "a copy of $cluster as $format is another cluster"
  done
done
# The text includes the sources of the figures.
expect 0 '# .*data sheet' list clusters --show dgx-a100-80g
"$WEFT" list models --show gpt2-tiny >config.json || fail "show a model"
"$WEFT" compile --model ./config.json --cluster dgx-h100 --set pp=2 --set gbs=8 --set mbs=4 --set seq=32 -o x.weft \
  >out.txt || fail "compile a copy of a model: $(cat out.txt)"
for format in text json; do
  "$WEFT" list runtimes --show megatron-core --format "$format" >copy || fail "show a runtime"
  expect 0 'megatron' simulate whole.weft --runtime ./copy
done
expect 1 "no 'dgx-h10' in the catalog of clusters; nearest: 'dgx-h100'" list clusters --show dgx-h10
expect 2 "--show prints a model, cluster or runtime of the catalog" list schedules --show 1f1b
finish
