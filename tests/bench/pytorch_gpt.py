#!/usr/bin/env python3
"""The training step of gpt_benchmark.cc in PyTorch eager mode, for comparison. Same arguments, same line of JSON.

  pytorch_gpt.py [layers width heads sequence sequences vocabulary threads steps]

Written with PyTorch's own fast operators (layer_norm, gelu, scaled_dot_product_attention, cross_entropy, AdamW with
its default, multi-tensor, implementation), fp32, gradient clipping, no dropout.
"""
import json
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.c_attn, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.c_fc, self.c_proj = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, s, d = x.shape
        q, k, v = (t.view(b, s, self.heads, d // self.heads).transpose(1, 2)
                   for t in self.c_attn(self.ln_1(x)).split(d, dim=-1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(b, s, d))
        return x + self.c_proj(F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, layers, width, heads, sequence, vocabulary):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(sequence, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        for p in self.parameters():
            if p.dim() >= 2:
                nn.init.normal_(p, std=0.02)

    def forward(self, tokens, targets):
        x = self.wte(tokens) + self.wpe.weight[:tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.ln_f(x), self.wte.weight)
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.reshape(-1))


def main():
    defaults = [4, 256, 4, 128, 8, 256, 2, 40]
    given = [int(a) for a in sys.argv[1:9]]
    layers, width, heads, sequence, sequences, vocabulary, threads, steps = given + defaults[len(given):]
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    model = Gpt(layers, width, heads, sequence, vocabulary)
    decayed = [p for p in model.parameters() if p.dim() >= 2]
    rest = [p for p in model.parameters() if p.dim() < 2]
    optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}],
                                  lr=3e-4, betas=(0.9, 0.95))
    warm = 3
    seconds, processor = [], []
    for step in range(steps):
        start = time.perf_counter()
        rows = torch.arange(step * sequences, (step + 1) * sequences).unsqueeze(1) * 7
        stream = (rows + torch.arange(sequence + 1) * 3) % vocabulary
        optimizer.zero_grad(set_to_none=True)
        loss = model(stream[:, :-1], stream[:, 1:])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        loss.item()
        seconds.append(time.perf_counter() - start)
        processor.append(time.process_time())
    measured = sorted(seconds[warm:])
    median = measured[len(measured) // 2]
    tokens = sequences * sequence
    print(json.dumps({"median_seconds": median, "best_seconds": measured[0], "tokens_per_second": tokens / median,
                      "best_tokens_per_second": tokens / measured[0],
                      "processor_seconds": (processor[-1] - processor[warm - 1]) / (steps - warm)}))


if __name__ == "__main__":
    main()
