#!/bin/sh
# Builds and runs every fuzz target: tests/fuzz/run.sh SECONDS [TARGET...]
#
# Prints a line for each target and at the end `fuzz: N passed, N failed`.
# Each target runs SECONDS seconds under the address and undefined-behavior sanitizers, from its seeds, which it does
# not change. A finding is kept in $TMPDIR/weft-fuzz and its path is printed; the exit status is then 1.
# BAZEL may include startup options: BAZEL="bazel --output_base=/tmp/b".
set -eu
cd "$(dirname "$0")/../.."
seconds=${1:?usage: tests/fuzz/run.sh SECONDS [TARGET...]}
shift
bazel=${BAZEL:-bazel}
names=${*:-$($bazel query 'kind(cc_binary, attr(tags, manual, //tests/fuzz:*))' 2>/dev/null | sed 's/.*://' | sort)}
labels=$(for name in $names; do printf '//tests/fuzz:%s //tests/fuzz:%s_replay ' "$name" "$name"; done)
# Building the replay tests generates the seeds that are not checked in.
$bazel build --config=fuzz $labels
bin=$($bazel info --config=fuzz bazel-bin 2>/dev/null)
work=${TMPDIR:-/tmp}/weft-fuzz
one() {
  name=$1
  mkdir -p "$work/$name/corpus" "$work/$name/findings"
  folder=${name%_fuzz}
  folder=${folder%_message}
  find "tests/fuzz/corpus/$folder" "$bin/tests/fuzz/corpus/$folder" -type f -exec cp -f {} "$work/$name/corpus/" \; 2>/dev/null || true
  chmod -R u+w "$work/$name/corpus"
  if "$bin/tests/fuzz/$name" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=4096 -print_final_stats=0 -verbosity=0 \
      -artifact_prefix="$work/$name/findings/" "$work/$name/corpus" >"$work/$name/log" 2>&1; then
    echo "passed $name: $(find "$work/$name/corpus" -type f | wc -l) inputs in the corpus"
  else
    tail -n 40 "$work/$name/log"
    echo "FAILED $name: see $work/$name/findings"
  fi
}

# Run as many targets at once as there are cores.
mkdir -p "$work"
results=$(mktemp)
running=0
for name in $names; do
  one "$name" >"$work/$name.result" 2>&1 &
  running=$((running + 1))
  if [ "$running" -ge "$(nproc)" ]; then
    wait
    running=0
  fi
done
wait
for name in $names; do cat "$work/$name.result"; done | tee "$results"
passed=$(grep -c '^passed ' "$results" || true)
failed=$(($(echo $names | wc -w) - passed))
rm -f "$results"
echo "fuzz: $passed passed, $failed failed"
[ "$failed" -eq 0 ]
