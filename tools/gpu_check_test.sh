#!/bin/bash
# Tests tools/gpu-check without a GPU: what it lists and refuses, how it unpacks its bundle, that it records a failed
# check and resumes an interrupted one, that tests which crash, hang or break the GPU do not affect the others, and
# speed rows with and without PyTorch. It uses fake versions of weft-run, the tests, nvidia-smi and PyTorch.
set -uo pipefail
check=$(readlink -f "$1") root=$PWD
fail() { echo "FAILED: $*"; cat "$TEST_TMPDIR/err" 2> /dev/null; exit 1; }
cd "$TEST_TMPDIR" || exit 1
export TMPDIR=$TEST_TMPDIR/tmp
mkdir "$TMPDIR"
gpu_check() { python3 "$check" "$@" 2> "$TEST_TMPDIR/err"; }

gpu_check --list > list || fail "--list"
grep -q '^loopback: .*zb-v' list || fail "no group loopback"
[ "$(sed 's/:.*//' list | grep -n 'speed-7b\|pytorch-gpt2-xl\|calibrate\|offload' | tr -d '\n' | sed 's/[0-9]*:/ /g')" = \
  " speed-7b pytorch-gpt2-xl calibrate offload" ] || fail "the order of the groups"
[ "$(head -1 list)" = 'contact: machine contact-fp32 contact-tf32 contact-bf16' ] || fail "the first contact comes first"
gpu_check --bundle /nowhere
[ $? -eq 2 ] && grep -q 'must be a folder that tools/gpu-check --build' err || fail "a bundle that is not there"

# ---- Bad arguments give one line, and no file of the user is lost. BAZEL=false: nothing may be built here.
refused() {  # STATUS TEXT ARGUMENTS...
  local status=$1 text=$2
  shift 2
  BAZEL=false gpu_check "$@" > /dev/null
  [ $? -eq "$status" ] && [ "$(grep -c '^gpu-check: ' err)" -eq 1 ] && ! grep -q Traceback err && grep -qF -- "$text" err \
    || fail "$*: not status $status and: $text"
}
mkdir -p empty/bin broken odd/static odd/unpacked odd/weft
touch file odd/static/mine odd/unpacked/mine odd/weft/mine
echo xx > broken/bundle.tar.xz
refused 1 "--build file: it must be a folder, or one that can be made (File exists)" --build file
refused 1 "--build file/x: it must be a folder, or one that can be made (Not a directory)" --build file/x
refused 1 "--archs sm_90: 'sm_90' is unknown; known: sm_80 sm_90a sm_100" --build odd --archs sm_90
[ "$(find odd | wc -l)" -eq 7 ] || fail "a refused --build leaves the folder as it was"
BAZEL=false gpu_check --build odd
[ $? -eq 1 ] && [ "$(find odd -name mine | wc -l)" -eq 3 ] && [ "$(find odd | wc -l)" -eq 7 ] \
  || fail "a build that fails leaves the folder as it was"
refused 1 "--cpu-curve $PWD/none/x.json: the folder $PWD/none does not exist" --cpu-curve none/x.json
refused 1 "file" --bundle empty --out file
refused 1 "nowhere" --bundle empty --out o --before nowhere
refused 1 "bundle.tar.xz cannot be unpacked" --bundle broken --only kernels
cp broken/bundle.tar.xz broken/files.tar.xz
refused 1 "files.tar.xz cannot be unpacked" --predictions broken
refused 2 "argument --gpus: 0 is given, at least 1 is allowed" --bundle empty --gpus 0
refused 2 "argument --seconds: nan is given, at least 1 is allowed" --bundle empty --seconds nan

# ---- A fake machine.
mkdir -p path
printf '#!/bin/sh\necho "NVIDIA H200, 580.1, 143771 MiB"\n' > path/nvidia-smi
# python3 has a PyTorch if there is a file `torch`; then PyTorch is half as fast as weft.
cat > path/python3 <<S
#!/bin/sh
case "\$*" in
  "-c import torch"*) [ -e "$TEST_TMPDIR/torch" ] && exit 0; echo "ModuleNotFoundError: No module named 'torch'" >&2; exit 1;;
  *"--states mixed"*) [ -e "$TEST_TMPDIR/small" ] && { echo "torch.OutOfMemoryError: CUDA out of memory" >&2; exit 1; };;
esac
case "\$*" in *pytorch_gpu.py*) echo "\$*" >> "$TEST_TMPDIR/asked"; echo "compiling"; echo '{"tokens_per_second": 32768.0}';; esac
S
chmod +x path/*
real=$(python3 -c 'import sys; print(sys.executable)')
export PATH=$PWD/path:$PATH
gpu_check() { "$real" "$check" "$@" 2> "$TEST_TMPDIR/err"; }

mkdir -p raw/bin raw/programs bundle
# A minimal GoogleTest: the names in TESTS, and a function test_NAME for each.
cat > googletest <<'S'
[ "$1" = --gtest_list_tests ] && { echo "Running main() from gmock_main.cc"; echo "Suite/Gpu."; printf '  %s  # GetParam() = 1\n' $TESTS; exit; }
wanted=:${1#--gtest_filter=}: status=0
[ $# -gt 0 ] && echo "Note: Google Test filter = ${1#--gtest_filter=}"
for test in $TESTS; do
  [ $# -gt 0 ] && case $wanted in *":Suite/Gpu.$test:"*) ;; *) continue;; esac
  echo "[ RUN      ] Suite/Gpu.$test"
  "test_$test" && echo "[       OK ] Suite/Gpu.$test (0 ms)" || { echo "[  FAILED  ] Suite/Gpu.$test (0 ms)"; status=1; }
done
exit $status
S
cat > raw/bin/nccl_gpu_test <<S
#!/bin/bash
TESTS=Opens
test_Opens() { printf 'a.cc:27: Failure\nValue of: opened.ok()\n  Actual: false\nno libnccl.so.2: looked in /usr/lib\n'; return 1; }
. "$TEST_TMPDIR/googletest"
S
cat > raw/bin/kernel_bandwidth <<S
#!/bin/sh
echo "\$CUDA_HOME" > "$TEST_TMPDIR/home"
echo '{"kernel": "ADD", "terabytes_per_second": 3.7}'
if [ -e "$TEST_TMPDIR/bad-kernel" ]; then echo '{"kernel": "GELU", "error": "is no launch"}'; printf '{"kernel": "MU'; exit 1; fi
S
# A file `kernels` defines what the kernels' tests do; without it they take their time.
cat > raw/bin/gpu_backend_test <<S
#!/bin/bash
TESTS=Sleeps
test_Sleeps() { sleep 60; }
[ -e "$TEST_TMPDIR/kernels" ] && . "$TEST_TMPDIR/kernels"
. "$TEST_TMPDIR/googletest"
S
cat > raw/bin/gpu_runs_test <<S
#!/bin/bash
TESTS=Runs
test_Runs() { true; }
. "$TEST_TMPDIR/googletest"
S
# A step of 65,536 tokens takes one second; each of the first steps, which do not count, takes ten.
cat > raw/bin/weft-run <<'S'
#!/usr/bin/env -S PATH=/usr/bin:/bin python3
import json, os, sys
if sys.argv[1] == "calibrate":
    open(sys.argv[sys.argv.index("-o") + 1], "w").write("# " + " ".join(sys.argv) + "\n")
    sys.exit()
steps = int(next((a[8:] for a in sys.argv if a.startswith("--steps=")), "10"))
broken = os.environ.get("BROKEN_RUN")
if broken:
    blocking = os.environ.get("CUDA_LAUNCH_BLOCKING") == "1"
    sys.exit("weft run: rank 0, step 0" + (f": step 'h.3', kernel ADD, of {steps} steps" if blocking else "")
             + ": cudaEventQuery: an illegal memory access was encountered (cudaErrorIllegalAddress)")
tuned = any(a.startswith("--tuning=write ") for a in sys.argv)
if os.environ.get("BROKEN_TUNING") and tuned:
    sys.exit("weft run: cublasLtMatmul: CUBLAS_STATUS_EXECUTION_FAILED")
# The logarithm of the vocabulary plus half the variance of logits; the loss learned per step; the deviation of bf16.
program = os.path.basename(sys.argv[2])
first = 12.58 if "8b" in program else 11.0
slope, off = float(os.environ.get("SLOPE", "0.01")), float(os.environ.get("BF16_OFF", "0.01"))
first += float(os.environ.get("FIRST_OFF", "0")) + (off if "contact-bf16" in program else 0)
print("weft: 1 rank\nattention runs on weft's own kernels\nstep 0  loss 10")
report = {"planned_bytes": 7, "allocated_bytes": 7, "steps": [
    {"loss": first - slope * i, "seconds": 10 if i < 3 else 1} for i in range(steps)]}
open(sys.argv[sys.argv.index("--report") + 1], "w").write(json.dumps(report))
for a in sys.argv:
    if a.startswith("--tuning=write "):
        open(a[15:], "a").write("tuned\n")
if "--trace" in sys.argv:
    open(sys.argv[sys.argv.index("--trace") + 1], "w").write("trace")
S
chmod +x raw/bin/*
cp "$root/tests/bench/model_flops.py" "$root/tests/bench/pytorch_gpu.py" raw/
for model in gpt2 gpt2-xl qwen2.5-1.5b llama-3.1-8b; do cp "$root/catalog/models/$model/config.json" "raw/$model.json"; done
tar -C raw -cJf bundle/bundle.tar.xz bin programs $(ls raw | grep -v -e bin -e programs)

gpu_check --bundle bundle --only unheard
[ $? -eq 2 ] && grep -q 'no such group; known: contact' err || fail "an unknown group"

# ---- Failed checks are recorded, name what is missing, and run again; passed checks do not.
gpu_check --bundle bundle --only nccl && fail "a check that fails must show in the exit status"
results=bundle/out/results.jsonl
grep -q '"check": "nccl_gpu_test".*"result": "failed", "error": "0 of 1 tests passed, 1 failed, .*no libnccl.so.2: looked in' \
  "$results" || fail "no line of the failed check"
grep -q '^gpu-check: nccl nccl_gpu_test: failed in 0 s .*no libnccl.so.2: looked in /usr/lib.*; failed: Suite/Gpu.Opens$' err \
  || fail "a failure is told in one line"
grep -q '"check": "zb-v".*"result": "not run"' "$results" || fail "what needs several GPUs is not run"
grep -q '"machine": "NVIDIA H200, 580.1, 143771 MiB"' "$results" || fail "the machine"
for again in "" "" --again; do gpu_check --bundle bundle --only bandwidth $again || fail "a check that passes"; done
[ "$(grep -c '"check": "kernel_bandwidth".*"result": "passed"' "$results")" -eq 2 ] || fail "expected two results"
[ "$(ls -d bundle/unpacked-* | wc -l)" -eq 1 ] || fail "it is unpacked once"
# If one kernel fails, the rates of the others are kept.
touch bad-kernel
gpu_check --bundle bundle --out bad --only bandwidth && fail "a kernel that fails"
rm bad-kernel
grep -q '"result": "failed", "error": "GELU: is no launch; exit status 1: .*; measured: .*3.7' bad/results.jsonl ||
  fail "what was measured beside what failed"

# ---- Speed rows: what is counted, PyTorch's command, and the message if there is no PyTorch.
gpu_check --bundle bundle --only contact || fail "the first contact"
grep -q '"check": "contact-bf16".*"largest_difference_from_fp32": 0.0099' "$results" || fail "bf16 beside fp32"
grep -q '"check": "contact-bf16".*attention runs on weft' "$results" || fail "what weft-run notes"
# Losses which show that nothing, or something else, was computed; each error includes the figures.
no_losses() {  # GROUP TEXT VARIABLES...
  local group=$1 text=$2
  shift 2
  env "$@" "$real" "$check" --bundle bundle --out losses --only "$group" 2> err && fail "$group with $*"
  grep -q "^gpu-check: $group .*: failed in .*$text.*\(tokens_per_second\|losses\|seconds\)" err ||
    fail "$group with $*: not: $text"
}
no_losses contact "losses that are no numbers" SLOPE=nan
no_losses contact "the first loss is 12.0, with these initial weights it is 10.98" FIRST_OFF=1
no_losses contact "more than 2e-2 from the losses in fp32" BF16_OFF=0.03
no_losses speed-gpt2-xl "losses that are no numbers" SLOPE=inf
no_losses speed-8b "the first loss is 12.0.*, with these initial weights it is 12.58" FIRST_OFF=-0.55
no_losses speed-8b "nothing has been learned" SLOPE=0
# If a tuned algorithm breaks the device, the row is measured without tuning.
env BROKEN_TUNING=1 "$real" "$check" --bundle bundle --out untuned --only speed-8b 2> err || fail "a row without tuning"
grep '"result": "passed"' untuned/results.jsonl |
  grep >/dev/null '"tuning_failed": "exit status 1: weft run: cublasLtMatmul: CUBLAS_STATUS_EXECUTION_FAILED' ||
  fail "a row says that it is not tuned"
gpu_check --bundle bundle --only speed-gpt2-xl --only speed-8b --only pytorch-gpt2-xl --only calibrate ||
  fail "speed rows without PyTorch"
grep -q '"not_run": ".*python3 has no PyTorch that sees a GPU (ModuleNotFoundError: No module named .torch.)' "$results" \
  || fail "the rival that is not there"
touch torch
gpu_check --bundle bundle --only pytorch-gpt2-xl --again || fail "the rival of a row"
touch small
gpu_check --bundle bundle --only pytorch-8b --again || fail "a rival that does not fit"
python3() { "$real" "$@"; }
python3 - bundle/out <<'P' || fail "figures of the speed rows"
import json, pathlib, sys
out = pathlib.Path(sys.argv[1])
rows = {r["check"]: r for r in json.load(open(out / "results.json"))}
xl = rows["speed-gpt2-xl"]["figures"]
assert xl["tokens_per_second"] == 65536 and xl["steps"] == 20 and xl["warm_up"] == 3, xl
assert rows["pytorch-gpt2-xl"]["figures"]["weft_over_pytorch"] == 2, rows
assert xl["goals"]["tokens_per_second"] == {"wanted": 60e3, "met": True}, xl
# 48 layers of 12 x 1600^2 and the head, and half of the scores of 1024 keys.
flops = 6 * (48 * 12 * 1600**2 + 1600 * 50257) + 48 * 6 * 1024 * 1600
assert abs(xl["mfu_causal"] - 65536 * flops / 989.4e12) < 1e-12, xl["mfu_causal"]
llama = rows["speed-8b"]["figures"]
assert llama["steps"] == 10 and llama["goals"]["mfu_causal"]["met"] in (True, False), llama
assert rows["pytorch-8b"]["figures"]["tokens_per_second"] == 32768
asked = open("asked").read().splitlines()
assert "--sequence 1024 --tokens 65536 --microbatch 16 --steps 20 --warm-up 3 --states fp32" in asked[0], asked
assert "--sequence 8192 --tokens 65536 --microbatch 1 --steps 10 --warm-up 3 --states bf16" in asked[1], asked
P
gpu_check --bundle bundle --only offload || fail "optimizer states on the host"
no_losses offload "the first loss is 12.0.*, with these initial weights it is 12.58" FIRST_OFF=-0.55
tar -xJf bundle/out/files.tar.xz calibrated.textproto || fail "no calibrated cluster"
grep -q 'read .*tuning.txt' calibrated.textproto || fail "calibration does not take the tuned algorithms"
grep -q 'programs/speed-8b.weft' calibrated.textproto || fail "calibration does not take the programs"
# No pipe into grep -q: it stops reading early, and tar would fail.
[[ $(tar -tJf bundle/out/files.tar.xz) == *speed-8b.trace* ]] || fail "files that go back"
[ "$(cd bundle/out; echo *)" = "files.tar.xz results.json results.jsonl table.md tuning.txt" ] || fail "what is left"

# ---- A test that crashes, hangs or breaks the GPU affects no other test and no other check, and the error names it.
sed 's/^\(QUIET\|ALONE\)_SECONDS = .*/\1_SECONDS = 1/' "$(dirname "$check")/gpu_tests.py" > quiet.py
mkdir -p quiet && cp "$(dirname "$check")"/gpu*check* "$(dirname "$check")"/gpu_{machine,process}.py quiet && mv quiet.py quiet/gpu_tests.py
cat > kernels <<'S'
TESTS="Passes Crashes AlsoPasses Hangs Breaks Last"
for name in Passes AlsoPasses Last; do eval "test_$name() { [ -z \"\$broken\" ]; }"; done
test_Crashes() { kill -SEGV $$; }
test_Hangs() { sleep 60; }
test_Breaks() {
  broken=1
  [ "$CUDA_LAUNCH_BLOCKING" = 1 ] && echo "kernel ADD: cudaLaunchKernel: (cudaErrorIllegalAddress)" \
    || echo "cudaEventSynchronize: an illegal memory access was encountered (cudaErrorIllegalAddress)"
  return 1
}
S
"$real" quiet/gpu-check --bundle bundle --out broken-gpu --only kernels --only bandwidth 2> err && fail "broken kernels"
python3 - broken-gpu/results.json <<'P' || fail "what broken kernels leave"
import json, sys
rows = {r["check"]: r for r in json.load(open(sys.argv[1]))}
error = rows["gpu_backend_test"]["error"]
assert error.startswith("3 of 6 tests passed, 3 failed, 0 did not run"), error
assert "Suite/Gpu.Crashes\nthe process ended with signal 11\nby itself" in error, error
assert "Suite/Gpu.Hangs\nno output for 1 s; it was killed" in error, error
assert "with CUDA_LAUNCH_BLOCKING=1: " in error and "kernel ADD: cudaLaunchKernel: (cudaErrorIllegalAddress)" in error, error
assert rows["kernel_bandwidth"]["result"] == "passed"
assert rows["gpu_runs_test"]["figures"]["tests"] == 1, rows
P
rm kernels
# Without a driver every test fails with the same message and ends its process: one line gives the reason, not the names
# of the tests that did not run.
cat > kernels <<'S'
TESTS=$(seq -f Test%g 20)
for name in $TESTS; do
  eval "test_$name() { echo 'backend cuda: no NVIDIA driver here'; echo '[  FAILED  ] Suite/Gpu.$name (0 ms)'; exit 1; }"
done
S
"$real" quiet/gpu-check --bundle bundle --out no-driver --only kernels 2> err && fail "kernels without a driver"
grep -q 'gpu_backend_test: failed .* tests passed, .* did not run; .*backend cuda: no NVIDIA driver here' err ||
  fail "no line that says what is missing: $(cat err)"
grep -q "Google Test filter" err && fail "names of tests instead of a reason: $(cat err)"
rm kernels
BROKEN_RUN=1 gpu_check --bundle bundle --out broken-gpu --only contact && fail "a broken run"
grep -q "cudaErrorIllegalAddress).nagain, with CUDA_LAUNCH_BLOCKING=1: .*step 'h.3', kernel ADD, of 1 steps" \
  broken-gpu/results.jsonl || fail "the place of what is broken"
grep -c '"group": "contact"' broken-gpu/results.jsonl | grep >/dev/null -x 4 || fail "a check that fails leaves out others"

# ---- Interrupted runs, runs with little time left, and a fresh machine.
gpu_check --bundle bundle --only kernels --seconds 20 || fail "nothing is started that does not fit"
grep -q 'kernels gpu_backend_test: not started: it may take 240 s, 20 s are left' err || fail "no line of what was left out"
"$real" "$check" --bundle bundle --only kernels 2> err & pid=$!
for _ in $(seq 100); do pgrep -P $pid > /dev/null && break; sleep 0.1; done
kill $pid; wait $pid; [ $? -eq 143 ] || fail "the exit status of what is cut off"
# If the time ends in the middle of a check, the check has not failed, and its processes are gone.
sed "s/^SECONDS = {.*/SECONDS = {\"kernels\": 1,/" "$(dirname "$check")/gpu_checks.py" > hurried.py
mkdir -p hurried && cp "$(dirname "$check")"/gpu*check* "$(dirname "$check")"/gpu_{machine,process,tests}.py hurried
mv hurried.py hurried/gpu_checks.py
"$real" hurried/gpu-check --bundle bundle --out cut --only kernels --seconds 3 2> err || fail "what is cut off has not failed"
grep -q '"check": "gpu_backend_test".*"result": "not run", "error": "0 of 1 tests passed.*cut off after [23] s' cut/results.jsonl || fail "cut off"
grep -q '3 checks had no time: the same command again goes on with them' err || fail "what is left to do"
# A kill leaves half a line, and no running process.
"$real" "$check" --bundle bundle --out cut --only kernels 2> err & pid=$!
for _ in $(seq 100); do started=$(pgrep -P $pid -f gpu_backend_test) && break; sleep 0.1; done
kill -KILL $pid; wait $pid 2> /dev/null
for _ in $(seq 50); do kill -0 "$started" 2> /dev/null || break; sleep 0.1; done
kill -0 "$started" 2> /dev/null && fail "a check outlives a kill"
printf '{"cut' >> cut/results.jsonl
gpu_check --bundle bundle --out cut --only bandwidth || fail "after a kill"
grep -q '^{"group": "bandwidth"' cut/results.jsonl || fail "half a line has taken the next one with it"
# A toolkit in an unusual place, on a machine without one in the usual place.
mkdir -p elsewhere/bin elsewhere/lib64 && printf '#!/bin/sh\n' > elsewhere/bin/nvcc && chmod +x elsewhere/bin/nvcc
sed 's,/usr/local/cuda/lib64,/nowhere,' "$(dirname "$check")/gpu_machine.py" > hurried/gpu_machine.py
PATH=$PWD/elsewhere/bin:$PATH "$real" hurried/gpu-check --bundle bundle --out cut --only bandwidth --again 2> err || fail "nvcc"
[ "$(cat home)" = "$(readlink -f elsewhere)" ] || fail "the toolkit of nvcc: $(cat home)"
# A bundle in a folder that is not writable. (Root can write anyway.)
cp -r bundle fixed && rm -rf fixed/out fixed/unpacked-* && chmod a-w fixed
gpu_check --bundle fixed --out o2 --only bandwidth || fail "a bundle that cannot be written to"
[ -w fixed ] || [ "$(ls -d "$TMPDIR"/gpu-check-work-*/unpacked-* | wc -l)" -eq 1 ] || fail "where it is unpacked"
chmod u+w fixed
cp -r bundle fresh && rm -rf fresh/out fresh/unpacked-*
gpu_check --bundle fresh --out fresh/o --before bundle/out --only bandwidth || fail "--before"
grep -q 'bandwidth kernel_bandwidth: done before' err || fail "results of an earlier machine"
[ -s fresh/o/tuning.txt ] || fail "tuned algorithms of an earlier machine"
# A new bundle repeats only the checks whose own files have changed.
echo "# changed" >> raw/bin/kernel_bandwidth && mkdir changed
tar -C raw -cJf changed/bundle.tar.xz bin programs $(ls raw | grep -v -e bin -e programs)
gpu_check --bundle changed --before bundle/out --only bandwidth --only speed-gpt2-xl || fail "a changed bundle"
grep -q 'bandwidth kernel_bandwidth: passed' err || fail "a changed binary is not run again"
grep -q 'speed-gpt2-xl speed-gpt2-xl: done before' err || fail "an unchanged binary is run again"
echo '{"cut' >> "$results"
gpu_check --bundle bundle --table > table || fail "--table"
grep -q 'not JSON of a check' err || fail "a line that was cut off"
[ "$(grep -c '| nccl | nccl_gpu_test | failed |' table)" -eq 1 ] || fail "the table"
gpu_check --predictions empty-folder && fail "predictions of nothing"
echo ok
