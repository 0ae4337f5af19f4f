#!/usr/bin/env bash
# Help, version, and wrong usage of every subcommand: exit status 2 and one line that names the nearest valid value.
set -uo pipefail
WEFT=$(readlink -m "$1")
source "$(dirname "$0")/expect.sh"

expect 0 '^usage: weft COMMAND' --help
expect 0 '^usage: weft COMMAND' help
expect 0 '^weft [0-9]+\.[0-9]+\.[0-9]+$' --version
expect 2 'a command is missing'
expect 2 "unknown command 'complie'; nearest: 'compile'" complie
expect 2 "unknown flag '--verison'" --verison
expect 2 "unknown command ''" ''

# Every command that `weft --help` lists has its own help, with an example that begins with the command.
commands=$("$WEFT" --help | sed -n '/^commands:/,/^$/s/^  \([a-z]*\) .*/\1/p')
[ "$(wc -w <<<"$commands")" -ge 9 ] || fail "commands listed: $commands"
for command in $commands; do
  expect 0 "^usage: weft $command( |$)" "$command" --help
  expect 0 "^  weft $command " "$command" --help
  expect 0 "^usage: weft $command" "$command" -h --nonsense
  expect 2 "unknown flag '--nonsense'.*see weft $command --help" "$command" --nonsense
  expect 2 'an argument is missing|is required|(is|are) needed' "$command"
done

# The help lists all exit statuses of a run.
expect 0 '.weft run. also ends with' --help
expect 0 '128 \+ N  a rank died of signal N' --help
expect 0 '6 replicas differ; 128 \+ N' run --help
expect 2 "--backend='gpu': allowed: auto, cpu, cuda, nearest valid: cuda" calibrate --backend=gpu -o x

# Only the weft-run beside weft does `run` and `calibrate`.
mkdir "$TEST_TMPDIR/alone" "$TEST_TMPDIR/path"
cp "$WEFT" "$TEST_TMPDIR/alone/weft"
printf '#!/bin/sh\necho from PATH\n' >"$TEST_TMPDIR/path/weft-run"
chmod +x "$TEST_TMPDIR/path/weft-run"
beside=$WEFT WEFT=$TEST_TMPDIR/alone/weft PATH=$TEST_TMPDIR/path:$PATH
expect 1 "alone/weft-run does not exist; weft-run must lie beside weft" run x.weft --data=y
printf '#!/bin/sh\necho "beside: $*"\nexit 3\n' >"$TEST_TMPDIR/alone/weft-run"
expect 1 'cannot start .*alone/weft-run: Permission denied' calibrate
chmod +x "$TEST_TMPDIR/alone/weft-run"
[ "$("$WEFT" run 'a b' --c=d)" = 'beside: run a b --c=d' ] || fail "run did not pass its arguments on"
"$WEFT" calibrate >/dev/null; [ $? -eq 3 ] || fail "the exit status of weft-run was lost"
WEFT=$beside

# File names are printed without their control characters.
expect 1 '^weft report: \./no\\x1b\[31m' report $'./no\033[31m'
expect 1 '\./no\\x1b\\xff: ' compile --model=gpt2-tiny --cluster=dgx-a100-80g --schedule=$'./no\033\377' -o x.weft
expect 1 '^weft report: \./no\\u202ecod\\u009b: cannot open' report $'./no\xe2\x80\xaecod\xc2\x9b'
expect 1 '^weft compare: \./no\\u202e: ' compare $'./no\xe2\x80\xae' x.weft

# Line breaks in file names are escaped too.
expect 1 '^weft report: \./no\\x0aweft report: all is well: cannot open' report $'./no\nweft report: all is well'
expect 1 '^weft compile: \./no\\x0a: cannot open' compile --model=$'./no\n' --cluster=dgx-a100-80g -o x.weft
expect 1 '^weft run: \./no\\x0a: cannot open' run $'./no\n' --data=$'x\ny'
expect 1 "^weft compile: recipe\.lr\.decay = 'a\\\\x0ab' is unknown" \
  compile --model=gpt2-tiny --cluster=dgx-a100-80g --set seq=64 --set gbs=8 --set recipe.lr.decay=$'a\nb' -o x.weft

# Control characters in names inside files are escaped as well.
tiny=(--model=gpt2-tiny --cluster=dgx-a100-80g --set seq=64 --set gbs=8)
"$WEFT" compile "${tiny[@]}" -o "$TEST_TMPDIR/tiny.weft" >/dev/null 2>&1 || fail "compile"
"$WEFT" convert "$TEST_TMPDIR/tiny.weft" --to=text | sed 's/^name: ".*"/name: "no\\033[31m"/' >"$TEST_TMPDIR/named.txt"
"$WEFT" convert "$TEST_TMPDIR/named.txt" --type=program --to=binary -o "$TEST_TMPDIR/named.weft" || fail "convert"
expect 0 '/two\\x0alines: gpt2-tiny ' compile "${tiny[@]}" -o "$TEST_TMPDIR/two"$'\n'lines
expect 0 '^runtime weft: no\\x1b\[31m on ' simulate "$TEST_TMPDIR/named.weft"
expect 0 '^program no\\x1b\[31m, by ' inspect "$TEST_TMPDIR/named.weft"

# If the output of a long measurement cannot be written, the command is refused before it starts.
expect 1 '/nodir/c.textproto: cannot create a file beside it: No such file' calibrate -o /nodir/c.textproto
expect 1 '^weft calibrate: /dev/full: cannot write: No space left' calibrate -o /dev/full
expect 1 '/nodir/t: cannot create a file beside it: No such file' \
  calibrate -o "$TEST_TMPDIR/c.textproto" --tuning='write /nodir/t'

# "-" means standard output for text outputs, not a file of that name.
cd "$TEST_TMPDIR" || exit 1
expect 2 '-o -: this output cannot go to standard output; give a file \(\./- for' compile "${tiny[@]}" -o -
expect 2 '--trace -: this output cannot go to standard output' simulate tiny.weft --trace=-
expect 0 '^module' compile "${tiny[@]}" --emit=graph -o -
expect 0 'sequence_length' convert "$TEST_TMPDIR/tiny.weft" --to=text -o -
[ ! -e - ] || fail "a file is called -"
expect 0 '^\./-: gpt2-tiny ' compile "${tiny[@]}" -o ./-
rm ./-

# Output that cannot be written is a failure, not silence.
"$WEFT" list models >&- 2>"$TEST_TMPDIR/closed"; [ $? -eq 1 ] || fail "closed output went unnoticed"
grep -q 'cannot write to standard output: Bad file descriptor' "$TEST_TMPDIR/closed" ||
  fail "$(cat "$TEST_TMPDIR/closed")"
# With limited address space there is no memory for a region of small blocks. Sanitizers need more themselves.
if ! grep -q __asan_init "$WEFT"; then
  (ulimit -v 1000000; "$WEFT" list models) >"$TEST_TMPDIR/limited" || fail "within a limit of address space"
  cmp -s "$TEST_TMPDIR/limited" <("$WEFT" list models) || fail "other models within a limit of address space"
fi
"$WEFT" --help >/dev/full 2>/dev/null && fail "a full disk went unnoticed"
finish
