"""The checks that gpu-check runs on a machine with a GPU, and their bundle. Needs only Python."""
import hashlib
import json
import lzma
import math
import os
import pathlib
import re
import shutil
import sys
import tarfile
import time

from gpu_machine import facts
from gpu_process import BROKEN, CutOff, Failure, run, run_telling
from gpu_tests import run_tests

GROUP_SECONDS = 480
PEAK_BF16 = 989.4e12
BANDWIDTH_GOAL = 3.6e12

# Files of this folder that the machine with the GPU needs.
SCRIPTS = ("gpu-check", "gpu_checks.py", "gpu_machine.py", "gpu_process.py", "gpu_tests.py")
# Bazel targets of programs that test a GPU on their own: exit status 0 is success.
BINARIES = {
    "kernels": ["//executor/backends/cuda/conformance:gpu_backend_test", "//executor/backends/cuda:gpu_runs_test"],
    "nccl": ["//executor/transports:nccl_gpu_test"],
    "bandwidth": ["//executor/backends/cuda:kernel_bandwidth"],
}

BF16 = ["precision.compute=BF16"]
BF16_GRADIENTS = ["precision.compute=BF16", "precision.grads=BF16"]
FP32 = ["precision.compute=FP32", "precision.params=FP32", "precision.grads=FP32"]

# Shapes of the speed table: model, sequence, sequences per microbatch, settings, PyTorch's states, goal. `fp32` and
# `mixed` equal the states that weft keeps: fp32 master weights and moments, with gradients in fp32 or bf16; `mixed16`
# has bf16 moments.
SPEED = {
    "speed-gpt2-xl": ("gpt2-xl", 1024, 16, BF16, "fp32", {"tokens_per_second": 60e3}),
    "speed-1.5b": ("qwen2.5-1.5b", 1024, 16, BF16, "fp32", {"mfu_causal": 0.62}),
    "speed-3b": ("qwen2.5-3b", 1024, 8, BF16, "fp32", {"mfu_causal": 0.64}),
    "speed-7b": ("qwen2.5-7b", 1024, 4, BF16_GRADIENTS, "mixed", {"mfu_causal": 0.65}),
    "speed-8b": ("llama-3.1-8b", 8192, 1, BF16_GRADIENTS + ["precision.moments=BF16", "recompute.mode=FIT"], "mixed16",
                 {"mfu_causal": 0.64}),
}
SPEED_TOKENS = 65536
# Standard deviation of initial weights if a recipe states no other (proto/recipe.proto).
INITIAL_SIGMA = 0.02
WARM_UP = 3
# Seconds until an action of weft-run times out; ten times as long in the first step. The error names the action.
TIMEOUT = 15
# The products of all rows: one table for one device and one version of the library.
TUNING = "tuning.txt"

# Plans of GPT-2 124M that run as eight ranks on one GPU. Plans marked True (`bitwise`) must give the bits of one rank.
PLANS = {
    "1f1b": (["pp=8"], True),
    "interleaved": (["pp=4", "schedule=interleaved", "schedule.virtual_stages=2"], True),
    "hanayo": (["pp=4", "schedule=hanayo", "schedule.waves=1"], True),
    "zb-v": (["pp=4", "schedule=zb-v"], True),
    "chimera": (["pp=4", "dp=2", "schedule=chimera", "accumulation=EXACT"], False),
    "axonn": (["pp=4", "schedule=axonn", "accumulation=EXACT"], False),
    "z2-offload": (["z=2", "pp=2", "offload.optimizer=true"], False),
}
# The first runs of GPT-2 124M, by the programs' names.
CONTACT = {"contact-fp32": FP32, "contact-tf32": ["precision.compute=TF32"], "contact-bf16": BF16}
# 200 steps of 4 x 256 tokens; tests/gpu has the CPU backend's losses.
GPT2_CURVE = ["recipe.sequence_length=256", "recipe.global_batch_sequences=4", "recipe.microbatch_sequences=4",
              "recipe.steps=200", "recipe.dropout=0", "recipe.lr.peak=0.0003", "recipe.lr.warmup_steps=20"] + FP32
SMALL = ["recipe.sequence_length=256", "recipe.global_batch_sequences=16", "recipe.microbatch_sequences=2",
         "recipe.steps=10", "recipe.dropout=0"]


# ---- checks: each returns figures, or raises Failure ----

class Bundle:
    def __init__(self, directory, gpus, out):
        packed = directory / "bundle.tar.xz"
        self.out = out
        self.gpus = gpus
        self.directory = directory
        self.known = {}
        self.results = []
        if packed.exists():
            digest = hashlib.sha256(packed.read_bytes()).hexdigest()[:16]
            # Unpack beside the bundle, or else where the checks write.
            self.directory = (directory if os.access(directory, os.W_OK) else out) / f"unpacked-{digest}"
            self.unpack(packed)
        self.digests = {}

    def unpack(self, packed):
        """Unpacks the bundle once. An incomplete folder from an earlier run is replaced."""
        if self.directory.is_dir():
            return
        part = self.directory.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        try:
            with lzma.open(packed) as content, tarfile.open(fileobj=content) as tar:
                for member in tar:
                    if member.isdir():
                        continue
                    if not member.isfile() or ".." in member.name.split("/") or member.name.startswith("/"):
                        raise Failure(f"{packed} holds {member.name}, which is no file of a bundle")
                    tar.extract(member, part)
        except (lzma.LZMAError, tarfile.TarError, EOFError) as error:
            raise Failure(f"{packed} cannot be unpacked: {error}; was it copied whole?") from error
        part.rename(self.directory)

    def binary(self, name):
        return self.directory / "bin" / name

    def inputs(self, group, name):
        """Returns a digest of the files that decide the check's result. A bundle with other files elsewhere has the
        same one, so a passed check counts in later bundles until one of its own files changes."""
        digest = hashlib.sha256()
        for file in files_of(group, name):
            path = self.directory / file
            if file not in self.digests:
                self.digests[file] = hashlib.sha256(path.read_bytes()).digest() if path.exists() else b""
            digest.update(file.encode() + self.digests[file])
        return digest.hexdigest()[:16]

    def weft_run(self, program, seconds, *flags):
        """Runs weft-run and returns its report; `notes` are the lines of its output that are not steps."""
        report = self.out / f"{program}.report.json"
        command = [self.binary("weft-run"), "run", self.directory / "programs" / f"{program}.weft", "--data",
                   self.directory / "tokens.bin", "--backend=cuda", "--fault-report",
                   self.out / f"{program}.fault.json", "--report", report, *flags]
        if not any(flag.startswith("--timeout") for flag in map(str, flags)):
            command.append(f"--timeout={TIMEOUT}")
        # The repeated run must not overwrite the files of the first run.
        once = [re.sub(r"\.(fault\.json|report\.json|trace)$", r".again.\1", str(word)) for word in command
                if not str(word).startswith("--steps=")] + ["--steps=1"]
        out = run_telling(command, seconds, again=once)
        figures = json.loads(report.read_text())
        figures["notes"] = [line for line in out.splitlines() if line and not line.startswith("step ")]
        return figures

    def config(self, model):
        """Returns the shapes of a model of the catalog (tests/bench/model_flops.py)."""
        import_from(self.directory)
        import model_flops  # pylint: disable=import-outside-toplevel
        return model_flops.read_config(self.directory / f"{model}.json")

    def passed(self, check, figure):
        """Returns a figure of the check's latest passed result with the same files; None if there is none."""
        found = [r["figures"][figure] for r in self.results
                 if r["check"] == check and r["inputs"] == self.inputs(r["group"], check) and r["result"] == "passed"
                 and figure in r.get("figures", {})]
        return found[-1] if found else None

    def losses(self, program, seconds, *flags):
        return [step["loss"] for step in self.weft_run(program, seconds, *flags)["steps"]]

    def one_rank(self, program):
        """Returns the losses that the plans are compared with; runs the program once."""
        if program not in self.known:
            self.known[program] = self.losses(program, 100)
        return self.known[program]


def check_binary(name):
    return lambda bundle: run_tests(bundle.binary(name))


def check_convolution(bundle):
    """Tests convolutions on cuDNN, which are off unless they are asked for."""
    os.environ["WEFT_CUDA_WITH"] = "cudnn-convolution"
    try:
        return run_tests(bundle.binary("gpu_backend_test"), "CONV2D")
    finally:
        del os.environ["WEFT_CUDA_WITH"]


def check_machine(_bundle):
    return facts()


def first_loss(config):
    """Returns the expected loss before anything is learned. Columns of the last norm's result have variance 1, and the
    initial weights of the head have variance sigma^2. So logits have variance width x sigma^2, and the mean of ln(sum
    of exp) is half of that above ln(vocabulary): 10.98 for GPT-2 124M, whose losses on the CPU backend begin with
    10.99 (tests/gpu)."""
    return math.log(config["vocabulary"]) + config["width"] * INITIAL_SIGMA**2 / 2


def check_losses(losses, config, figures):
    """Checks the losses, because speed alone shows no errors: a step that computes nothing is fast."""
    expected = first_loss(config)
    if not losses or not all(math.isfinite(x) for x in losses):
        raise Failure(f"losses that are no numbers: {json.dumps(figures)}")
    if abs(losses[0] - expected) > 0.5:
        raise Failure(f"the first loss is {losses[0]}, with these initial weights it is {expected:.2f}, at most 0.5 "
                      f"off: {json.dumps(figures)}")


def check_contact(program):
    """A few steps of GPT-2 124M: finds and opens libraries, allocates memory, and makes every kind of call once."""
    def check(bundle):
        report = bundle.weft_run(program, 120, "--steps=3")
        losses = [step["loss"] for step in report["steps"]]
        figures = {"losses": losses, "seconds": [step["seconds"] for step in report["steps"]], "notes": report["notes"],
                   "planned_bytes": report["planned_bytes"], "allocated_bytes": report["allocated_bytes"]}
        check_losses(losses, bundle.config("gpt2"), figures)
        if len(losses) != 3:
            raise Failure(f"expected three steps: {json.dumps(figures)}")
        other = bundle.passed("contact-fp32", "losses")
        if program != "contact-fp32" and other is not None:
            figures["largest_difference_from_fp32"] = max(abs(a - b) for a, b in zip(losses, other))
            if figures["largest_difference_from_fp32"] > 2e-2:
                raise Failure(f"more than 2e-2 from the losses in fp32, {other}: {json.dumps(figures)}")
        return figures
    return check


def check_bandwidth(bundle):
    """Measures memory-bound kernels and lists those below the goal."""
    error = None
    try:
        out = run_telling([bundle.binary("kernel_bandwidth")], 240)
    except Failure as failure:
        # Rates that were measured before the failure count.
        error, out = failure, failure.output
    rows = []
    for line in out.splitlines():
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:
            continue  # An incomplete line.
    rates = {row["kernel"]: row["terabytes_per_second"] for row in rows if "terabytes_per_second" in row}
    figures = {"below_goal": sorted(k for k, rate in rates.items() if rate * 1e12 < BANDWIDTH_GOAL),
               "terabytes_per_second": rates}
    errors = [f"{row['kernel']}: {row['error']}" for row in rows if "error" in row] + ([str(error)] if error else [])
    if errors:
        raise type(error or Failure())("; ".join(errors) + f"; measured: {json.dumps(figures)}")
    return figures


def check_curve(bundle):
    """Compares the losses of GPT-2 124M in fp32 with those of the CPU backend."""
    curve = json.loads((bundle.directory / "gpt2_124m_cpu.json").read_text())["losses"]
    losses = bundle.losses("gpt2-124m", GROUP_SECONDS)
    if len(losses) != len(curve):
        raise Failure(f"{len(losses)} steps, the curve has {len(curve)}")
    differences = [abs(a - b) for a, b in zip(losses, curve)]
    # Training amplifies the rounding of the first steps, so only the first ones decide.
    figures = {"largest_of_50_steps": max(differences[:50]), "largest": max(differences), "steps": len(losses)}
    if figures["largest_of_50_steps"] > 1e-3:
        raise Failure(f"more than 1e-3 from the CPU's losses in the first 50 steps: {json.dumps(figures)}")
    return figures


def check_repeatable(bundle):
    first, second = (bundle.losses("gpt2-124m", GROUP_SECONDS, "--steps=50") for _ in range(2))
    if first != second:
        raise Failure("two runs differ")
    return {"steps": len(first)}


def check_plan(name, bitwise, gpus=1):
    """Runs all ranks on one GPU, or with several GPUs one rank on each."""
    def check(bundle):
        if bundle.gpus < gpus:
            return {"not_run": f"needs {gpus} GPUs"}
        ranks = ["--transport=loopback"] if gpus == 1 else ["--bootstrap=local", "--transport=nccl"]
        losses = bundle.losses(f"plan-{name}", 200, *ranks)
        exact = "accumulation=EXACT" in PLANS[name][0]
        one = bundle.one_rank("one-rank-exact" if exact else "one-rank")
        largest = max(abs(a - b) for a, b in zip(losses, one))
        if bitwise and losses != one:
            raise Failure(f"not the bits of one rank: largest difference {largest}")
        if largest > 1e-5 * max(one):
            raise Failure(f"largest difference {largest} from one rank")
        return {"largest_difference": largest, "bitwise": losses == one}
    return check


def check_peaks(bundle):
    """Measures what PyTorch reaches on this GPU; says in one line if there is none."""
    python, reason = pytorch()
    if reason:
        return {"not_run": reason}
    models = [bundle.directory / f"{model}.json" for model in dict.fromkeys(shape[0] for shape in SPEED.values())]
    return json.loads(run([python, bundle.directory / "pytorch_peaks.py", *models], 120).strip().splitlines()[-1])


def pytorch():
    """Returns the first python3, and why its PyTorch cannot be used ("" if it can)."""
    python = shutil.which("python3") or sys.executable
    try:
        run([python, "-c", "import torch; assert torch.cuda.is_available(), 'torch sees no GPU'"], 120)
    except CutOff:
        raise
    except Failure as error:
        told = str(error).splitlines()[-1].removeprefix("exit status 1: ")
        return python, f"{python} has no PyTorch that sees a GPU ({told})"
    return python, ""


def steps_of(model):
    return 10 if model in ("qwen2.5-7b", "llama-3.1-8b") else 20


def check_rival(name):
    """Measures PyTorch's speed and weft's relative to it, or states in one line why it cannot."""
    model, sequence, microbatch, _, states, _ = SPEED[name]

    def check(bundle):
        python, reason = pytorch()
        if reason:
            return {"not_run": reason}
        command = [python, bundle.directory / "pytorch_gpu.py", bundle.directory / f"{model}.json",
                   "--sequence", sequence, "--tokens", SPEED_TOKENS, "--microbatch", microbatch,
                   "--steps", steps_of(model), "--warm-up", WARM_UP]
        # If weft's states do not fit in PyTorch, recompute layers or use smaller states; the figures state which.
        ways = [[states], ["bf16"]]
        if sequence > 1024:
            ways.insert(1, [states, "--recompute"])
        reasons = []
        for tried in ways:
            try:
                figures = json.loads(run(command + ["--states", *tried], 280).strip().splitlines()[-1])
            except CutOff:
                raise
            except (Failure, json.JSONDecodeError, IndexError) as error:
                reasons.append(f"{' '.join(tried)}: {str(error)[-300:]}")
                if "OutOfMemory" not in str(error) and "out of memory" not in str(error):
                    break
                continue
            weft = bundle.passed(name, "tokens_per_second")
            if weft is not None:
                figures["weft_over_pytorch"] = weft / figures["tokens_per_second"]
            return figures
        raise Failure("; ".join(reasons))
    return check


def check_speed(name):
    model, sequence, _, _, states, goal = SPEED[name]

    def check(bundle):
        import_from(bundle.directory)
        import model_flops  # pylint: disable=import-outside-toplevel
        begin = time.monotonic()
        # The first steps are traced, the others timed, because recording events costs time.
        flags = [f"--steps={WARM_UP + steps_of(model)}", "--trace", bundle.out / f"{name}.trace",
                 f"--trace-steps={WARM_UP}"]
        untuned = {}
        try:
            report = bundle.weft_run(name, 280, f"--tuning=write {bundle.out / TUNING}", *flags)
        except CutOff:
            raise
        except Failure as error:
            # The cause may be one of the many tuned algorithms, so try the row without tuning.
            if not (BROKEN.search(str(error)) or re.search("cublas", str(error), re.IGNORECASE)):
                raise
            untuned = {"tuning_failed": str(error)[-1500:]}
            begin = time.monotonic()
            report = bundle.weft_run(name, 280, *flags)
        whole = time.monotonic() - begin
        seconds = [step["seconds"] for step in report["steps"][WARM_UP:]]
        tokens = SPEED_TOKENS * len(seconds) / sum(seconds)
        config = bundle.config(model)
        flops = model_flops.flops_per_token(config, sequence)
        figures = {"tokens_per_second": tokens, "mfu_causal": tokens * flops / PEAK_BF16, "steps": len(seconds),
                   "warm_up": WARM_UP, "states": states, "planned_bytes": report["planned_bytes"],
                   "allocated_bytes": report["allocated_bytes"], "first_loss": report["steps"][0]["loss"],
                   "loss": report["steps"][-1]["loss"],
                   "slowest_over_fastest": max(seconds) / min(seconds),
                   "seconds_before_steps": whole - sum(step["seconds"] for step in report["steps"]),
                   "notes": report["notes"], **untuned}
        figures["goals"] = {key: {"wanted": want, "met": figures[key] >= want} for key, want in goal.items()}
        if figures["planned_bytes"] != figures["allocated_bytes"]:
            raise Failure(f"allocated bytes differ from planned bytes: {json.dumps(figures)}")
        check_losses([step["loss"] for step in report["steps"]], config, figures)
        if not figures["loss"] < figures["first_loss"]:
            raise Failure(f"nothing has been learned: {json.dumps(figures)}")
        return figures
    return check


def import_from(directory):
    if str(directory) not in sys.path:
        sys.path.insert(0, str(directory))


def check_calibrate(bundle):
    """Calibrates a cluster file for this GPU, with the steps of all programs of the speed table."""
    tuning = bundle.out / TUNING
    out = bundle.out / "calibrated.textproto"
    programs = [f"--program={bundle.directory / 'programs' / name}.weft" for name in SPEED]
    command = [bundle.binary("weft-run"), "calibrate", "--backend=cuda", "--seconds=90", *programs, "-o", out]
    figures = {"cluster": out.name, "tuned": tuning.exists()}
    try:
        run_telling(command + ([f"--tuning=read {tuning}"] if tuning.exists() else []), GROUP_SECONDS)
    except Failure as error:
        # The library may refuse the table.
        if isinstance(error, CutOff) or "tune again" not in str(error):
            raise
        figures.update(tuned=False, tuning_refused=str(error)[-500:])
        run_telling(command, GROUP_SECONDS)
    figures["next"] = "tools/gpu-check --predictions FOLDER, on the machine that built the bundle"
    return figures


def check_offload(bundle):
    # Two steps of a minute each: the second is representative.
    report = bundle.weft_run("offload-8b", GROUP_SECONDS, "--steps=2", "--timeout=60", "--trace",
                             bundle.out / "offload-8b.trace", "--trace-steps=2")
    check_losses([step["loss"] for step in report["steps"]], bundle.config("llama-3.1-8b"), report["steps"])
    return {"seconds": report["steps"][-1]["seconds"], "trace": "offload-8b.trace", "notes": report["notes"],
            "next": "tools/gpu-check --predictions FOLDER: exposed copies, at most 10 % of the step"}


def check_sanitizer(bundle):
    folders = [os.environ.get("CUDA_HOME", ""), *sorted(map(str, pathlib.Path("/usr/local").glob("cuda*")))]
    tools = [shutil.which("compute-sanitizer")] + [f"{folder}/bin/compute-sanitizer" for folder in folders if folder]
    tool = next((tool for tool in tools if tool and os.path.exists(tool)), None)
    if tool is None:
        return {"not_run": "compute-sanitizer is not installed"}
    run([tool, "--error-exitcode=9", bundle.binary("weft-run"), "run", bundle.directory / "programs/one-rank.weft",
         "--data", bundle.directory / "tokens.bin", "--backend=cuda", "--steps=1"], GROUP_SECONDS)
    return {}


def files_of(group, name):
    """Returns the files of the bundle that decide a check's result."""
    if f"{group} {name}" == "contact machine":
        return []
    if name in {target.split(":")[1] for targets in BINARIES.values() for target in targets}:
        return [f"bin/{name}"]
    if name == "cudnn-convolution":
        return ["bin/gpu_backend_test"]
    if group == "peaks":
        return ["pytorch_peaks.py"]
    if group.startswith("pytorch-"):
        model = SPEED[group.replace("pytorch", "speed")][0]
        return ["pytorch_gpu.py", "model_flops.py", f"{model}.json"]
    programs = [name]
    if name in PLANS:
        exact = "accumulation=EXACT" in PLANS[name][0]
        programs = [f"plan-{name}", "one-rank-exact" if exact else "one-rank"]
    elif group in ("train", "sanitizer"):
        programs = [{"train": "gpt2-124m", "sanitizer": "one-rank"}[group]]
    elif group == "calibrate":
        programs = list(SPEED)
    curve = ["gpt2_124m_cpu.json"] if group == "train" else []
    return ["bin/weft-run", "tokens.bin"] + curve + [f"programs/{program}.weft" for program in programs]


# With --seconds, the most seconds that a check may take, by its name or its group: about twice the expected time.
SECONDS = {"machine": 10, "contact": 60, "peaks": 60, "kernels": 240, "nccl": 60, "loopback": 60, "train": 60,
           "bandwidth": 60, "calibrate": 180, "offload": 240, "sanitizer": 200, "gpu_runs_test": 90,
           "cudnn-convolution": 240, "speed-7b": 240, "speed-8b": 240, "pytorch-7b": 240, "pytorch-8b": 240}
SPEED_SECONDS = 150


def seconds_of(group, name, results=()):
    """Returns the most seconds that a check may take: half again what it took when it last passed, if it has."""
    took = [r["seconds"] for r in results if (r["group"], r["check"], r["result"]) == (group, name, "passed")]
    return math.ceil(1.5 * took[-1]) + 5 if took else SECONDS.get(name, SECONDS.get(group, SPEED_SECONDS))


def groups():
    """Returns the checks by group. The most informative for their time come first, in case the machine's time ends."""
    checks = {group: {t.split(":")[1]: check_binary(t.split(":")[1]) for t in targets}
              for group, targets in BINARIES.items()}
    checks["contact"] = {"machine": check_machine, **{name: check_contact(name) for name in CONTACT}}
    checks["kernels"]["cudnn-convolution"] = check_convolution
    checks["peaks"] = {"peaks": check_peaks}
    checks["bandwidth"] = {"kernel_bandwidth": check_bandwidth}
    checks["nccl"].update({name: check_plan(name, False, 8 if name in ("1f1b", "chimera") else 4) for name in PLANS})
    checks["loopback"] = {name: check_plan(name, bitwise) for name, (_, bitwise) in PLANS.items()}
    checks["train"] = {"gpt2-124m-curve": check_curve, "repeatable": check_repeatable}
    for name in SPEED:
        rival = name.replace("speed", "pytorch")
        checks[name], checks[rival] = {name: check_speed(name)}, {rival: check_rival(name)}
    checks["offload"] = {"offload-8b": check_offload}
    checks["calibrate"] = {"calibrate": check_calibrate}
    checks["sanitizer"] = {"sanitizer": check_sanitizer}
    # weft's rows come before PyTorch's. Checks that need minutes of the host for seconds of the GPU come last.
    order = ["contact", "peaks", "kernels", "nccl", "train", "bandwidth", "speed-gpt2-xl", "loopback", "speed-1.5b",
             "speed-8b", "speed-3b", "speed-7b", "pytorch-gpt2-xl", "pytorch-1.5b", "pytorch-8b", "pytorch-3b",
             "pytorch-7b", "calibrate", "offload", "sanitizer"]
    return {group: checks[group] for group in order}
