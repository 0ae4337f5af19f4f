#!/usr/bin/env python3
"""Makes the golden files of a tiny GPT-2 with PyTorch: python3 make_gpt2_golden.py [folder], default gpt2_tiny.

The model is written from the architecture (Radford et al. 2019: pre-norm transformer, learned positions, GELU in its
tanh form, output head tied to the token embedding), the optimizer is PyTorch's AdamW. Initial weights and the order of
the data come from the random numbers that docs/kernels.md defines, implemented here again in numpy. README.md describes
the files.
"""
import json
import math
import os
import struct
import sys

import numpy as np
import torch

SEED = 1234
SEQUENCE = 16
BATCH = 8
STEPS = 50
LEARNING_RATE = 1e-3
BETAS = (0.9, 0.95)
EPSILON = 1e-8
WEIGHT_DECAY = 0.1
CLIP_NORM = 1.0

INITIALISATION, DATA_ORDER = 1, 3


def philox(seed, purpose, counters):
    """Philox-4x32-10 of counters [n, 4] (uint64 holding 32 bits each)."""
    mask = np.uint64(0xFFFFFFFF)
    shift = np.uint64(32)
    x = [counters[:, i].astype(np.uint64) for i in range(4)]
    key = [seed & 0xFFFFFFFF, (seed >> 32) ^ purpose]
    for _ in range(10):
        a = np.uint64(0xD2511F53) * x[0]
        b = np.uint64(0xCD9E8D57) * x[2]
        x = [(b >> shift) ^ x[1] ^ np.uint64(key[0]), b & mask, (a >> shift) ^ x[3] ^ np.uint64(key[1]), a & mask]
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return np.stack(x, axis=1)


def initial_normal(index, shape, stddev):
    n = math.prod(shape)
    pairs = np.arange((n + 1) // 2, dtype=np.uint64)
    counters = np.stack([pairs & np.uint64(0xFFFFFFFF), pairs >> np.uint64(32),
                         np.full_like(pairs, index), np.zeros_like(pairs)], axis=1)
    words = philox(SEED, INITIALISATION, counters)
    u = [((words[:, 2 * i] << np.uint64(32)) | words[:, 2 * i + 1]).astype(np.float64) for i in range(2)]
    u = [(v + 0.5) * 2.0**-64 for v in u]
    radius = np.sqrt(-2.0 * np.log(u[0]))
    angle = 2.0 * np.pi * u[1]
    normal = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1).reshape(-1)[:n]
    return (stddev * normal).astype(np.float32).reshape(shape)


def window_of_sample(sample, windows):
    """Feistel network of four rounds over 2 * half bits, repeated until the value is in range."""
    epoch, value = divmod(sample, windows)
    half = 1
    while 4**half < windows:
        half += 1
    mask = (1 << half) - 1
    while True:
        left, right = value >> half, value & mask
        for r in range(4):
            word = int(philox(SEED, DATA_ORDER, np.array([[right, r, epoch, 0]], dtype=np.uint64))[0, 0])
            left, right = right, left ^ (word & mask)
        value = (left << half) | right
        if value < windows:
            return value


def parameters(config):
    """(name, shape, stddev or constant) in model order."""
    d, std = config["n_embd"], config["initializer_range"]
    residual = std / math.sqrt(2.0 * config["n_layer"])
    out = [("wte.weight", (config["vocab_size"], d), ("normal", std)),
           ("wpe.weight", (config["n_positions"], d), ("normal", std))]

    def norm(name):
        out.append((name + ".weight", (d,), ("constant", 1.0)))
        out.append((name + ".bias", (d,), ("constant", 0.0)))

    def linear(name, rows, columns, stddev):
        out.append((name + ".weight", (rows, columns), ("normal", stddev)))
        out.append((name + ".bias", (columns,), ("constant", 0.0)))

    for i in range(config["n_layer"]):
        h = f"h.{i}."
        norm(h + "ln_1")
        linear(h + "attn.c_attn", d, 3 * d, std)
        linear(h + "attn.c_proj", d, d, residual)
        norm(h + "ln_2")
        linear(h + "mlp.c_fc", d, 4 * d, std)
        linear(h + "mlp.c_proj", 4 * d, d, residual)
    norm("ln_f")
    return [("transformer." + name, shape, init) for name, shape, init in out]


def initial_weights(config, dtype):
    weights = {}
    for index, (name, shape, (kind, value)) in enumerate(parameters(config)):
        array = initial_normal(index, shape, value) if kind == "normal" else np.full(shape, value, np.float32)
        weights[name] = torch.tensor(array).to(dtype).requires_grad_(True)
    return weights


def layer_norm(x, gamma, beta, epsilon):
    mean = x.mean(-1, keepdim=True)
    centred = x - mean
    return centred / torch.sqrt((centred * centred).mean(-1, keepdim=True) + epsilon) * gamma + beta


def loss_of(config, weights, tokens, targets):
    w = lambda name: weights["transformer." + name]
    d, heads = config["n_embd"], config["n_head"]
    batch, sequence = tokens.shape
    x = w("wte.weight")[tokens] + w("wpe.weight")[:sequence]
    hidden = torch.triu(torch.ones(sequence, sequence, dtype=torch.bool), diagonal=1)
    for i in range(config["n_layer"]):
        h = f"h.{i}."
        y = layer_norm(x, w(h + "ln_1.weight"), w(h + "ln_1.bias"), config["layer_norm_epsilon"])
        qkv = y @ w(h + "attn.c_attn.weight") + w(h + "attn.c_attn.bias")
        q, k, v = (part.view(batch, sequence, heads, d // heads).transpose(1, 2) for part in qkv.split(d, dim=-1))
        scores = (q @ k.transpose(-1, -2)) / math.sqrt(d // heads)
        scores = scores.masked_fill(hidden, -math.inf)
        y = (torch.softmax(scores, -1) @ v).transpose(1, 2).reshape(batch, sequence, d)
        x = x + (y @ w(h + "attn.c_proj.weight") + w(h + "attn.c_proj.bias"))
        y = layer_norm(x, w(h + "ln_2.weight"), w(h + "ln_2.bias"), config["layer_norm_epsilon"])
        y = y @ w(h + "mlp.c_fc.weight") + w(h + "mlp.c_fc.bias")
        y = 0.5 * y * (1 + torch.tanh(math.sqrt(2 / math.pi) * (y + 0.044715 * y * y * y)))
        x = x + (y @ w(h + "mlp.c_proj.weight") + w(h + "mlp.c_proj.bias"))
    x = layer_norm(x, w("ln_f.weight"), w("ln_f.bias"), config["layer_norm_epsilon"])
    logits = x @ w("wte.weight").T
    chosen = logits.gather(-1, targets.unsqueeze(-1)).squeeze(-1)
    return (torch.logsumexp(logits, -1) - chosen).mean()


def batch_of_step(text, step):
    windows = (len(text) - 1) // SEQUENCE
    rows = [window_of_sample(step * BATCH + i, windows) * SEQUENCE for i in range(BATCH)]
    tokens = torch.tensor([list(text[r:r + SEQUENCE]) for r in rows])
    targets = torch.tensor([list(text[r + 1:r + 1 + SEQUENCE]) for r in rows])
    return tokens, targets


def train(config, text, dtype):
    """Returns losses, gradient norms before clipping, and the weights after STEPS steps."""
    weights = initial_weights(config, dtype)
    optimizer = torch.optim.AdamW(
        [{"params": [p for p in weights.values() if p.dim() >= 2], "weight_decay": WEIGHT_DECAY},
         {"params": [p for p in weights.values() if p.dim() < 2], "weight_decay": 0.0}],
        lr=LEARNING_RATE, betas=BETAS, eps=EPSILON, foreach=False)
    losses, norms = [], []
    for step in range(STEPS):
        loss = loss_of(config, weights, *batch_of_step(text, step))
        optimizer.zero_grad()
        loss.backward()
        norms.append(float(torch.nn.utils.clip_grad_norm_(list(weights.values()), CLIP_NORM)))
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses, norms, weights


def write_safetensors(path, tensors):
    """Writes the file: 8 bytes with the length of a JSON header, the header, the bytes of the tensors."""
    header, offset, parts = {}, 0, []
    for name, array in tensors.items():
        data = np.ascontiguousarray(array).tobytes()
        header[name] = {"dtype": {"float32": "F32", "float64": "F64"}[str(array.dtype)],
                        "shape": list(array.shape), "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
        parts.append(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(parts))


def relative(a, b):
    return float(torch.linalg.norm((a - b).double()) / torch.linalg.norm(b.double()))


def main():
    torch.set_num_threads(1)
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "gpt2_tiny")
    config = json.load(open(os.path.join(folder, "config.json")))
    text = open(os.path.join(folder, "text.txt"), "rb").read()
    arrays = lambda weights: {name: w.detach().numpy() for name, w in weights.items()}

    initial = initial_weights(config, torch.float32)
    write_safetensors(os.path.join(folder, "initial.safetensors"), arrays(initial))

    exact = initial_weights(config, torch.float64)
    loss = loss_of(config, exact, *batch_of_step(text, 0))
    loss.backward()
    write_safetensors(os.path.join(folder, "gradients_fp64.safetensors"),
                      {name: w.grad.numpy() for name, w in exact.items()})

    losses, norms, final = train(config, text, torch.float32)
    write_safetensors(os.path.join(folder, "final_fp32.safetensors"), arrays(final))
    losses64, norms64, final64 = train(config, text, torch.float64)

    d = config["n_embd"]
    golden = {
        "torch": torch.__version__.split("+")[0],
        "seed": SEED, "sequence_length": SEQUENCE, "global_batch_sequences": BATCH, "steps": STEPS,
        "learning_rate": LEARNING_RATE, "beta1": BETAS[0], "beta2": BETAS[1], "epsilon": EPSILON,
        "weight_decay": WEIGHT_DECAY, "clip_norm": CLIP_NORM,
        "loss_fp64": float(loss.detach()),
        # Gradients that are zero except for rounding: a key bias adds the same number to all scores of a query, which
        # softmax ignores. [name, first element, last element + 1]
        "zero_gradients": [[f"transformer.h.{i}.attn.c_attn.bias", d, 2 * d] for i in range(config["n_layer"])],
        "losses_fp32": losses, "grad_norms_fp32": norms,
        "losses_fp64": losses64, "grad_norms_fp64": norms64,
    }
    with open(os.path.join(folder, "golden.json"), "w") as file:
        json.dump(golden, file, indent=1)
        file.write("\n")

    # The difference between fp32 and fp64 in PyTorch itself, which the tolerances must allow.
    print("loss fp32 - fp64, largest: %.2e" % max(abs(a - b) for a, b in zip(losses, losses64)))
    for name, w in final.items():
        a, b = w.detach(), final64[name].detach()
        if name.endswith("c_attn.bias"):
            keep = torch.cat([torch.arange(d), torch.arange(2 * d, 3 * d)])
            a, b = a[keep], b[keep]
        print("%-40s %.2e" % (name, relative(a, b)))


if __name__ == "__main__":
    main()
