#!/usr/bin/env python3
"""Writes PyTorch's own schedules and their lowerings, for schedules/pipeline's tests to match token by token.

Needs PyTorch (2.13 made the files); run by hand: python3 tests/golden/make_pytorch_schedules.py
"""
import csv
import pathlib

import torch.distributed.pipelining.schedules as schedules
from torch.distributed.pipelining._schedule_visualizer import get_schedule_ops

FOLDER = pathlib.Path(__file__).parent / "pytorch_schedules"


def write(name, rows):
    with open(FOLDER / f"{name}.csv", "w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


def zero_bubble(ranks, stages_per_rank, microbatches):
    """The order, and its lowering without FSDP, with adjacent I and W of one microbatch as one B."""
    name = f"interleaved_zb_p{ranks}_v{stages_per_rank}_n{microbatches}"
    order = get_schedule_ops("InterleavedZeroBubble", ranks, microbatches, stages_per_rank)
    write(f"{name}_compute_only", order)
    merged = {rank: schedules._merge_bw(list(row)) for rank, row in enumerate(order)}
    lowered = schedules._add_send_recv(merged, lambda stage: stage % ranks, ranks * stages_per_rank)
    write(f"{name}_compute_comms", lowered.values())
    simulated = schedules._simulate_comms_compute(lowered, lambda stage: stage % ranks, ranks * stages_per_rank)
    return name, max(len(row) for row in simulated.values())


def main():
    FOLDER.mkdir(exist_ok=True)
    steps = [zero_bubble(2, 2, 8), zero_bubble(4, 2, 8)]
    (FOLDER / "unit_steps.csv").write_text("".join(f"{name},{count}\n" for name, count in steps))

    write("dualpipev_p4_n10_compute_only", get_schedule_ops("DualPipeV", 4, 10))
    write("dualpipev_p4_n10_compute_comms", get_schedule_ops("DualPipeV", 4, 10, with_comms=True))
    for ranks, stages_per_rank, microbatches in [(2, 2, 2), (4, 2, 10)]:
        name = f"interleaved_p{ranks}_v{stages_per_rank}_n{microbatches}"
        write(f"{name}_compute_only", get_schedule_ops("Interleaved1F1B", ranks, microbatches, stages_per_rank))
        write(f"{name}_compute_comms",
              get_schedule_ops("Interleaved1F1B", ranks, microbatches, stages_per_rank, with_comms=True))
    write("looped_bfs_p2_v3_n4_compute_comms", get_schedule_ops("LoopedBFS", 2, 4, 3, with_comms=True))

    # UNSHARD actions of rank 0, by the number of stages that may be fetched at once.
    with open(FOLDER / "unshard_counts.csv", "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["schedule", "ranks", "stages_per_rank", "microbatches", "active", "unshards"])
        for name, ours in [("Interleaved1F1B", "interleaved"), ("LoopedBFS", "looped-bfs"),
                           ("InterleavedZeroBubble", "interleaved-zb")]:
            for microbatches in [8, 16]:
                order = get_schedule_ops(name, 4, microbatches, 4)[0]
                for active in [1, 2, 3]:
                    lowered = schedules._add_unshard_reshard(order, active)
                    count = sum(action.computation_type == schedules.UNSHARD for action in lowered)
                    writer.writerow([ours, 4, 4, microbatches, active, count])


main()
