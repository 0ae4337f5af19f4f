#!/usr/bin/env bash
# weft compile, simulate, inspect and report on the tiny model: the usual sequence, and errors in each step.
set -uo pipefail
WEFT=$(readlink -m "$1")
source "$(dirname "$0")/expect.sh"
cd "$TEST_TMPDIR" || exit 1
tiny=(--model=gpt2-tiny --cluster=dgx-a100-80g --set seq=64 --set gbs=8)

# Compile.
expect 0 '^tiny.weft: .* for 8 ranks, 4 stages, 4 microbatches, schedule 1f1b' \
  compile "${tiny[@]}" --set pp=4 --set dp=2 -o tiny.weft
"$WEFT" compile "${tiny[@]}" --set pp=4 --set dp=2 -o again.weft 2>/dev/null >&2
cmp -s tiny.weft again.weft || fail "the same input gave other bytes"
# The compiler decides choices with the cost model of weft simulate, on this machine tiles, unless another is given.
choose=(--model=gpt2-tiny --set seq=64 --set gbs=8 --set pp=2 --set transfer_placement=FASTEST)
for cost in tiles roofline; do
  "$WEFT" compile "${choose[@]}" --cluster=dgx-a100-80g --cost=$cost -o $cost.weft 2>$cost.notes >/dev/null ||
    fail "--cost=$cost"
done
"$WEFT" compile "${choose[@]}" --cluster=dgx-a100-80g -o best.weft 2>best.notes >/dev/null
grep -q 'FASTEST' best.notes || fail "no note on what FASTEST chose: $(cat best.notes)"
cmp -s best.notes tiles.notes || fail "weft compile does not choose by tiles where the cluster has them"
cmp -s best.notes roofline.notes && fail "--cost=roofline chooses by the same durations as tiles"
"$WEFT" simulate "${choose[@]}" --cluster=dgx-a100-80g --cost=roofline 2>&1 >/dev/null | grep FASTEST | cmp -s - \
  <(grep FASTEST roofline.notes) ||
  fail "weft simulate --cost=roofline compiles by another cost model"
expect 0 'weft\.program' compile "${tiny[@]}" --set pp=2 --emit=rank --cost=roofline
expect 2 "--cost='unit': allowed: " compile "${tiny[@]}" --cost=unit -o x.weft
expect 2 "--cost='tile': .*nearest valid: tiles" compile "${tiny[@]}" --cost=tile -o x.weft
expect 0 'weft\.' compile "${tiny[@]}" --emit=graph
expect 0 'weft\.program' compile "${tiny[@]}" --set pp=2 --emit=rank
expect 0 '^$' compile "${tiny[@]}" --emit=graph -o graph.mlir
grep -q 'weft\.' graph.mlir || fail "--emit=graph -o wrote no IR"
cat >recipe.textproto <<'R'
sequence_length: 64
global_batch_sequences: 8
R
cat >plan.json <<'P'
{"mesh": {"axes": [{"name": "pipe", "size": 2}]}, "schedule": {"name": "gpipe"}}
P
expect 0 'for 2 ranks, 2 stages, 8 microbatches, schedule gpipe' \
  compile --model=gpt2-tiny --cluster=dgx-h100 --recipe=recipe.textproto --plan=plan.json -o gpipe.weft
# A zero that would silently mean a default is refused wherever it is written; "default" unsets a field.
for setting in mbs=0 recipe.steps=0 loss_scale.fixed=0 vpp=0 receive_buffers=0 collective=; do
  expect 1 "--set ${setting%=}=?.*: .* = .* must be .*; (the|by) default " compile "${tiny[@]}" --set $setting -o x.weft
done
{ cat recipe.textproto; echo 'steps: 0'; } >zero.textproto
expect 1 "zero.textproto:3:1: recipe.steps = 0 must be at least 1; the default is 1" \
  compile --model=gpt2-tiny --cluster=dgx-h100 --recipe=zero.textproto -o x.weft
echo '{"send_buffers": 0}' >zero.json
expect 1 "zero.json:1:18: plan.send_buffers = 0 must be at least 1; the default is 2" \
  compile "${tiny[@]}" --plan=zero.json -o x.weft
[ ! -e x.weft ] || fail "a program is left of what was refused"
echo 'schedule { name: "interleaved" virtual_stages: 2 }' >virtual.textproto
expect 0 'schedule 1f1b' \
  compile "${tiny[@]}" --plan=virtual.textproto --set vpp=default --set schedule=default -o z.weft
expect 0 '^z.weft: gpt2-tiny for 1 rank, 1 stage, 8 microbatches' compile "${tiny[@]}" -o z.weft

# Two settings of one field are refused, whatever names they use.
for pair in 'seq=128' 'recipe.global_batch_sequences=16'; do
  expect 2 "and --set '$pair' are both given; give one" compile "${tiny[@]}" --set $pair -o y.weft
done
expect 2 "'vpp=2' and --set 'plan.schedule.virtual_stages=3' are both given; give one" \
  compile "${tiny[@]}" --set vpp=2 --set plan.schedule.virtual_stages=3 -o y.weft
expect 2 "'pp=2' and --set 'mesh.axes\[0\].size=4' are both given, but both set axes of the mesh" \
  compile "${tiny[@]}" --set pp=2 --set 'mesh.axes[0].size=4' -o y.weft
expect 2 'a recipe has one optimizer' \
  compile "${tiny[@]}" --set recipe.sgd.momentum=0.9 --set recipe.adamw.beta1=0.9 -o y.weft
expect 1 '^weft compile: plan.partition.layers_per_stage has 2 stages with 3 layers in all; needed' \
  compile "${tiny[@]}" --set pp=2 --set partition.layers_per_stage=1,2 -o y.weft
[ ! -e y.weft ] || fail "a program is left of what was refused"

# An input file is never overwritten.
cp tiny.weft mine.weft
expect 2 "--trace ./mine.weft would overwrite the program mine.weft, which is an input" \
  simulate mine.weft --trace=./mine.weft
expect 2 "-o recipe.textproto would overwrite --recipe recipe.textproto, which is an input" \
  compile --model=gpt2-tiny --cluster=dgx-h100 --recipe=recipe.textproto -o recipe.textproto
cmp -s tiny.weft mine.weft || fail "a program was overwritten by a trace"
# A file that cannot be written completely is removed.
(ulimit -f 4 && "$WEFT" compile "${tiny[@]}" --set pp=4 -o long.weft >/dev/null 2>long.err)
[ $? == 1 ] && grep -q '^weft compile: .*long.weft.*File too large' long.err || fail "a limit of files: $(cat long.err)"
compgen -G 'long.weft*' >/dev/null && fail "something is left of a file that is too long"
expect 1 'no/such' compile "${tiny[@]}" -o no/such/out.weft

# Runtimes: another framework takes another time, and the first line names the runtime.
expect 0 '^megatron-core +' list runtimes
expect 0 '^runtime megatron-core: gpt2-tiny on dgx-a100-80g' \
  simulate "${tiny[@]}" --set pp=2 --set dp=2 --set tp=2 --runtime=megatron-core
expect 0 '^runtime torchtitan: ' simulate tiny.weft --runtime=torchtitan
"$WEFT" simulate tiny.weft --runtime=megatron-2020 2>&1 >/dev/null |
  grep >/dev/null "runtime 'megatron-2020' has its own defaults for plan\.[a-z_, .]*plan\.attention.*; this program is" ||
  fail "no note on what a runtime would have decided"
expect 1 "; runtime 'internevo' sets grads = BF16, reduce = BF16 if the plan does not; .* --set precision.grads=" \
  simulate "${tiny[@]}" --runtime=internevo --set precision.compute=FP16
# The user's settings, "false" included, take precedence over the runtime's defaults.
"$WEFT" simulate "${tiny[@]}" --set tp=2 --runtime=megatron-core --format=json >parallel.json 2>/dev/null ||
  fail "sequence parallel"
"$WEFT" simulate "${tiny[@]}" --set tp=2 --set sequence_parallel=false --runtime=megatron-core --format=json \
  >repeated.json 2>/dev/null ||
  fail "not sequence parallel"
"$WEFT" simulate "${tiny[@]}" --set tp=2 --set sequence_parallel=default --runtime=megatron-core --format=json \
  2>/dev/null |
  cmp -s - parallel.json || fail "default is not the runtime's"
# A setting of a list field that the file sets too.
printf 'sequence_length: 64 global_batch_sequences: 8 adamw { overrides { pattern: "*ln*" weight_decay: 0 } }\n' \
  >listed.textproto
expect 0 '^runtime megatron-core: ' simulate --model=gpt2-tiny --cluster=dgx-a100-80g --recipe=listed.textproto \
  --set 'recipe.adamw.overrides[0].weight_decay=0.5' --runtime=megatron-core
cmp -s parallel.json repeated.json && fail "--set sequence_parallel=false is lost under a runtime"
# Stages are cut as the framework cuts them, unless the plan states the cut: nanotron by parameters, Megatron by blocks.
cut() {
  "$WEFT" simulate "${tiny[@]}" --set pp=2 --format=json "$@" 2>/dev/null || fail "simulate $*"
}
cut --runtime=nanotron | cmp -s - <(cut --runtime=nanotron --set partition.layers_per_stage=4,2) ||
  fail "nanotron does not cut by parameters"
cut --runtime=megatron-core | cmp -s - <(cut --runtime=megatron-core --set partition.layers_per_stage=3,3) ||
  fail "megatron-core does not cut by blocks"
cut --runtime=nanotron | cmp -s - <(cut --runtime=nanotron --set partition.layers_per_stage=3,3) &&
  fail "what the plan says of stages is lost under a runtime"
# If the recipe states no microbatch, the framework's usual one is used.
"$WEFT" simulate "${tiny[@]}" --runtime=megatron-2020 2>&1 >/dev/null |
  grep >/dev/null "recipe.microbatch_sequences is not set; weft takes 8, the usual value for runtime 'megatron-2020'" ||
  fail "no note on the usual microbatch"
"$WEFT" simulate "${tiny[@]}" --set mbs=2 --runtime=megatron-2020 2>&1 >/dev/null | grep 'usual value' &&
  fail "a microbatch that is given is not the runtime's to choose"
# Eight sequences leave four stages at most two microbatches. No usual microbatch fits, and no note claims one.
"$WEFT" simulate "${tiny[@]}" --set pp=4 --runtime=megatron-2020 2>notes >/dev/null || fail "few sequences"
grep 'usual value' notes && fail "what is not usual is called so"
# A note reports the runtime's cut of stages, but not a given cut, nor the cut of a single stage.
grep -q "plan.partition is not set; weft cuts the model into stages of 2, 1, 1, 2 layers, as runtime 'megatron-2020'" \
  notes ||
  fail "no note on the cut of stages: $(cat notes)"
"$WEFT" simulate "${tiny[@]}" --set pp=2 --runtime=megatron-core 2>&1 >/dev/null |
  grep >/dev/null "plan.partition is not set; weft cuts the model into stages of 3 layers, as runtime 'megatron-core' does" ||
  fail "no note on stages that are alike"
"$WEFT" simulate "${tiny[@]}" --set pp=2 --set partition.layers_per_stage=3,3 --runtime=megatron-core 2>&1 >/dev/null |
  grep 'weft cuts the model' && fail "a cut that is given is not the runtime's"
"$WEFT" simulate "${tiny[@]}" --runtime=megatron-core 2>&1 >/dev/null | grep 'weft cuts the model' &&
  fail "one stage is cut"
# If the user sets a recompute mode, even NONE, the runtime's recompute fields do not apply.
for mode in NONE FULL; do
  expect 0 '^runtime torchtitan: ' simulate "${tiny[@]}" --set recompute.mode=$mode --runtime=torchtitan
done
expect 1 'plan.recompute.every is given, but plan.recompute.mode is FULL' \
  simulate "${tiny[@]}" --set recompute.mode=FULL --set recompute.every=2 --runtime=torchtitan
# Products in 8 bits are refused on a device that has none.
expect 1 "runtime 'nemo-fp8' has no kernel for MATMUL on devices of compute capability 1 to 88; 'A100-.*' has 80" \
  simulate tiny.weft --runtime=nemo-fp8
expect 0 "^runtime nemo-fp8: " simulate tiny.weft --runtime=nemo-fp8 --cluster=dgx-h100
"$WEFT" simulate tiny.weft --runtime=nemo-fp8 --cluster=mi300x 2>&1 >/dev/null |
  grep >/dev/null "'MI300X-192GB' states none, so weft assumes" || fail "no note on a device that states no capability"
# The runtime's figures for 8 bits are relative to products in 16 bits.
for type in FP32 TF32; do
  "$WEFT" compile --model=gpt2-tiny --cluster=dgx-h100 --set seq=64 --set gbs=8 --set precision.compute=$type \
    -o $type.weft >/dev/null 2>&1 || fail "compile with precision.compute=$type"
  for costs in "simulate" "compare tiny.weft"; do
    expect 1 "precision.compute = $type in program .*; allowed for runtime 'paxml-fp8', which multiplies in 8 bits: BF16, FP16" \
      $costs $type.weft --runtime=paxml-fp8 --cluster=dgx-h100
  done
  expect 0 '^runtime paxml: ' simulate $type.weft --runtime=paxml
done
expect 0 '^runtime paxml-fp8: ' simulate --model=gpt2-tiny --cluster=dgx-h100 --set seq=64 --set gbs=8 \
  --set precision.compute=BF16 --runtime=paxml-fp8
echo 'name: "own" host { launch_seconds: 1 }' >own.textproto
expect 0 '^runtime own: ' simulate tiny.weft --runtime=own.textproto
expect 1 "runtime 'torchtitn' is neither a file nor in the catalog.*'torchtitan'" simulate tiny.weft --runtime=torchtitn
echo 'name: "own" kernels { kernel: "MATMULL" }' >own.textproto
expect 1 "own.textproto: runtime.kernels\[0\].kernel = 'MATMULL' is unknown" simulate tiny.weft --runtime=own.textproto
expect 2 '--cost=unit does not know the times of kernels' simulate tiny.weft --runtime=torchtitan --cost=unit

expect 2 '--model=.* is needed' compile --cluster=dgx-a100-80g -o x.weft
expect 2 '--cluster=.* is needed' compile --model=gpt2-tiny -o x.weft
expect 2 '-o FILE is needed' compile "${tiny[@]}"
expect 1 "cluster 'dgx-a100' is neither a file nor in the catalog.*nearest: 'dgx-" \
  compile --model=gpt2-tiny --cluster=dgx-a100 -o x.weft
expect 1 "gpt2-tinny.*gpt2-tiny" compile --model=gpt2-tinny --cluster=dgx-a100-80g -o x.weft
expect 1 'sequence_length' compile --model=gpt2-tiny --cluster=dgx-a100-80g --set gbs=8 -o x.weft
expect 1 "schedule.*'gpip'.*gpipe" compile "${tiny[@]}" --set schedule=gpip -o x.weft
expect 1 "--set pq=4: .*pq" compile "${tiny[@]}" --set pq=4 -o x.weft
# An argument that is not FIELD=VALUE is wrong usage, whatever the files contain.
for setting in pp =4; do
  expect 2 "--set '$setting': expected FIELD=VALUE" compile "${tiny[@]}" --set $setting -o x.weft
done
# An axis can be unset like any field; then the file's size does not apply.
expect 0 '^w.weft: .* for 2 ranks, 1 stage, ' \
  compile "${tiny[@]}" --plan=plan.json --set pp=default --set dp=2 -o w.weft
expect 0 '^w.weft: .* for 2 ranks, 2 stages, ' compile "${tiny[@]}" --plan=plan.json --set dp=default -o w.weft
# If a setting replaces the file's optimizer, a note names it.
{ cat recipe.textproto; echo 'adamw { beta1: 0.8 }'; } >adamw.textproto
adamw=(compile --model=gpt2-tiny --cluster=dgx-h100 --recipe=adamw.textproto -o w.weft)
"$WEFT" "${adamw[@]}" --set recipe.sgd.momentum=0.9 2>&1 >/dev/null |
  grep >/dev/null '^note: --set recipe.sgd.momentum=0.9 selects SGD .*; weft ignores the field adamw of adamw.textproto$' ||
  fail "adamw is dropped without a note"
for setting in recipe.adamw.beta2=0.9 recipe.adamw=default; do
  "$WEFT" "${adamw[@]}" --set $setting 2>&1 >/dev/null | grep 'as the optimizer' && fail "a note on --set $setting"
done
# The line on standard output is printed after the file is written.
"$WEFT" compile "${tiny[@]}" -o unread.weft >&- 2>unread.err; [ $? -eq 1 ] || fail "closed output went unnoticed"
grep -q 'cannot write to standard output: .*; unread.weft is written$' unread.err || fail "$(cat unread.err)"
expect 0 '^runtime weft: ' simulate unread.weft
expect 1 "global_batch_sequences" compile "${tiny[@]}" --set dp=3 -o x.weft
expect 1 'missing.textproto' compile "${tiny[@]}" --plan=missing.textproto -o x.weft
expect 2 "--set 'tp=2' and --set 'x=4' are both given" compile "${tiny[@]}" --set tp=2 --set x=4 -o x.weft
expect 2 "--set 'dp=2' and --set 'dp=4' are both given" compile "${tiny[@]}" --set dp=2 --set dp=4 -o x.weft
expect 1 "schedule has no value; expected a schedule's name" compile "${tiny[@]}" --set schedule= -o x.weft
expect 1 'plan\.recompute\.layers\[1\] = 77 must be 0 to [0-9]*, the layers of model' \
  compile "${tiny[@]}" --set recompute.mode=LAYERS --set recompute.layers=1,77 -o x.weft
echo 'mesh { axis { } }' >typo.textproto
expect 1 "typo.textproto:1:8: unknown field 'axis' of Mesh, plan.mesh; nearest: 'axes'" \
  compile "${tiny[@]}" --plan=typo.textproto -o x.weft
# An error in a value states its place, the allowed values and the nearest one.
echo 'precision { compute: fp31 }' >typo.textproto
expect 1 "typo.textproto:1:22: plan.precision.compute = 'fp31' is unknown; nearest: 'FP32'; known: FP16, BF16, TF32" \
  compile "${tiny[@]}" --plan=typo.textproto -o x.weft
# Enum values in files are case-insensitive, as with --set.
echo 'precision { compute: fp32 }' >lower.textproto
expect 0 '^w.weft: ' compile "${tiny[@]}" --plan=lower.textproto -o w.weft
echo 'recompute { mode: LAYERS layers: [1, 3000000000] }' >typo.textproto
expect 1 "typo.textproto:1:38: plan.recompute.layers\[1\] = '3000000000' must be .* 32 bits; nearest: 2147483647" \
  compile "${tiny[@]}" --plan=typo.textproto -o x.weft
{ cat recipe.textproto; echo 'lr { peak: 1e-400 }'; } >typo.textproto
expect 1 "typo.textproto:3:12: recipe.lr.peak = '1e-400' must be a number that a double can hold: 0, or a magnitude from 5e-324" \
  compile --model=gpt2-tiny --cluster=dgx-h100 --recipe=typo.textproto -o x.weft
expect 1 "recipe.lr.peak = '1e400' must be a number that a double can hold" \
  compile "${tiny[@]}" --set recipe.lr.peak=1e400 -o x.weft
expect 1 "plan.precision.compute = 'fp8' is unknown; known: FP16, .* --runtime=NAME-fp8" \
  compile "${tiny[@]}" --set precision.compute=fp8 -o x.weft
expect 0 '^w.weft: ' compile "${tiny[@]}" --set recompute.mode=LAYERS --set 'recompute.layers=[0, 1]' -o w.weft

# Errors count axes as in the file, even if settings add some.
echo 'mesh { axes { name: "data" size: 2 } axes { name: "pip" size: 2 } }' >axis.textproto
expect 1 "plan.mesh.axes\[1\].name = 'pip' is unknown; nearest: 'pipe'" \
  compile "${tiny[@]}" --plan=axis.textproto -o x.weft
expect 1 "axis.textproto: plan.mesh.axes\[1\].name = 'pip' is unknown" \
  compile "${tiny[@]}" --plan=axis.textproto --set tp=2 -o x.weft

# Unknown names are reported with their file. Settings take precedence over them.
echo 'schedule { name: "gpip" } collective: "ring"' >unknown.textproto
expect 1 "^weft compile: unknown.textproto: unknown schedule 'gpip'; nearest: 'gpipe'" \
  compile "${tiny[@]}" --plan=unknown.textproto -o x.weft
expect 0 'schedule 1f1b;' compile "${tiny[@]}" --plan=unknown.textproto --set schedule=1f1b -o w.weft
echo 'collective: "rung"' >unknown.textproto
expect 1 "^weft simulate: unknown.textproto: unknown collective 'rung'; nearest: 'ring'" \
  simulate "${tiny[@]}" --plan=unknown.textproto
expect 1 "^weft compare: unknown.textproto: unknown collective 'rung'" \
  compare plan.json unknown.textproto --model=gpt2-tiny --cluster=dgx-a100-80g --set seq=64 --set gbs=8
expect 1 "^weft compile: unknown collective 'rong'; nearest: 'ring'" \
  compile "${tiny[@]}" --plan=unknown.textproto --set collective=rong -o x.weft
# A collective that needs summing switches is refused before any file is written, if the switches cannot sum.
expect 1 '^weft compile: collective .switch. needs cluster.node_links.switch_reduces = true .it is false.' \
  compile "${tiny[@]}" --set dp=2 --set collective=switch -o x.weft
expect 0 'for 2 ranks' \
  compile "${tiny[@]:0:1}" --cluster=dgx-h100 "${tiny[@]:2}" --set dp=2 --set collective=switch -o w.weft

# An error in a file starts with the file's name; an error in a setting does not.
echo 'zero { stage: 1 group: 3 }' >group.textproto
for command in "compile -o x.weft" simulate; do
  expect 1 "^weft ${command%% *}: group.textproto: plan.zero.group = 3 must be a divisor of the 4 ranks" \
    $command "${tiny[@]}" --plan=group.textproto --set dp=4
  expect 1 "^weft ${command%% *}: plan.zero.group = 3 must be a divisor of the 4 ranks" \
    $command "${tiny[@]}" --plan=group.textproto --set dp=4 --set zero.group=3
done
sed 's/\*ln\*/ln/' listed.textproto >unlisted.textproto
expect 1 "^weft simulate: unlisted.textproto: recipe.adamw.overrides\[0\].pattern = 'ln' matches no .*'\*ln\*'" \
  simulate --model=gpt2-tiny --cluster=dgx-a100-80g --recipe=unlisted.textproto
expect 2 "^weft simulate: --model is for compilation, but the program 'extra' is compiled already; leave out" \
  simulate extra "${tiny[@]}"
# A user's own machine that has the name of another; and one that states no compute capability.
"$WEFT" list clusters --show dgx-a100-80g | sed 's/^\( *memory_bytes:\) [0-9]*/\1 90000000000/' >copied.textproto
"$WEFT" simulate tiny.weft --cluster=copied.textproto 2>&1 >/dev/null |
  grep >/dev/null "^note: the program was compiled for another cluster .* named 'dgx-a100-80g'; .* of copied.textproto" ||
  fail "no note on a cluster of the same name"
"$WEFT" list clusters --show dgx-a100-80g | sed '/compute_capability/d' >unstated.textproto
"$WEFT" simulate tiny.weft --cluster=unstated.textproto 2>&1 >/dev/null |
  grep >/dev/null "^note: '.*' states no device.compute_capability, so weft counts one launch per step; from compute capability 80 on" ||
  fail "no note on launches that are not joined"
"$WEFT" simulate tiny.weft 2>&1 >/dev/null | grep 'one launch per step' && fail "a note on a stated capability"

# On a terminal, and only there, progress is shown and then erased.
python3 - "$WEFT" "${tiny[@]}" --set pp=2 <<'END' || fail "progress on a terminal"
import os, pty, subprocess, sys
command = [sys.argv[1], "compile", *sys.argv[2:], "-o", "w.weft"]
assert subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE).stderr == b""
master, slave = pty.openpty()
with open(os.devnull, "wb") as null:
    process = subprocess.Popen(command, stdout=null, stderr=slave)
os.close(slave)
shown = b""
try:
    while piece := os.read(master, 4096):
        shown += piece
except OSError:  # The other end is closed.
    pass
assert process.wait() == 0
assert b"compiling gpt2-tiny: plan-memory..." in shown and shown.endswith(b"\r\x1b[K"), shown
END

# Schedules: a file keeps its own name, a name and a definition exclude each other, and an error uses the plan's terms
# if the schedule does not fit the plan.
"$WEFT" schedule gpipe --ranks=2 --format=schedule | sed 's/^name: .*/name: own/' >mine.schedule
expect 0 '2 stages, 8 microbatches, schedule own;' compile "${tiny[@]}" --set pp=2 --schedule=mine.schedule -o own.weft
expect 2 "--schedule='mine.schedule' and --set 'schedule=gpipe' are both given" \
  compile "${tiny[@]}" --set pp=2 --schedule=mine.schedule --set schedule=gpipe -o x.weft
{ echo 'schedule { name: "gpipe" definition:'; sed 's/.*/"&\\n"/' mine.schedule; echo '}'; } >defined.textproto
expect 1 "plan\.schedule: the name 'gpipe' belongs to a known schedule, but a definition .* whose name is 'own'" \
  compile "${tiny[@]}" --plan=defined.textproto --set pp=2 -o x.weft
expect 0 'schedule 1f1b;' \
  compile "${tiny[@]}" --plan=defined.textproto --set pp=2 --set plan.schedule.name=1f1b -o named.weft
sed 's/^name: own/name: own two/' mine.schedule >bad.schedule
expect 1 'bad\.schedule: line 2, column 11: unexpected .two.' \
  compile "${tiny[@]}" --set pp=2 --schedule=bad.schedule -o x.weft
expect 1 "plan\.schedule\.freeze is given, but schedule '1f1b' is not message-driven.*message-driven schedules: axonn" \
  compile "${tiny[@]}" --set pp=2 --set freeze=true -o x.weft
expect 1 '\(pp\) = 2 with 8 stages .* per rank makes 16 stages .*the model has [0-9]+ layers; nearest valid: ' \
  compile "${tiny[@]}" --set pp=2 --set schedule=interleaved --set virtual=8 -o x.weft
expect 1 'plan\.transfer_order = TOGETHER makes transfers .* EARLY wait .*or FASTEST: .*P13\.deadlock.* waits for ' \
  compile "${tiny[@]}" --set pp=4 --set transfer_order=TOGETHER -o x.weft
expect 0 'schedule 1f1b' \
  compile "${tiny[@]}" --set pp=4 --set transfer_order=TOGETHER --set transfer_placement=DEFERRED -o together.weft
[ -e x.weft ] && fail "a refused compile left a file"

# Layers that are sharded over ranks.
cut=("${tiny[@]}" --set mbs=2 --set x=2 --set z=2 --set pp=2)
expect 0 'for 8 ranks, 2 stages, 4 microbatches, schedule 1f1b' compile "${cut[@]}" -o cut.weft
expect 0 '^mesh x=2 x z=2 x pipe=2, 8 ranks' inspect cut.weft
expect 0 'TENSOR|tensor' simulate cut.weft
expect 0 'for 4 ranks, 2 stages' compile "${tiny[@]}" --set dp=2 --set pp=2 --set zero.stage=3 -o zero.weft
expect 0 'for 4 ranks, 1 stage,' compile "${tiny[@]}" --set y=4 -o y.weft
expect 1 "128 columns of a weight cannot be cut over axis y of plan.mesh, which has size 3; nearest valid: 2 or 4" \
  compile "${tiny[@]}" --set y=3 -o x.weft
expect 1 "recipe.microbatch_sequences = 1 must be a multiple of the 2 ranks of mesh axis z.*nearest valid: 2" \
  compile "${tiny[@]}" --set z=2 -o x.weft
expect 1 "plan.sequence_parallel = true needs mesh axis x of at least 2 and axis y of 1" \
  compile "${tiny[@]}" --set x=2 --set y=2 --set sequence_parallel=true -o x.weft
expect 1 "plan.zero.stage = 4" compile "${tiny[@]}" --set dp=2 --set zero.stage=4 -o x.weft

# A plan that does not fit is refused, or marked and reported.
cat >small.textproto <<'C'
name: "small" nodes: 1 devices_per_node: 2
device {
  name: "small" memory_bytes: 4000000 memory_bytes_per_second: 1e11
  peaks { dtype: FP32 flops_per_second: 1e12 }
}
intra_node { bytes_per_second: 1e10 latency_seconds: 1e-6 }
inter_node { bytes_per_second: 1e10 latency_seconds: 1e-6 }
nics_per_node: 1
host { bytes_per_second: 1e10 }
host_memory_bytes: 1000000000
C
small=(--model=gpt2-tiny --cluster=small.textproto --set seq=64 --set gbs=8)
expect 1 'does not fit|fit' compile "${small[@]}" -o x.weft
expect 0 'WHICH DOES NOT FIT' compile "${small[@]}" --allow-oom -o oom.weft
expect 0 '"fits": false' simulate oom.weft --cluster=small.textproto --format=json
expect 0 'DOES NOT FIT' simulate "${small[@]}"
"$WEFT" simulate oom.weft --cluster=small.textproto --require-fit >/dev/null 2>err
[ $? -eq 1 ] || fail "--require-fit did not exit with 1"
grep -q 'the program needs .* per device; small has' err || fail "--require-fit said: $(cat err)"
expect 1 "which is not in the catalog; give its file with --cluster" simulate oom.weft
# Under another runtime, the report decides what fits.
"$WEFT" simulate "${small[@]}" 2>&1 >/dev/null | grep >/dev/null 'note: the plan does not fit small: ' ||
  fail "it is not said what takes the memory"
"$WEFT" simulate "${small[@]}" --runtime=torchtitan 2>&1 >/dev/null | grep >/dev/null \
  "note: the fit check assumes weft's own executor; the report is for runtime 'torchtitan': the plan does not fit" ||
  fail "it is not said that another runtime may fit"

# Simulating a file and simulating a plan give the same result.
"$WEFT" simulate tiny.weft --format=json >file.json 2>/dev/null || fail "simulate a file"
"$WEFT" simulate "${tiny[@]}" --set pp=4 --set dp=2 --format=json >specs.json 2>/dev/null || fail "simulate specs"
cmp -s file.json specs.json || fail "the file and its specs are simulated differently: $(diff file.json specs.json)"
expect 0 '^runtime weft: ' simulate tiny.weft --runtime=weft
expect 0 '^300 G tokens take [0-9.e+]+ days' simulate tiny.weft --tokens=300B
expect 0 'iteration' simulate tiny.weft --cluster=dgx-h100
"$WEFT" simulate tiny.weft --cluster=dgx-h100 2>&1 >/dev/null | grep >/dev/null \
  "compiled for cluster 'dgx-a100-80g'; it is simulated on 'dgx-h100'" ||
  fail "another cluster is not named"
expect 0 'network none' simulate tiny.weft --network=none --cost=unit
expect 2 "network='flowy': allowed: agnostic, analytic, flow, nccl, none" simulate tiny.weft --network=flowy
expect 2 'tokens=.-1.: expected a number' simulate tiny.weft --tokens=-1
expect 2 'tokens=.1e99.: expected a number' simulate tiny.weft --tokens=1e99
# Runs with noise.
cat >noisy.textproto <<'C'
name: "noisy"
nodes: 2
devices_per_node: 4
device {
  name: "device"
  memory_bytes: 40000000000
  memory_bytes_per_second: 1e12
  peaks { dtype: BF16 flops_per_second: 1e14 }
  peaks { dtype: FP32 flops_per_second: 1e13 }
}
intra_node { bytes_per_second: 1e11 kind: NVLINK }
inter_node { bytes_per_second: 1e10 kind: NETWORK }
nics_per_node: 4
noise { step_deviation: 0.02 device_speed_deviation: 0.01 straggler_probability: 0.1 straggler_slowdown: 1.2 }
C
expect 0 '^  90th percentile +[0-9.]+ (us|ms|s) +-?[0-9.]+ %$' simulate tiny.weft --cluster=noisy.textproto --runs=20
for run in 1 2; do
  "$WEFT" simulate tiny.weft --cluster=noisy.textproto --runs=20 --seed=7 --format=json >run$run.json 2>/dev/null ||
    fail "simulate --runs"
done
cmp -s run1.json run2.json || fail "the same seed gave other figures"
grep -q '"seed": 7' run1.json || fail "the seed is not in the report"
expect 1 "cluster 'dgx-a100-80g' has no noise, .*set cluster.noise" simulate tiny.weft --runs=5
expect 2 '--seed needs --runs' simulate tiny.weft --seed=3
expect 2 "runs='-1'" simulate tiny.weft --runs=-1
expect 2 '--set is for compilation' simulate tiny.weft --set pp=2
expect 2 'needed' simulate
expect 1 'missing.weft' simulate missing.weft
head -c 1000 tiny.weft >cut.weft
expect 1 'cut.weft: ' simulate cut.weft
printf '\xff' | dd of=again.weft bs=1 seek=5000 conv=notrunc 2>/dev/null
expect 1 'again.weft: .*CRC' simulate again.weft

# Goodput.
sed '/^noise/d' noisy.textproto >failing.textproto
cat >>failing.textproto <<'C'
dollars_per_device_hour: 2
reliability { failures_per_node_year: 100 restart_seconds: 300 checkpoint_bytes_per_second: 1e6 spare_nodes: 1 repair_seconds: 86400 }
C
expect 0 '^  steps that count \(goodput\) +[0-9.]+ %$' simulate tiny.weft --cluster=failing.textproto --goodput
expect 0 '^  waiting for a spare node +[0-9.]+ %$' simulate tiny.weft --cluster=failing.textproto --goodput
expect 0 '^1 G tokens take [0-9.e-]+ days with interruptions \([0-9.]+ device hours, [0-9.]+ dollars\)$' \
  simulate tiny.weft --cluster=failing.textproto --goodput --tokens=1B
for run in 1 2; do
  "$WEFT" simulate tiny.weft --cluster=failing.textproto --goodput --days=30 --seed=7 --format=json >good$run.json \
    2>/dev/null || fail "simulate --goodput"
done
cmp -s good1.json good2.json || fail "the same seed gave another goodput"
awk '/"(useful|saving|repeated|restarting|waiting)":/ { gsub(/[",:]/, " "); sum += $2 } END { exit !(sum > 0.999999 && sum < 1.000001) }' \
  good1.json || fail "the shares of time do not add up to 1: $(cat good1.json)"
expect 1 "cluster 'dgx-a100-80g' does not state how often jobs are interrupted; set cluster.reliability" \
  simulate tiny.weft --goodput
expect 2 '--days needs --goodput' simulate tiny.weft --days=3
expect 2 "days='0'" simulate tiny.weft --goodput --days=0
expect 2 '--seed needs --runs' simulate tiny.weft --cluster=failing.textproto --goodput --seed=3
sed 's/spare_nodes: 1//' failing.textproto >bad.textproto
expect 1 'bad.textproto: cluster.reliability.spare_nodes is missing' simulate tiny.weft --cluster=bad.textproto --goodput
sed 's/failures_per_node_year: 100//' failing.textproto >bad.textproto
expect 1 'cluster.reliability.failures_per_device_year = 0 must be greater than 0' \
  simulate tiny.weft --cluster=bad.textproto --goodput

# Inspect.
expect 0 '^mesh data=2 x pipe=4, 8 ranks; schedule 1f1b, 4 stages, 4 microbatches of 1 x 64 tokens' inspect tiny.weft
expect 0 '^ +[0-9]+  backward +B s1 m0 ' inspect tiny.weft --rank=2
expect 0 '^  rank 0 f0 f1' inspect tiny.weft --timeline
expect 1 "rank=8: the last rank of tiny.weft is 7" inspect tiny.weft --rank=8
expect 2 "rank='-1': expected a rank" inspect tiny.weft --rank=-1
expect 1 'recipe.textproto: ' inspect recipe.textproto

# Report: a simulated trace compared with itself, and with the prediction of its own program.
"$WEFT" simulate tiny.weft --trace=t.json --trace-repetitions=3 >/dev/null 2>&1 || fail "simulate --trace"
"$WEFT" simulate tiny.weft --trace=t.trace >/dev/null 2>&1 || fail "simulate --trace, binary"
expect 0 '^simulated trace of .*: 3 steps, ' report t.json
expect 0 '^simulated trace of .*: 1 step, ' report t.trace
expect 0 'first .*, second .*: \+0\.0 % off' report t.json t.json
expect 0 '^  FORWARD +32 ' report t.json --program=tiny.weft
expect 0 '^by kind of action, summed over all ranks, per step; without host and waiting$' \
  report t.json --program=tiny.weft
expect 0 '^by source, mean over ranks, per step; includes host and waiting, so the rows add up to the step$' \
  report t.json --program=tiny.weft
# A steady period differs by a whole number of picoseconds or not at all.
"$WEFT" report t.json --program=tiny.weft | grep -E '^  steady state .*e-' && fail "rounding is shown as a time"
expect 0 '^  "iteration_error": 0,' report t.json --program=tiny.weft --format=json
expect 0 'off$' report t.json --program=tiny.weft --cluster=dgx-h100
"$WEFT" report t.json --program=tiny.weft --cluster=dgx-h100 2>&1 >/dev/null |
  grep >/dev/null "^note: the program was compiled for cluster 'dgx-a100-80g'; it is predicted on 'dgx-h100'" ||
  fail "another cluster of a prediction is not named"
expect 1 "t.json: the trace is of program .* not of" report t.json --program=gpipe.weft
expect 2 '--cluster needs --program' report t.json --cluster=dgx-h100
expect 1 'recipe.textproto' report recipe.textproto
echo '{"traceEvents": []}' >other.json
expect 1 'other.json: weft did not write this trace for viewers' report other.json
finish
