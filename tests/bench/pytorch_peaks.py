#!/usr/bin/env python3
"""The rates that a GPU reaches in PyTorch: matrix products, copies, attention. Speed rows are judged by them.

  pytorch_peaks.py [CONFIG.json...]

Prints one line of JSON: TFLOP/s of bf16 products of random numbers (8192 cubed, and the products of a layer and of the
head of each model, for 16,384 rows), TB/s of copies within the device (bytes read and written), GB/s between device and
pinned host memory, TFLOP/s of causal attention (forward; half of the scores count), clocks and power afterwards. A time
is the median of ten, after three that do not count.
"""
import json
import statistics
import subprocess
import sys

import torch
import torch.nn.functional as F
from model_flops import read_config

ROWS = 16384


def seconds(call):
    times = []
    for i in range(13):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        call()
        end.record()
        end.synchronize()
        if i >= 3:
            times.append(begin.elapsed_time(end) / 1e3)
    return statistics.median(times)


def product(m, n, k):
    a, b = (torch.randn(shape, device="cuda", dtype=torch.bfloat16) for shape in ((m, k), (n, k)))
    return round(2 * m * n * k / seconds(lambda: a @ b.T) / 1e12, 1)


def attention(c, sequence):
    q, k, v = (torch.randn(ROWS // sequence, heads, sequence, c["head_size"], device="cuda", dtype=torch.bfloat16)
               for heads in (c["heads"], c["kv_heads"], c["kv_heads"]))
    flops = 2 * ROWS * sequence * c["heads"] * c["head_size"]
    return round(flops / seconds(lambda: F.scaled_dot_product_attention(
        q, k, v, is_causal=True, enable_gqa=c["heads"] != c["kv_heads"])) / 1e12, 1)


def main():
    figures = {"torch": torch.__version__, "cudnn": torch.backends.cudnn.version(),
               "product 8192": product(8192, 8192, 8192)}
    for path in sys.argv[1:]:
        c = read_config(path)
        heads = c["heads"] * c["head_size"]
        products = {"qkv": (heads + 2 * c["kv_heads"] * c["head_size"], c["width"]), "out": (c["width"], heads),
                    "up": (c["inner"] * (2 if c["gated"] else 1), c["width"]), "down": (c["width"], c["inner"]),
                    "head": (c["vocabulary"], c["width"])}
        name = path.rsplit("/", 1)[-1].removesuffix(".json")
        figures[name] = {part: product(ROWS, n, k) for part, (n, k) in products.items()}
        figures[name]["attention"] = {s: attention(c, s) for s in (1024, 8192)}
    big = torch.randn(2**31, device="cuda")
    other = torch.empty_like(big)
    figures["copy TB/s"] = round(2 * big.nbytes / seconds(lambda: other.copy_(big)) / 1e12, 2)
    host = torch.empty(2**28, pin_memory=True)
    part = big[:2**28]
    figures["to host GB/s"] = round(host.nbytes / seconds(lambda: host.copy_(part)) / 1e9, 1)
    figures["to device GB/s"] = round(host.nbytes / seconds(lambda: part.copy_(host)) / 1e9, 1)
    query = "--query-gpu=clocks.sm,clocks.mem,power.draw,power.limit,temperature.gpu"
    figures["clocks and power"] = subprocess.run(["nvidia-smi", query, "--format=csv,noheader"], capture_output=True,
                                                 text=True, check=False).stdout.strip()
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
