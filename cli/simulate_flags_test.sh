#!/usr/bin/env bash
# What weft simulate explains, and which flags it refuses.
set -uo pipefail
WEFT=$(readlink -m "$1")
source "$(dirname "$0")/expect.sh"
cd "$TEST_TMPDIR" || exit 1
"$WEFT" compile --model=gpt2-tiny --cluster=dgx-a100-80g --set seq=64 --set gbs=8 --set pp=4 --set dp=2 -o tiny.weft \
  >/dev/null 2>&1 || fail "compile"

# field FILE NAME: a number at the top level of a JSON report.
field() { sed -n "s/^  \"$2\": \([-0-9.e+]*\),*$/\1/p" "$1"; }

# The default cost model is the best one for the cluster; the report names the model.
expect 0 '^runtime weft: .*\(cost tiles, network analytic\)' simulate tiny.weft
expect 0 '^runtime weft: .*\(cost roofline, network analytic\)' simulate tiny.weft --cost=roofline
cat >plain.textproto <<'END'
name: "plain"
device { name: "d" memory_bytes: 80000000000 memory_bytes_per_second: 1e12 launch_seconds: 1e-6
  peaks { dtype: FP32 flops_per_second: 1e13 } peaks { dtype: BF16 flops_per_second: 1e14 } }
nodes: 1 devices_per_node: 8
intra_node { bytes_per_second: 1e11 latency_seconds: 1e-6 }
END
expect 0 '\(cost roofline, network analytic\)' simulate tiny.weft --cluster=plain.textproto

# --explain: the rows add up to the isolated step; actions are listed by name. Without it the JSON fields are empty.
expect 0 '^  critical path of the step alone +time +of it$' simulate tiny.weft --explain
expect 0 '^  FORWARD +[0-9.]+ [mu]?s +[0-9.]+ %$' simulate tiny.weft --explain
expect 0 '^  its longest actions +rank +action +start +time$' simulate tiny.weft --explain
"$WEFT" simulate tiny.weft --explain --format=json >explained.json 2>/dev/null || fail "explain as JSON"
sed -n '/"critical_kinds"/,/^  \]/s/^ *"seconds": \([-0-9.e+]*\),*$/\1/p' explained.json |
  awk -v all="$(field explained.json makespan_seconds)" \
    '{ sum += $1 } END { d = sum - all; exit !(NR > 2 && d < 1e-12 && d > -1e-12) }' ||
  fail "critical_kinds do not add up to makespan_seconds: $(grep -A30 critical_kinds explained.json)"
"$WEFT" simulate tiny.weft --format=json >plain.json 2>/dev/null || fail "simulate as JSON"
for name in critical_kinds critical_actions what_if bounds noise simulated_ranks; do
  grep -q "^  \"$name\"" plain.json || fail "JSON has no $name"
done

# Every report has lower bounds, which are below the iteration.
expect 0 '^  no iteration is shorter than +time +of this one$' simulate tiny.weft
awk -v all="$(field plain.json iteration_seconds)" '/_seconds"/ { gsub(/[",:]/, " "); if ($2 > all) exit 1 }' \
  <(sed -n '/"bounds"/,/}/p' plain.json) || fail "a bound above the iteration"

# --what-if: each change alone, then all together, in the order given.
"$WEFT" simulate tiny.weft --what-if=nic=2x,compute=1.2x --what-if latency=0.5x --format=json >what.json 2>/dev/null ||
  fail "what if"
[ "$(sed -n 's/.*"change": "\(.*\)",*$/\1/p' what.json | tr '\n' ' ')" = \
  "nic=2x compute=1.2x nic=2x,compute=1.2x latency=0.5x " ] || fail "changes: $(grep change what.json)"
expect 0 '^  what if +iteration +faster by$' simulate tiny.weft --what-if=compute=1.2x
expect 0 '^  intra=2x +[0-9.]+ [mu]?s +[0-9.]+ %$' simulate tiny.weft --what-if=intra=2x
[ "$(field what.json iteration_seconds)" = "$(field plain.json iteration_seconds)" ] ||
  fail "what-if changed the report"

# With a runtime, all figures describe the framework's run.
echo 'name: "mine" base: "deepspeed"' >mine.textproto
expect 0 '^runtime mine: ' simulate tiny.weft --runtime=mine.textproto --explain --what-if=compute=2x --trace=t.json

# Folding changes only the number of simulated ranks.
"$WEFT" simulate tiny.weft --fold=off --format=json 2>/dev/null | grep -v simulated_ranks >unfolded.json
grep -v simulated_ranks plain.json | cmp -s - unfolded.json || fail "folding changed the report"
expect 2 "fold='on': allowed: auto, off" simulate tiny.weft --fold=on
expect 2 '--seed needs --runs=N' simulate tiny.weft --seed=3
# Runs without noise are refused before anything is compiled; otherwise this plan would be refused.
sed 's/^name: "plain"/& noise { }/' plain.textproto >silent.textproto
expect 1 "cluster 'plain' has no noise" simulate tiny.weft --cluster=silent.textproto --runs=3
expect 1 "cluster 'plain' has no noise" simulate --model=gpt2-tiny --cluster=silent.textproto \
  --set seq=64 --set gbs=8 --set dp=3 --runs=3
expect 2 "what-if='nik=2x': unknown what-if 'nik'; nearest: 'nic'; known: compute, host, intra, " \
  simulate tiny.weft --what-if=nik=2x
expect 2 "tokens='015T': expected a number from 1 to 1e18, e.g. 300B or 15T without a 0 in front" \
  simulate tiny.weft --tokens=015T
expect 2 "what-if='nic=-1': nic='-1': expected a factor from 0.01 to 100" simulate tiny.weft --what-if=nic=-1
expect 2 "what-if='nic=0x': nic=0x is out of range; allowed: 0.01 to 100, nearest valid: 0.01" simulate tiny.weft --what-if=nic=0x
expect 2 "nic='1e3x': expected a factor from 0.01 to 100" simulate tiny.weft --what-if=nic=1e3x
expect 2 "'nic' is not of the form NAME=FACTOR, e.g. nic=2x; see weft" simulate tiny.weft --what-if=nic
expect 2 'nic is changed twice' simulate tiny.weft --what-if=nic=2x,nic=3x
expect 2 '--what-if: compute=2x changes nothing: with --cost=unit the device has no effect' \
  simulate tiny.weft --cost=unit --what-if=compute=2x
expect 2 '--what-if: nic=2x changes nothing: with --network=none' simulate tiny.weft --network=none --what-if=nic=2x
expect 1 "what-if host=2x: cluster 'plain' does not state cluster.host.bytes_per_second" \
  simulate tiny.weft --cluster=plain.textproto --what-if=host=2x
expect 2 '--forward is for --cost=unit$' simulate tiny.weft --forward=2
expect 2 '--forward is for --cost=unit, but the cost model is tiles' simulate tiny.weft --cost=tiles --forward=2
expect 2 '--weight=3 is too large; allowed: at most --backward=2' simulate tiny.weft --cost=unit --weight=3
expect 2 '--trace-repetitions needs --trace=FILE' simulate tiny.weft --trace-repetitions=3
expect 2 '--verbose needs --format=text' simulate tiny.weft --verbose --format=json
expect 2 '--tokens needs --format=text' simulate tiny.weft --tokens=1B --format=json
expect 2 '--exceeded needs a program' simulate tiny.weft --exceeded
# A ratio without a denominator is an error, not zero.
sed '/peaks/s/.*/  peaks { dtype: FP64 flops_per_second: 1e13 } }/' plain.textproto >half.textproto
expect 1 'device\.peaks' simulate tiny.weft --cluster=half.textproto
finish
