#!/usr/bin/env python3
"""Makes the golden files of tiny U-Nets with PyTorch: python3 make_unet_golden.py.

The model is written from the architecture (Nichol and Dhariwal 2021, arXiv:2102.09672, and their published module
names), channels first as PyTorch has them; the optimizer is PyTorch's AdamW. Times, noise and the order of the images
come from the random numbers that docs/kernels.md defines, implemented here again in numpy. README.md describes the
files.
"""
import json
import math
import os
import struct

import numpy as np
import torch
import torch.nn.functional as F

from make_gpt2_golden import philox, write_safetensors

SEED = 1234
BATCH = 4
STEPS = 25
LEARNING_RATE = 1e-3
BETAS = (0.9, 0.95)
EPSILON = 1e-8
WEIGHT_DECAY = 0.1
CLIP_NORM = 1.0
IMAGES = 11

DATA_ORDER, TIME, NOISE = 3, 16, 17


def counters(columns):
    return np.stack([np.asarray(c, dtype=np.uint64) for c in np.broadcast_arrays(*columns)], axis=1)


def image_of_sample(sample, images):
    epoch, value = divmod(sample, images)
    half = 1
    while 4**half < images:
        half += 1
    mask = (1 << half) - 1
    while True:
        left, right = value >> half, value & mask
        for r in range(4):
            word = int(philox(SEED, DATA_ORDER, np.array([[right, r, epoch, 0]], dtype=np.uint64))[0, 0])
            left, right = right, left ^ (word & mask)
        value = (left << half) | right
        if value < images:
            return value


def time_of_sample(sample, steps):
    word = int(philox(SEED, TIME, counters([[0], [0], [sample], [0]]))[0, 0])
    return (word * steps) >> 32


def noise_of_sample(sample, elements):
    words = philox(SEED, NOISE, counters([np.arange((elements + 1) // 2), [0], [sample], [0]]))
    u = [((words[:, 2 * i] << np.uint64(32)) | words[:, 2 * i + 1]).astype(np.float64) for i in range(2)]
    u = [(v + 0.5) * 2.0**-64 for v in u]
    radius, angle = np.sqrt(-2.0 * np.log(u[0])), 2.0 * np.pi * u[1]
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1).reshape(-1)[:elements]


def signal_levels(config):
    steps = config["diffusion_steps"]
    if config["noise_schedule"] == "linear":
        betas = np.linspace(1e-4 * 1000 / steps, 0.02 * 1000 / steps, steps)
    else:
        left = lambda t: math.cos((t + 0.008) / 1.008 * math.pi / 2) ** 2
        betas = np.array([1 - left((i + 1) / steps) / left(i / steps) for i in range(steps)])
    return np.cumprod(1 - np.minimum(betas, 0.999))


def batch_of_step(config, images, step, dtype):
    """Returns noisy images and noise [B, C, H, W], and times [B]."""
    side, channels = config["image_size"], config["in_channels"]
    levels = signal_levels(config)
    noisy, noises, times = [], [], []
    for sample in range(step * BATCH, (step + 1) * BATCH):
        t = time_of_sample(sample, config["diffusion_steps"])
        noise = noise_of_sample(sample, side * side * channels).reshape(side, side, channels)
        pixels = (images[image_of_sample(sample, IMAGES)].astype(np.float32) / np.float32(127.5) - np.float32(1))
        noisy.append(math.sqrt(levels[t]) * pixels.astype(np.float64) + math.sqrt(1 - levels[t]) * noise)
        noises.append(noise)
        times.append(t)
    to = lambda a: torch.tensor(np.stack(a)).permute(0, 3, 1, 2).to(dtype)
    return to(noisy), to(noises), torch.tensor(times)


class Model:
    """Runs the model on weights by name; with `weights` None collects their names and shapes in order."""

    def __init__(self, config, weights=None):
        self.config, self.weights, self.shapes = config, weights, {}

    def weight(self, name, shape):
        if self.weights is None:
            self.shapes[name] = shape
            return torch.zeros(shape)
        return self.weights[name]

    def conv(self, name, x, outputs, side=3, stride=1):
        w = self.weight(name + ".weight", (outputs, x.shape[1], side, side))
        return F.conv2d(x, w, self.weight(name + ".bias", (outputs,)), stride=stride, padding=side // 2)

    def linear(self, name, x, outputs):
        weight = self.weight(name + ".weight", (outputs, x.shape[1]))
        return F.linear(x, weight, self.weight(name + ".bias", (outputs,)))

    def norm(self, name, x):
        gamma, beta = self.weight(name + ".weight", (x.shape[1],)), self.weight(name + ".bias", (x.shape[1],))
        return F.group_norm(x, self.config["norm_num_groups"], gamma, beta, 1e-5)

    def block(self, name, x, time, outputs):
        h = self.conv(name + ".in_layers.2", F.silu(self.norm(name + ".in_layers.0", x)), outputs)
        scale_shift = self.config["use_scale_shift_norm"]
        e = self.linear(name + ".emb_layers.1", F.silu(time), outputs * (2 if scale_shift else 1))[:, :, None, None]
        if scale_shift:
            scale, shift = e.chunk(2, dim=1)
            h = self.norm(name + ".out_layers.0", h) * (1 + scale) + shift
        else:
            h = self.norm(name + ".out_layers.0", h + e)
        h = self.conv(name + ".out_layers.3", F.silu(h), outputs)
        return h + (x if outputs == x.shape[1] else self.conv(name + ".skip_connection", x, outputs, 1))

    def attention(self, name, x, heads):
        batch, width, height, _ = x.shape
        positions = height * height

        def project(part, v, outputs):
            weight = self.weight(f"{name}.{part}.weight", (outputs, width, 1))
            return F.conv1d(v, weight, self.weight(f"{name}.{part}.bias", (outputs,)))

        qkv = project("qkv", self.norm(name + ".norm", x).reshape(batch, width, positions), 3 * width)
        if self.config.get("use_new_attention_order", False):
            parts = qkv.reshape(batch, 3, heads, width // heads, positions).unbind(1)
        else:
            parts = qkv.reshape(batch, heads, 3, width // heads, positions).unbind(2)
        q, k, v = parts
        scores = torch.einsum("bhcq,bhck->bhqk", q, k) / math.sqrt(width // heads)
        h = torch.einsum("bhqk,bhck->bhcq", torch.softmax(scores, -1), v).reshape(batch, width, positions)
        return x + project("proj_out", h, width).reshape(x.shape)

    def __call__(self, x, times):
        c = self.config
        base, blocks, mult = c["model_channels"], c["num_res_blocks"], c["channel_mult"]
        heads, heads_up = c["num_heads"], c.get("num_heads_upsample", c["num_heads"])
        scale = 1000.0 / c["diffusion_steps"] if c["rescale_timesteps"] else 1.0
        half = base // 2
        frequencies = torch.exp(-math.log(10000.0) * torch.arange(half, dtype=torch.float64) / half)
        angles = times[:, None].double() * scale * frequencies
        time = torch.cat([torch.cos(angles), torch.sin(angles)], 1).to(x.dtype)
        time = self.linear("time_embed.2", F.silu(self.linear("time_embed.0", time, 4 * base)), 4 * base)
        x = self.conv("input_blocks.0.0", x, base)
        kept, index = [x], 1
        for level, m in enumerate(mult):
            for _ in range(blocks):
                x = self.block(f"input_blocks.{index}.0", x, time, base * m)
                if x.shape[2] in c["attention_resolutions"]:
                    x = self.attention(f"input_blocks.{index}.1", x, heads)
                kept.append(x)
                index += 1
            if level + 1 < len(mult):
                x = self.conv(f"input_blocks.{index}.0.op", x, base * m, 3, 2)
                kept.append(x)
                index += 1
        x = self.block("middle_block.0", x, time, x.shape[1])
        x = self.attention("middle_block.1", x, heads)
        x = self.block("middle_block.2", x, time, x.shape[1])
        index = 0
        for level in reversed(range(len(mult))):
            for i in range(blocks + 1):
                name = f"output_blocks.{index}"
                x = self.block(name + ".0", torch.cat([x, kept.pop()], 1), time, base * mult[level])
                part = 1
                if x.shape[2] in c["attention_resolutions"]:
                    x = self.attention(name + ".1", x, heads_up)
                    part = 2
                if level > 0 and i == blocks:
                    x = F.interpolate(x, scale_factor=2, mode="nearest")
                    x = self.conv(f"{name}.{part}.conv", x, base * mult[level])
                index += 1
        return self.conv("out.2", F.silu(self.norm("out.0", x)), c["in_channels"])


def initial_weights(config, dtype):
    """Draws weights so that no gradient is zero, also for layers that training would initialize to zero."""
    side, channels = config["image_size"], config["in_channels"]
    shapes = Model(config)
    shapes(torch.zeros(1, channels, side, side), torch.zeros(1, dtype=torch.int64))
    random = np.random.default_rng(7)
    weights = {}
    for name, shape in shapes.shapes.items():
        deviation = 0.1 if len(shape) == 1 else 1 / math.sqrt(math.prod(shape[1:]))
        array = (deviation * random.standard_normal(shape)).astype(np.float32)
        # Gammas are around 1.
        if len(shape) == 1 and name.endswith(".weight"):
            array += np.float32(1)
        weights[name] = torch.tensor(array).to(dtype).requires_grad_(True)
    return weights


def loss_of(config, weights, batch):
    noisy, noise, times = batch
    return ((Model(config, weights)(noisy, times) - noise) ** 2).mean()


def train(config, images, dtype):
    weights = initial_weights(config, dtype)
    optimizer = torch.optim.AdamW(
        [{"params": [p for p in weights.values() if p.dim() >= 2], "weight_decay": WEIGHT_DECAY},
         {"params": [p for p in weights.values() if p.dim() < 2], "weight_decay": 0.0}],
        lr=LEARNING_RATE, betas=BETAS, eps=EPSILON, foreach=False)
    losses, norms = [], []
    for step in range(STEPS):
        loss = loss_of(config, weights, batch_of_step(config, images, step, dtype))
        optimizer.zero_grad()
        loss.backward()
        norms.append(float(torch.nn.utils.clip_grad_norm_(list(weights.values()), CLIP_NORM)))
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses, norms, weights


def write_images(path, images):
    count, height, width, channels = images.shape
    with open(path, "wb") as file:
        file.write(b"WEFTIMGS" + struct.pack("<IIIIIIQ", 1, 1, channels, height, width, 0, count) + images.tobytes())


def key_biases(config, weights):
    """A key bias adds the same number to all scores of a query, which softmax ignores."""
    ranges = []
    for name, weight in weights.items():
        if not name.endswith(".qkv.bias"):
            continue
        width = weight.shape[0] // 3
        heads = config["num_heads"]
        if name.startswith("output"):
            heads = config.get("num_heads_upsample", heads)
        if config.get("use_new_attention_order", False):
            ranges.append([name, width, 2 * width])
        else:
            size = width // heads
            ranges += [[name, (3 * h + 1) * size, (3 * h + 2) * size] for h in range(heads)]
    return ranges


def make(folder):
    config = json.load(open(os.path.join(folder, "config.json")))
    side, channels = config["image_size"], config["in_channels"]
    random = np.random.default_rng(3)
    diagonals = np.add.outer(np.arange(side), np.arange(side))[None, :, :, None]
    waves = diagonals * random.uniform(0.1, 0.9, (IMAGES, 1, 1, channels))
    images = (127.5 + 100 * np.sin(waves + random.uniform(0, 6, (IMAGES, 1, 1, channels)))).astype(np.uint8)
    write_images(os.path.join(folder, "images.img"), images)
    arrays = lambda weights: {name: w.detach().numpy() for name, w in weights.items()}
    write_safetensors(os.path.join(folder, "initial.safetensors"), arrays(initial_weights(config, torch.float32)))

    exact = initial_weights(config, torch.float64)
    loss = loss_of(config, exact, batch_of_step(config, images, 0, torch.float64))
    loss.backward()
    write_safetensors(os.path.join(folder, "gradients_fp64.safetensors"), {n: w.grad.numpy() for n, w in exact.items()})
    losses, norms, final = train(config, images, torch.float32)
    write_safetensors(os.path.join(folder, "final_fp32.safetensors"), arrays(final))
    losses64, norms64, final64 = train(config, images, torch.float64)
    golden = {
        "torch": torch.__version__.split("+")[0],
        "seed": SEED, "sequence_length": side * side, "global_batch_sequences": BATCH, "steps": STEPS,
        "learning_rate": LEARNING_RATE, "beta1": BETAS[0], "beta2": BETAS[1], "epsilon": EPSILON,
        "weight_decay": WEIGHT_DECAY, "clip_norm": CLIP_NORM, "loss_fp64": float(loss.detach()),
        "zero_gradients": key_biases(config, exact),
        "losses_fp32": losses, "grad_norms_fp32": norms, "losses_fp64": losses64, "grad_norms_fp64": norms64,
    }
    with open(os.path.join(folder, "golden.json"), "w") as file:
        json.dump(golden, file, indent=1)
        file.write("\n")
    print(folder, "parameters", sum(w.numel() for w in exact.values()))
    print("loss", losses[0], "to", losses[-1], "fp32 - fp64, largest relative: %.2e" %
          max(abs(a / b - 1) for a, b in zip(losses, losses64)))
    skip = {}
    for name, first, last in golden["zero_gradients"]:
        skip.setdefault(name, []).append((first, last))
    worst = ("", 0.0)
    for name, w in final.items():
        a, b = w.detach().double().reshape(-1).clone(), final64[name].detach().reshape(-1).clone()
        for first, last in skip.get(name, []):
            a[first:last] = b[first:last] = 0
        worst = max(worst, (name, float(torch.linalg.norm(a - b) / torch.linalg.norm(b))), key=lambda v: v[1])
    print("weights fp32 - fp64, largest relative:", worst)


def main():
    torch.set_num_threads(1)
    here = os.path.dirname(os.path.abspath(__file__))
    for name in ["unet_tiny", "unet_scale_shift"]:
        make(os.path.join(here, name))


if __name__ == "__main__":
    main()
