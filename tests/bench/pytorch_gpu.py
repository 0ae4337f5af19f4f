#!/usr/bin/env python3
"""A training step of GPT-2, Llama or Qwen2 on one GPU in PyTorch, for comparison with `weft run --backend=cuda`.

  pytorch_gpu.py CONFIG.json --sequence 1024 --tokens 65536 --microbatch 8 [--steps 20 --warm-up 3]
                 [--states fp32|mixed|mixed16|bf16] [--recompute] [--compile blocks|whole|off]
                 [--data TOKENS --loss-curve OUT.json --lr 3e-4] [--device cuda|cpu]

Uses PyTorch's own fast operators: torch.compile, scaled_dot_product_attention (cuDNN or flash), fused AdamW. Computes
in bf16 with fp32 accumulation. States: `fp32` keeps weights, gradients and moments in fp32 and casts weights when they
are used; `mixed` has weights and gradients in bf16 in addition to fp32 master weights and moments, updated by one
compiled kernel per tensor; `mixed16` is the same with moments in bf16; `bf16` has only bf16. The first three equal the
states that weft keeps with precision.grads FP32 and BF16, and with precision.moments BF16. `blocks` compiles one layer
for all layers, which takes seconds, while the whole model takes minutes.

Prints one line of JSON: tokens per second (the mean of the steps after the warm-up), model FLOPs utilization with
causal attention (half), and versions. `--data` reads a token file of weft, for loss curves; otherwise tokens are
random.
"""
import argparse
import json
import struct
import time

import torch
import torch.nn.functional as F
from model_flops import PEAK_BF16, flops_per_token, microbatches as count_microbatches, read_config
from torch import nn
from torch.utils.checkpoint import checkpoint


class RmsNorm(nn.Module):
    def __init__(self, width, epsilon):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.epsilon = epsilon

    def forward(self, x):
        return F.rms_norm(x, (x.shape[-1],), self.weight, self.epsilon)


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        width = c["width"]
        self.heads, self.kv_heads, self.size = c["heads"], c["kv_heads"], c["head_size"]
        self.qkv = nn.Linear(width, (self.heads + 2 * self.kv_heads) * self.size, bias=c["qkv_bias"])
        self.out = nn.Linear(self.heads * self.size, width, bias=c["bias"])

    def forward(self, x, angles):
        b, s, _ = x.shape
        q, k, v = self.qkv(x).view(b, s, -1, self.size).transpose(1, 2).split(
            [self.heads, self.kv_heads, self.kv_heads], dim=1)
        if angles is not None:
            q, k = rotate(q, angles), rotate(k, angles)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.kv_heads != self.heads)
        return self.out(y.transpose(1, 2).reshape(b, s, -1))


def rotate(x, angles):
    cos, sin = angles
    a, b = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-b, a), dim=-1) * sin


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        width, inner = c["width"], c["inner"]
        norm = (lambda: RmsNorm(width, c["epsilon"])) if c["gated"] else (lambda: nn.LayerNorm(width, c["epsilon"]))
        self.norm_1, self.norm_2 = norm(), norm()
        self.attention = Attention(c)
        self.gated = c["gated"]
        self.up = nn.Linear(width, inner * (2 if self.gated else 1), bias=c["bias"])
        self.down = nn.Linear(inner, width, bias=c["bias"])

    def forward(self, x, angles):
        x = x + self.attention(self.norm_1(x), angles)
        y = self.up(self.norm_2(x))
        if self.gated:
            gate, value = y.chunk(2, dim=-1)
            y = F.silu(gate) * value
        else:
            y = F.gelu(y, approximate="tanh")
        return x + self.down(y)


class Model(nn.Module):
    def __init__(self, c, sequence, recompute):
        super().__init__()
        width = c["width"]
        self.embedding = nn.Embedding(c["vocabulary"], width)
        self.positions = None if c["gated"] else nn.Embedding(sequence, width)
        self.blocks = nn.ModuleList(Block(c) for _ in range(c["layers"]))
        self.norm = RmsNorm(width, c["epsilon"]) if c["gated"] else nn.LayerNorm(width, c["epsilon"])
        self.head = nn.Linear(width, c["vocabulary"], bias=False)
        if c["tied"]:
            self.head.weight = self.embedding.weight
        self.recompute = recompute
        if c["gated"]:
            size = c["head_size"]
            frequencies = c["base"] ** (-torch.arange(0, size, 2, dtype=torch.float32) / size)
            angles = torch.outer(torch.arange(sequence, dtype=torch.float32), frequencies).repeat(1, 2)
            self.register_buffer("cos", angles.cos(), persistent=False)
            self.register_buffer("sin", angles.sin(), persistent=False)
        for p in self.parameters():
            if p.dim() >= 2:
                nn.init.normal_(p, std=0.02)

    def forward(self, tokens, targets):
        x = self.embedding(tokens)
        angles = None
        if self.positions is None:
            angles = (self.cos.to(x.dtype), self.sin.to(x.dtype))
        else:
            x = x + self.positions.weight
        for block in self.blocks:
            x = checkpoint(block, x, angles, use_reentrant=False) if self.recompute else block(x, angles)
        return self.loss(x, targets)

    def loss(self, x, targets):
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.view(-1, logits.shape[-1]).float(), targets.reshape(-1))

    def compile_blocks(self):
        """Compiles one layer; all layers share the compiled code."""
        for block in self.blocks:
            block.forward = torch.compile(block.forward)
        self.loss = torch.compile(self.loss)


def read_tokens(path):
    with open(path, "rb") as file:
        head = file.read(32)
        assert head[:8] == b"WEFTTOKN", path
        wide = struct.unpack("<I", head[12:16])[0] == 2
        return torch.frombuffer(bytearray(file.read()), dtype=torch.int32 if wide else torch.uint16).long()


class MasterAdamW:
    """AdamW on fp32 copies of bf16 weights: the step reads bf16 gradients and writes both copies."""

    def __init__(self, parameters, lr, compiled, moments=torch.float32):
        self.parameters = parameters
        self.lr = lr
        self.states = [(p.detach().float(), torch.zeros_like(p, dtype=moments), torch.zeros_like(p, dtype=moments))
                       for p in parameters]
        self.count = 0
        self.update = torch.compile(self.update_one, dynamic=True) if compiled else self.update_one

    @staticmethod
    def update_one(p, grad, master, m, v, factor, lr, decay, bias_1, bias_2):
        g = grad.float() * factor
        # The update uses the unrounded moments; they are rounded when they are stored.
        first = 0.9 * m.float() + 0.1 * g
        second = 0.95 * v.float() + 0.05 * g * g
        m.copy_(first)
        v.copy_(second)
        master.mul_(1 - lr * decay).sub_(lr / bias_1 * first / ((second / bias_2).sqrt() + 1e-8))
        p.copy_(master)

    @torch.no_grad()
    def step(self, factor):
        self.count += 1
        device = factor.device
        scalars = [torch.tensor(x, dtype=torch.float32, device=device)
                   for x in (self.lr, 1 - 0.9**self.count, 1 - 0.95**self.count)]
        for p, (master, m, v) in zip(self.parameters, self.states):
            # One dimension, so that one compiled kernel serves tensors of all shapes.
            self.update(p.view(-1), p.grad.view(-1), master.view(-1), m.view(-1), v.view(-1), factor, scalars[0],
                        0.1 if p.dim() >= 2 else 0.0, scalars[1], scalars[2])

    def zero_grad(self):
        for p in self.parameters:
            p.grad = None


def clip_factor(parameters, most):
    """Returns the factor of gradients that limits their norm to `most`."""
    norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm([p.grad for p in parameters])).float())
    return torch.clamp(most / (norm + 1e-6), max=1.0)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("config")
    parser.add_argument("--sequence", type=int, default=1024)
    parser.add_argument("--tokens", type=int, default=65536)
    parser.add_argument("--microbatch", type=int, default=8)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--warm-up", type=int, default=3)
    parser.add_argument("--states", choices=["fp32", "mixed", "mixed16", "bf16"], default="fp32")
    parser.add_argument("--recompute", action="store_true")
    parser.add_argument("--compile", choices=["blocks", "whole", "off"], default="blocks")
    parser.add_argument("--data")
    parser.add_argument("--loss-curve")
    parser.add_argument("--lr", type=float, default=3e-4)
    parser.add_argument("--device", default="cuda")
    a = parser.parse_args()
    if a.device == "cuda" and not torch.cuda.is_available():
        raise SystemExit(f"torch {torch.__version__} sees no GPU")
    c = read_config(a.config)
    microbatches = count_microbatches(a.tokens, a.sequence, a.microbatch)
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("highest")
    device = torch.device(a.device)
    # Create the model on the device: the host would take minutes for billions of random numbers.
    with device:
        model = Model(c, a.sequence, a.recompute)
    if a.states != "fp32":
        model = model.to(torch.bfloat16)
    parameters = list(model.parameters())
    masters = a.states in ("mixed", "mixed16")
    if masters:
        optimizer = MasterAdamW(parameters, a.lr, a.compile != "off",
                                torch.bfloat16 if a.states == "mixed16" else torch.float32)
    else:
        decayed = [p for p in parameters if p.dim() >= 2]
        rest = [p for p in parameters if p.dim() < 2]
        optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}],
                                      lr=a.lr, betas=(0.9, 0.95), fused=device.type == "cuda")
    step_model = model
    if a.compile == "whole":
        step_model = torch.compile(model)
    elif a.compile == "blocks":
        model.compile_blocks()
    stream = read_tokens(a.data) if a.data else None
    generator = torch.Generator().manual_seed(1)

    def batch(step, m):
        if stream is None:
            t = torch.randint(c["vocabulary"], (a.microbatch, a.sequence + 1), generator=generator)
        else:
            windows = (len(stream) - 1) // a.sequence
            first = (step * microbatches + m) * a.microbatch
            rows = [(first + i) % windows * a.sequence for i in range(a.microbatch)]
            t = torch.stack([stream[r:r + a.sequence + 1] for r in rows])
        t = t.to(device, non_blocking=True)
        return t[:, :-1].contiguous(), t[:, 1:].contiguous()

    def synchronize():
        if device.type == "cuda":
            torch.cuda.synchronize()

    losses, seconds = [], []
    for step in range(a.warm_up + a.steps):
        synchronize()
        start = time.perf_counter()
        total = torch.zeros((), device=device)
        for m in range(microbatches):
            x, y = batch(step, m)
            with torch.autocast(device.type, torch.bfloat16, enabled=a.states == "fp32"):
                loss = step_model(x, y) / microbatches
            loss.backward()
            total += loss.detach()
        if masters:
            optimizer.step(clip_factor(parameters, 1.0))
        else:
            torch.nn.utils.clip_grad_norm_(parameters, 1.0)
            optimizer.step()
        optimizer.zero_grad()
        losses.append(total.item())
        synchronize()
        if step >= a.warm_up:
            seconds.append(time.perf_counter() - start)
    mean = sum(seconds) / len(seconds)
    print(json.dumps({
        "config": a.config, "tokens_per_second": a.tokens / mean,
        "mfu_causal": a.tokens / mean * flops_per_token(c, a.sequence) / PEAK_BF16,
        "seconds": mean, "warm_up": a.warm_up, "steps": len(seconds), "microbatches": microbatches,
        "states": a.states, "recompute": a.recompute, "compile": a.compile, "torch": torch.__version__,
        "loss": losses[-1], "parameters": sum(p.numel() for p in parameters),
        "memory_bytes": torch.cuda.max_memory_allocated() if device.type == "cuda" else 0}))
    if a.loss_curve:
        with open(a.loss_curve, "w", encoding="utf-8") as out:
            json.dump({"losses": losses}, out)


if __name__ == "__main__":
    main()
