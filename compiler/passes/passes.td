// Passes of the graph level, in the order in which they run.
#ifndef WEFT_COMPILER_PASSES_TD_
#define WEFT_COMPILER_PASSES_TD_

include "mlir/Pass/PassBase.td"

def MaterializeAttention : Pass<"weft-materialize-attention", "::mlir::ModuleOp"> {
  let summary = "Replaces attention by scores, softmax, dropout and the sum of values, each an op of its own";
  let description = [{
    The kernel weft.attention keeps a number per row for its backward and computes scores again. As ops of their own the
    probabilities are kept, and `recompute = selective` of weft-build-segments can say which. What is dropped is the same
    in both forms.

    Precondition: one weft.graph, in which only derivatives read attention's log-sum-exp.

    ```mlir
    // weft-opt --weft-materialize-attention
    %y, %lse = weft.attention %qkv {dropout = 0.1 : f64, heads = 2 : i64, name = "attn", scale = 1.0 : f64,
                                    sequence = 8 : i64} : (tensor<8x12xf32>) -> (tensor<8x4xf32>, tensor<8x2xf32>)
    // becomes
    %0 = weft.attention_scores %qkv {heads = 2 : i64, name = "attn.scores", ...} : (tensor<8x12xf32>) -> tensor<8x16xf32>
    %1 = weft.attention_softmax %0 {heads = 2 : i64, name = "attn.softmax", ...} : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %2 = weft.dropout %1 {dropout = 0.1 : f64, heads = 2 : i64, ...} : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %y = weft.attention_values %2, %qkv {heads = 2 : i64, ...} : (tensor<8x16xf32>, tensor<8x12xf32>) -> tensor<8x4xf32>
    ```
  }];
  let dependentDialects = ["::weft::ir::WeftDialect"];
}

def KeepDropoutMasks : Pass<"weft-keep-dropout-masks", "::mlir::ModuleOp"> {
  let summary = "Dropout keeps a byte per element for its backward instead of drawing its random numbers again";
  let description = [{
    Precondition: one weft.graph. What weft.attention drops is not an op of its own; it draws again.

    ```mlir
    // weft-opt --weft-keep-dropout-masks
    %y = weft.dropout %x {dropout = 0.1 : f64} : (tensor<8x4xf32>) -> tensor<8x4xf32>
    // becomes
    %y, %mask = weft.dropout_mask %x {dropout = 0.1 : f64} : (tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<8x4xui8>)
    ```
  }];
  let dependentDialects = ["::weft::ir::WeftDialect"];
}

def Shard : Pass<"weft-shard", "::mlir::ModuleOp"> {
  let summary = "Splits the ops of the whole graph over the mesh axes x, y and z";
  let description = [{
    Leaves the graph of one rank: parts instead of whole tensors, and the collectives between them
    (docs/tensor_parallelism.md). Every op says itself what becomes of it (ShardableInterface). weft.tensor gets the
    rank's part of each parameter, and the axes over which its gradients stay partial sums.

    Precondition: one weft.graph, as imported. With x = y = z = 1 nothing changes.

    ```mlir
    // weft-opt --weft-shard="x=2 z=2"
    %y = weft.matmul %x, %w {name = "up"} : (tensor<8x4xf32>, tensor<4x6xf32>) -> tensor<8x6xf32>
    // becomes
    %w = weft.parameter 0 : tensor<6xf32>
    %0 = weft.group_all_gather (%w) over {z = array<i64>} members 2 gather_weights "ring" {blocking, name = "up.gather"}
        : (tensor<6xf32>) -> tensor<4x3xf32>
    %1 = weft.fan_out %x over {x = array<i64>} members 2 tensor "ring" {name = "up.fan_out"} : tensor<4x4xf32>
    %y = weft.matmul %1, %0 {name = "up"} : (tensor<4x4xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
    ```
  }];
  let dependentDialects = ["::weft::ir::WeftDialect"];
  let options = [
    Option<"x", "x", "int64_t", /*default=*/"1", "size of the axis x">,
    Option<"y", "y", "int64_t", /*default=*/"1", "size of the axis y">,
    Option<"z", "z", "int64_t", /*default=*/"1", "size of the axis z">,
    Option<"sequenceParallel", "sequence-parallel", "bool", /*default=*/"false",
           "rows of layout A are split over x; needs y = 1">,
    Option<"sequence", "sequence", "int64_t", /*default=*/"0", "rows of a sequence; for sequence-parallel">,
    Option<"collective", "collective", "std::string", /*default=*/"\"ring\"", "algorithm of the collectives">,
  ];
}

def ShardStates : Pass<"weft-shard-states", "::mlir::ModuleOp"> {
  let summary = "Cuts model states over data replicas (ZeRO)";
  let description = [{
    What weft-shard leaves of every parameter is cut into ranges over `members` data replicas: what the optimizer keeps
    of it (stage 1), its gradient too (2), itself too (3). weft.tensor says so. With stage 3 the parameters of a layer are
    gathered in one collective where the first of them is needed; with stage 2 weft.cut_gradients stands there, whose
    derivative is the reduce-scatter that stage 3 has. A tensor that only `kept-layers` read stays with stage 3 as it is
    with stage 2. Stage 1 changes nothing of the graph: the end of the step does it
    all (weft-synchronize-gradients). Source: Rajbhandari et al. 2020, arXiv:1910.02054.

    Of elements that the members do not divide each has a part as long as the first one's, the last ones filled up with
    zeros, if need be with nothing else.

    Precondition: the ops of the graph have `layer` attributes. With members = 1 nothing changes.

    ```mlir
    // weft-opt --weft-shard-states="stage=3 members=2"
    %w = weft.parameter 0 {layer = 0 : i32} : tensor<4x6xf32>
    // becomes
    %w = weft.parameter 0 {layer = 0 : i32} : tensor<12xf32>
    %0 = weft.group_all_gather (%w) over {data = array<i64>} members 2 gather_weights "ring"
        {blocking, layer = 0 : i32, name = "layer0.zero"} : (tensor<12xf32>) -> tensor<4x6xf32>
    ```
  }];
  let dependentDialects = ["::weft::ir::WeftDialect"];
  let options = [
    Option<"stage", "stage", "int32_t", /*default=*/"0", "of ZeRO; 0 = nothing is cut">,
    Option<"members", "members", "int64_t", /*default=*/"1", "data replicas that share one copy">,
    Option<"block", "block", "int64_t", /*default=*/"0", "members, if these are not all replicas; else 0">,
    Option<"collective", "collective", "std::string", /*default=*/"\"ring\"", "algorithm of the collectives">,
    ListOption<"keptLayers", "kept-layers", "int32_t", "with stage 3: layers whose parameters are not cut">,
  ];
}

def PartitionStages : Pass<"weft-partition-stages", "::mlir::ModuleOp"> {
  let summary = "Gives every op of the graph the stage of its layer";
  let description = [{
    Layers 0, 1, ... are cut into contiguous stages, either as `layers-per-stage` says or so that the most expensive
    stage (forward and backward of everything in it, embedding and loss included, and what its backward computes again)
    is as cheap as possible; see compiler/graph/balanced_partition.h, also for ties.

    Precondition: one weft.graph, whose ops have `layer` attributes, ascending. Afterwards each has a `stage`.

    ```mlir
    // weft-opt --weft-partition-stages=stages=2
    %y = weft.gelu %x {layer = 1 : i32} : (tensor<2x4xf32>) -> tensor<2x4xf32>
    // becomes
    %y = weft.gelu %x {layer = 1 : i32, stage = 1 : i32} : (tensor<2x4xf32>) -> tensor<2x4xf32>
    ```
  }];
  let dependentDialects = ["::weft::ir::WeftDialect"];
  let options = [
    Option<"stages", "stages", "int32_t", /*default=*/"1", "number of stages">,
    ListOption<"layersPerStage", "layers-per-stage", "int32_t", "layers of each stage; empty = balanced by cost">,
    ListOption<"layerCosts", "layer-costs", "int64_t",
               "picoseconds of each layer; empty = at a nominal 100 Tflop/s and 1 TB/s">,
    ListOption<"recomputeCosts", "recompute-costs", "int64_t",
               "picoseconds that each layer takes more where it is recomputed, negative where it never is; empty = none "
               "is">,
    Option<"recomputeEvery", "recompute-every", "int32_t", /*default=*/"1",
           "of each stage's layers with a recompute cost, the first and then every this many are recomputed">,
  ];
}

def BuildSegments : Pass<"weft-build-segments", "::mlir::ModuleOp"> {
  let summary = "Replaces the graph by the segments of every stage, differentiating it on the way";
  let description = [{
    For every stage a forward and a backward, whole or in halves or both. For every rank of the pipeline grad_norm (sums
    the uses of each tensor that the rank has gradients of, rounds exact accumulators, writes squared norms of the
    tensors whose first stage it is the lowest rank to hold), scale_gradients (if gradients are clipped and the loss is not scaled) and
    optimizer_step (which also leaves gradients at zero); see compiler/segments/rank_content.h. See weft.segment for roles.

    *Differentiation* is a walk over the stage's forward from its end: every op builds its backward
    (DifferentiableInterface). Gradients of parameters accumulate in the `grad` of the use (`accumulation =
    "in_order"`) or are computed alone and added to its `grad_accumulator` ("exact").

    *Saved values* are the forward values that the backward reads. Of a layer that is *recomputed* the forward saves
    nothing that another layer does not need; the backward runs again, right before they are needed, those ops of the
    layer that it depends on; with `interval` = k and `axonn` k layers are as one. With `selective` it is of every layer
    only what makes attention's probabilities. Only `layers` recomputes the layer of
    the loss; a loss is never run again, cross_entropy's log-sum-exp (a number per row) is saved.

    *Halves of a backward*: backward_input runs all ops but those labelled `part = "weight"`, and everything that is
    computed again; what backward_weight reads of it, and of the gradient that came in, it keeps as `saved_grad`.
    A stage without parameters has no backward_weight.

    *Between stages*: from a stage to the next crosses the chain's value, a matrix of floats: of what the stage makes and
    the next reads, the last. All else that later stages read are skip connections, one per value and reading stage
    (`weft.skips` of the module names them).

    *Sums of gradients*: of a value with several readers, gradients are added within each layer, last reader first; then
    the layers' sums, from the last layer to the first. What comes back from other stages goes before, from the furthest
    stage to the nearest.

    Preconditions: weft-partition-stages; one weft.graph; weft.tensor for every parameter; the attribute
    `weft.training` (compiler/segments/training.h), unless `evaluate`.

    ```mlir
    // weft-opt --weft-partition-stages=stages=1 --weft-build-segments
    weft.graph @one {
    ^bb0(%losses: tensor<1xf64>):
      ...
      weft.yield %new : tensor<1xf64>
    }
    // becomes
    weft.segment @stage0.forward forward stage 0 (%w: tensor<8x4xf32> as <param tensor 0>,
        %losses: tensor<1xf64> as <local_losses>) -> (<saved>, <local_losses>) { ... }
    weft.segment @stage0.backward backward stage 0 (%s: tensor<4xi32> as <saved>, ...) -> (<grad tensor 0>) { ... }
    ...
    ```
  }];
  let dependentDialects = ["::weft::ir::WeftDialect"];
  let options = [
    Option<"recompute", "recompute", "std::string", /*default=*/"\"none\"", "none, full, selective, layers, every, interval or axonn">,
    ListOption<"recomputeLayers", "recompute-layers", "int32_t", "for layers: which">,
    Option<"recomputeInterval", "recompute-interval", "int32_t", /*default=*/"1",
           "for interval: how many layers are computed again together">,
    Option<"recomputeEvery", "recompute-every", "int32_t", /*default=*/"1",
           "for every: of each stage's layers without a loss, the first and then every this many">,
    Option<"wholeBackward", "whole-backward", "bool", /*default=*/"true", "a backward per stage">,
    Option<"splitBackward", "split-backward", "bool", /*default=*/"false",
           "the two halves of a backward per stage: backward_input and backward_weight">,
    ListOption<"placement", "placement", "int32_t",
               "pipe rank of each stage, one lane after the other; empty = rank i holds stage i">,
    Option<"evaluate", "evaluate", "bool", /*default=*/"false", "forward only, with nothing saved">,
  ];
}

def CacheGathered : Pass<"weft-cache-gathered", "::mlir::ModuleOp"> {
  let summary = "Keeps gathered weights from a forward for its backward, as far as memory is given";
  let description = [{
    Without it a backward gathers its weights again (weft-build-segments). A gather of the forward that the stage's
    backward repeats becomes a saved value instead, for each microbatch that is under way (`in-flight`, by stage). Which:
    those that together save most time within `bytes` on the rank (compiler/overlap/knapsack.h). The time of a gather is its
    attribute `cost` (picoseconds, removed here); without, its bytes. Of a stage with several holders, what all of them
    choose. With `replicas` only what comes from other data replicas counts (ZeRO 3), as it comes: a part of what z
    gathers.

    Source: Singh et al. 2023, arXiv:2305.13525, sec. IV-D.

    ```mlir
    // weft-opt --weft-cache-gathered=bytes=64
    weft.segment @f forward stage 0 (..., %p: tensor<8xf32> as <param tensor 0>) -> (<output>) {
      %w = weft.group_all_gather (%p) ...
      ...
    weft.segment @b backward stage 0 (..., %p: tensor<8xf32> as <param tensor 0>) -> (<input_grad>) {
      %w = weft.group_all_gather (%p) ...
    // becomes
    weft.segment @f forward stage 0 (..., %p: tensor<8xf32> as <param tensor 0>) -> (<output>, <saved>) {
      %w = weft.group_all_gather (%p) ...
      ...
    weft.segment @b backward stage 0 (%w: tensor<4x4xf32> as <saved>, ...) -> (<input_grad>) {
    ```
  }];
  let dependentDialects = ["::weft::ir::WeftDialect"];
  let options = [
    Option<"bytes", "bytes", "int64_t", /*default=*/"0", "most bytes to keep on a rank">,
    Option<"replicas", "replicas", "bool", /*default=*/"false", "only gathers over the axis data">,
    ListOption<"inFlight", "in-flight", "int32_t", "by stage, microbatches between forward and backward; empty = 1">,
    ListOption<"placement", "placement", "int32_t",
               "pipe rank of each stage, one lane after the other; empty = rank i holds stage i">,
  ];
}

def PrefetchAllGather : Pass<"weft-prefetch-all-gather", "::mlir::ModuleOp"> {
  let summary = "Issues the gather of a weight before the op that reads the previous one";
  let description = [{
    Gathers of weights are put in the order in which they are first read, each in front of the reader of the one before
    it, so that at most two gathered weights are there at a time; the first stands at the head of the segment. They are
    no longer blocking, but where nothing is computed in between.

    With `ahead` = n > 0, gathers over the axis data (ZeRO 3) are placed by themselves: each is issued before the first
    reader of the gather n places earlier, and the first n at the head of the segment. With n = 0 each stays where it is
    needed, and blocks.

    Source: Singh et al. 2023, arXiv:2305.13525, sec. IV-C.

    ```mlir
    // weft-opt --weft-prefetch-all-gather
    %w1 = weft.group_all_gather (%p1) ... {blocking}
    %a = weft.matmul %x, %w1
    %w2 = weft.group_all_gather (%p2) ... {blocking}
    %b = weft.matmul %a, %w2
    // becomes
    %w1 = weft.group_all_gather (%p1) ... {blocking}
    %w2 = weft.group_all_gather (%p2) ...
    %a = weft.matmul %x, %w1
    %b = weft.matmul %a, %w2
    ```
  }];
  let dependentDialects = ["::weft::ir::WeftDialect"];
  let options = [
    Option<"ahead", "ahead", "int32_t", /*default=*/"-1", "gathers over the axis data ahead; -1 = as all others">,
  ];
}

def OverlapAllReduce : Pass<"weft-overlap-all-reduce", "::mlir::ModuleOp"> {
  let summary = "Issues the sum of an input's gradient before the product that makes the weight's";
  let description = [{
    In backwards, a blocking all-reduce or reduce-scatter of purpose `tensor` moves right behind what makes its operands
    and is no longer blocking, if something is computed between there and its old place. What reads the sum waits for it.
    A blocking all-gather of purpose `tensor` of arguments of the segment (with sequence parallelism, rows that were saved)
    moves in front of the op that is computed before it, in the same way.

    Source: Singh et al. 2023, arXiv:2305.13525, sec. IV-A.

    ```mlir
    // weft-opt --weft-overlap-all-reduce
    %dx = weft.matmul %dy, %w {transpose_b}
    %dw = weft.matmul %x, %dy {transpose_a}
    %sum = weft.group_all_reduce (%dx) ... {blocking}
    // becomes
    %dx = weft.matmul %dy, %w {transpose_b}
    %sum = weft.group_all_reduce (%dx) ...
    %dw = weft.matmul %x, %dy {transpose_a}
    ```
  }];
  let dependentDialects = ["::weft::ir::WeftDialect"];
}

def DeferReduceScatter : Pass<"weft-defer-reduce-scatter", "::mlir::ModuleOp"> {
  let summary = "Detaches the reduce-scatters of gradients: nothing waits for them until the gradients are needed";
  let description = [{
    A reduce-scatter of purpose `scatter_gradients` that adds to a gradient which nothing else of the segment reads
    becomes `detached` (rule P2). What it reads must be scratch of the segment.

    Source: Singh et al. 2023, arXiv:2305.13525, sec. IV-B.

    ```mlir
    // weft-opt --weft-defer-reduce-scatter
    %g1 = weft.group_reduce_scatter (%dw) init (%g) ... {blocking}
    // becomes
    %g1 = weft.group_reduce_scatter (%dw) init (%g) ... {detached}
    ```
  }];
  let dependentDialects = ["::weft::ir::WeftDialect"];
}

def PrintSegments : Pass<"weft-print-segments", "::mlir::ModuleOp"> {
  let summary = "Prints the segments as the messages that a program holds; for tests and for reading";
  let description = [{
    Export is not a pass: it leaves the IR (ExportSegments in compiler/export/export_segments.h). This pass runs it and writes one
    Segment of proto/program.proto after the other to the standard output, in text.

    A result that an op updates in place, or that is returned in the role of an argument, lies where that argument lies.
    Saved values lie one after the other in the operand `saved`. All others share the operand `workspace`; two of them
    share bytes only if no step needs both.

    ```mlir
    // weft-opt --weft-print-segments
    weft.segment @s forward stage 0 (%x: tensor<4xf32> as <input>) -> (<output>) {
      %0 = weft.gelu %x {name = "act"} : (tensor<4xf32>) -> tensor<4xf32>
      weft.return %0 : tensor<4xf32>
    }
    // prints
    // name: "s" operands { name: "input" bytes: 16 access: READ } operands { name: "output" bytes: 16 access: WRITE }
    // values { name: "input" dtype: FP32 shape: 4 } values { name: "output" operand: 1 dtype: FP32 shape: 4 }
    // steps { name: "act" kernel: GELU inputs: 0 outputs: 1 work { bytes: 32 dtype: FP32 } }
    ```
  }];
  let dependentDialects = ["::weft::ir::WeftDialect"];
}

#endif  // WEFT_COMPILER_PASSES_TD_
