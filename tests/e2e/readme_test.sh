#!/bin/bash
# Runs every command of the README's "Real work" section as it stands there, in an empty folder.
# Arguments: README.md weft weft-run
set -uo pipefail
readme=$(readlink -f "$1")
mkdir "$TEST_TMPDIR/bin" "$TEST_TMPDIR/work"
# Side by side, as the build leaves them: weft starts the weft-run beside itself.
cp -L "$2" "$3" "$TEST_TMPDIR/bin/"
export PATH="$TEST_TMPDIR/bin:$PATH"
cd "$TEST_TMPDIR/work" || exit 1

awk '/^## Real work/ { on = 1; next } /^## / { on = 0 } on && /^```sh/ { block = 1; next } /^```/ { block = 0 } block' \
  "$readme" > commands.sh
count=$(grep -c '^weft ' commands.sh)
[ "$count" -ge 10 ] || { echo "FAILED: only $count commands were found in $readme"; exit 1; }
bash -exuo pipefail commands.sh > out.txt 2> err.txt || { cat out.txt err.txt; echo "FAILED: a command of the README"; exit 1; }

fail() { cat out.txt; echo "FAILED: $*"; exit 1; }
python3 -m json.tool trace.json > /dev/null || fail "trace.json is no JSON"
# Ten steps, five more after the resume, the recipe's last five under another plan; the loss falls. Two from the beginning,
# as processes: the same bits.
[ "$(grep -c '^step ' out.txt)" -eq 22 ] || fail "expected 22 steps"
awk '/^step / { loss[n++] = $4 } END { exit !(loss[19] < loss[0] && loss[20] == loss[0] && loss[21] == loss[1]) }' out.txt \
  || fail "the loss does not fall, or processes train otherwise than threads"
grep -q 'time per step simulated' out.txt || fail "no comparison of predicted and measured time"
echo "$count commands ran"
