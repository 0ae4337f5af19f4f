#!/usr/bin/env bash
# The program of a plan, simulated with unit costs and free transfers, takes what its schedule alone takes: forward 1,
# backward 2, in microseconds.
set -uo pipefail
WEFT=$(readlink -m "$1")
source "$(dirname "$0")/expect.sh"
cd "$TEST_TMPDIR" || exit 1

# field FILE NAME: a number at the top level of a JSON report.
field() { sed -n "s/^  \"$2\": \([-0-9.e+]*\),*$/\1/p" "$1"; }

for schedule in $("$WEFT" list schedules | cut -d' ' -f1); do
  for ranks in 1 2 3 4 6; do
    for microbatches in 1 2 3 8; do
      checks=$((checks + 1))
      plan="$schedule with $ranks ranks and $microbatches microbatches"
      "$WEFT" schedule "$schedule" --ranks=$ranks --microbatches=$microbatches --format=json >alone.json ||
        fail "$plan: schedule"
      "$WEFT" simulate --model=gpt2-tiny --cluster=dgx-a100-80g --set schedule="$schedule" --set pp=$ranks \
        --set gbs=$microbatches --set seq=16 --cost=unit --network=none --format=json >program.json 2>/dev/null ||
        fail "$plan: simulate"
      for name in makespan bubble_ratio; do
        [ $name = makespan ] && scale=1e6 other=makespan_seconds || scale=1 other=bubble_ratio
        awk -v a="$(field alone.json $name)" -v b="$(field program.json $other)" -v s=$scale \
          'BEGIN { d = a - b * s; exit !(a != "" && b != "" && d < 1e-9 && d > -1e-9) }' ||
          fail "$plan: $name is $(field alone.json $name) alone and $(field program.json $other) as a program"
      done
    done
  done
done
finish
