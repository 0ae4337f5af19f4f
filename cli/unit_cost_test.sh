#!/usr/bin/env bash
# A plan's program, simulated with unit costs and free transfers, has the same makespan, bubble and activations as its
# schedule alone. The test covers every listed schedule. It writes the schedule to a file and reads it from there, so
# that the order of slots is the same in both, whatever costs the schedule uses. By default it runs one size; with --all
# every number of ranks and microbatches for gpipe and 1f1b, and some for the others.
set -uo pipefail
WEFT=$(readlink -m "$1")
source "$(dirname "$0")/expect.sh"
cd "$TEST_TMPDIR" || exit 1

cat >config.json <<'END'
{"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "n_embd": 16, "n_head": 2, "n_layer": 33,
 "n_positions": 32, "vocab_size": 256, "attn_pdrop": 0, "embd_pdrop": 0, "resid_pdrop": 0}
END

# field FILE NAME: a number at the top level of a JSON report. each FILE NAME: the same number of each rank.
field() { sed -n "s/^  \"$2\": \([-0-9.e+]*\),*$/\1/p" "$1"; }
each() { sed -n "s/^ \{3,\}\"$2\": \([-0-9.e+]*\),*$/\1/p" "$1" | tr '\n' ' '; }

refused=0
for schedule in $("$WEFT" list schedules | cut -d' ' -f1); do
  all_ranks=4 all_microbatches=8
  if [ "${2:-}" = --all ]; then
    case $schedule in
      gpipe | 1f1b) all_ranks=$(seq 8) all_microbatches=$(seq 16) ;;
      *) all_ranks="2 4 6 8" all_microbatches="4 8 16" ;;
    esac
  fi
  for ranks in $all_ranks; do
    for microbatches in $all_microbatches; do
      plan="$schedule with $ranks ranks and $microbatches microbatches"
      # Skip sizes that the schedule does not support, and schedules without a flush, whose step is not a makespan.
      "$WEFT" schedule "$schedule" --ranks="$ranks" --microbatches="$microbatches" --format=schedule >own.txt \
        2>refused.log || { refused=$((refused + 1)); continue; }
      grep -q '^update-every' own.txt && continue
      "$WEFT" compile --model=config.json --cluster=dgx-a100-80g --schedule=own.txt --set pp="$ranks" \
        --set accumulation=exact \
        --set gbs="$microbatches" --set seq=16 -o program.weft >compile.log 2>&1 || fail "$plan: $(tail -1 compile.log)"
      for times in "1 1" "1 2" "2 3"; do
        checks=$((checks + 1))
        set -- $times
        what="$plan, forward $1, backward $2"
        "$WEFT" schedule own.txt --forward="$1" --backward="$2" \
          --format=json >alone.json || fail "$what: schedule"
        "$WEFT" simulate program.weft --cost=unit --forward="$1" --backward="$2" --network=none --format=json \
          >program.json 2>/dev/null || fail "$what: simulate"
        for name in makespan bubble_ratio; do
          [ $name = makespan ] && scale=1e6 other=makespan_seconds || scale=1 other=bubble_ratio
          awk -v a="$(field alone.json $name)" -v b="$(field program.json $other)" -v s=$scale \
            'BEGIN { d = a - b * s; exit !(a != "" && b != "" && d < 1e-9 && d > -1e-9) }' ||
            fail "$what: $name is $(field alone.json $name) alone and $(field program.json $other) as a program"
        done
        held=$(each alone.json peak_activations)
        [ "$(wc -w <<<"$held")" = "$ranks" ] && [ "$held" = "$(each program.json peak_activations)" ] ||
          fail "$what: activations held are '$held' alone and '$(each program.json peak_activations)' as a program"
      done
    done
  done
done
[ "$refused" -lt "$checks" ] || fail "$refused plans were refused, only $checks checked"
finish
