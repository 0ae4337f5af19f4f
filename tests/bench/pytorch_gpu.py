#!/usr/bin/env python3
"""A training step of GPT-2, Llama or Qwen2 on one GPU in PyTorch, as the rival of `weft run --backend=cuda`.

  pytorch_gpu.py CONFIG.json --sequence 1024 --tokens 65536 --microbatch 8 [--steps 20 --warm-up 3]
                 [--states fp32|bf16] [--recompute] [--no-compile] [--data TOKENS --loss-curve OUT.json --lr 3e-4]

Written with what PyTorch itself offers for speed: torch.compile, scaled_dot_product_attention (cuDNN or flash), fused
AdamW. bf16 with fp32 accumulation; with `--states fp32` weights and moments are kept in fp32 and cast by the step (master
weights), with `bf16` everything is bf16. Prints one line of JSON: tokens per second, model FLOPs utilisation with
attention counted causally (half), and versions. `--data` reads a token file of weft, for loss curves; otherwise random tokens.
"""
import argparse
import json
import struct
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

PEAK_BF16 = 989.4e12  # H100 and H200, dense.


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
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.view(-1, logits.shape[-1]).float(), targets.reshape(-1))


def read_config(path):
    with open(path) as file:
        c = json.load(file)
    if c["model_type"] == "gpt2":
        return dict(width=c["n_embd"], layers=c["n_layer"], heads=c["n_head"], kv_heads=c["n_head"],
                    head_size=c["n_embd"] // c["n_head"], inner=4 * c["n_embd"], vocabulary=c["vocab_size"],
                    epsilon=c["layer_norm_epsilon"], gated=False, bias=True, qkv_bias=True, tied=True, base=0)
    heads = c["num_attention_heads"]
    return dict(width=c["hidden_size"], layers=c["num_hidden_layers"], heads=heads,
                kv_heads=c.get("num_key_value_heads", heads), head_size=c.get("head_dim") or c["hidden_size"] // heads,
                inner=c["intermediate_size"], vocabulary=c["vocab_size"], epsilon=c["rms_norm_eps"], gated=True,
                bias=False, qkv_bias=c["model_type"] == "qwen2", tied=c["tie_word_embeddings"],
                base=c.get("rope_theta", 10000.0))


def flops_per_token(c, sequence):
    """Products of a forward and a backward; attention causally; no embedding, but the head."""
    attention = c["heads"] * c["head_size"]
    layer = c["width"] * (attention + 2 * c["kv_heads"] * c["head_size"]) + attention * c["width"]
    layer += c["width"] * c["inner"] * (3 if c["gated"] else 2)
    return 6 * (c["layers"] * layer + c["width"] * c["vocabulary"]) + 6 * c["layers"] * sequence * attention


def read_tokens(path):
    with open(path, "rb") as file:
        head = file.read(32)
        assert head[:8] == b"WEFTTOKN", path
        wide = struct.unpack("<I", head[12:16])[0] == 2
        return torch.frombuffer(bytearray(file.read()), dtype=torch.int32 if wide else torch.uint16).long()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("config")
    parser.add_argument("--sequence", type=int, default=1024)
    parser.add_argument("--tokens", type=int, default=65536)
    parser.add_argument("--microbatch", type=int, default=8)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--warm-up", type=int, default=3)
    parser.add_argument("--states", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--recompute", action="store_true")
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--data")
    parser.add_argument("--loss-curve")
    parser.add_argument("--lr", type=float, default=3e-4)
    parser.add_argument("--device", default="cuda")
    a = parser.parse_args()
    c = read_config(a.config)
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("highest")
    device = torch.device(a.device)
    model = Model(c, a.sequence, a.recompute).to(device)
    if a.states == "bf16":
        model = model.to(torch.bfloat16)
    decayed = [p for p in model.parameters() if p.dim() >= 2]
    rest = [p for p in model.parameters() if p.dim() < 2]
    optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}],
                                  lr=a.lr, betas=(0.9, 0.95), fused=device.type == "cuda")
    step_model = model if a.no_compile else torch.compile(model)
    stream = read_tokens(a.data) if a.data else None
    microbatches = a.tokens // (a.sequence * a.microbatch)
    assert microbatches * a.sequence * a.microbatch == a.tokens, "tokens must be a multiple of sequence x microbatch"
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
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(total.item())
        synchronize()
        if step >= a.warm_up:
            seconds.append(time.perf_counter() - start)
    mean = sum(seconds) / len(seconds)
    print(json.dumps({
        "config": a.config, "tokens_per_second": a.tokens / mean,
        "mfu_causal": a.tokens / mean * flops_per_token(c, a.sequence) / PEAK_BF16,
        "seconds": mean, "steps": len(seconds), "states": a.states, "recompute": a.recompute,
        "compile": not a.no_compile, "torch": torch.__version__, "loss": losses[-1],
        "memory_bytes": torch.cuda.max_memory_allocated() if device.type == "cuda" else 0}))
    if a.loss_curve:
        with open(a.loss_curve, "w") as out:
            json.dump({"losses": losses}, out)


if __name__ == "__main__":
    main()
