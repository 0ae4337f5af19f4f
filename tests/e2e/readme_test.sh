#!/bin/bash
# Runs every command of README.md, docs/using.md and docs/synthesis.md exactly as written, each document in an empty folder, and checks
# that weft prints what the documents show.
# Arguments: weft weft-run README.md using.md synthesis.md
set -uo pipefail
readme=$(readlink -f "$3") using=$(readlink -f "$4") synthesis=$(readlink -f "$5")
mkdir "$TEST_TMPDIR/bin"
# Put both in one folder, as the build does: weft starts the weft-run beside itself.
cp -L "$1" "$2" "$TEST_TMPDIR/bin/"
export PATH="$TEST_TMPDIR/bin:$PATH"
fail() { cat out.txt err.txt 2>/dev/null; echo "FAILED: $*"; exit 1; }

# run DOCUMENT AT_LEAST: runs the ```sh blocks in order, except those marked `sh no-run`; then the ```console blocks.
run() {
  local folder=$TEST_TMPDIR/$(basename "$1" .md) count
  mkdir "$folder" && cd "$folder" || exit 1
  awk '/^```sh$/ { block = 1; next } /^```/ { block = 0 } block' "$1" > commands.sh
  count=$(grep -c '^weft ' commands.sh)
  [ "$count" -ge "$2" ] || { echo "FAILED: only $count commands were found in $1"; exit 1; }
  bash -exuo pipefail commands.sh > out.txt 2> err.txt || fail "a command of $1"
  python3 - "$1" <<'PY' || fail "a console block of $1"
import re, subprocess, sys
for block in re.findall(r"^```console\n(.*?)^```", open(sys.argv[1]).read(), re.M | re.S):
    command, shown = re.match(r"\$ ((?:[^\n]*\\\n)*[^\n]*\n)(.*)", block, re.S).groups()
    run = subprocess.run(["bash", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    at = 0
    # "…" and a line of "..." stand for omitted text; the rest must appear in this order.
    for piece in re.split(r"…|\n", shown):
        if piece.strip() in ("", "...", ";", ","):
            continue
        found = run.stdout.find(piece.rstrip(" ,;").lstrip(" ,;"), at)
        if found < 0:
            sys.exit(f"not printed, or not in this order: {piece!r}\n{run.stdout}")
        at = found
PY
  echo "$1: $count commands ran"
}

run "$readme" 8
grep -q 'by source' out.txt || fail "no comparison of predicted and measured time"
run "$using" 20
python3 -m json.tool trace.json > /dev/null || fail "trace.json is no JSON"
# Ten steps, five more after the resume, and the recipe's last five under another plan; the loss falls. Two steps from
# the beginning, as processes, give the same bits.
[ "$(grep -c '^step [0-9]' out.txt)" -eq 22 ] || fail "expected 22 steps"
awk '/^step [0-9]/ { loss[n++] = $4 } END { exit !(loss[19] < loss[0] && loss[20] == loss[0] && loss[21] == loss[1]) }' out.txt \
  || fail "the loss does not fall, or processes train otherwise than threads"
grep -q 'time per step simulated' out.txt || fail "no comparison of predicted and measured time"
run "$synthesis" 3
