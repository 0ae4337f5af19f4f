#!/bin/bash
# The worked examples of docs/planning.md: each command, bounded to plans near the one that the page shows first, prints
# the same first row. What depends on how long a search takes is not checked.
# Arguments: weft planning.md
set -u
document=$(readlink -f "$2")
mkdir "$TEST_TMPDIR/bin" "$TEST_TMPDIR/work"
cp -L "$1" "$TEST_TMPDIR/bin/weft"
export PATH="$TEST_TMPDIR/bin:$PATH"
cd "$TEST_TMPDIR/work" || exit 1
exec python3 - "$document" <<'PY'
import re
import subprocess
import sys

# Settings of a plan that the bounded search fixes; it chooses the others again.
FIXED = ("x", "y", "z", "dp", "pp", "mbs", "schedule", "virtual", "zero.stage")
AXES = ("x", "y", "z", "dp", "pp")
ROW = re.compile(r"^ +1 +(.*?  )((?:\w[\w.]*=\S+ ?)+)$", re.M)
# Only examples that show a table of plans are worked examples.
EXAMPLE = re.compile(r"^```sh no-run\n((?:(?!```).*\n)*?)```\n```\n((?:(?!```).*\n)*?)```\n", re.M)


def bounded(command, plan):
    """Returns `command` with flags that fix the mesh, the microbatch, the schedule and the ZeRO stage of `plan`."""
    words = dict(word.split("=", 1) for word in plan.split())
    settings = {axis: words.get(axis, "1") for axis in AXES}
    settings.update((name, words[name]) for name in FIXED if name in words)
    given = set(re.findall(r"--set ([\w.]+)=", command))
    added = "".join(f" --set {name}={value}" for name, value in settings.items() if name not in given)
    command = re.sub(r" --budget \S+| -o \S+", "", command.rstrip("\n"))
    return command + added + " --cache none --top 1"


def columns(row):
    return row.split()


examples = 0
for command, shown in EXAMPLE.findall(open(sys.argv[1]).read()):
    row = ROW.search(shown)
    if "weft plan" not in command or row is None:
        continue
    examples += 1
    run = bounded(command, row.group(2))
    done = subprocess.run(["bash", "-euc", run], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    printed = ROW.search(done.stdout)
    if done.returncode != 0 or printed is None:
        sys.exit(f"FAILED: {run}\n{done.stdout}{done.stderr}")
    if columns(printed.group(1)) != columns(row.group(1)):
        sys.exit(f"FAILED: the page shows {row.group(0)!r}, but this prints {printed.group(0)!r}:\n{run}")
    # The first line names the model, the devices and the runtime.
    if shown.split("\n")[0] != done.stdout.split("\n")[0]:
        sys.exit(f"FAILED: the page shows {shown.split(chr(10))[0]!r}:\n{run}\n{done.stdout}")
if examples < 3:
    sys.exit(f"FAILED: only {examples} worked examples were found")
print(f"{examples} worked examples agree")
PY
