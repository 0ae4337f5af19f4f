"""Processes that gpu-check starts with a time limit, their output, and the files that are copied back."""
import ctypes
import lzma
import os
import re
import resource
import signal
import subprocess
import sys
import tarfile
import time

# Errors of work on the GPU. They appear in a later call and in every call after it, so the process is then useless.
BROKEN = re.compile(
    r"cudaError(IllegalAddress|MisalignedAddress|InvalidAddressSpace|InvalidPc|IllegalInstruction|HardwareStackError|"
    r"LaunchFailure|LaunchTimeout|Assert|ECCUncorrectable|NvlinkUncorrectable|Contained|Unknown)"
    r"|CUBLAS_STATUS_EXECUTION_FAILED|CUDNN_STATUS_EXECUTION_FAILED")
# With these variables the call that fails is the one that is wrong, and libraries print the reason.
TELLING = {"CUDA_LAUNCH_BLOCKING": "1", "CUDNN_LOGLEVEL_DBG": "1", "CUDNN_LOGDEST_DBG": "stderr",
           "CUBLASLT_LOG_LEVEL": "1", "NCCL_DEBUG": "WARN"}
# Seconds to wait for a killed process: one that waits inside the driver may never end.
BURIAL_SECONDS = 15


def say(text):
    print(text, file=sys.stderr, flush=True)


# Lines of GoogleTest that do not describe the error.
NOISE = re.compile(
    r"\[[ =-]|Value of:|Actual:|Expected|Google Test trace|Failed$|.*: Failure$|\d+ FAILED TEST|exit status \d+:$|"
    r"Note: Google Test filter")


def brief(text, most=400):
    """Returns one line: what went wrong, then which tests have failed."""
    lines = [line.strip() for line in re.sub(r"Running main\(\) from \S+", "", text).splitlines()]
    failed = [line[12:].strip().split(" (")[0] for line in lines
              if line.startswith("[  FAILED  ]") and "listed below" not in line]
    kept = [line for line in dict.fromkeys(lines) if line and not NOISE.match(line)]
    return "; ".join(kept + [f"failed: {name}" for name in dict.fromkeys(failed) if name])[:most]


class Failure(Exception):
    """A failed check. `output`: what the failed process had written to its standard output."""

    def __init__(self, text="", output=""):
        super().__init__(text)
        self.output = output


class CutOff(Failure):
    """A check was cut off because less time was left than it may take."""


class Clock:
    """The deadline of the running check, and its maximum duration."""
    end = float("inf")
    most = float("inf")

    @classmethod
    def start(cls, seconds):
        cls.end = time.monotonic() + seconds
        cls.most = seconds

    @classmethod
    def left(cls):
        return cls.end - time.monotonic()


def prepare_child():
    """Runs in a new process: it dies with gpu-check, so nothing stays on the GPU, and a crash writes no core file."""
    libc = ctypes.CDLL(None)
    libc.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def start(command, **more):
    """Starts a process in its own session, so that its child processes can be ended with it."""
    try:
        return subprocess.Popen([str(c) for c in command], stdout=subprocess.PIPE, text=True, errors="replace",
                                start_new_session=True, preexec_fn=prepare_child, **more)
    except OSError as error:
        raise Failure(str(error)) from error


def kill(process):
    """Kills the process and its children. Returns True if it has ended."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(BURIAL_SECONDS)
    except ProcessLookupError:
        pass
    except subprocess.TimeoutExpired:
        say(f"gpu-check: process {process.pid} was killed {BURIAL_SECONDS} s ago and does not end")
        return False
    return True


def run(command, seconds, **more):
    """Returns the command's standard output. Raises Failure with the end of its output if it fails or takes too long;
    then its child processes end too."""
    left = Clock.left()
    late = Failure if left >= seconds else CutOff
    seconds = min(seconds, left)
    if seconds <= 0:
        raise CutOff(f"cut off: the {Clock.most:.0f} s that were left are over")
    process = start(command, stderr=subprocess.PIPE, **more)
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired as error:
        out = err = ""
        if kill(process):
            out, err = process.communicate()
        what = "took longer than" if late is Failure else "cut off after"
        raise late(f"{what} {seconds:.0f} s: {(out[-1500:] + err[-1500:]).strip()}", out) from error
    except BaseException:
        kill(process)
        raise
    if process.returncode != 0:
        raise Failure(f"exit status {process.returncode}: {(out[-1500:] + err[-3000:]).strip()}", out)
    return out


def run_telling(command, seconds, again=None, again_seconds=120, **more):
    """Like `run`, but after an error on the GPU runs `again` (or the same command) to find the place of the error."""
    try:
        return run(command, seconds, **more)
    except CutOff:
        raise
    except Failure as error:
        if not BROKEN.search(str(error)):
            raise
        try:
            run(again or command, again_seconds, env={**os.environ, **TELLING}, **more)
        except Failure as told:
            raise Failure(f"{error}\nagain, with CUDA_LAUNCH_BLOCKING=1: {told}", error.output) from told
        raise Failure(f"{error}\nagain, with CUDA_LAUNCH_BLOCKING=1: no error", error.output) from error


def pack(files, out, preset=9):
    """Writes a .tar.xz with one dictionary, because binaries share kernels. The same files give the same bytes."""
    filters = [{"id": lzma.FILTER_LZMA2, "preset": preset, "dict_size": 1 << 27}]
    with lzma.open(out, "wb", filters=filters) as packed, tarfile.open(fileobj=packed, mode="w") as tar:
        for name, path in sorted(files.items()):
            info = tarfile.TarInfo(name)
            info.size = path.stat().st_size
            info.mode = 0o755 if os.access(path, os.X_OK) else 0o644
            with open(path, "rb") as content:
                tar.addfile(info, content)
