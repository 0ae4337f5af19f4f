"""Shapes of a model from its config.json, and the FLOPs of a training step per token. Needs only Python."""
import json

PEAK_BF16 = 989.4e12  # H100 and H200, dense.


def read_config(path):
    with open(path, encoding="utf-8") as file:
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
    """Returns the FLOPs of the products of a forward and a backward (twice the forward). Attention is causal and counts
    half; of the embeddings only the head counts. Recomputation does not count."""
    attention = c["heads"] * c["head_size"]
    # Weights of a layer: q, k and v, output, and two or three matrices of the feed-forward network.
    layer = c["width"] * (attention + 2 * c["kv_heads"] * c["head_size"]) + attention * c["width"]
    layer += c["width"] * c["inner"] * (3 if c["gated"] else 2)
    # Scores and values: 2 products x 2 FLOPs x sequence / 2 x columns, three times.
    return 6 * (c["layers"] * layer + c["width"] * c["vocabulary"]) + 6 * c["layers"] * sequence * attention


def microbatches(tokens, sequence, microbatch):
    """Returns the number of microbatches of a step; refuses a fraction."""
    each = sequence * microbatch
    if each <= 0 or tokens <= 0 or tokens % each:
        raise SystemExit(f"--tokens {tokens} must be a multiple of --sequence x --microbatch = {each}; nearest valid: "
                         f"{max(each, round(tokens / each) * each) if each > 0 else 'none'}")
    return tokens // each
