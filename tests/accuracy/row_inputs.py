"""Turns a published run (README.md) into inputs of weft's commands, as run_model, machine and run_plan do for
weft-accuracy. Only runs that state their whole plan, of the families below. Needs only Python."""
import json
import os
import re
import subprocess


class Skipped(Exception):
    """The run cannot be planned; the text says why."""


# What the plans of a framework have in common: settings and dimensions that `weft plan` would search, but that the
# framework of the run does not offer. Megatron-LM has its distributed optimizer, ZeRO 1, and no ZeRO 2 and 3; before
# Korthikanti et al. 2022 it had no sequence parallelism.
MEGATRON = ["--set", "zero.stage=1", "--exclude", "offload,zero-group"]
DEEPSPEED = ["--set", "zero.stage=1", "--exclude", "offload,zero-group,sequence-parallel", "--schedules", "1f1b"]
FSDP = ["--set", "tp=1", "--set", "pp=1", "--exclude", "offload,zero-group"]

# Families of tier A: runtime, its dropout, its type of products, whether its gradients have this type too, and what
# its framework offers. The first four are those of catalog/runtimes.
FAMILIES = {
    "Aleph Alpha": ("aleph-alpha", 0, "BF16", True, MEGATRON),
    "BigScience BLOOM": ("bloom", 0, "FP16", True, DEEPSPEED),
    "InternEvo": ("internevo", 0, "BF16", True, ["--set", "zero.stage=1", "--exclude", "offload"]),
    "Korthikanti": ("megatron-2022", 0.1, "FP16", True, MEGATRON),
    "MegaScale": ("megatron-2023", 0, "BF16", False, MEGATRON),
    "Megatron-LM 2020": ("megatron-2020", 0.1, "FP16", True,
                         ["--exclude", "offload,zero,sequence-parallel", "--schedules", "1f1b"]),
    "MosaicML llm-foundry": ("llm-foundry", 0, "BF16", False, FSDP),
    "NVIDIA DGXC": ("nemo", 0, "BF16", True, MEGATRON),
    "SimuMax": ("megatron-core-blocking", 0, "BF16", False, MEGATRON),
    "Zero Bubble": ("megatron-2022", 0.1, "FP16", True, MEGATRON + ["--schedules", "1f1b,interleaved,zb-h1"]),
    "torchtitan": ("torchtitan", 0, "BF16", False, ["--exclude", "offload,zero-group"]),
    "vTrain": ("megatron-deepspeed", 0.1, "FP16", True, DEEPSPEED),
}

# Words in the name of a device, the cluster of the catalog, and the power limit in watts. The first match counts.
DEVICES = [
    ("GB200", "gb200-nvl72", 1200),
    ("B200", "dgx-b200", 1000),
    ("H100", "dgx-h100", 700),
    ("A800", "hgx-a800", 400),
    ("A100-40GB", "dgx-a100-40g", 400),
    ("A100", "dgx-a100-80g", 400),
    ("V100", "dgx2-v100", 0),
]

SCHEDULES = [("zb-2p", "zb-h2"), ("zb-1p", "zb-h1"), ("interleaved", "interleaved"), ("1f1b", "1f1b"), ("none", "1f1b")]


def family_of(row):
    for name, family in FAMILIES.items():
        if row["family"].startswith(name):
            return family
    raise Skipped("its family is not of tier A")


def stated(value, name):
    if value is None:
        raise Skipped(f"{name} is not stated")
    return value


def runtime_of(row):
    name = family_of(row)[0]
    extra = row.get("plan_extra") or {}
    if extra.get("tp_overlap") or extra.get("framework") == "MegaScale" or "cumulative_step" in extra:
        raise Skipped("its runtime has switches that no file of the catalog has")
    if extra.get("torch_compile"):
        name += "-compile"
    if extra.get("fused_rmsnorm") is False:
        name += "-plain-norm"
    precision = row["plan"].get("precision") or ""
    if "fp8" in precision:
        name += "-fp8" if name != "torchtitan" else "-compile-fp8"
        name += "-rowwise" if "rowwise" in precision else ""
    return name


def model_of(row):
    """Returns the model as a config.json of Hugging Face."""
    model, kind = row["model"], row["model"]["kind"]
    width, layers, heads = (stated(model[name], "model." + name) for name in ("hidden", "layers", "heads"))
    inner, kv_heads = stated(model["ffn_hidden"], "model.ffn_hidden"), model.get("kv_heads") or heads
    positions = model.get("seq_len") or 2048
    if kind.startswith("dense-llama"):
        return {"model_type": "llama", "vocab_size": model.get("vocab") or 32000, "hidden_size": width,
                "num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": kv_heads,
                "max_position_embeddings": positions, "intermediate_size": inner, "tie_word_embeddings": "tied" in kind}
    if not kind.startswith("dense-gpt") or "parallel block" in kind or kv_heads != heads:
        raise Skipped(f"no config.json has a model like '{kind}' with {kv_heads} heads of keys")
    dropout = family_of(row)[1]
    return {"model_type": "gpt2", "vocab_size": model.get("vocab") or 51200, "n_embd": width, "n_layer": layers,
            "n_head": heads, "n_positions": positions, "n_inner": inner, "resid_pdrop": dropout,
            "embd_pdrop": dropout, "attn_pdrop": dropout}


def catalog_cluster(weft, name):
    return subprocess.run([weft, "list", "clusters", "--show", name], check=True, capture_output=True, text=True).stdout


def field(text, name, value):
    """Sets a field of the outermost message of a text proto."""
    changed, count = re.subn(rf"^{name}: .*$", f"{name}: {value}", text, flags=re.M)
    assert count == 1, name
    return changed


def cluster_of(row, weft):
    """Returns the cluster as a text proto: the catalog's, with the nodes, links and memory that the run states."""
    cluster, gpu = row["cluster"], row["cluster"]["gpu"]
    found = [entry for entry in DEVICES if entry[0] in gpu]
    if not found:
        raise Skipped(f"no cluster of the catalog has a device like '{gpu}'")
    _, name, watts = found[0]
    text = catalog_cluster(weft, name)
    number = {key: int(re.search(rf"^{key}: (\d+)", text, re.M).group(1))
              for key in ("devices_per_node", "nics_per_node")}
    per_node = min(cluster.get("gpus_per_node") or number["devices_per_node"], cluster["gpus"])
    text = field(text, "devices_per_node", per_node)
    text = field(text, "nodes", -(-cluster["gpus"] // per_node))
    link = cluster.get("inter_node_link") or ""
    rate = re.search(r"([0-9.]+) ?Gb/s", link)
    cards = re.search(r"([0-9]+) ?x", link)
    if rate:
        bytes_per_second, nics = float(rate.group(1)) * 1e9 / 8, per_node
        if "Omni-Path" in link:
            nics = 1
        elif cards:
            nics = int(cards.group(1))
        elif "per GPU" not in link:
            bytes_per_second /= per_node
        # The share of the nominal rate that messages reach, as in machine.cc.
        text = re.sub(r"^(inter_node \{ bytes_per_second: )\S+", rf"\g<1>{0.9 * bytes_per_second}", text, flags=re.M)
        text = field(text, "nics_per_node", nics)
    else:
        whole = cluster.get("gpus_per_node") or number["devices_per_node"]
        text = field(text, "nics_per_node", max(1, number["nics_per_node"] * whole // number["devices_per_node"]))
    memory = re.search(r"([0-9]+) ?GB", gpu)
    known = int(re.search(r"memory_bytes: (\d+)", text).group(1))
    if memory and abs(int(memory.group(1)) * 2**30 / known - 1) > 0.1:
        text = re.sub(r"memory_bytes: \d+", f"memory_bytes: {int(memory.group(1)) * 2**30}", text, count=1)
    if limit := re.search(r"([0-9]+) ?W", gpu):
        clock = min(1, int(limit.group(1)) / watts) ** (1 / 3)
        text = re.sub(r"(peaks \{.*flops_per_second: )(\S+)",
                      lambda match: f"{match.group(1)}{float(match.group(2)) * clock}", text)
    if bandwidth := re.search(r"([0-9.]+) ?TB/s", gpu):
        text = re.sub(r"(device \{.*?memory_bytes_per_second: )\S+", rf"\g<1>{bandwidth.group(1)}e12", text, count=1,
                      flags=re.S)
    return text


def precision_of(row):
    given = (row["plan"].get("precision") or "").lower()
    _, _, usual, narrow_gradients, _ = family_of(row)
    compute = "BF16" if "bf16" in given or "fp8" in given else "FP16" if "fp16" in given else usual
    narrow = "fp32 grad" not in given and ("reduce in bf16" in given or (narrow_gradients and compute == usual))
    gradients = compute if narrow else "FP32"
    return [f"precision.compute={compute}", f"precision.params={compute}", f"precision.grads={gradients}",
            f"precision.reduce={gradients}"]


def schedule_of(row, pp):
    plan, layers = row["plan"], row["model"]["layers"]
    if pp == 1:
        return ["schedule=1f1b"]
    words = (plan.get("schedule") or "1f1b").lower()
    name = next((schedule for word, schedule in SCHEDULES if word in words), None)
    if name is None:
        raise Skipped(f"schedule '{words}'")
    chunks = plan.get("vpp") or 1
    if "1 layer per chunk" in words:
        chunks = (layers if layers % pp == 0 else layers + 2) // pp
    elif name == "interleaved" and chunks == 1:
        chunks = 2
    if name in ("1f1b", "interleaved") and chunks > 1:
        return ["schedule=interleaved", f"vpp={chunks}"]
    return [f"schedule={name}"]


def recompute_of(row):
    given = (row["plan"].get("recompute") or "").lower()
    if not given:
        return "FIT"
    if given.startswith("full"):
        return "FULL"
    if given == "selective (attention core)":
        return "SELECTIVE"
    if given == "none":
        return "NONE"
    if given.startswith("selective") and row["family"].startswith("torchtitan"):
        return "EVERY"
    raise Skipped(f"recomputation '{given}'")


def sizes_of(row):
    plan = row["plan"]
    if (plan.get("cp") or 1) > 1 or (plan.get("ep") or 1) > 1:
        raise Skipped("context or expert parallelism")
    tp, pp, gpus = stated(plan.get("tp"), "plan.tp"), stated(plan.get("pp"), "plan.pp"), row["cluster"]["gpus"]
    dp = plan.get("dp") or gpus // (tp * pp)
    if tp * pp * dp != gpus:
        raise Skipped(f"tp = {tp}, pp = {pp} and dp = {dp} do not make up {gpus} devices")
    return tp, pp, dp


def settings_of(row):
    """Returns the settings that every plan of the run shares, and those of the published plan."""
    plan, extra = row["plan"], row.get("plan_extra") or {}
    runtime, dropout, _, _, _ = family_of(row)
    tp, pp, dp = sizes_of(row)
    batch, micro = stated(plan.get("global_batch"), "plan.global_batch"), plan.get("micro_batch") or 1
    if not plan.get("micro_batch") and runtime == "megatron-2022":
        raise Skipped("plan.micro_batch is not stated")
    if batch % (micro * dp) != 0:
        raise Skipped(f"{dp} replicas of {micro} sequences do not divide the batch of {batch}")
    recipe = [f"seq={row['model'].get('seq_len') or 2048}", f"gbs={batch}", f"recipe.dropout={dropout}"]
    shared = precision_of(row) + [f"dropout_masks={'true' if dropout else 'false'}"]
    if "attention_kernel" in extra:
        shared.append("attention=FUSED")
    own = [f"tp={tp}", f"pp={pp}", f"dp={dp}", f"mbs={micro}"] + schedule_of(row, pp)
    mode = recompute_of(row)
    own += [f"recompute.mode={mode}"] + (["recompute.every=2"] if mode == "EVERY" else [])
    parallel = plan.get("sequence_parallel")
    if parallel is None:
        parallel = runtime in ("megatron-2023", "nemo", "megatron-core-blocking", "torchtitan")
    own.append(f"sequence_parallel={'true' if parallel and tp > 1 else 'false'}")
    stage = plan.get("zero_stage") or 0
    if stage == 2 and pp > 1:
        stage = 1
    if stage > 0 and dp > 1:
        own.append(f"zero.stage={stage}")
        group = extra.get("zero1_shard_group")
        if stage == 1 and isinstance(group, int) and group < dp:
            own.append(f"zero.group={group}")
    return recipe, shared, own


def outside_of_space(row):
    """Returns what of the published plan `weft plan` does not search (docs/planning.md); empty = nothing."""
    reasons = []
    micro = row["plan"].get("micro_batch") or 1
    if micro > 64 or micro & (micro - 1):
        reasons.append(f"microbatches of {micro}")
    mode = recompute_of(row)
    if mode in ("FULL", "EVERY"):
        reasons.append("recomputes every layer" if mode == "FULL" else "recomputes every second layer")
    schedule = dict(setting.split("=") for setting in schedule_of(row, sizes_of(row)[1]))
    if schedule["schedule"] == "zb-h2":
        reasons.append("schedule " + schedule["schedule"])
    elif int(schedule.get("vpp", 1)) > 12:
        reasons.append(f"{schedule['vpp']} stages per rank")
    if (row["plan"].get("zero_stage") or 0) == 0 and sizes_of(row)[2] > 1 and not runtime_of(row).endswith("2020"):
        reasons.append("no ZeRO")
    return reasons


def write_inputs(row, weft, folder):
    """Writes the model and the cluster of a run to `folder`. Returns the flags that all commands share, those that
    limit a search to what the framework offers, the settings of the published plan beside the shared flags, and the
    whole published plan for --from."""
    recipe, shared, own = settings_of(row)
    runtime, model, cluster = runtime_of(row), model_of(row), cluster_of(row, weft)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "model.json"), "w", encoding="utf-8") as file:
        json.dump(model, file)
    with open(os.path.join(folder, "cluster.textproto"), "w", encoding="utf-8") as file:
        file.write(cluster)
    flags = [f"--model={folder}/model.json", f"--cluster={folder}/cluster.textproto", f"--runtime={runtime}",
             "--network=nccl", "--cost=tiles"]
    for setting in recipe + shared:
        flags += ["--set", setting]
    return flags, family_of(row)[4], own, shared + own
