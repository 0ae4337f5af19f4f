#!/usr/bin/env bash
# weft schedule and weft list.
set -uo pipefail
WEFT=$(readlink -m "$1")
source "$(dirname "$0")/expect.sh"

expect 0 '^makespan 33, span 33, ideal 24, bubble 27\.27 % of makespan \(37\.50 % of ideal\)$' schedule 1f1b
expect 0 '^  rank 3 \.\. \.\. \.\. f0 B0 B0 f1 B1 B1' schedule 1f1b --ranks=4 --microbatches=8
expect 0 '^closed form \(free transfers\): makespan 33, bubble 3/11 of makespan; source: Huang' schedule gpipe
expect 0 '^  "makespan": 10\.5,$' schedule gpipe --ranks 2 --microbatches 2 --forward 1.5 --backward 2 --format json
expect 0 '^1F0,1B0,1F1,1B1$' schedule 1f1b --ranks=2 --microbatches=2 --format=csv
expect 0 '^<svg xmlns=' schedule 1f1b --format=svg
expect 0 '^  gpipe +33 +27\.27 % +8$' schedule 1f1b --compare=all
expect 0 'bubble 0\.00 %' schedule gpipe --ranks=1 --microbatches=1
expect 0 '^  \(the first 64 of 200 ranks\)$' schedule gpipe --ranks=200

expect 2 "unknown schedule 'gpip'; nearest: 'gpipe'; known: 1f1b, gpipe" schedule gpip
expect 2 "unknown schedule 'x'" schedule gpipe --compare=1f1b,x
expect 2 'an argument is missing' schedule
expect 2 "unexpected argument '1f1b'" schedule gpipe 1f1b
expect 2 "unknown flag '--rank'; nearest: --ranks" schedule gpipe --rank=4
expect 2 "ranks='0': allowed: 1 to [0-9]+, nearest valid: 1" schedule gpipe --ranks=0
expect 2 "ranks='four': expected a whole number" schedule gpipe --ranks=four
expect 2 "expected a number from 0\.001 to 10000000 with at most 3 digits" schedule gpipe --forward=0
expect 2 "expected a number" schedule gpipe --backward=-1
expect 2 "expected a number" schedule gpipe --backward=nan
expect 2 "expected a number" schedule gpipe --backward=1e3
expect 2 "expected a number" schedule gpipe --p2p=1.2345
expect 2 "format='jsno': allowed: text, json, csv, svg, nearest valid: json" schedule gpipe --format=jsno
expect 2 'text only' schedule gpipe --compare=all --format=json
expect 1 'microbatches = 1000000; allowed: 1 to 8388, nearest valid: 8388' \
  schedule gpipe --ranks=1000 --microbatches=1000000

expect 0 '^1f1b +Narayanan' list schedules
expect 0 '^gpt2$' list models
expect 0 '^ring +Patarasuk' list collectives
expect 0 '^  \{"name": "ring", "about": "Patarasuk' list collectives --format=json
expect 0 '^analytic ' list networks
expect 0 '^roofline ' list costs
expect 0 '^weft ' list runtimes
expect 2 "cannot list 'modles'; nearest: 'models'" list modles
expect 2 'an argument is missing' list

# No colour in a pipe.
"$WEFT" schedule gpipe | grep -q $'\033' && fail "colour in a pipe"
finish
