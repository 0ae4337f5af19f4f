#!/usr/bin/env python3
"""Makes the golden files of delayed updates with PyTorch: python3 make_pipedream_golden.py [folder], default
gpt2_pipedream.

What PipeDream (Narayanan et al. 2019, SOSP, sec. 3.3) and PipeDream-2BW (Narayanan et al. 2021, arXiv:2006.09503, sec.
3.1) compute, without a pipeline: every microbatch is one autograd pass in which each stage uses the weights after as
many updates as the method states.
- PipeDream on P stages: stage r's forward and backward of microbatch j use the weights after max(0, j - (P - 1 - r))
  updates, and the update of microbatch j follows its backward.
- PipeDream-2BW: all stages use for batch t the weights after max(0, t - 1) updates; a batch is P microbatches.
Model, data and initial weights are those of make_gpt2_golden.py, with an untied output head.
"""
import json
import os
import sys

import torch

import make_gpt2_golden as base

STEPS = 24
SEQUENCES = 2


def loss_of(config, weights, tokens, targets):
    """The tied model's loss with `lm_head.weight` in place of the second use of the embedding."""
    tied = dict(weights)
    head = tied.pop("lm_head.weight")

    class Weights(dict):
        """Returns the embedding when it is first read and the head at the second read."""
        reads = 0

        def __getitem__(self, name):
            if name == "transformer.wte.weight":
                self.reads += 1
                if self.reads == 2:
                    return head
            return dict.__getitem__(self, name)

    return base.loss_of(config, Weights(tied), tokens, targets)


def stage_of(name, config, stages):
    """Returns the stage of a tensor. Stages have equal numbers of layers: the embedding, the blocks, the head."""
    if "wte" in name or "wpe" in name:
        layer = 0
    elif ".h." in name:
        layer = 1 + int(name.split(".")[2])
    else:
        layer = config["n_layer"] + 1
    return layer * stages // (config["n_layer"] + 2)


def train(config, text, initial, dtype, stages, two_buffered):
    names = list(initial)
    stage = {name: stage_of(name, config, stages) for name in names}
    master = {name: initial[name].clone().to(dtype).requires_grad_(True) for name in names}
    optimizer = torch.optim.AdamW(
        [{"params": [p for p in master.values() if p.dim() >= 2], "weight_decay": base.WEIGHT_DECAY},
         {"params": [p for p in master.values() if p.dim() < 2], "weight_decay": 0.0}],
        lr=base.LEARNING_RATE, betas=base.BETAS, eps=base.EPSILON, foreach=False)
    versions = [{name: p.detach().clone() for name, p in master.items()}]
    microbatches = stages if two_buffered else 1
    base.BATCH = SEQUENCES * microbatches
    losses = []
    for step in range(STEPS):
        def version_of(name):
            delay = 1 if two_buffered else stages - 1 - stage[name]
            return versions[max(0, step - delay)][name]
        used = {name: version_of(name).clone().requires_grad_(True) for name in names}
        tokens, targets = base.batch_of_step(text, step)
        total = 0
        for m in range(microbatches):
            part = slice(m * SEQUENCES, (m + 1) * SEQUENCES)
            loss = loss_of(config, used, tokens[part], targets[part]) / microbatches
            loss.backward()
            total += float(loss.detach())
        losses.append(total)
        for name in names:
            master[name].grad = used[name].grad
        optimizer.step()
        versions.append({name: p.detach().clone() for name, p in master.items()})
    return losses, versions[-1]


def main():
    torch.set_num_threads(1)
    here = os.path.dirname(os.path.abspath(__file__))
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "gpt2_pipedream")
    config = json.load(open(os.path.join(folder, "config.json")))
    text = open(os.path.join(here, "gpt2_tiny", "text.txt"), "rb").read()
    initial = {name: w.detach() for name, w in base.initial_weights(config, torch.float32).items()}
    shape = (config["vocab_size"], config["n_embd"])
    initial["lm_head.weight"] = torch.tensor(base.initial_normal(len(initial), shape, config["initializer_range"]))
    base.write_safetensors(os.path.join(folder, "initial.safetensors"), {n: w.numpy() for n, w in initial.items()})
    golden = {
        "torch": torch.__version__.split("+")[0],
        "seed": base.SEED, "sequence_length": base.SEQUENCE, "microbatch_sequences": SEQUENCES, "steps": STEPS,
        "learning_rate": base.LEARNING_RATE, "beta1": base.BETAS[0], "beta2": base.BETAS[1], "epsilon": base.EPSILON,
        "weight_decay": base.WEIGHT_DECAY,
    }
    for method, two_buffered in (("pipedream", False), ("pipedream_2bw", True)):
        for stages in (2, 4):
            case = f"{method}_{stages}"
            losses, final = train(config, text, initial, torch.float64, stages, two_buffered)
            golden["losses_" + case] = losses
            base.write_safetensors(os.path.join(folder, f"final_{case}.safetensors"),
                                   {name: w.to(torch.float32).numpy() for name, w in final.items()})
            print(case, losses[0], losses[-1])
    with open(os.path.join(folder, "golden.json"), "w") as file:
        json.dump(golden, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
