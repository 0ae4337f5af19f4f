"""What gpu-check runs on a machine with a GPU: the bundle, its checks, and what they share. Needs nothing but Python."""
import ctypes
import hashlib
import json
import lzma
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import time

GROUP_SECONDS = 480
PEAK_BF16 = 989.4e12
BANDWIDTH_GOAL = 3.6e12

# Bazel targets of programs that test a GPU by themselves: exit status 0 is success.
BINARIES = {
    "kernels": ["//executor/backends/cuda/conformance:gpu_backend_test"],
    "nccl": ["//executor/transports:nccl_gpu_test"],
    "bandwidth": ["//executor/backends/cuda:kernel_bandwidth"],
}

BF16 = ["precision.compute=BF16"]
BF16_GRADIENTS = ["precision.compute=BF16", "precision.grads=BF16"]
FP32 = ["precision.compute=FP32", "precision.params=FP32", "precision.grads=FP32"]

# Shapes of the speed table: model, sequence, sequences per microbatch, settings, PyTorch's states, goal. `fp32` and `mixed`
# are what weft keeps too: fp32 master weights and moments, with gradients in fp32 or bf16.
SPEED = {
    "speed-gpt2-xl": ("gpt2-xl", 1024, 16, BF16, "fp32", {"tokens_per_second": 60e3}),
    "speed-1.5b": ("qwen2.5-1.5b", 1024, 16, BF16, "fp32", {"mfu_causal": 0.62}),
    "speed-3b": ("qwen2.5-3b", 1024, 8, BF16, "fp32", {"mfu_causal": 0.64}),
    "speed-7b": ("qwen2.5-7b", 1024, 4, BF16_GRADIENTS, "mixed", {"mfu_causal": 0.65}),
    "speed-8b": ("llama-3.1-8b", 8192, 1, BF16_GRADIENTS + ["recompute.mode=FIT"], "mixed", {"mfu_causal": 0.64}),
}
SPEED_TOKENS = 65536
WARM_UP = 3
# All products of all rows: a table of one device and one version of the library.
TUNING = "tuning.txt"

# Plans of GPT-2 124M that run as eight ranks on one GPU; those of `bitwise` give the bits of one rank.
PLANS = {
    "1f1b": (["pp=8"], True),
    "interleaved": (["pp=4", "schedule=interleaved", "schedule.virtual_stages=2"], True),
    "hanayo": (["pp=4", "schedule=hanayo", "schedule.waves=1"], True),
    "zb-v": (["pp=4", "schedule=zb-v"], True),
    "chimera": (["pp=4", "dp=2", "schedule=chimera", "accumulation=EXACT"], False),
    "axonn": (["pp=4", "schedule=axonn", "accumulation=EXACT"], False),
    "z2-offload": (["z=2", "pp=2", "offload.optimizer=true"], False),
}
# 200 steps of 4 x 256 tokens; the CPU backend's losses are kept in tests/gpu.
GPT2_CURVE = ["recipe.sequence_length=256", "recipe.global_batch_sequences=4", "recipe.microbatch_sequences=4",
              "recipe.steps=200", "recipe.dropout=0", "recipe.lr.peak=0.0003", "recipe.lr.warmup_steps=20"] + FP32
SMALL = ["recipe.sequence_length=256", "recipe.global_batch_sequences=16", "recipe.microbatch_sequences=2",
         "recipe.steps=10", "recipe.dropout=0"]


def say(text):
    print(text, file=sys.stderr, flush=True)


# Lines of GoogleTest that say nothing about what is wrong.
NOISE = re.compile(
    r"\[[ =-]|Value of:|Actual:|Expected|Google Test trace|Failed$|.*: Failure$|\d+ FAILED TEST|exit status \d+:$")


def brief(text, most=400):
    """In one line what went wrong, then which tests have failed."""
    lines = [line.strip() for line in re.sub(r"Running main\(\) from \S+", "", text).splitlines()]
    failed = [line[12:].strip().split(" (")[0] for line in lines
              if line.startswith("[  FAILED  ]") and "listed below" not in line]
    kept = [line for line in dict.fromkeys(lines) if line and not NOISE.match(line)]
    return "; ".join(kept + [f"failed: {name}" for name in dict.fromkeys(failed) if name])[:most]


class Failure(Exception):
    pass


class CutOff(Failure):
    """What was left of the time was less than it may take."""


class Clock:
    """When the check that is running has to be over, and how long it has at most."""
    end = float("inf")
    most = float("inf")

    @classmethod
    def start(cls, seconds):
        cls.end = time.monotonic() + seconds
        cls.most = seconds


def die_with_parent():
    """Of a process that begins: what is killed leaves nothing on the GPU behind."""
    libc = ctypes.CDLL(None)
    libc.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def run(command, seconds, **more):
    """Its standard output; Failure with the end of its output if it fails or takes longer. What it started ends too."""
    left = Clock.end - time.monotonic()
    late = Failure if left >= seconds else CutOff
    seconds = min(seconds, left)
    if seconds <= 0:
        raise CutOff(f"cut off: the {Clock.most:.0f} s that were left are over")
    try:
        process = subprocess.Popen([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   errors="replace", start_new_session=True, preexec_fn=die_with_parent, **more)
    except OSError as error:
        raise Failure(str(error)) from error
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired as error:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        what = "took longer than" if late is Failure else "cut off after"
        raise late(f"{what} {seconds:.0f} s: {(out + err)[-1000:].strip()}") from error
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    if process.returncode != 0:
        raise Failure(f"exit status {process.returncode}: {(out + err)[-2000:].strip()}")
    return out


def pack(files, out):
    """A .tar.xz with one dictionary for all: binaries hold the same kernels. The same files give the same bytes."""
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 9, "dict_size": 1 << 27}]
    with lzma.open(out, "wb", filters=filters) as packed, tarfile.open(fileobj=packed, mode="w") as tar:
        for name, path in sorted(files.items()):
            info = tarfile.TarInfo(name)
            info.size = path.stat().st_size
            info.mode = 0o755 if os.access(path, os.X_OK) else 0o644
            with open(path, "rb") as content:
                tar.addfile(info, content)


# ---- checks: each returns figures, or raises Failure ----

class Bundle:
    def __init__(self, directory, gpus, out):
        packed = directory / "bundle.tar.xz"
        self.out = out
        self.gpus = gpus
        self.directory = directory
        self.known = {}
        if packed.exists():
            self.digest = hashlib.sha256(packed.read_bytes()).hexdigest()[:16]
            # Beside the bundle, which results need not be.
            self.directory = (directory if os.access(directory, os.W_OK) else out) / f"unpacked-{self.digest}"
            self.unpack(packed)
        else:
            digest = hashlib.sha256()
            for path in sorted(directory.glob("bin/*")) + sorted(directory.glob("programs/*")):
                digest.update(path.name.encode() + path.read_bytes())
            self.digest = digest.hexdigest()[:16]

    def unpack(self, packed):
        """Once; what was unpacked by half does not count."""
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

    def weft_run(self, program, seconds, *flags):
        report = self.out / f"{program}.report.json"
        run([self.binary("weft-run"), "run", self.directory / "programs" / f"{program}.weft", "--data",
             self.directory / "tokens.bin", "--backend=cuda", "--format=json", "--fault-report", self.out / "fault.json",
             "--report", report, *flags], seconds)
        return json.loads(report.read_text())

    def losses(self, program, seconds, *flags):
        return [step["loss"] for step in self.weft_run(program, seconds, *flags)["steps"]]

    def one_rank(self, program):
        """What the plans are compared with; run once."""
        if program not in self.known:
            self.known[program] = self.losses(program, 100)
        return self.known[program]


def check_binary(name):
    def check(bundle):
        out = run([bundle.binary(name), "--gtest_brief=1"], GROUP_SECONDS)
        return {"last_line": out.strip().splitlines()[-1] if out.strip() else ""}
    return check


def check_bandwidth(bundle):
    """Memory-bound kernels, and which of them are below the goal."""
    lines = run([bundle.binary("kernel_bandwidth")], GROUP_SECONDS).splitlines()
    rates = {row["kernel"]: row["terabytes_per_second"] for row in map(json.loads, lines)}
    return {"below_goal": sorted(k for k, rate in rates.items() if rate * 1e12 < BANDWIDTH_GOAL),
            "terabytes_per_second": rates}


def check_curve(bundle):
    """GPT-2 124M in fp32 beside a curve of the CPU backend."""
    curve = json.loads((bundle.directory / "gpt2_124m_cpu.json").read_text())["losses"]
    losses = bundle.losses("gpt2-124m", GROUP_SECONDS)
    if len(losses) != len(curve):
        raise Failure(f"{len(losses)} steps, the curve has {len(curve)}")
    largest = max(abs(a - b) for a, b in zip(losses, curve))
    if largest > 1e-3:
        raise Failure(f"largest difference {largest} from the CPU's losses; at most 1e-3")
    return {"largest_difference": largest, "steps": len(losses)}


def check_repeatable(bundle):
    first, second = (bundle.losses("gpt2-124m", GROUP_SECONDS, "--steps=50") for _ in range(2))
    if first != second:
        raise Failure("two runs differ")
    return {"steps": len(first)}


def check_plan(name, bitwise, gpus=1):
    """Ranks on one GPU, or with more one on each."""
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


def rival(bundle, model, sequence, microbatch, steps, states):
    """PyTorch's figures, or in one line why there are none."""
    python = shutil.which("python3") or sys.executable
    try:
        run([python, "-c", "import torch; assert torch.cuda.is_available(), 'torch sees no GPU'"], 120)
    except Failure as error:
        reason = str(error).splitlines()[-1].removeprefix("exit status 1: ")
        return f"not run: {python} has no PyTorch that sees a GPU ({reason})"
    command = [python, bundle.directory / "pytorch_gpu.py", bundle.directory / f"{model}.json", "--sequence", sequence,
               "--tokens", SPEED_TOKENS, "--microbatch", microbatch, "--steps", steps, "--warm-up", WARM_UP]
    command += ["--recompute"] if model == "llama-3.1-8b" else []
    # What does not fit with the same states is measured with smaller ones, and says so.
    reasons = []
    for tried in dict.fromkeys([states, "bf16"]):
        try:
            return json.loads(run(command + ["--states", tried], 280).strip().splitlines()[-1])
        except (Failure, json.JSONDecodeError, IndexError) as error:
            reasons.append(f"{tried}: {str(error)[-300:]}")
            if "OutOfMemory" not in str(error) and "out of memory" not in str(error):
                break
    return "not run: " + "; ".join(reasons)


def check_speed(name):
    model, sequence, microbatch, _, states, goal = SPEED[name]

    def check(bundle):
        import_from(bundle.directory)
        import model_flops  # pylint: disable=import-outside-toplevel
        steps = 10 if model in ("qwen2.5-7b", "llama-3.1-8b") else 20
        # The first steps are traced, the others timed: the events of a trace are no part of the speed.
        report = bundle.weft_run(name, 280, f"--steps={WARM_UP + steps}", f"--tuning=write {bundle.out / TUNING}",
                                 "--trace", bundle.out / f"{name}.trace", f"--trace-steps={WARM_UP}")
        seconds = [step["seconds"] for step in report["steps"][WARM_UP:]]
        tokens = SPEED_TOKENS * len(seconds) / sum(seconds)
        config = bundle.directory / f"{model}.json"
        flops = model_flops.flops_per_token(model_flops.read_config(config), sequence)
        figures = {"tokens_per_second": tokens, "mfu_causal": tokens * flops / PEAK_BF16, "steps": len(seconds),
                   "warm_up": WARM_UP, "states": states, "planned_bytes": report["planned_bytes"],
                   "allocated_bytes": report["allocated_bytes"], "loss": report["steps"][-1]["loss"]}
        figures["goals"] = {key: {"wanted": want, "met": figures[key] >= want} for key, want in goal.items()}
        figures["pytorch"] = rival(bundle, model, sequence, microbatch, steps, states)
        if isinstance(figures["pytorch"], dict):
            figures["ratio"] = tokens / figures["pytorch"]["tokens_per_second"]
        if figures["planned_bytes"] != figures["allocated_bytes"]:
            raise Failure(f"allocated bytes are not those planned: {json.dumps(figures)}")
        return figures
    return check


def import_from(directory):
    if str(directory) not in sys.path:
        sys.path.insert(0, str(directory))


def check_calibrate(bundle):
    """A cluster file of this GPU, with the steps of all programs of the speed table."""
    tuning = bundle.out / TUNING
    out = bundle.out / "calibrated.textproto"
    programs = [f"--program={bundle.directory / 'programs' / name}.weft" for name in SPEED]
    run([bundle.binary("weft-run"), "calibrate", "--backend=cuda", "--seconds=120", *programs,
         *([f"--tuning=read {tuning}"] if tuning.exists() else []), "-o", out], GROUP_SECONDS)
    return {"cluster": out.name, "tuned": tuning.exists(),
            "next": "tools/gpu-check --predictions FOLDER, on the machine that built the bundle"}


def check_offload(bundle):
    report = bundle.weft_run("offload-8b", GROUP_SECONDS, "--steps=3", "--trace", bundle.out / "offload-8b.trace",
                             "--trace-steps=3")
    return {"seconds": report["steps"][-1]["seconds"], "trace": "offload-8b.trace",
            "next": "tools/gpu-check --predictions FOLDER: copies that nothing hides, at most 10 % of the step"}


def check_sanitizer(bundle):
    folders = [os.environ.get("CUDA_HOME", ""), *sorted(map(str, pathlib.Path("/usr/local").glob("cuda*")))]
    tools = [shutil.which("compute-sanitizer")] + [f"{folder}/bin/compute-sanitizer" for folder in folders if folder]
    tool = next((tool for tool in tools if tool and os.path.exists(tool)), None)
    if tool is None:
        return {"not_run": "compute-sanitizer is not installed"}
    run([tool, "--error-exitcode=9", bundle.binary("weft-run"), "run", bundle.directory / "programs/one-rank.weft",
         "--data", bundle.directory / "tokens.bin", "--backend=cuda", "--steps=1"], GROUP_SECONDS)
    return {}


# What a check may take at most where --seconds is given, its start and its rival included.
SECONDS = {"kernels": 240, "nccl": 90, "loopback": 90, "train": 120, "bandwidth": 120, "calibrate": 300, "offload": 300,
           "sanitizer": 300}
SPEED_SECONDS = 420


def groups():
    """The most valuable first."""
    checks = {group: {t.split(":")[1]: check_binary(t.split(":")[1]) for t in targets}
              for group, targets in BINARIES.items()}
    checks["bandwidth"] = {"kernel_bandwidth": check_bandwidth}
    checks["nccl"].update({name: check_plan(name, False, 8 if name in ("1f1b", "chimera") else 4) for name in PLANS})
    checks["loopback"] = {name: check_plan(name, bitwise) for name, (_, bitwise) in PLANS.items()}
    checks["train"] = {"gpt2-124m-curve": check_curve, "repeatable": check_repeatable}
    for name in SPEED:
        checks[name] = {name: check_speed(name)}
    checks["offload"] = {"offload-8b": check_offload}
    checks["calibrate"] = {"calibrate": check_calibrate}
    checks["sanitizer"] = {"sanitizer": check_sanitizer}
    order = ["kernels", "nccl", "loopback", "train", *SPEED, "bandwidth", "offload", "calibrate", "sanitizer"]
    return {group: checks[group] for group in order}


# ---- the machine ----

def machine():
    try:
        name = run(["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"], 30)
    except Failure as error:
        name = f"nvidia-smi: {error}"
    return "; ".join(name.strip().splitlines())


def name_python():
    """The packages of the python3 that is called so, whatever links lead to it, are where weft-run looks."""
    if "VIRTUAL_ENV" not in os.environ and shutil.which("python3"):
        try:
            os.environ["VIRTUAL_ENV"] = run(["python3", "-c", "import sys; print(sys.prefix)"], 30).strip()
        except Failure as error:
            say(f"gpu-check: python3: {error}")


def name_cuda():
    """A toolkit that is not where weft-run looks by itself: that of nvcc, or the newest below /usr/local or /opt."""
    if "CUDA_HOME" in os.environ or pathlib.Path("/usr/local/cuda/lib64").is_dir():
        return
    nvcc = shutil.which("nvcc")
    homes = [pathlib.Path(nvcc).resolve().parent.parent] if nvcc else []
    for root in ("/usr/local", "/opt", "/opt/nvidia"):
        homes += sorted(pathlib.Path(root).glob("cuda-13*"), reverse=True)
    home = next((home for home in homes if (home / "lib64").is_dir()), None)
    if home is not None:
        os.environ["CUDA_HOME"] = str(home)


def name_caches(out):
    """What is compiled on the way is kept beside the results, wherever else nothing can be written."""
    for name in ("CUDA_CACHE_PATH", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"):
        os.environ.setdefault(name, str(out / "cache" / name.split("_", maxsplit=1)[0].lower()))


def library_folders():
    """Where weft-run looks (docs/gpu.md), as far as a script can tell."""
    folders = [pathlib.Path(f) for f in os.environ.get("LD_LIBRARY_PATH", "").split(":") if f]
    folders.append(pathlib.Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")) / "lib64")
    python = shutil.which("python3")
    roots = [pathlib.Path(os.environ[v]) for v in ("VIRTUAL_ENV", "CONDA_PREFIX") if v in os.environ]
    roots += [pathlib.Path(python).parent.parent, pathlib.Path("/usr/local")] if python else []
    if "HOME" in os.environ:
        home = pathlib.Path(os.environ["HOME"])
        roots.append(home / ".local")
        folders += (home / ".cache/weft_cuda").glob("nvidia/*/lib")
    for root in roots:
        for packages in ("site-packages", "dist-packages"):
            folders += root.glob(f"lib/python3*/{packages}/nvidia/*/lib")
    return folders


def missing_libraries():
    known = run(["ldconfig", "-p"], 30) if shutil.which("ldconfig") else ""
    folders = library_folders()
    return [name for name in ("libcublasLt.so.13", "libcudnn.so.9", "libnvrtc.so.13", "libnccl.so.2")
            if name not in known and not any((folder / name).exists() for folder in folders)]
