"""Runs GoogleTest binaries on a GPU: a test that crashes, hangs or breaks the GPU's context affects no other test.

All tests run in one process, because a start costs seconds. If the process ends, prints nothing for too long, or breaks
its context, another process continues after the test at fault. That test then runs again alone, so that the error names
the failing call.
"""
import os
import pathlib
import queue
import re
import shutil
import subprocess
import threading
import time

from gpu_process import BROKEN, TELLING, Clock, CutOff, Failure, kill, run, start

# Seconds without a line of output. One test compiles some tens of cuDNN plans.
QUIET_SECONDS = 150
# Most processes for the remaining tests, and most tests that are run again alone.
MOST_PROCESSES = 12
MOST_ALONE = 3
ALONE_SECONDS = 60
RUNS, PASSED, SKIPPED, FAILED = "[ RUN      ]", "[       OK ]", "[  SKIPPED ]", "[  FAILED  ]"


def list_tests(binary, wanted):
    names, suite = [], ""
    for line in run([binary, "--gtest_list_tests"], 60).splitlines():
        name = line.split("#")[0].rstrip()
        if name.startswith("  "):
            names.append(suite + name.strip())
        elif name.endswith("."):
            suite = name.strip()
    return [name for name in names if wanted in name]


class Lines:
    """The lines of a process, as they arrive."""

    def __init__(self, process):
        self.queue = queue.Queue()
        threading.Thread(target=self.read, args=(process,), daemon=True).start()

    def read(self, process):
        try:
            for line in process.stdout:
                self.queue.put(line.rstrip("\n"))
        except ValueError:  # The stream was closed while it was read.
            pass
        self.queue.put(None)

    def next(self, seconds):
        """Returns the next line, None at the end. Raises queue.Empty if no line arrives in time."""
        return self.queue.get(timeout=max(seconds, 0.001))


def run_some(binary, names, every, passed, failed):
    """Runs tests in one process until it breaks, and adds to `passed` and `failed`. Returns further text to report."""
    flags = [] if len(names) == every else ["--gtest_filter=" + ":".join(names)]
    process = start([binary, *flags], stderr=subprocess.STDOUT)
    lines, current, text, outside = Lines(process), None, [], []
    try:
        while True:
            wait = min(QUIET_SECONDS, Clock.left())
            try:
                line = lines.next(wait)
            except queue.Empty:
                if Clock.left() <= 0:
                    raise CutOff(f"cut off after {Clock.most:.0f} s in {current or 'the start'}") from None
                said = f"no output for {wait:.0f} s; it was killed"
                break
            if line is None:
                said = f"the process ended with {status_of(process)}"
                break
            if line.startswith(RUNS):
                current, text = line[len(RUNS):].strip(), []
            elif line.startswith((PASSED, SKIPPED)) and current:
                passed.append(current)
                current = None
            elif line.startswith(FAILED) and current and line[len(FAILED):].strip().startswith(current):
                failed[current], current = "\n".join(text[-60:]), None
                if BROKEN.search("\n".join(text)):
                    said = ""
                    break
            else:
                (text if current else outside).append(line)
    finally:
        kill(process)
    if current:
        failed[current] = "\n".join([*text[-60:], said])
        said = ""
    return "\n".join([*outside[-20:], said]).strip()


def status_of(process):
    try:
        status = process.wait(10)
    except subprocess.TimeoutExpired:
        return "a closed output"
    return f"signal {-status}" if status < 0 else f"exit status {status}"


def alone(binary, name):
    """Runs one test alone, with every call waiting for its work, and returns its output."""
    process = start([binary, f"--gtest_filter={name}"], stderr=subprocess.STDOUT, env={**os.environ, **TELLING})
    try:
        out, _ = process.communicate(timeout=max(1, min(ALONE_SECONDS, Clock.left())))
    except subprocess.TimeoutExpired:
        return f"by itself it takes longer than {ALONE_SECONDS} s" if kill(process) else "by itself it does not end"
    except BaseException:
        kill(process)
        raise
    if process.returncode == 0:
        return "by itself it passes"
    told = f"by itself, with CUDA_LAUNCH_BLOCKING=1: {out[-1500:].strip()}; {status_of(process)}"
    return told + (stack_of(binary, name) if process.returncode < 0 else "")


def stack_of(binary, name):
    """Returns the calls that lead to a crash of the test, if there is a debugger; a crash says nothing by itself."""
    debugger = shutil.which("cuda-gdb") or next(map(str, pathlib.Path("/usr/local").glob("cuda*/bin/cuda-gdb")), None)
    if debugger is None:
        return ""
    command = [debugger, "-batch", "-ex", "run", "-ex", "bt 30", "--args", binary, f"--gtest_filter={name}"]
    try:
        out = run(command, ALONE_SECONDS)
    except Failure as error:
        return f"\n{debugger}: {str(error)[-300:]}"
    return "\n" + "\n".join(line[:160] for line in out.splitlines() if re.match(r"#\d+ |Thread .* received", line))


def told(names, passed, failed, said):
    """Returns the text of an error: how many tests passed, what was said, and the output of each failed test."""
    counts = f"{len(passed)} of {len(names)} tests passed, {len(failed)} failed, " \
             f"{len(names) - len(passed) - len(failed)} did not run"
    outputs = [f"{FAILED} {name}\n{text.strip()[-2500:]}" for name, text in failed.items()]
    return "\n".join([counts, *([said] if said else []), *outputs])[:12000]


def run_tests(binary, wanted=""):
    """Runs the tests with `wanted` in their names and returns how many have passed. Raises Failure with all others."""
    names = list_tests(binary, wanted)
    every = len(names) if not wanted else -1
    passed, failed, said, broke = [], {}, "", []
    begin = time.monotonic()
    for _ in range(MOST_PROCESSES):
        left = [name for name in names if name not in failed and name not in set(passed)]
        if not left:
            break
        before, failures = len(passed) + len(failed), set(failed)
        try:
            said = run_some(binary, left, every, passed, failed)
        except CutOff as error:
            # What is known so far is worth more than that the time is over.
            raise CutOff(told(names, passed, failed, str(error))) from None
        broke += [name for name in failed if name not in failures and
                  (BROKEN.search(failed[name]) or re.search("the process ended with|it was killed", failed[name]))]
        if len(passed) + len(failed) == before:
            break  # The process does not reach any test.
    for name in broke[:MOST_ALONE]:
        failed[name] += "\n" + alone(binary, name)
    left = len(names) - len(passed) - len(failed)
    if failed or left or not names:
        raise Failure(told(names, passed, failed, said if left else ""))
    return {"tests": len(passed), "seconds_of_tests": round(time.monotonic() - begin)}
