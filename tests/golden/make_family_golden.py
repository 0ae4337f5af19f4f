#!/usr/bin/env python3
"""Makes the golden files of a tiny Llama and a tiny BERT with PyTorch: python3 make_family_golden.py [folder ...],
default llama_tiny bert_tiny.

The models are written from the published formulas, with only matrix products and elementwise functions: Llama
(arXiv:2302.13971) with grouped heads (arXiv:2305.13245) and the frequencies of Llama 3.1; BERT (arXiv:1810.04805) with
the masking that docs/kernels.md defines. Random numbers, training and file formats are those of make_gpt2_golden.py.
"""
import json
import math
import os
import sys

import numpy as np
import torch

import make_gpt2_golden as gpt2
from make_gpt2_golden import BATCH, SEED, SEQUENCE

MASKING = 4
MASKED_FRACTION = 0.15
# Larger than GPT-2's: the untied head has many small gradients, some nearly zero. With 1e-8, AdamW would make full
# steps from their rounding noise.
EPSILON = 1e-6


class Llama:
    zero_gradients = []

    def __init__(self, config):
        self.c = config
        self.head = config.get("head_dim", config["hidden_size"] // config["num_attention_heads"])

    def parameters(self):
        c, d, std = self.c, self.c["hidden_size"], self.c["initializer_range"]
        residual = std / math.sqrt(2.0 * c["num_hidden_layers"])
        q, kv = c["num_attention_heads"] * self.head, c["num_key_value_heads"] * self.head
        out = [("model.embed_tokens.weight", (c["vocab_size"], d), ("normal", std))]
        for i in range(c["num_hidden_layers"]):
            h = f"model.layers.{i}."
            out += [(h + "input_layernorm.weight", (d,), ("constant", 1.0)),
                    (h + "self_attn.q_proj.weight", (q, d), ("normal", std)),
                    (h + "self_attn.k_proj.weight", (kv, d), ("normal", std)),
                    (h + "self_attn.v_proj.weight", (kv, d), ("normal", std)),
                    (h + "self_attn.o_proj.weight", (d, q), ("normal", residual)),
                    (h + "post_attention_layernorm.weight", (d,), ("constant", 1.0)),
                    (h + "mlp.gate_proj.weight", (c["intermediate_size"], d), ("normal", std)),
                    (h + "mlp.up_proj.weight", (c["intermediate_size"], d), ("normal", std)),
                    (h + "mlp.down_proj.weight", (d, c["intermediate_size"]), ("normal", residual))]
        return out + [("model.norm.weight", (d,), ("constant", 1.0)),
                      ("lm_head.weight", (c["vocab_size"], d), ("normal", std))]

    def frequencies(self):
        """Llama 3.1: keeps frequencies with wavelengths up to original / high, and divides those with wavelengths above
        original / low by the factor."""
        s = self.c["rope_scaling"]
        result = []
        for i in range(self.head // 2):
            f = self.c["rope_theta"] ** (-2.0 * i / self.head)
            wavelength = 2 * math.pi / f
            original = s["original_max_position_embeddings"]
            if wavelength > original / s["low_freq_factor"]:
                f /= s["factor"]
            elif wavelength >= original / s["high_freq_factor"]:
                smooth = (original / wavelength - s["low_freq_factor"]) / (s["high_freq_factor"] - s["low_freq_factor"])
                f = (1 - smooth) * f / s["factor"] + smooth * f
            result.append(f)
        return torch.tensor(result, dtype=torch.float64)

    def rotate(self, x):
        """x [batch, heads, sequence, head]: rotates pairs (i, i + head / 2) by position * frequency."""
        angles = torch.outer(torch.arange(x.shape[2], dtype=torch.float64), self.frequencies())
        cos, sin = torch.cos(angles).to(x.dtype), torch.sin(angles).to(x.dtype)
        low, high = x[..., :self.head // 2], x[..., self.head // 2:]
        return torch.cat([low * cos - high * sin, high * cos + low * sin], dim=-1)

    def norm(self, x, gamma):
        return x / torch.sqrt((x * x).mean(-1, keepdim=True) + self.c["rms_norm_eps"]) * gamma

    def loss(self, w, tokens, targets):
        c = self.c
        batch, sequence = tokens.shape
        heads, kv_heads = c["num_attention_heads"], c["num_key_value_heads"]
        x = w["model.embed_tokens.weight"][tokens]
        hidden = torch.triu(torch.ones(sequence, sequence, dtype=torch.bool), diagonal=1)
        split = lambda y, n: y.view(batch, sequence, n, self.head).transpose(1, 2)
        for i in range(c["num_hidden_layers"]):
            h = f"model.layers.{i}."
            y = self.norm(x, w[h + "input_layernorm.weight"])
            q = self.rotate(split(y @ w[h + "self_attn.q_proj.weight"].T, heads))
            k = self.rotate(split(y @ w[h + "self_attn.k_proj.weight"].T, kv_heads))
            v = split(y @ w[h + "self_attn.v_proj.weight"].T, kv_heads)
            k, v = (t.repeat_interleave(heads // kv_heads, dim=1) for t in (k, v))
            scores = (q @ k.transpose(-1, -2) / math.sqrt(self.head)).masked_fill(hidden, -math.inf)
            y = (torch.softmax(scores, -1) @ v).transpose(1, 2).reshape(batch, sequence, -1)
            x = x + y @ w[h + "self_attn.o_proj.weight"].T
            y = self.norm(x, w[h + "post_attention_layernorm.weight"])
            gate, up = y @ w[h + "mlp.gate_proj.weight"].T, y @ w[h + "mlp.up_proj.weight"].T
            x = x + (gate * torch.sigmoid(gate) * up) @ w[h + "mlp.down_proj.weight"].T
        logits = self.norm(x, w["model.norm.weight"]) @ w["lm_head.weight"].T
        chosen = logits.gather(-1, targets.unsqueeze(-1)).squeeze(-1)
        return (torch.logsumexp(logits, -1) - chosen).mean()

    def batch(self, text, step):
        return gpt2.batch_of_step(text, step)


class Bert:
    def __init__(self, config):
        self.c = config
        # A key bias adds the same number to all scores of a query, which softmax ignores.
        self.zero_gradients = [[f"bert.encoder.layer.{i}.attention.self.key.bias", 0, config["hidden_size"]]
                               for i in range(config["num_hidden_layers"])]

    def parameters(self):
        c, d, std = self.c, self.c["hidden_size"], self.c["initializer_range"]
        out = []

        def norm(name):
            out.append((name + ".weight", (d,), ("constant", 1.0)))
            out.append((name + ".bias", (d,), ("constant", 0.0)))

        def linear(name, rows, columns):
            out.append((name + ".weight", (columns, rows), ("normal", std)))
            out.append((name + ".bias", (columns,), ("constant", 0.0)))

        e = "bert.embeddings."
        for name, rows in (("word_embeddings", c["vocab_size"]), ("position_embeddings", c["max_position_embeddings"]),
                           ("token_type_embeddings", c["type_vocab_size"])):
            out.append((e + name + ".weight", (rows, d), ("normal", std)))
        norm(e + "LayerNorm")
        for i in range(c["num_hidden_layers"]):
            h = f"bert.encoder.layer.{i}."
            for name in ("query", "key", "value"):
                linear(h + "attention.self." + name, d, d)
            linear(h + "attention.output.dense", d, d)
            norm(h + "attention.output.LayerNorm")
            linear(h + "intermediate.dense", d, c["intermediate_size"])
            linear(h + "output.dense", c["intermediate_size"], d)
            norm(h + "output.LayerNorm")
        linear("cls.predictions.transform.dense", d, d)
        norm("cls.predictions.transform.LayerNorm")
        return out + [("cls.predictions.bias", (c["vocab_size"],), ("constant", 0.0))]

    def loss(self, w, tokens, targets):
        c, d, heads = self.c, self.c["hidden_size"], self.c["num_attention_heads"]
        batch, sequence = tokens.shape
        linear = lambda x, name: x @ w[name + ".weight"].T + w[name + ".bias"]
        norm = lambda x, name: gpt2.layer_norm(x, w[name + ".weight"], w[name + ".bias"], c["layer_norm_eps"])
        gelu = lambda x: 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))
        split = lambda y: y.view(batch, sequence, heads, d // heads).transpose(1, 2)
        e = "bert.embeddings."
        x = (w[e + "word_embeddings.weight"][tokens] + w[e + "token_type_embeddings.weight"][0] +
             w[e + "position_embeddings.weight"][:sequence])
        x = norm(x, e + "LayerNorm")
        for i in range(c["num_hidden_layers"]):
            h = f"bert.encoder.layer.{i}."
            q, k, v = (split(linear(x, h + "attention.self." + name)) for name in ("query", "key", "value"))
            weights = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(d // heads), -1)
            y = (weights @ v).transpose(1, 2).reshape(batch, sequence, d)
            x = norm(linear(y, h + "attention.output.dense") + x, h + "attention.output.LayerNorm")
            y = linear(gelu(linear(x, h + "intermediate.dense")), h + "output.dense")
            x = norm(y + x, h + "output.LayerNorm")
        x = norm(gelu(linear(x, "cls.predictions.transform.dense")), "cls.predictions.transform.LayerNorm")
        logits = x @ w[e + "word_embeddings.weight"].T + w["cls.predictions.bias"]
        valid = targets >= 0
        chosen = logits.gather(-1, targets.clamp(min=0).unsqueeze(-1)).squeeze(-1)
        return (torch.logsumexp(logits, -1) - chosen)[valid].mean()

    def mask(self, tokens, sample):
        """Returns the masked input of a sample, and its targets."""
        masked = max(1, round(MASKED_FRACTION * SEQUENCE))
        positions = np.arange(SEQUENCE, dtype=np.uint64)

        def words(draw):
            counters = np.stack([positions // np.uint64(4), np.full_like(positions, draw),
                                 np.full_like(positions, sample & 0xFFFFFFFF), np.full_like(positions, sample >> 32)],
                                axis=1)
            return gpt2.philox(SEED, MASKING, counters)[np.arange(SEQUENCE), np.arange(SEQUENCE) % 4]

        order, action, token = words(0), words(1), words(2)
        chosen = sorted(range(SEQUENCE), key=lambda p: (int(order[p]), p))[:masked]
        seen, targets = list(tokens), [-1] * SEQUENCE
        for p in chosen:
            targets[p] = tokens[p]
            if int(action[p]) < int(0.8 * 2**32):
                seen[p] = self.c["mask_token_id"]
            elif int(action[p]) < int(0.9 * 2**32):
                seen[p] = int(token[p]) * self.c["vocab_size"] >> 32
        return seen, targets

    def batch(self, text, step):
        windows = (len(text) - 1) // SEQUENCE
        rows = []
        for i in range(BATCH):
            sample = step * BATCH + i
            first = gpt2.window_of_sample(sample, windows) * SEQUENCE
            rows.append(self.mask(list(text[first:first + SEQUENCE]), sample))
        return torch.tensor([seen for seen, _ in rows]), torch.tensor([targets for _, targets in rows])


def initial_weights(model, dtype):
    weights = {}
    for index, (name, shape, (kind, value)) in enumerate(model.parameters()):
        array = gpt2.initial_normal(index, shape, value) if kind == "normal" else np.full(shape, value, np.float32)
        weights[name] = torch.tensor(array).to(dtype).requires_grad_(True)
    return weights


def train(model, text, dtype):
    """Returns losses, gradient norms before clipping, and the weights after STEPS steps."""
    weights = initial_weights(model, dtype)
    optimizer = torch.optim.AdamW(
        [{"params": [p for p in weights.values() if p.dim() >= 2], "weight_decay": gpt2.WEIGHT_DECAY},
         {"params": [p for p in weights.values() if p.dim() < 2], "weight_decay": 0.0}],
        lr=gpt2.LEARNING_RATE, betas=gpt2.BETAS, eps=EPSILON, foreach=False)
    losses, norms = [], []
    for step in range(gpt2.STEPS):
        loss = model.loss(weights, *model.batch(text, step))
        optimizer.zero_grad()
        loss.backward()
        norms.append(float(torch.nn.utils.clip_grad_norm_(list(weights.values()), gpt2.CLIP_NORM)))
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses, norms, weights


def make(folder, text):
    config = json.load(open(os.path.join(folder, "config.json")))
    model = {"llama": Llama, "bert": Bert}[config["model_type"]](config)
    path = lambda name: os.path.join(folder, name)
    arrays = lambda weights: {name: w.detach().numpy() for name, w in weights.items()}
    gpt2.write_safetensors(path("initial.safetensors"), arrays(initial_weights(model, torch.float32)))

    exact = initial_weights(model, torch.float64)
    loss = model.loss(exact, *model.batch(text, 0))
    loss.backward()
    gpt2.write_safetensors(path("gradients_fp64.safetensors"), {name: w.grad.numpy() for name, w in exact.items()})

    losses, norms, final = train(model, text, torch.float32)
    gpt2.write_safetensors(path("final_fp32.safetensors"), arrays(final))
    losses64, norms64, final64 = train(model, text, torch.float64)
    golden = {
        "torch": torch.__version__.split("+")[0],
        "seed": SEED, "sequence_length": SEQUENCE, "global_batch_sequences": BATCH, "steps": gpt2.STEPS,
        "learning_rate": gpt2.LEARNING_RATE, "beta1": gpt2.BETAS[0], "beta2": gpt2.BETAS[1], "epsilon": EPSILON,
        "weight_decay": gpt2.WEIGHT_DECAY, "clip_norm": gpt2.CLIP_NORM,
        "loss_fp64": float(loss.detach()),
        # Gradients that are zero except for rounding: [name, first element, last element + 1]
        "zero_gradients": model.zero_gradients,
        "losses_fp32": losses, "grad_norms_fp32": norms,
        "losses_fp64": losses64, "grad_norms_fp64": norms64,
    }
    with open(path("golden.json"), "w") as file:
        json.dump(golden, file, indent=1)
        file.write("\n")

    # The difference between fp32 and fp64 in PyTorch itself, which the tolerances must allow.
    print(folder, "losses", losses[0], losses[-1])
    print("loss fp32 - fp64, largest: %.2e" % max(abs(a / b - 1) for a, b in zip(losses, losses64)))
    skip = {name for name, _, _ in model.zero_gradients}
    worst = max((gpt2.relative(w.detach(), final64[name].detach()), name) for name, w in final.items()
                if name not in skip)
    print("weights fp32 - fp64, largest: %.2e %s" % worst)


def main():
    torch.set_num_threads(1)
    here = os.path.dirname(os.path.abspath(__file__))
    text = open(os.path.join(here, "gpt2_tiny", "text.txt"), "rb").read()
    for folder in sys.argv[1:] or [os.path.join(here, "llama_tiny"), os.path.join(here, "bert_tiny")]:
        make(folder, text)


if __name__ == "__main__":
    main()
