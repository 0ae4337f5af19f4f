#!/usr/bin/env python3
"""Checks that PyTorch reads what `weft schedule --format=csv` writes, and lowers it to the same lists.

Needs PyTorch; run by hand: python3 tests/golden/check_pytorch_schedules.py bazel-bin/cli/weft
"""
import json
import re
import subprocess
import sys
import tempfile
from unittest import mock

import torch.distributed.pipelining.schedules as schedules
from torch.distributed.pipelining.stage import PipelineStage


def weft(*arguments):
    return subprocess.run([sys.argv[1], *arguments], capture_output=True, text=True)


def runtime(stages, ranks, microbatches):
    stage = mock.create_autospec(PipelineStage, instance=True)
    stage.group_rank, stage.group_size, stage.num_stages, stage.submod = 0, ranks, stages, None
    return schedules._PipelineScheduleRuntime([stage], microbatches)


def check(name, ranks, microbatches):
    """Returns how many files were read; 0 if the schedule does not exist, or the format cannot express it."""
    arguments = ["schedule", name, f"--ranks={ranks}", f"--microbatches={microbatches}", "--format=csv"]
    compute = weft(*arguments)
    if "is message-driven" in compute.stderr:
        arguments.append("--freeze")
        compute = weft(*arguments)
    if compute.returncode:
        return 0
    lowered = weft(*arguments, "--csv-form=compute_comms").stdout
    stages = 1 + max(int(stage) for stage in re.findall(r"(\d+)F", compute.stdout))
    for form, text in [("compute_only", compute.stdout), ("compute_comms", lowered)]:
        with (tempfile.NamedTemporaryFile("w", suffix=".csv") as file,
              tempfile.NamedTemporaryFile("r", newline="") as out):
            file.write(text)
            file.flush()
            reader = runtime(stages, ranks, microbatches)
            reader._load_csv(file.name, format=form)
            reader._dump_csv(out.name, format="compute_comms")
            assert out.read().replace("\r\n", "\n") == lowered, (name, ranks, microbatches, form)
    return 2


def main():
    names = [row["name"] for row in json.loads(weft("list", "schedules", "--format=json").stdout)]
    total = 0
    for name in names:
        files = sum(check(name, *size) for size in [(1, 3), (2, 2), (3, 7), (4, 2), (4, 3), (4, 8), (4, 10)])
        print(f"{name}: {files} files")
        total += files
    assert total > 0
    print(f"{total} files read and lowered alike")


main()
