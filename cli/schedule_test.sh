#!/usr/bin/env bash
# weft schedule and weft list.
set -uo pipefail
WEFT=$(readlink -m "$1")
source "$(dirname "$0")/expect.sh"

expect 0 '^makespan 33, span 33, ideal 24, bubble 27\.27 % of makespan \(37\.50 % of ideal\)$' schedule 1f1b
expect 0 '^  rank 3 \.\. \.\. \.\. f0 B0 B0 f1 B1 B1' schedule 1f1b --ranks=4 --microbatches=8
expect 0 '^closed form \(free transfers\): makespan 33; source: Huang' schedule gpipe
expect 0 '^  "makespan": 10\.5,$' schedule gpipe --ranks 2 --microbatches 2 --forward 1.5 --backward 2 --format json
expect 0 '^1F0,1B0,1F1,1B1$' schedule 1f1b --ranks=2 --microbatches=2 --format=csv
expect 0 '^<svg xmlns=' schedule 1f1b --format=svg
expect 0 '^  gpipe +33 +33 +33 +27\.27 % +37\.50 % +8 +1$' schedule 1f1b --compare=all
expect 0 'bubble 0\.00 %' schedule gpipe --ranks=1 --microbatches=1
expect 0 '^  \(the first 64 of 200 ranks\)$' schedule gpipe --ranks=200

# Parameters, causes of idle time, halves, pairs, lanes, asynchronous and message-driven schedules.
expect 0 'makespan 26\.25,' schedule interleaved --virtual=4
expect 0 '^makespan ' schedule hanayo --waves=2 --limit=8
expect 0 '^ +0 +24 +9 +0 +[0-9.]+ +[0-9.]+ +0 +4$' schedule 1f1b --p2p=0
expect 0 '^16 stages, 1 lanes, 1 copies of the weights$' schedule interleaved --virtual=4
expect 0 '^4 stages, 2 lanes, 2 copies of the weights$' schedule chimera
expect 0 'f forward, I input gradient, W weight gradient$' schedule zb-h1
expect 0 'p and P a forward and a backward that overlap, lanes a to b$' schedule dualpipe
expect 0 'makespan 52, .* ideal 51,' schedule dualpipe --ranks=8 --microbatches=20 --pair=2
expect 0 'makespan 49\.4,' schedule zb-h1 --microbatches=16 --backward=2 --weight=0.8 --forward=1 --ranks=2
expect 0 '^asynchronous: time per step in steady state 24, bubble 0\.00 %$' schedule pipedream
expect 0 '^0F0,' schedule axonn --freeze --format=csv
expect 1 'cannot express what axonn does: the order is message-driven' schedule axonn --format=csv
expect 1 'cannot express what chimera does: stage 0 is on ranks 0 and 3 \(lanes 0 and 1\)' schedule chimera --format=csv
expect 1 'cannot express what pipedream does: the schedule is asynchronous' schedule pipedream --format=csv
expect 1 'schedule .1f1b. does not take --virtual; those that do: ' schedule 1f1b --virtual=2
expect 1 'ranks = 5' schedule chimera --ranks=5
expect 2 'weight=3 is too large; allowed: at most --backward=2' schedule zb-h1 --weight=3

# Options that have no effect are refused.
expect 1 '^weft schedule: --freeze: schedule .1f1b. is static already; only message-driven .*: axonn, and files' \
  schedule 1f1b --freeze
expect 1 'none of the compared schedules takes --virtual; those that do: ' schedule zb-h1 --virtual=2 --compare=gpipe
expect 1 '^weft schedule: --virtual = 1; allowed: at least 2' schedule interleaved --virtual=1
expect 2 '--csv-form is for --format=csv, but the format is text' schedule 1f1b --csv-form=compute_comms
expect 2 '--dialect is for --format=csv, but the format is json' schedule 1f1b --format=json --dialect=torch
expect 2 '--communicators and --grouped check one schedule' schedule 1f1b --compare=gpipe --grouped
expect 2 '--help takes no value' schedule --help=x
expect 0 'makespan 27' schedule chimera --scaling=FORWARD_DOUBLING
# Names that are not plain text, and size limits.
expect 1 'unknown schedule .x+…' schedule "$(head -c 100000 /dev/zero | tr '\0' x)"
expect 0 '^  \(the first 256 of 300000 ranks; --format=json has all\)$' schedule 1f1b --ranks=300000 --microbatches=1
expect 0 'no timeline: the first 1 ranks have 2000000 slots, and weft draws at most ' \
  schedule gpipe --ranks=1 --microbatches=1000000
expect 1 'a drawing of 2000000 slots is too large; allowed: at most ' \
  schedule gpipe --ranks=1 --microbatches=1000000 --format=svg

# A limit on activations.
expect 0 '^makespan 33,' schedule 1f1b --activation-cap=4
expect 1 "schedule '1f1b': activation cap = 3\.5 microbatches: rank 0, slot F s0 m3: it then holds 4 microbatches" \
  schedule 1f1b --activation-cap=3.5
expect 1 'activation cap = 1\.999 microbatches: rank 0, message-driven with at most 2 ' \
  schedule axonn --limit=2 --activation-cap=1.999
expect 0 '^  1f1b +33 ' schedule gpipe --compare=1f1b --activation-cap=4
expect 0 '^  gpipe +does not apply: activation cap = 4 microbatches: rank 0, slot F s0 m4: ' \
  schedule gpipe --compare=all --activation-cap=4
expect 2 'expected a number from 0\.001' schedule gpipe --activation-cap=0

# PyTorch's forms and dialects.
expect 0 '^0UNSHARD,0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1,0REDUCE_GRAD,0RESHARD$' \
  schedule 1f1b --ranks=2 --microbatches=2 --format=csv --csv-form=compute_comms
expect 0 '^0F0,0B0,0W0,0F1,0B1,0W1$' schedule zb-h1 --ranks=1 --microbatches=2 --format=csv --dialect=torch-2.5
expect 1 'dialect torch-2\.5: .*has no REDUCE_GRAD' \
  schedule 1f1b --format=csv --csv-form=compute_comms --dialect=torch-2.5
expect 1 'dialect late-2024: .*has no OVERLAP_F_B; nearest valid: dialect torch' \
  schedule dualpipev --format=csv --dialect=late-2024

# User-defined schedule files.
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT
printf '0F0,0F1,0B0,0B1\r\n1F0,1B0,1F1,1B1\r\n' >"$dir/mine.csv"
printf '0F0,0F1,0BW0,0B1,0W1\n' >"$dir/old.csv"
printf '0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1\n' \
  >"$dir/comms.csv"
expect 0 'mine\.csv: 2 ranks, 2 microbatches$' schedule "$dir/mine.csv"
expect 0 '^makespan 9,' schedule "$dir/mine.csv" --ranks=2 --microbatches=2
expect 0 'mine\.csv +9 ' schedule "$dir/mine.csv" --compare=gpipe,1f1b
expect 0 '^0F0,0F1,0B0,0I1,0W1$' schedule "$dir/old.csv" --format=csv
expect 0 '^rank 1: F1\.0 B1\.0 F1\.1 B1\.1$' schedule "$dir/mine.csv" --format=schedule
"$WEFT" schedule chimera --format=schedule >"$dir/chimera.schedule" || fail "format=schedule"
expect 0 '^chimera: 4 ranks, 8 microbatches$' schedule "$dir/chimera.schedule"
cmp -s <("$WEFT" schedule "$dir/chimera.schedule" --format=schedule | grep -v ^name) \
  <(grep -v ^name "$dir/chimera.schedule") || fail "the text form does not come back"
sed 's/^name: .*/name: own/' "$dir/chimera.schedule" >"$dir/renamed.schedule"
expect 0 '^name: own$' schedule "$dir/renamed.schedule" --format=schedule
printf 'weft schedule 1\nranks: 1\nmicrobatches: 1\nlane 0: 0\nlane 1: 0\nrank 0: F0.0 B0.0\n' >"$dir/unused.schedule"
expect 0 '^lane 1 has no microbatch' schedule "$dir/unused.schedule"
printf 'weft schedule 1\nranks: 1\nmicrobatches: 1\nrank 0: F0.0 F0.0 B0.0\n' >"$dir/twice.schedule"
expect 1 'twice\.schedule: line 4, column 14, F0\.0: rank 0, slot F s0 m0: runs twice' schedule "$dir/twice.schedule"
: >"$dir/empty.schedule"
expect 1 "empty\.schedule: the file is empty; expected 'weft schedule 1'" schedule "$dir/empty.schedule"
cp "$dir/mine.csv" "$dir/<a>&"$'\033'"[31m.csv"
expect 0 '&lt;a&gt;&amp;\\x1b\[31m\.csv, 2 ranks' schedule "$dir/<a>&"$'\033'"[31m.csv" --format=svg
expect 0 '<a>&\\x1b\[31m\.csv: 2 ranks' schedule "$dir/<a>&"$'\033'"[31m.csv"
printf '0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n' >"$dir/grouped.csv"
expect 1 'grouped\.csv: deadlock: .*which starts together with .*waits for 1RECV_F0' \
  schedule "$dir/grouped.csv" --grouped
expect 0 '^0F0,0SEND_F0,0F1,' \
  schedule "$dir/comms.csv" --format=csv --csv-form=compute_comms --communicators=per-direction
expect 0 '^0F0,0F1,0B0,0B1$' schedule "$dir/comms.csv" --format=csv
expect 1 'deadlock: 0SEND_F1 \(rank 0\) with 1RECV_F1 \(rank 1\) waits for 1SEND_B0' \
  schedule "$dir/comms.csv" --communicators=one
expect 0 'makespan 9,' schedule "$dir/comms.csv" --communicators=one --grouped
expect 0 '^transfers checked: they cannot block, with communicators one, grouped$' \
  schedule "$dir/comms.csv" --communicators=one --grouped
expect 0 '^transfers checked: they cannot block, with communicators per-edge$' schedule 1f1b --communicators=per-edge
expect 0 '^  "transfer_check": null$' schedule "$dir/comms.csv" --format=json
expect 0 '^    "communicators": "one",$' schedule "$dir/comms.csv" --communicators=one --grouped --format=json
expect 0 '^    "grouped": true$' schedule "$dir/comms.csv" --communicators=one --grouped --format=json
expect 0 '^    "communicators": "per-direction",$' schedule "$dir/comms.csv" --communicators=per-direction --format=json
expect 0 '^    "grouped": false$' schedule "$dir/comms.csv" --communicators=per-direction --format=json
expect 1 'deadlock: 0SEND_F1 \(rank 0\) with 1RECV_F1 \(rank 1\) waits for 1SEND_B0' \
  schedule "$dir/comms.csv" --communicators=one --format=json
[ -z "$("$WEFT" schedule "$dir/comms.csv" --communicators=one --format=json 2>/dev/null)" ] ||
  fail "a refused schedule is reported"
if "$WEFT" schedule 1f1b --format=text | grep >/dev/null 'transfers checked'; then fail "checked without being asked"; fi
expect 1 'the schedule is for 2 ranks, but 4 are asked for' schedule "$dir/mine.csv" --ranks=4
expect 1 'mine\.csv: a schedule file lists its actions and takes no --waves' schedule "$dir/mine.csv" --waves=2
expect 1 'old\.csv: line 1 \(rank 0\), cell 3: dialect torch has no BW' schedule "$dir/old.csv" --file-dialect=torch
expect 1 'comms\.csv: line 1 \(rank 0\), cell 2: SEND_F in a compute_only file' \
  schedule "$dir/comms.csv" --file-form=compute_only
expect 1 "is a schedule's name" schedule gpipe --file-dialect=torch
expect 1 'no/such\.csv' schedule no/such.csv

# Times by stage.
expect 0 '^makespan 51,' schedule 1f1b --ranks=3 --microbatches=4 --forward=1,4,1 --backward=2,8,2 --weight=0
expect 0 'zb-h1: 3 ranks, 4 microbatches$' schedule zb-h1 --microbatches=4 --forward=1,4,1 --backward=2
expect 0 '^8 stages, 1 lanes, 1 copies' schedule interleaved --ranks=4 --forward=1,1,1,1,1,1,1,2
expect 0 '^makespan 33, span 33, ideal 24,' schedule 1f1b --forward=1,1,1,1 --backward=2,2,2,2
expect 0 '^  interleaved +does not apply: ' schedule 1f1b --forward=1,4,1 --compare=all
expect 0 '^  pipedream +does not apply: costs by stage need' schedule 1f1b --forward=1,4,1 --compare=all
expect 1 '^weft schedule: --forward has 3 times, but there are 4 stages; allowed: 4 times, or one' \
  schedule 1f1b --ranks=4 --forward=1,4,1
expect 1 '^weft schedule: --weight of stage 1 is larger than its --backward' \
  schedule zb-h1 --forward=1,4,1 --backward=2,2,2 --weight=1,3,1
expect 2 "forward='1,x': number 2, 'x': expected a number from" schedule 1f1b --forward=1,x
expect 2 '--pair needs one time for all stages' schedule dualpipe --forward=1,2,1,1 --pair=2
expect 2 '--input needs --weight too' schedule zb-h1 --input=1

# Synthesis.
synthesize=(schedule --synthesize --ranks=4 --microbatches=8 --forward=1,2,1,1 --backward=2,4,2,2 --activation-cap=4)
expect 0 '^synthesized: 4 ranks, 8 microbatches$' "${synthesize[@]}"
expect 0 '^lower bound [0-9.]+, (which is reached: no order is faster|gap [0-9.]+ %); found by ' "${synthesize[@]}"
expect 0 '^the fastest named schedules: [a-z0-9-]+ [0-9.]+,' "${synthesize[@]}"
expect 0 '^  "lower_bound": ' "${synthesize[@]}" --format=json
expect 0 '^<svg xmlns=' "${synthesize[@]}" --format=svg
expect 0 '^0F0,' "${synthesize[@]}" --format=csv
expect 0 '^lower bound ' "${synthesize[@]}" -o "$dir/found.schedule"
found=$("$WEFT" "${synthesize[@]}" | grep '^makespan')
again=$("$WEFT" schedule "$dir/found.schedule" --forward=1,2,1,1 --backward=2,4,2,2 --activation-cap=4 | grep '^makespan')
[ "$found" = "$again" ] || fail "the file is timed as '$again', the synthesis said '$found'"
expect 0 '^8 stages, ' schedule --synthesize --ranks=4 --virtual=2 --microbatches=4
expect 0 '^4 stages, 2 lanes, 2 copies' schedule --synthesize --forward=1,1,1,3 --backward=2,2,2,6 --replicas
expect 0 'f forward, B backward$' "${synthesize[@]}" --whole
expect 0 'makespan' schedule --synthesize --forward=1,1 --activations=2,3 --activation-cap=6.5
expect 1 '^weft schedule: --activation-cap=2 is too small for one microbatch; nearest valid: 3$' \
  schedule --synthesize --forward=1,1 --activations=2,3 --activation-cap=2
expect 1 '^weft schedule: --activations has 3 values, but there are 2 stages' \
  schedule --synthesize --ranks=2 --virtual=1 --activations=1,2,3
expect 1 '^weft schedule: 5 stages on 4 ranks; allowed: a multiple of the ranks, nearest valid: 4$' \
  schedule --synthesize --ranks=4 --forward=1,1,1,1,1
expect 1 '^weft schedule: microbatches = 1000000; allowed: 1 to ' schedule --synthesize --microbatches=1000000
expect 1 'no/such' "${synthesize[@]}" -o no/such/file
expect 2 '--synthesize makes a schedule; leave out gpipe' schedule gpipe --synthesize
expect 2 '--limit is not for --synthesize' schedule --synthesize --limit=2
expect 2 '--effort is for --synthesize' schedule gpipe --effort=2

# Comparisons.
expect 0 '^  zb-v +25\.5 +24 +25\.5 ' schedule zb-h1 --compare=all
expect 0 '^  chimera +does not apply: ranks = 3' schedule gpipe --ranks=3 --compare=all
expect 0 '"schedule": "interleaved-zb"' schedule gpipe --compare=all --format=json
expect 1 'ranks = 3' schedule gpipe --ranks=3 --compare=chimera
first() { "$WEFT" schedule gpipe --compare=all "$@" | sed -n 2p | awk '{print $1}'; }
[ "$(first)" = interleaved-zb ] || fail "fastest on fast links: $(first)"
[ "$(first --p2p=1)" = zb-h2 ] || fail "fastest on slow links: $(first --p2p=1)"

expect 1 "unknown schedule 'gpip'; nearest: 'gpipe'; known: 1f1b, .*; and there is no such file" schedule gpip
expect 1 "unknown schedule 'x'" schedule gpipe --compare=1f1b,x
expect 2 'an argument is missing' schedule
expect 2 "unexpected argument '1f1b'" schedule gpipe 1f1b
expect 2 "unknown flag '--rank'; nearest: --ranks" schedule gpipe --rank=4
expect 2 "ranks='-1': allowed: 1 to [0-9]+, nearest valid: 1" schedule gpipe --ranks=-1
expect 2 "ranks='four': expected a whole number" schedule gpipe --ranks=four
expect 2 "expected a number from 0\.001 to 10000000 with at most 3 digits" schedule gpipe --forward=0
expect 2 "expected a number" schedule gpipe --backward=-1
expect 2 "expected a number" schedule gpipe --backward=nan
expect 2 "expected a number" schedule gpipe --backward=1e3
expect 2 "expected a number" schedule gpipe --p2p=1.2345
expect 2 "format='jsno': allowed: text, json, csv, svg, schedule, nearest valid: json" schedule gpipe --format=jsno
expect 2 '.*--compare supports --format=text and json' schedule gpipe --compare=all --format=svg
expect 1 'ranks = 1000, microbatches = 1000000 and 1 stages per rank have up to 3000000000 slots; allowed: at most 67108864, nearest valid: microbatches = 22369' \
  schedule gpipe --ranks=1000 --microbatches=1000000
expect 1 'nearest valid: ranks = 2796202' schedule chimera --ranks=8388608
expect 1 'ranks = 65536, microbatches = 65536 and 1 stages per rank have up to 12884901888 slots; .*microbatches = 341' \
  schedule 1f1b --ranks=65536 --microbatches=65536

expect 0 '^1f1b +Narayanan' list schedules
expect 0 '^ +any P, N; limit >= 1 \(P\); takes --limit$' list schedules
expect 0 '; takes --virtual \(up to 1024\) --group$' list schedules
expect 0 '; takes --waves \(up to 512\) --limit$' list schedules
expect 0 '2 stages per rank; takes --virtual$' list schedules
expect 0 '"details": "any P, N"' list schedules --format=json
expect 0 '^gpt2$' list models
expect 0 '^ring +Patarasuk' list collectives
expect 0 '^  \{"name": "ring", "about": "Patarasuk' list collectives --format=json
expect 0 '^analytic ' list networks
expect 0 '^roofline ' list costs
expect 0 '^weft ' list runtimes
expect 2 "cannot list 'modles'; nearest: 'models'" list modles
expect 2 'an argument is missing' list

# No color if the output is a pipe.
"$WEFT" schedule gpipe | grep >/dev/null $'\033' && fail "color in a pipe"
finish
