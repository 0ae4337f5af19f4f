#!/bin/bash
# tools/gpu-check without a GPU: what it lists, what it refuses, and that a check that fails is written down.
set -uo pipefail
check=$(readlink -f "$1")
fail() { echo "FAILED: $*"; exit 1; }

python3 "$check" --list > "$TEST_TMPDIR/list" || fail "--list"
grep -q '^loopback: .*zb-v' "$TEST_TMPDIR/list" || fail "no group loopback"
python3 "$check" --bundle /nowhere 2> "$TEST_TMPDIR/err"
[ $? -eq 2 ] && grep -q 'must be a folder that tools/gpu-check --build' "$TEST_TMPDIR/err" || fail "a bundle that is not there"

bundle=$TEST_TMPDIR/bundle
mkdir -p "$bundle/bin" "$bundle/programs"
printf '#!/bin/sh\necho "no GPU"\nexit 1\n' > "$bundle/bin/gpu_backend_test"
chmod +x "$bundle/bin/gpu_backend_test"
python3 "$check" --bundle "$bundle" --only unheard 2> "$TEST_TMPDIR/err"
[ $? -eq 2 ] && grep -q 'no such group; known: kernels' "$TEST_TMPDIR/err" || fail "an unknown group"
python3 "$check" --bundle "$bundle" --only kernels 2> /dev/null && fail "a check that fails must show in the exit status"
grep -q '"result": "failed", "error": "exit status 1: no GPU"' "$bundle/results.jsonl" || fail "no line of the failed check"
# What has failed runs again; what has passed only if it is asked for.
printf '#!/bin/sh\necho "{\\"kernel\\": \\"ADD\\", \\"terabytes_per_second\\": 3.7}"\n' > "$bundle/bin/kernel_bandwidth"
chmod +x "$bundle/bin/kernel_bandwidth"
for again in "" "" --again; do
  python3 "$check" --bundle "$bundle" --only bandwidth $again 2> /dev/null || fail "a check that passes"
done
[ "$(grep -c '"check": "kernel_bandwidth".*"result": "passed"' "$bundle/results.jsonl")" -eq 2 ] || fail "expected two results"
echo '{"cut' >> "$bundle/results.jsonl"
python3 "$check" --bundle "$bundle" --table > "$TEST_TMPDIR/table" 2> "$TEST_TMPDIR/err" || fail "--table"
grep -q 'line 4: not JSON' "$TEST_TMPDIR/err" || fail "a line that was cut off"
[ "$(grep -c '| kernels | gpu_backend_test | failed |' "$TEST_TMPDIR/table")" -eq 1 ] || fail "the table"
echo ok
