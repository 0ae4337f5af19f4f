#!/usr/bin/env python3
"""Writes loss_scale/golden.json: how PyTorch's GradScaler handles gradients that overflow at given steps.

A tiny linear model trains with AdamW under torch.amp.GradScaler (growth factor 2, backoff factor 0.5) on the CPU in
fp32. Before the scaler sees them, the gradients of the listed steps get an infinity. The file has, per step, the scale
of the loss, whether the optimizer skipped, and the norm of the gradients after unscaling. It also has the weights
before the first and after the last step, and the inputs of the gradients, so that another implementation of the update
can use the same numbers.

Needs PyTorch; run by hand: python3 tests/golden/make_loss_scale_golden.py
"""

import json
import pathlib

import torch

STEPS = 24
GROWTH_INTERVAL = 4
INITIAL_SCALE = 256.0
OVERFLOWS = [0, 1, 5, 11, 12, 13, 20]
LEARNING_RATE = 0.01
WEIGHT_DECAY = 0.1
BETAS = (0.9, 0.95)
EPSILON = 1e-8


def main():
    torch.manual_seed(1)
    inputs = (torch.randn(STEPS, 8) * 64).round() / 64
    targets = (torch.randn(STEPS) * 64).round() / 64
    weight = torch.nn.Parameter((torch.randn(8) * 64).round() / 64)
    initial = weight.detach().clone()
    optimizer = torch.optim.AdamW([weight], lr=LEARNING_RATE, betas=BETAS, eps=EPSILON, weight_decay=WEIGHT_DECAY,
                                  foreach=False)
    scaler = torch.amp.GradScaler("cpu", init_scale=INITIAL_SCALE, growth_factor=2.0, backoff_factor=0.5,
                                  growth_interval=GROWTH_INTERVAL)
    scales, skipped, gradients = [], [], []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = (inputs[step] @ weight - targets[step]) ** 2
        scales.append(float(scaler.get_scale()))
        scaler.scale(loss).backward()
        if step in OVERFLOWS:
            weight.grad[3] = float("inf")
        gradients.append([float(g) if g.isfinite() else None for g in weight.grad])
        before = weight.detach().clone()
        scaler.step(optimizer)
        scaler.update()
        skipped.append(bool(torch.equal(before, weight.detach())))
    assert [i for i, s in enumerate(skipped) if s] == OVERFLOWS
    golden = {
        "pytorch": torch.__version__,
        "initial_scale": INITIAL_SCALE,
        "growth_interval": GROWTH_INTERVAL,
        "learning_rate": LEARNING_RATE,
        "weight_decay": WEIGHT_DECAY,
        "beta1": BETAS[0],
        "beta2": BETAS[1],
        "epsilon": EPSILON,
        "scales": scales,
        "final_scale": float(scaler.get_scale()),
        "skipped": [int(s) for s in skipped],
        # Gradients of the scaled loss; null means infinite.
        "scaled_gradients": gradients,
        "initial_weight": [float(w) for w in initial],
        "final_weight": [float(w) for w in weight.detach()],
    }
    path = pathlib.Path(__file__).parent / "loss_scale" / "golden.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(golden, indent=1) + "\n")
    print(path, "scales", scales, "->", golden["final_scale"])


if __name__ == "__main__":
    main()
