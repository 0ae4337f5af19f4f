"""The cases of `compare`: a name and the commands of each, a line of arguments of `weft` per command.

Commands run in a scratch folder that holds a copy of inputs/. A command that ends in `> FILE` writes its standard
output to FILE. Every command exits with status 0. The exceptions are the last command of a case refuse-..., which
exits with 1, and all commands of a case usage-..., which exit with 2.
"""

CASES = {}
# Flags of the smallest plan, without its batch.
TINY = "--model=gpt2-tiny --cluster=dgx-a100-80g --set seq=64"
# Simulates the program that most cases compile.
SIMULATE = "simulate p.weft --format=json"


def case(name, commands):
    assert name not in CASES, name
    CASES[name] = [" ".join(line.split()) for line in commands.splitlines() if line.strip()]


def inputs(settings, model="gpt2-tiny", cluster="dgx-a100-80g", seq=64):
    """The flags of a plan: `settings` are the values of --set, separated by blanks."""
    flags = [f"--model={model} --cluster={cluster}", f"--set seq={seq}" if seq else ""]
    return " ".join(flags + [f"--set {setting}" for setting in settings.split()])


def plan(name, settings, more="", flags="", simulate="", **where):
    """Compiles a plan to p.weft, simulates it and runs `more`."""
    case(name, f"""
        compile {inputs(settings, **where)} {flags} -o p.weft
        {SIMULATE} {simulate}
        {more}""")


def refuse(name, settings, flags="", **where):
    """A plan that the compiler refuses."""
    case(f"refuse-{name}", f"compile {inputs(settings, **where)} {flags} -o p.weft")


# Lists and help.
for kind in "models clusters schedules collectives networks costs runtimes".split():
    case(f"list-{kind}", f"""
        list {kind}
        list {kind} --format=json""")
case("list-show", """
    list models --show gpt2-tiny
    list clusters --show dgx-h100 --format=json
    list clusters --show frontier
    list runtimes --show megatron-core --format=json
    list runtimes --show nemo-fp8""")
case("help", """
    --help
    --version
    compile --help
    simulate --help
    compare --help
    schedule --help
    run --help
    calibrate --help
    inspect --help
    convert --help
    report --help
    list --help""")

# Schedules: in a program, with unit costs, and without a model.
SCHEDULES = """1f1b axonn chimera chimera-wave dualpipe dualpipev eager-1f1b gems gpipe hanayo interleaved
    interleaved-zb looped-bfs pipedream pipedream-2bw v-half v-min zb-h1 zb-h2 zb-v""".split()
for schedule in SCHEDULES:
    # Schedules without a flush take no tied weights and no clipping; pipedream updates after each microbatch.
    flushes = not schedule.startswith("pipedream")
    batch = 2 if schedule == "pipedream" else 32
    plan(f"schedule-{schedule}",
         f"pp=4 dp=2 gbs={batch} schedule={schedule}" + ("" if flushes else " recipe.clip_norm=0"),
         f"""
         simulate p.weft --cost=unit --network=none --forward=2 --backward=5 --weight=2 --format=json
         inspect p.weft --timeline
         schedule {schedule} --ranks=4 --microbatches=8 --p2p=0.25 --format=json
         schedule {schedule} --ranks=4 --microbatches=8 --forward=2 --backward=3""",
         model="qwen2.5-1.5b" if flushes else "llama-2-7b", seq=512)

# Parameters of schedules.
DEEP = "pp=4 dp=2 gbs=32"
for name, settings in {
        "chimera-lanes": "schedule=chimera lanes=4",
        "chimera-doubling": "schedule=chimera scaling=FORWARD_DOUBLING recompute.mode=FULL",
        "chimera-halving": "schedule=chimera scaling=BACKWARD_HALVING mbs=2",
        "interleaved-group": "schedule=interleaved vpp=3 group=8",
        "looped-virtual": "schedule=looped-bfs vpp=3",
        "eager-limit": "schedule=eager-1f1b limit=5",
        "axonn-freeze": "schedule=axonn freeze=true limit=3",
        "axonn-freeze-tensor": "schedule=axonn freeze=true x=2 zero.stage=3"}.items():
    plan(f"schedule-{name}", f"{DEEP} {settings}", model="gpt2", seq=512)
plan("schedule-hanayo-waves", f"{DEEP} schedule=hanayo waves=2 limit=3", model="gpt2-large", seq=512)
case("schedule-compare", """
    schedule zb-h1 --compare=all --format=json
    schedule zb-h1 --p2p=0.5 --compare=all
    schedule gpipe --ranks=3 --microbatches=7 --compare=all --format=json
    schedule dualpipe --pair=2.5 --compare=dualpipev,1f1b
    schedule 1f1b --activation-cap=4 --compare=all""")
case("schedule-drawings", """
    schedule zb-v --format=svg
    schedule chimera --lanes=4 --ranks=4 --format=svg
    schedule hanayo --waves=2 --microbatches=4
    schedule interleaved --virtual=3 --group=6 --microbatches=12
    schedule axonn --freeze --forward=1.5 --backward=2.5
    schedule chimera --scaling=forward-doubling
    schedule chimera --scaling=backward-halving --microbatches=12
    schedule eager-1f1b --limit=3 --format=json""")
case("schedule-large", """
    schedule 1f1b --ranks=64 --microbatches=512 --format=json
    schedule zb-v --ranks=32 --microbatches=128 --format=json
    schedule 1f1b --ranks=300 --microbatches=300""")

# Schedules as files.
case("schedule-text", f"""
    schedule two.schedule
    schedule two.schedule --format=json
    schedule driven.schedule --format=json
    schedule chimera --format=schedule > chimera.schedule
    schedule chimera.schedule --format=json
    schedule pipedream --format=schedule > pipedream.schedule
    schedule pipedream.schedule --format=schedule
    schedule dualpipev --format=schedule
    compile {inputs('pp=2 gbs=4')} --schedule=two.schedule -o p.weft
    {SIMULATE}
    inspect p.weft --rank=0
    compile {inputs('pp=2 gbs=4')} --schedule=driven.schedule -o driven.weft
    simulate driven.weft --format=json""")
case("schedule-csv", f"""
    schedule zb-v --format=csv > zb-v.csv
    schedule zb-v.csv --format=json
    schedule 1f1b --format=csv --csv-form=compute_comms > lowered.csv
    schedule lowered.csv --communicators=per-edge
    schedule two.csv
    schedule two.csv --format=schedule
    schedule late-2024.csv --format=csv
    schedule late-2024.csv --file-dialect=late-2024 --file-form=compute_only --format=json
    schedule zb-h1 --format=csv --dialect=torch-2.5
    schedule transfers.csv --format=csv --csv-form=compute_comms
    schedule transfers.csv --communicators=one --grouped --format=json
    schedule axonn --freeze --format=csv
    compile {inputs('pp=2 gbs=2')} --schedule=two.csv -o p.weft
    {SIMULATE}""")

# Networks: inside a node and over several, with every kind of traffic.
for network in "agnostic analytic flow nccl none".split():
    plan(f"network-{network}", "x=4 dp=8 pp=2 gbs=32 sequence_parallel=true zero.stage=1", f"""
         {SIMULATE} --network={network} --runtime=megatron-core
         compile {inputs('dp=4 z=2 gbs=16 mbs=2 zero.stage=3')} -o z.weft
         simulate z.weft --network={network} --verbose""",
         model="gpt2", seq=512, simulate=f"--network={network}")
plan("network-fold", "x=2 dp=16 pp=2 gbs=32", f"""
     {SIMULATE} --fold=off
     {SIMULATE} --network=flow
     {SIMULATE} --network=flow --fold=off""", model="gpt2")

# Costs.
for cost in ("roofline", "tiles"):
    plan(f"cost-{cost}", "pp=4 gbs=16", f"""
         {SIMULATE} --cost={cost} --runtime=torch-eager
         simulate {inputs('tp=2 gbs=8', model='llama-3.1-8b', cluster='dgx-h100')} --cost={cost} --format=json
         simulate {inputs('dp=2 gbs=8', model='unet-50m', seq=1024)} --cost={cost} --format=json""",
         model="bert-base", seq=512, flags=f"--cost={cost}", simulate=f"--cost={cost}")
plan("cost-unit", "pp=4 dp=2 gbs=16 schedule=zb-h1", f"""
     simulate p.weft --cost=unit --network=none --forward=1.5 --backward=3 --weight=1
     compile {inputs('pp=2 gbs=8 schedule=dualpipev', model='gpt2')} -o pair.weft
     simulate pair.weft --cost=unit --network=none --pair=2.5 --format=json""", simulate="--cost=unit")
plan("cost-measured", "pp=2 dp=2 gbs=16", "simulate p.weft --cluster=cores.textproto --explain --verbose",
     cluster="cores.textproto", simulate="--cluster=cores.textproto")

# Runtimes: with the runtime's own plan, and of a program that is compiled already.
RUNTIMES = """aleph-alpha aleph-alpha-plain-norm aleph-alpha-plain-norm-flash1 aleph-alpha-plain-norm-fused-softmax
    axonn bloom deepspeed deepspeed-2021 fms-fsdp hanayo internevo llm-foundry llm-foundry-fp8 llm.c megascale megatron
    megatron-2020 megatron-2022 megatron-2023 megatron-core megatron-core-blocking megatron-core-fp8 megatron-deepspeed
    megatron-deepspeed-2021 nanotron nemo nemo-fp8 paxml paxml-fp8 pytorch-gloo pytorch-gloo-2bw torch-compile
    torch-eager torchtitan torchtitan-compile torchtitan-compile-fp8 torchtitan-compile-fp8-rowwise transformers
    weft""".split()
PIPELINED = inputs("x=2 dp=2 pp=2 gbs=16 zero.stage=1", model="gpt2", cluster="dgx-h100", seq=512)
SHARDED = inputs("dp=4 gbs=16 zero.stage=3 recompute.mode=FULL", model="llama-tiny", cluster="dgx-h100")
for runtime in RUNTIMES:
    case(f"runtime-{runtime}", f"""
        simulate {PIPELINED} --runtime={runtime} --format=json
        simulate {SHARDED} --runtime={runtime}
        compile {SHARDED} -o p.weft
        {SIMULATE} --runtime={runtime}""")
case("runtime-file", f"""
    compile {PIPELINED} -o p.weft
    {SIMULATE} --runtime=runtime.textproto --explain
    simulate p.weft --runtime=runtime.textproto --trace=trace.json
    list runtimes --show hanayo > copy.textproto
    {SIMULATE} --runtime=./copy.textproto""")
# What the user asks for has precedence over the runtime's plan.
case("runtime-overridden", f"""
    simulate {inputs('tp=2 gbs=8 sequence_parallel=false')} --runtime=megatron-core --format=json
    simulate {inputs('pp=2 gbs=8 partition.layers_per_stage=3,3')} --runtime=nanotron --format=json
    simulate {inputs('pp=2 gbs=64')} --runtime=megatron-2020 --format=json""")

# Clusters.
CLUSTERS = """cloud-v100 dgx-a100-40g dgx-a100-80g dgx-b200 dgx-b300 dgx-h100 dgx-h200 dgx2-v100 frontier gb200-nvl72
    gb300-nvl72 hgx-a800 hgx-h800 jean-zay-v100 local-a100-nvlink-pairs local-a100-nvswitch lonestar6 mi300x perlmutter
    piz-daint summit v100-infiniband""".split()
for cluster in CLUSTERS:
    plan(f"cluster-{cluster}", "x=2 dp=2 pp=2 gbs=16", f"""
         {SIMULATE} --network=flow
         {SIMULATE} --runtime=torch-eager --cost=roofline""", model="gpt2", cluster=cluster, seq=512)
plan("cluster-mixed", "x=4 dp=2 pp=2 gbs=32", f"{SIMULATE} --cluster=mixed.textproto --network=flow",
     model="gpt2", cluster="mixed.textproto", seq=512, simulate="--cluster=mixed.textproto")
case("cluster-other", f"""
    compile {inputs('pp=2 dp=2 gbs=16')} -o p.weft
    simulate p.weft --cluster=dgx-h100
    list clusters --show dgx-a100-80g --format=json > copy.json
    {SIMULATE} --cluster=copy.json
    simulate p.weft --cluster=mixed.textproto""")

# Models: each family at a small size with every axis, then those of the catalog at their size.
for family, model in {"gpt2": "gpt2-tiny", "llama": "llama-tiny", "llama-yarn": "yarn",
                      "mistral": "mistral/config.json", "qwen2": "window", "bert": "bert-tiny"}.items():
    plan(f"family-{family}", "x=2 dp=2 pp=2 gbs=16 mbs=2", f"""
         compile {inputs('gbs=4', model=model)} --emit=graph
         compile {inputs('z=2 y=2 gbs=8 mbs=2 zero.stage=1 pp=2', model=model)} -o q.weft
         simulate q.weft --format=json""", model=model)
plan("family-unet", "x=2 z=2 pp=2 gbs=8 mbs=2", f"""
     compile {inputs('gbs=4', model='unet-tiny')} --emit=graph
     compile {inputs('dp=2 y=2 gbs=8 zero.stage=3', model='unet-tiny')} -o q.weft
     simulate q.weft --format=json""", model="unet-tiny")
for model in """axonn-gpt-5b axonn-gpt-10b axonn-gpt-12b axonn-gpt-20b axonn-gpt-40b axonn-gpt-80b bert-base bert-large
        chimera-bert-48 chimera-gpt2 gpt2 gpt2-large gpt2-medium gpt2-xl hanayo-bert hanayo-gpt llama-2-7b llama-3.1-8b
        llama-3.1-70b mistral-7b qwen2-7b qwen2.5-1.5b qwen2.5-3b qwen2.5-7b""".split():
    whole = inputs("dp=8 zero.stage=3 gbs=8 recompute.mode=FULL", model=model, cluster="dgx-b300", seq=512)
    case(f"model-{model}", f"simulate {whole} --format=json")
for model in "unet-50m unet-250m unet-500m unet-1b unet-2b unet-4b".split():
    case(f"model-{model}", f"simulate {inputs('dp=8 gbs=32 mbs=4', model=model, seq=1024)} --format=json")
case("model-graph", f"""
    convert yarn/config.json --to=text -o graph.textproto
    convert graph.textproto --type=model_graph --to=json
    compile {inputs('x=2 gbs=8', model='graph.textproto')} -o p.weft
    {SIMULATE}
    convert window/config.json --to=binary -o graph.pb
    simulate {inputs('pp=2 gbs=8', model='./graph.pb')} --format=json""")

# Tensor parallelism, sequence parallelism, and collectives that run beside computation.
SMALL = "gbs=16 mbs=4"
plan("tensor-x", f"x=4 {SMALL}", "inspect p.weft")
plan("tensor-y", f"y=4 {SMALL}")
plan("tensor-z", f"z=4 {SMALL}")
plan("tensor-xyz", f"x=2 y=2 z=2 dp=2 pp=2 {SMALL}", "inspect p.weft --rank=17")
plan("tensor-rows", f"tp=2 sequence_parallel=true pp=2 {SMALL}", model="llama-tiny")
plan("tensor-rows-z", f"x=2 z=2 sequence_parallel=true zero.stage=2 dp=2 {SMALL}", model="llama-tiny")
plan("tensor-halves", f"x=2 z=2 pp=4 schedule=zb-h1 {SMALL}")
for kept in ("OWN_ROWS", "GATHERED_ROWS", "EVERYTHING"):
    plan(f"between-halves-{kept.lower()}",
         f"tp=2 sequence_parallel=true pp=2 schedule=zb-v between_halves={kept} {SMALL}", model="llama-tiny")
for overlap in ("all_reduce", "reduce_scatter", "all_gather"):
    plan(f"overlap-no-{overlap.replace('_', '-')}", f"x=2 z=2 dp=2 overlap.{overlap}=false {SMALL}")
plan("overlap-cache", f"x=2 z=4 overlap.gathered_cache_bytes=100000 {SMALL}", "inspect p.weft")
plan("overlap-cache-zero", "dp=4 z=2 zero.stage=3 overlap.gathered_cache_bytes=50000 gbs=16 mbs=2", model="llama-tiny")
case("mesh-order", f"""
    compile --model=gpt2-tiny --cluster=dgx-a100-80g --recipe=recipe.textproto --plan=plan.textproto -o p.weft
    {SIMULATE} --network=nccl
    inspect p.weft --rank=3""")

# ZeRO.
plan("zero-1", "dp=4 zero.stage=1 gbs=16 gradient_bucket_bytes=100000", "inspect p.weft")
plan("zero-2", "dp=4 zero.stage=2 gbs=16 pp=2")
plan("zero-3", "dp=4 zero.stage=3 gbs=16 pp=2", "inspect p.weft --rank=5", model="llama-tiny")
plan("zero-1-groups", "dp=8 pp=2 zero.stage=1 zero.group=4 gbs=16")
plan("zero-3-groups", "dp=4 zero.stage=3 zero.group=2 gbs=16")
plan("zero-1-uneven", "dp=5 zero.stage=1 gbs=10")
plan("zero-2-uneven", "dp=7 zero.stage=2 gbs=14")
plan("zero-3-uneven", "dp=3 zero.stage=3 gbs=12")
plan("zero-after-backward", "dp=4 zero.stage=3 zero.reshard=AFTER_BACKWARD zero.prefetch=2 gbs=16")
plan("zero-never", "dp=4 zero.stage=3 zero.reshard=NEVER gbs=16")
plan("zero-layers", "dp=4 zero.stage=3 zero.reshard=LAYERS zero.kept_layers=1,3 zero.prefetch=0 gbs=16")
plan("zero-replicas", "dp=2 pp=2 zero.stage=2 schedule=chimera gbs=16")
plan("zero-asynchronous", "dp=2 pp=2 zero.stage=3 schedule=pipedream-2bw recipe.clip_norm=0 gbs=16", model="llama-tiny")
# BY_BENEFIT keeps all layers, some of them, or only those of the microbatch.
plan("zero-by-benefit-all", "dp=8 pp=2 zero.stage=3 zero.reshard=BY_BENEFIT gbs=32 mbs=2", model="gpt2", seq=512)
plan("zero-by-benefit-some", "dp=8 zero.stage=3 zero.reshard=BY_BENEFIT recompute.mode=FULL gbs=16 mbs=2",
     cluster="small.textproto", simulate="--cluster=small.textproto")
plan("zero-by-benefit-backward", "dp=8 zero.stage=3 zero.reshard=BY_BENEFIT recompute.mode=FULL gbs=16",
     model="llama-2-7b", cluster="dgx-a100-40g", seq=2048)

# Recompute.
for mode in "NONE FULL AXONN FIT INTERVAL".split():
    plan(f"recompute-{mode.lower()}", f"pp=2 dp=2 recompute.mode={mode} gbs=32 mbs=4", model="gpt2", seq=512)
plan("recompute-layers", "pp=2 recompute.mode=LAYERS recompute.layers=[0,2] gbs=16")
plan("recompute-every", "pp=2 recompute.mode=EVERY recompute.every=2 gbs=16", model="llama-tiny")
plan("recompute-interval-2", "pp=2 recompute.mode=INTERVAL recompute.interval=2 gbs=16 x=2", model="bert-tiny")
plan("recompute-selective", "pp=2 recompute.mode=SELECTIVE attention=MATERIALIZED gbs=16 recipe.dropout=0.1")
# FIT recomputes some layers, or all of them in vain.
plan("recompute-fit-some", "pp=4 dp=8 mbs=16 gbs=1024 recompute.mode=FIT", model="gpt2-xl", cluster="perlmutter",
     seq=1024)
plan("recompute-fit-zero", "pp=4 dp=2 zero.stage=3 recompute.mode=FIT gbs=16 mbs=2", cluster="small.textproto",
     simulate="--cluster=small.textproto")
plan("recompute-fit-never", "pp=2 recompute.mode=FIT gbs=16 mbs=2", cluster="small.textproto", flags="--allow-oom",
     simulate="--cluster=small.textproto")

# Transfers and sums of gradients.
ACROSS = "dp=8 pp=4 gbs=64"
for name, settings in {
        "deferred": "transfer_placement=DEFERRED transfer_order=TOGETHER group_transfers=true",
        "directions": "transfer_placement=DEFERRED transfer_order=BY_DIRECTION schedule=zb-v",
        "fastest": "transfer_placement=FASTEST",
        "fastest-together": "transfer_placement=FASTEST transfer_order=TOGETHER schedule=hanayo",
        "buffers": "receive_buffers=3 send_buffers=4 step_barrier=true"}.items():
    plan(f"transfers-{name}", f"{ACROSS} {settings}", model="gpt2", seq=512)
plan("transfers-fastest-roofline", f"{ACROSS} transfer_placement=FASTEST schedule=zb-h1", model="gpt2",
     flags="--cost=roofline")
plan("gradients-buckets", "dp=4 pp=2 gradient_bucket_bytes=200000 gbs=16")
plan("gradients-lazy", "dp=4 pp=2 gradient_sync=LAZY schedule=gpipe gbs=16")
plan("gradients-eager-opt", "dp=2 pp=4 gradient_sync=EAGER_OPT schedule=chimera gbs=16", model="gpt2")
for collective in "direct halving-doubling hierarchical hierarchical-4 hierarchical-8 ring switch tree".split():
    # Switches only sum inside a node.
    replicas = 4 if collective == "switch" else 16
    plan(f"collective-{collective}", f"dp={replicas} x=2 gbs=64 collective={collective}", f"{SIMULATE} --network=flow",
         model="gpt2", cluster="dgx-h100")

# Cuts of the model into stages.
plan("stages-given", "pp=3 partition.layers_per_stage=1,3,2 gbs=12")
plan("stages-roofline", "pp=4 gbs=16", model="gpt2", seq=1024, flags="--cost=roofline")
plan("stages-unet", "pp=4 gbs=32 mbs=4", model="unet-50m", seq=1024)

# Offload.
plan("offload-optimizer",
     "dp=2 pp=2 offload.optimizer=true offload.bucket_elements=40000 offload.buckets_per_reduce=2 gbs=16")
plan("offload-optimizer-zero",
     "dp=4 pp=2 zero.stage=1 offload.optimizer=true offload.bucket_elements=20000 recipe.clip_norm=0 gbs=16",
     f"""
     simulate p.weft --what-if=host=2x,memory=0.5x --explain
     {SIMULATE} --network=flow""")
plan("offload-activations", "pp=6 offload.activation_layers=1 gbs=24")
plan("offload-all",
     "pp=4 dp=2 zero.stage=3 offload.optimizer=true offload.activation_layers=2 schedule=interleaved gbs=32",
     model="gpt2", seq=512)

# Arithmetic.
plan("exact", "dp=2 pp=2 accumulation=EXACT gbs=16", "inspect p.weft")
plan("exact-replicas", "pp=4 accumulation=EXACT schedule=chimera gbs=16")
plan("exact-zero", "dp=4 zero.stage=2 accumulation=EXACT gbs=16 x=2", model="llama-tiny")
for name, settings in {
        "bf16": "precision.compute=BF16",
        "bf16-gradients": "precision.grads=BF16 precision.reduce=BF16",
        "bf16-moments": "precision.moments=BF16 recipe.weight_rounding=STOCHASTIC recipe.adamw.beta2=0.99",
        "fp16": "precision.compute=FP16",
        "fp16-gradients": "precision.compute=FP16 precision.grads=FP16",
        "fp32": "precision.compute=FP32",
        "tf32": "precision.compute=TF32",
        "fixed-scale": "loss_scale.fixed=1024",
        "dynamic-scale": "precision.compute=FP16 loss_scale.initial=4096 loss_scale.growth_interval=500"}.items():
    plan(f"precision-{name}", f"dp=2 pp=2 {settings} gbs=16")
plan("precision-fp64", "dp=2 pp=2 precision.compute=FP64 gbs=16", cluster="frontier")
for schedule in "1f1b zb-h2 zb-v".split():
    plan(f"post-validation-{schedule}", f"pp=2 dp=2 schedule={schedule} post_validation=true gbs=16", f"""
         {SIMULATE} --exceeded
         inspect p.weft --rank=0""")
plan("post-validation-zero", "pp=2 dp=2 schedule=zb-h2 post_validation=true zero.stage=2 precision.compute=FP16 gbs=16",
     f"{SIMULATE} --exceeded")
plan("attention-materialized", "pp=2 x=2 attention=MATERIALIZED gbs=16 recipe.dropout=0.1 dropout_masks=true")
plan("optimizer-sgd", "dp=2 gbs=8 recipe.sgd.momentum=0.9 recipe.sgd.weight_decay=0.01")
RECIPE = "--model=gpt2-tiny --cluster=dgx-h100 --recipe=recipe.textproto"
case("optimizer-adamw", f"""
    compile {RECIPE} --set recipe.lr.decay=linear --set recipe.lr.min=1e-6 -o p.weft
    {SIMULATE}
    compile {RECIPE} --set recipe.sgd.momentum=0.5 -o sgd.weft""")

# Reports of the simulator.
case("report-explain", f"""
    compile {inputs('x=2 dp=4 pp=2 gbs=32', model='gpt2', seq=512)} -o p.weft
    {SIMULATE} --explain --what-if=nic=2x,compute=1.2x --what-if=latency=0.5x
    simulate p.weft --explain --what-if=intra=2x,memory=2x --what-if=compute=2x --verbose
    simulate p.weft --explain --runtime=megatron-core --what-if=launch=0.1x --tokens=300B
    simulate p.weft --require-fit""")
case("report-text", f"""
    compile {inputs('pp=4 schedule=zb-v gbs=16', model='gpt2', seq=512)} -o p.weft
    simulate p.weft
    simulate p.weft --verbose --tokens=15T
    simulate p.weft --network=nccl --runtime=torchtitan --verbose""")
case("report-runs", f"""
    compile {inputs('dp=4 pp=2 gbs=32', cluster='noisy.textproto')} -o p.weft
    {SIMULATE} --cluster=noisy.textproto --runs=20 --seed=7
    simulate p.weft --cluster=noisy.textproto --runs=5 --network=flow""")
case("report-traces", f"""
    compile {inputs('dp=2 pp=2 gbs=16')} -o p.weft
    simulate p.weft --trace=one.json --trace-repetitions=2
    simulate p.weft --trace=one.trace --trace-repetitions=3
    simulate p.weft --cluster=dgx-h100 --trace=two.trace
    simulate p.weft --network=flow --runtime=deepspeed --trace=three.json
    report one.trace
    report one.json --format=json
    report one.trace two.trace --program=p.weft
    report one.trace two.trace --format=json
    report two.trace --program=p.weft --format=json
    report two.trace --program=p.weft --cluster=dgx-h100 --top=3
    convert two.trace --to=json""")
case("report-traces-zero", f"""
    compile {inputs('x=2 dp=2 zero.stage=3 pp=2 schedule=zb-h1 gbs=16')} -o p.weft
    simulate p.weft --trace=weft.json
    simulate p.weft --trace=megatron.trace --runtime=megatron-core --network=nccl
    compile {inputs('pp=4 schedule=axonn gbs=16')} -o driven.weft
    simulate driven.weft --trace=driven.json""")
case("compare-programs", f"""
    compile {inputs('pp=4 dp=2 gbs=16')} -o deep.weft
    compile {inputs('dp=8 gbs=16')} -o wide.weft
    compile {inputs('dp=8 gbs=32')} -o large.weft
    compare deep.weft wide.weft --format=json
    compare deep.weft wide.weft large.weft
    compare deep.weft wide.weft --runtime=megatron-core --network=flow --cost=roofline
    compare deep.weft wide.weft --cost=unit --network=none --forward=2 --backward=4
    compare deep.weft wide.weft --cluster=noisy.textproto --runs=3 --seed=2 --format=json""")
case("compare-plans", f"""
    compare plan.textproto wide.json {TINY} --set gbs=16 --set mbs=2
    compare plan.textproto wide.json {TINY} --set gbs=16 --set mbs=2 --runtime=torchtitan --format=json""")

# Other forms of inputs and programs.
case("emit", f"""
    compile {inputs('gbs=8')} --emit=graph -o graph.mlir
    compile {inputs('x=2 dp=2 pp=2 gbs=8')} --emit=rank
    compile {inputs('z=2 dp=2 pp=2 gbs=8 mbs=2 zero.stage=3', model='llama-tiny')} --emit=rank -o rank.mlir
    compile {inputs('pp=2 gbs=8 schedule=zb-h1', model='bert-tiny')} --emit=rank --cost=roofline
    compile {inputs('gbs=4', model='unet-tiny')} --emit=rank
    compile {inputs('gbs=8')} --emit=program -o p.weft""")
case("convert", f"""
    convert recipe.textproto --to=text -o recipe.text
    convert recipe.textproto --to=json -o recipe.json
    convert recipe.textproto --to=binary -o recipe.binary
    convert recipe.binary --type=recipe --to=json
    convert plan.textproto --to=json
    convert wide.json --type=plan --to=text
    convert small.textproto --to=json
    convert text.txt --to=images --image=8x8x3 -o pixels.img
    compile {inputs('pp=2 gbs=8')} -o p.weft
    convert p.weft --to=json
    convert p.weft --to=text -o p.text
    convert p.text --type=program --to=binary -o again.weft
    {SIMULATE} > report.json
    convert report.json --to=text""")
case("inspect", f"""
    compile {inputs('x=2 dp=2 pp=2 gbs=8 zero.stage=1 schedule=zb-h2')} -o p.weft
    inspect p.weft
    inspect p.weft --rank=3
    inspect p.weft --rank=7 --timeline
    inspect p.weft --timeline""")

# Training on cores: losses, norms and weights.
TRAIN = "run p.weft --data=text.txt --fault-report=none --backend=cpu --threads=1 --format=json"


def train(name, settings, more="", **where):
    recipe = "recipe.steps=4 recipe.lr.peak=1e-3"
    case(f"run-{name}", f"""
        compile {inputs(f'{settings} {recipe}', seq=32, **where)} -o p.weft
        {TRAIN} --save-weights=after.safetensors
        {more}""")


train("1f1b", "pp=2 dp=2 gbs=8 mbs=2 recipe.dropout=0.1", f"""
      {TRAIN} --steps=2 --checkpoint=saved --check-replicas=1
      {TRAIN} --checkpoint=saved --resume
      {TRAIN} --eval-data=text.txt --eval-every=2 --eval-batches=1 --weights=after.safetensors""")
train("processes", "pp=2 dp=2 gbs=8 mbs=2", f"{TRAIN} --bootstrap=local")
train("tensor", "x=2 z=2 dp=2 zero.stage=3 gbs=8 mbs=2", model="llama-tiny")
train("exact", "pp=2 dp=2 schedule=chimera accumulation=EXACT gbs=8", model="bert-tiny")
train("fp16", "pp=2 precision.compute=FP16 gbs=8 mbs=2 post_validation=true schedule=zb-h2")
train("offload", "dp=2 zero.stage=2 offload.optimizer=true offload.bucket_elements=40000 gbs=8 recompute.mode=FULL")
train("asynchronous", "pp=2 schedule=pipedream-2bw recipe.clip_norm=0 gbs=8", model="llama-tiny")
train("bf16", "dp=2 y=2 precision.compute=BF16 precision.moments=BF16 recipe.weight_rounding=STOCHASTIC gbs=8 mbs=2")
case("run-unet", f"""
    compile {inputs('dp=2 pp=2 gbs=8 mbs=2 recipe.steps=3', model='unet-tiny')} -o p.weft
    convert text.txt --to=images --image=8x8x3 -o pixels.img
    {TRAIN.replace('text.txt', 'pixels.img')} --save-weights=after.safetensors""")

# Large models.
plan("large-gpt3-175b", "x=8 pp=8 dp=16 schedule=1f1b gbs=256 mbs=1", f"""
     {SIMULATE} --fold=off
     {SIMULATE} --runtime=megatron-core --network=flow""", model="gpt3", seq=2048)
plan("large-llama-70b-zero", "dp=64 zero.stage=3 recompute.mode=FULL gbs=128 mbs=1",
     f"{SIMULATE} --runtime=torchtitan --network=nccl", model="llama-3.1-70b", cluster="dgx-h100", seq=8192)
INTERLEAVED = "x=8 pp=16 sequence_parallel=true schedule=interleaved virtual=2 mbs=1 recompute.mode=FULL"
plan("large-llama-405b", f"{INTERLEAVED} dp=8 gbs=128", f"""
     {SIMULATE} --network=flow
     {SIMULATE} --runtime=megatron-core""", model="llama-3.1-405b", cluster="dgx-h100", seq=8192)
# 16,384 ranks.
plan("large-llama-405b-folded", f"{INTERLEAVED} dp=128 gbs=2048", f"{SIMULATE} --network=flow",
     model="llama-3.1-405b", cluster="frontier", seq=8192)

# Plans that do not fit, with the remedies that the message lists.
refuse("fit-recompute", "gbs=16 mbs=8", cluster="small.textproto")
refuse("fit-buckets", "offload.optimizer=true gbs=16", cluster="small.textproto")
refuse("fit-microbatch", "gbs=8192 mbs=8192", model="gpt2", cluster="dgx-h100", seq=1024)
refuse("fit-schedule", "pp=4 dp=2 schedule=gpipe gbs=512", model="gpt2-xl", cluster="perlmutter", seq=1024)
refuse("fit-data-alone", "dp=8 gbs=64", model="llama-3.1-8b", cluster="lonestar6", seq=4096)
refuse("fit-kept", "dp=8 zero.stage=3 zero.reshard=NEVER gbs=16", model="llama-3.1-8b", cluster="summit", seq=1024)
refuse("fit-llama-70b", "tp=8 gbs=16", model="llama-3.1-70b", cluster="dgx-h100", seq=8192)
refuse("fit-llama-405b", "pp=16 tp=8 dp=4 gbs=512", model="llama-3.1-405b", cluster="dgx-h100", seq=8192)
refuse("fit-many-stages", "pp=16 tp=8 dp=4 schedule=interleaved vpp=8 gbs=64", model="llama-3.1-405b",
       cluster="dgx-h100", seq=8192)
case("refuse-fit-required", f"""
    compile {inputs('gbs=16', cluster='small.textproto')} --allow-oom -o p.weft
    {SIMULATE} --cluster=small.textproto
    simulate {inputs('gbs=16', cluster='small.textproto')} --runtime=torchtitan
    simulate p.weft --cluster=small.textproto --require-fit""")

# Unknown names.
refuse("name-model", "gbs=8", model="gpt2-tinny")
refuse("name-cluster", "gbs=8", cluster="dgx-a100")
refuse("name-schedule", "gbs=8 schedule=gpip")
refuse("name-collective", "gbs=8 dp=2 collective=rign")
refuse("name-setting", "gbs=8 pq=4")
refuse("name-file", "gbs=8", flags="--plan=missing.textproto")
case("refuse-name-runtime", f"simulate {TINY} --set gbs=8 --runtime=torchtitn")
case("refuse-name-shown", "list clusters --show dgx-h10")
case("refuse-name-schedule-alone", "schedule gpip")

# Values that are not allowed.
for name, settings in {
        "batch": "gbs=8 dp=3", "microbatch": "gbs=8 mbs=0", "columns": "gbs=8 y=3", "rows": "gbs=8 z=2",
        "stages": "gbs=8 pp=2 schedule=interleaved virtual=8", "layers": "gbs=8 pp=2 partition.layers_per_stage=1,2",
        "recompute-layer": "gbs=8 recompute.mode=LAYERS recompute.layers=1,77", "zero-stage": "gbs=8 dp=2 zero.stage=4",
        "zero-group": "gbs=8 dp=4 zero.stage=1 zero.group=3", "freeze": "gbs=8 pp=2 freeze=true",
        "precision": "gbs=8 precision.compute=fp8", "number": "gbs=8 recipe.lr.peak=1e400",
        "decay": "gbs=8 recipe.lr.decay=cosin", "expert": "gbs=8 ep=2", "context": "gbs=8 cp=2",
        "switch": "gbs=8 dp=2 collective=switch", "devices": "gbs=4096 dp=2048",
        "scale": "gbs=8 loss_scale.initial=1024", "updates": "gbs=8 pp=2 schedule=pipedream recipe.clip_norm=0",
}.items():
    refuse(f"value-{name}", settings)
refuse("value-sequence", "gbs=8", seq=None)
refuse("value-tf32", "gbs=8 precision.compute=TF32", cluster="cloud-v100")
refuse("value-file", "gbs=8", flags="--plan=typo.textproto")
refuse("value-config", "gbs=8", model="bad-config.json")
case("refuse-value-fp8", f"simulate {TINY} --set gbs=8 --runtime=nemo-fp8")
case("refuse-value-noise", f"simulate {TINY} --set gbs=8 --runs=5")
case("refuse-value-what-if", f"simulate {inputs('gbs=8', cluster='noisy.textproto')} --what-if=host=2x")
case("refuse-value-rank", f"""
    compile {TINY} --set gbs=8 -o p.weft
    inspect p.weft --rank=8""")
case("refuse-value-program", """
    convert recipe.textproto --to=json > p.weft
    simulate p.weft""")
case("refuse-value-type", "convert typo.textproto --to=json")

# Choices that docs/combinations.md lists.
for name, settings in {
        "rows-and-y": "x=2 y=2 sequence_parallel=true", "driven-tensor": "pp=2 x=2 schedule=axonn",
        "driven-offload": "pp=2 schedule=axonn offload.activation_layers=1", "selective": "recompute.mode=SELECTIVE",
        "rounding": "precision.compute=FP32 recipe.weight_rounding=STOCHASTIC",
        "reshard": "dp=2 zero.stage=2 zero.reshard=NEVER",
        "validation-offload": "pp=2 schedule=zb-h2 post_validation=true offload.optimizer=true",
        "validation-driven": "pp=2 schedule=axonn post_validation=true",
        "tied": "pp=2 schedule=pipedream-2bw recipe.clip_norm=0"}.items():
    refuse(f"together-{name}", f"gbs=8 {settings}")
for name, settings in {
        "clip": "", "scale": "precision.compute=FP16", "validation": "post_validation=true",
        "offload": "offload.optimizer=true", "exact": "accumulation=EXACT",
        "transfers": "transfer_placement=DEFERRED"}.items():
    clip = "" if name == "clip" else "recipe.clip_norm=0"
    refuse(f"asynchronous-{name}", f"gbs=8 pp=2 schedule=pipedream-2bw {clip} {settings}", model="llama-tiny")

# Orders that block, and other schedules that are refused.
refuse("deadlock-transfers", "gbs=8 pp=4 transfer_order=TOGETHER")
refuse("deadlock-directions", "gbs=16 pp=2 schedule=interleaved transfer_order=BY_DIRECTION receive_buffers=4")
refuse("deadlock-schedule", "gbs=2 pp=2", flags="--schedule=cycle.schedule")
case("refuse-deadlock-schedule-alone", "schedule cycle.schedule --format=json")
case("refuse-deadlock-communicators", "schedule transfers.csv --communicators=one")
refuse("schedule-twice", "gbs=1", flags="--schedule=twice.schedule")
case("refuse-schedule-csv", "schedule dualpipe --format=csv")
case("refuse-schedule-cap", "schedule 1f1b --activation-cap=3.5")
case("refuse-schedule-size", "schedule gpipe --ranks=1000 --microbatches=1000000")

# Wrong usage.
case("usage-compile", f"""
    complie
    --verison
    compile --modell=gpt2
    compile {TINY} --set gbs=8
    compile --cluster=dgx-h100 -o p.weft
    compile --model=gpt2 -o p.weft
    compile {TINY} --emit=ranks
    compile {TINY} --cost=unit -o p.weft
    compile {TINY} --set gbs=8 --set gbs=16 -o p.weft
    compile {TINY} --set tp=2 --set x=4 -o p.weft
    compile {TINY} --set recipe.sgd.momentum=0.9 --set recipe.adamw.beta1=0.9 -o p.weft
    compile {TINY} --set pp -o p.weft
    compile {TINY} --schedule=two.schedule --set schedule=gpipe -o p.weft
    compile {TINY} --plan=plan.textproto -o plan.textproto
    compile {TINY} -o""")
case("usage-simulate", f"""
    simulate
    simulate {TINY} --network=flowy
    simulate {TINY} --runtime=torchtitan --cost=unit
    simulate {TINY} --forward=2
    simulate {TINY} --cost=unit --weight=3
    simulate {TINY} --what-if=nik=2x
    simulate {TINY} --what-if=nic=0x
    simulate {TINY} --network=none --what-if=nic=2x
    simulate {TINY} --seed=3
    simulate {TINY} --runs=-1
    simulate {TINY} --tokens=-1
    simulate {TINY} --tokens=1B --format=json
    simulate {TINY} --trace-repetitions=3
    simulate {TINY} --verbose --format=json
    simulate p.weft {TINY}
    simulate {TINY} --fold=on
    simulate {TINY} --set gbs=8 --exceeded
    simulate {TINY} --trace=-""")
case("usage-schedule", """
    schedule
    schedule gpipe 1f1b
    schedule 1f1b --format=jsno
    schedule gpipe --ranks=-1
    schedule gpipe --forward=0
    schedule 1f1b --csv-form=compute_comms
    schedule 1f1b --compare=gpipe --grouped
    schedule gpipe --compare=all --format=svg
    schedule gpipe --weight=3""")
case("usage-others", """
    compare p.weft
    compare p.weft q.weft --set pp=2
    convert recipe.textproto
    convert recipe.textproto --to=yaml
    convert text.txt --to=images
    list modles
    list schedules --show 1f1b
    inspect p.weft --rank=-1
    report one.trace two.trace --cluster=dgx-h100
    run p.weft
    calibrate --backend=gpu -o x""")
