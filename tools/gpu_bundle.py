"""The part of gpu-check for the machine that has Bazel: makes the bundle, and predicts what was measured."""
import json
import lzma
import os
import pathlib
import re
import shlex
import shutil
import sys
import tarfile

from gpu_checks import (BF16_GRADIENTS, BINARIES, CONTACT, FP32, GPT2_CURVE, PLANS, SCRIPTS, SMALL, SPEED, SPEED_TOKENS,
                        Bundle)
from gpu_process import Failure, pack, run, say

ROOT = pathlib.Path(__file__).resolve().parent.parent
ARCHS = ("sm_80", "sm_90a", "sm_100")
# Maximum size of the packed bundle and its scripts, which are copied to the machine with the GPU unchanged.
MOST_BYTES = 48_000_000
# Preset of xz: the dictionary finds what the binaries share. 9 takes more than nine minutes.
PRESET = 1


def bazel(*arguments):
    """Runs bazel. BAZEL may include startup options: BAZEL="bazel --output_base=/tmp/b"."""
    return run([*shlex.split(os.environ.get("BAZEL", "bazel")), *arguments], 7200, cwd=ROOT)


# Libraries that every machine with a C library has. All others are linked statically.
NEWEST_GLIBC = (2, 34)
COMMON_LIBRARIES = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "ld-linux-x86-64.so.2"}


def static_libraries(directory):
    """Makes a folder of archives that the link finds before the shared libraries of the same names."""
    directory.mkdir(parents=True, exist_ok=True)
    for name in ("libstdc++.a", "libz.a"):
        shutil.copy(run(["gcc", f"-print-file-name={name}"], 60).strip(), directory / name)
    return directory


def check_portable(binary):
    needed = {line.split()[1] for line in run(["objdump", "-p", binary], 60).splitlines()
              if line.split()[:1] == ["NEEDED"]}
    if needed - COMMON_LIBRARIES:
        raise Failure(f"{binary.name} needs {' '.join(sorted(needed - COMMON_LIBRARIES))}, which the machine with the "
                      "GPU may not have")
    for line in run(["objdump", "-T", binary], 60).splitlines():
        version = re.search(r"\(GLIBC_(\d+)\.(\d+)\)\s+(\S+)", line)
        if version and (int(version[1]), int(version[2])) > NEWEST_GLIBC:
            raise Failure(f"{binary.name} needs {version[3]} of glibc {version[1]}.{version[2]}; the machine with the "
                          f"GPU may have {NEWEST_GLIBC[0]}.{NEWEST_GLIBC[1]} (cli/process/glibc_compat.cc)")


def check_size(directory):
    size = sum(path.stat().st_size for path in directory.iterdir() if path.is_file())
    if size > MOST_BYTES:
        raise Failure(f"{directory} has {size} bytes; at most {MOST_BYTES}: leave out architectures (--archs sm_90a)")
    return size


def build(directory, archs):
    for arch in archs.split(","):
        if arch not in ARCHS:
            raise Failure(f"--archs {archs}: '{arch}' is unknown; known: {' '.join(ARCHS)}")
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Failure(f"--build {directory}: it must be a folder, or one that can be made ({error.strerror})"
                      ) from error
    # Everything except the bundle is made in a separate folder, so other files of the user are not touched. The folder
    # always has the same name, because it is part of the link flags.
    own = directory.resolve() / "gpu-check.part"
    shutil.rmtree(own, ignore_errors=True)
    try:
        build_within(own, directory, archs)
    finally:
        shutil.rmtree(own, ignore_errors=True)
    say(f"gpu-check: {directory} has {check_size(directory)} bytes: python3 {directory}/gpu-check --bundle {directory}")


def build_within(own, directory, archs):
    staging = own / "unpacked"
    (staging / "bin").mkdir(parents=True)
    (staging / "programs").mkdir()
    targets = ["//cli:weft-run"] + [t for group in BINARIES.values() for t in group]
    say(f"gpu-check: building {len(targets)} targets for {archs}, optimized")
    archives = static_libraries(own / "static")
    flags = ["-c", "opt", f"--define=cuda_archs={archs}", "--linkopt=-static-libgcc", f"--linkopt=-L{archives}"]
    bazel("build", *flags, "//cli:weft", *targets)
    binaries = pathlib.Path(bazel("info", "-c", "opt", "bazel-bin").strip())
    weft = binaries / "cli/weft"
    for target in targets:
        source = binaries / target[2:].replace(":", "/")
        out = staging / "bin" / source.name
        # Names of functions stay, for the stack of a crash.
        run(["strip", "--strip-debug", "-o", out, source], 60)
        check_portable(out)
    make_programs(weft, staging / "programs")
    for path in ("tests/bench/pytorch_gpu.py", "tests/bench/pytorch_peaks.py", "tests/bench/model_flops.py",
                 "tests/gpu/gpt2_124m_cpu.json"):
        shutil.copy(ROOT / path, staging / pathlib.Path(path).name)
    for model in {shape[0] for shape in SPEED.values()} | {"gpt2"}:
        shutil.copy(ROOT / "catalog/models" / model / "config.json", staging / f"{model}.json")
    run([sys.executable, ROOT / "tests/gpu/make_tokens.py", staging / "tokens.bin"], 60)
    say("gpu-check: packing")
    pack({str(path.relative_to(staging)): path for path in staging.rglob("*") if path.is_file()},
         directory / "bundle.tar.xz", PRESET)
    for script in SCRIPTS:
        shutil.copy(ROOT / "tools" / script, directory / script)


def speed_settings(name):
    _, sequence, microbatch, settings, _, _ = SPEED[name]
    return [f"recipe.sequence_length={sequence}", f"recipe.global_batch_sequences={SPEED_TOKENS // sequence}",
            f"recipe.microbatch_sequences={microbatch}", "recipe.dropout=0", "recipe.steps=100",
            # With this warm-up even the first steps of 8B learn: the check looks at their losses.
            "recipe.lr.warmup_steps=50"] + settings


def make_programs(weft, programs, only=None):
    def compile_program(name, model, settings):
        if only is not None and name not in only:
            return
        sets = [a for s in settings for a in ("--set", s)]
        run([weft, "compile", "--model", model, "--cluster", "dgx-h200", *sets, "-o", programs / f"{name}.weft"], 600)

    for name, (model, *_) in SPEED.items():
        compile_program(name, model, speed_settings(name))
    compile_program("offload-8b", "llama-3.1-8b",
                    ["recipe.sequence_length=8192", "recipe.global_batch_sequences=64", "recipe.microbatch_sequences=1",
                     "recipe.dropout=0", "recipe.steps=10", "offload.optimizer=true"] + BF16_GRADIENTS)
    for name, settings in CONTACT.items():
        compile_program(name, "gpt2", SMALL + settings)
    compile_program("gpt2-124m", "gpt2", GPT2_CURVE)
    exact = ["accumulation=EXACT"]
    compile_program("one-rank", "gpt2", SMALL + FP32)
    compile_program("one-rank-exact", "gpt2", SMALL + FP32 + exact)
    for name, (settings, _) in PLANS.items():
        compile_program(f"plan-{name}", "gpt2", SMALL + FP32 + settings)


def cpu_curve(path):
    """Writes the losses of GPT2_CURVE on the CPU backend: tests/gpu/gpt2_124m_cpu.json. Takes an hour on two cores."""
    if not path.parent.is_dir():
        raise Failure(f"--cpu-curve {path}: the folder {path.parent} does not exist")
    bazel("build", "-c", "opt", "//cli:weft", "//cli:weft-run")
    weft = pathlib.Path(bazel("info", "-c", "opt", "bazel-bin").strip()) / "cli/weft"
    directory = path.parent
    run([sys.executable, ROOT / "tests/gpu/make_tokens.py", directory / "tokens.bin"], 60)
    sets = [a for s in GPT2_CURVE for a in ("--set", s)]
    run([weft, "compile", "--model", "gpt2", "--cluster", "dgx-h200", *sets, "-o", directory / "gpt2.weft"], 600)
    report = directory / "report.json"
    run([weft, "run", directory / "gpt2.weft", "--data", directory / "tokens.bin", "--backend=cpu",
         f"--threads={os.cpu_count()}", "--report", report], 6 * 3600)
    losses = [step["loss"] for step in json.loads(report.read_text())["steps"]]
    path.write_text(json.dumps({"losses": losses}, indent=0) + "\n")


def predictions(folder, bundle_directory):
    """Prints for every trace in the folder the prediction with the calibrated cluster, and its error."""
    packed = folder / "files.tar.xz"
    if packed.exists():
        try:
            with lzma.open(packed) as content, tarfile.open(fileobj=content) as tar:
                for member in tar:
                    if member.isfile() and "/" not in member.name and not (folder / member.name).exists():
                        tar.extract(member, folder)
        except (lzma.LZMAError, tarfile.TarError, EOFError) as error:
            raise Failure(f"{packed} cannot be unpacked: {error}; was it copied whole?") from error
    cluster = folder / "calibrated.textproto"
    traces = sorted(folder.glob("*.trace"))
    if not traces:
        raise Failure(f"{folder} has no traces; the groups speed-* and offload make them")
    bazel("build", "//cli:weft")
    weft = pathlib.Path(bazel("info", "bazel-bin").strip()) / "cli/weft"
    if bundle_directory:
        programs = Bundle(bundle_directory, 1, folder).directory / "programs"
    else:
        programs = folder / "programs"
        programs.mkdir(exist_ok=True)
        make_programs(weft, programs, {trace.stem for trace in traces})
    print("| row | predicted, s | measured, s | error | kernels with an error above 10 % | exposed copies |"
          "\n|---|--:|--:|--:|---|--:|")
    for trace in traces:
        command = [weft, "report", trace, "--program", programs / f"{trace.stem}.weft", "--format=json"]
        command += ["--cluster", cluster] if cluster.exists() else []
        report = json.loads(run(command, 600))
        measured = report["second"]["iteration_seconds"]
        off = ", ".join(f"{k['kernel']} {100 * k['error']:+.0f} %" for k in report["kernels"] if abs(k["error"]) > 0.1)
        copies = sum(x["second_seconds"] for x in report["sources"] if x["source"] == "copies")
        print(f"| {trace.stem} | {report['first']['iteration_seconds']:.4f} | {measured:.4f} | "
              f"{100 * report['iteration_error']:+.1f} % | {off or 'none'} | {100 * copies / measured:.1f} % |")
