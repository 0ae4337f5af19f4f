// Passes of the graph level, in the order in which they run.
#ifndef WEFT_COMPILER_PASSES_TD_
#define WEFT_COMPILER_PASSES_TD_

include "mlir/Pass/PassBase.td"

def MaterializeAttention : Pass<"weft-materialize-attention", "::mlir::ModuleOp"> {
  let summary = "Replaces attention by separate ops: scores, softmax, dropout and the sum of values";
  let description = [{
    The kernel weft.attention saves one number per row for its backward, which computes the scores again. As separate
    ops, attention saves its probabilities, and `recompute = selective` of weft-build-segments can recompute them. Both
    forms drop the same elements.

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
    Precondition: one weft.graph. Dropout inside weft.attention is not an op of its own, so its backward draws the
    random numbers again.

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
    The result is the graph of one rank: it has parts instead of whole tensors, and collectives that connect the ranks
    (docs/tensor_parallelism.md). Every op builds its own replacement (ShardableInterface). Each weft.tensor gets the
    type of the rank's part of the parameter, and the axes over which its gradients are partial sums.

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
    The pass cuts each rank's part of every parameter (the result of weft-shard) into ranges over `members` data
    replicas: the optimizer's states of it (stage 1), its gradient too (stage 2), and the parameter itself too (stage
    3). The weft.tensor records these ranges. Source: Rajbhandari et al. 2020, arXiv:1910.02054.

    - Stage 1 does not change the graph: weft-synchronize-gradients does all of its work at the end of the iteration.
    - Stage 2 puts a weft.cut_gradients where the first parameter of a layer is needed. Its derivative is the
      reduce-scatter of the layer's gradients.
    - Stage 3 puts a collective there that gathers the parameters of the layer. A tensor that only `kept-layers` read
      is not gathered; it is treated as with stage 2.

    If the number of members does not divide the number of elements, all ranges have the length of the first. The last
    ranges are padded with zeros, and may consist of padding alone.

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
    Option<"stage", "stage", "int32_t", /*default=*/"0", "stage of ZeRO; 0 = nothing is cut">,
    Option<"members", "members", "int64_t", /*default=*/"1", "data replicas that share one copy">,
    Option<"block", "block", "int64_t", /*default=*/"0", "number of members if they are not all replicas, else 0">,
    Option<"collective", "collective", "std::string", /*default=*/"\"ring\"", "algorithm of the collectives">,
    ListOption<"keptLayers", "kept-layers", "int32_t", "with stage 3: layers whose parameters are not cut">,
  ];
}

def PartitionStages : Pass<"weft-partition-stages", "::mlir::ModuleOp"> {
  let summary = "Gives every op of the graph the stage of its layer";
  let description = [{
    Layers 0, 1, ... are cut into contiguous stages. `layers-per-stage` gives the cut; without it, the most expensive
    stage becomes as cheap as possible. The cost of a stage counts the forward and backward of all its ops, embedding
    and loss included, and the ops that its backward recomputes. compiler/graph/balanced_partition.h has the algorithm
    and its tie-break.

    Precondition: one weft.graph, whose ops have ascending `layer` attributes. Afterwards each op has a `stage`.

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
               "picoseconds that recomputing adds to each layer; negative = never recomputed; empty = no layer "
               "is">,
    Option<"recomputeEvery", "recompute-every", "int32_t", /*default=*/"1",
           "n: each n-th of a stage's layers with a recompute cost is recomputed, from the first on">,
  ];
}

def BuildSegments : Pass<"weft-build-segments", "::mlir::ModuleOp"> {
  let summary = "Replaces the graph by the segments of every stage, differentiating it on the way";
  let description = [{
    The pass makes these segments (weft.segment describes the roles of their operands):

    - For every stage, a forward and a backward. The backward is whole, in two halves, or both.
    - For every pipeline rank, grad_norm. It sums the uses of each tensor of which the rank has gradients, rounds exact
      accumulators, and writes squared norms. A tensor's norm is written by the lowest rank that holds the tensor's
      first stage.
    - For every pipeline rank, scale_gradients, if gradients are clipped and the loss is not scaled.
    - For every pipeline rank, optimizer_step, which also sets gradients to zero (compiler/segments/rank_content.h).

    *Differentiation* walks over the stage's forward from its end, and every op builds its backward
    (DifferentiableInterface). Gradients of parameters accumulate in the `grad` of the use (`accumulation =
    "in_order"`), or each is computed alone and added to the use's `grad_accumulator` ("exact").

    *Saved values* are the forward values that the backward reads. If a layer is *recomputed*, the forward saves only
    the values of the layer that another layer needs. The backward runs those ops of the layer again on which it
    depends, right before it needs them. With `interval` = k, and with `axonn`, k layers are recomputed as one. With
    `selective`, only the ops that compute attention's probabilities are recomputed, in every layer. Only `layers`
    recomputes the layer of the loss. The loss itself is never recomputed: cross_entropy's log-sum-exp (one number per
    row) is saved.

    *Halves of a backward*: backward_input runs all ops except those labeled `part = "weight"`, and all recomputed ops.
    It keeps the values that backward_weight reads, and the incoming gradient if backward_weight reads it, as
    `saved_grad`. A stage without parameters has no backward_weight. With `norms-in-input-half`, backward_input also
    runs the ops that compute the gradients of the weights of norms with inputs of at least 8 MiB, and backward_weight
    adds their results to the gradients.
    With `gather-again`, backward_weight runs the all-gathers of purpose `tensor` whose results it reads, and
    backward_input keeps what they gather: the rank's own rows.

    *Between stages*: one value crosses from a stage to the next stage. It is a matrix of floats: the last value that
    the stage computes and the next stage reads. All other values that later stages read are skip connections, one per
    value and reading stage (the module's attribute `weft.skips` names them).

    *Sums of gradients*: if a value has several readers, its gradients are added within each layer, last reader first.
    Then the sums of the layers are added, from the last layer to the first. Gradients from other stages are added
    before, from the furthest stage to the nearest.

    Preconditions: weft-partition-stages has run; there is one weft.graph, and a weft.tensor for every parameter; the
    module has the attribute `weft.training` (compiler/segments/training.h), unless `evaluate` is set.

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
    ListOption<"recomputeLayers", "recompute-layers", "int32_t", "with layers: the layers to recompute">,
    Option<"recomputeInterval", "recompute-interval", "int32_t", /*default=*/"1",
           "with interval: how many layers are recomputed together">,
    Option<"recomputeEvery", "recompute-every", "int32_t", /*default=*/"1",
           "with every = n: each n-th layer of a stage is recomputed, from its first on, without the loss's layer">,
    Option<"wholeBackward", "whole-backward", "bool", /*default=*/"true", "build a whole backward per stage">,
    Option<"splitBackward", "split-backward", "bool", /*default=*/"false",
           "the two halves of a backward per stage: backward_input and backward_weight">,
    Option<"normsInInputHalf", "norms-in-input-half", "bool", /*default=*/"false",
           "backward_input computes the gradients of norms' weights">,
    Option<"gatherAgain", "gather-again", "bool", /*default=*/"false",
           "backward_weight gathers the rows of activations that it reads">,
    ListOption<"placement", "placement", "int32_t",
               "pipe rank of each stage, one lane after the other; empty = rank i holds stage i">,
    Option<"evaluate", "evaluate", "bool", /*default=*/"false", "forward only, with nothing saved">,
  ];
}

def CacheGathered : Pass<"weft-cache-gathered", "::mlir::ModuleOp"> {
  let summary = "Keeps gathered weights from a forward for its backward, as far as memory is given";
  let description = [{
    Without this pass, a backward gathers its weights again (weft-build-segments). The pass replaces a gather that the
    backward repeats by a saved value of the forward, which takes memory for each microbatch in flight (`in-flight`, by
    stage). It chooses the gathers that together save the most time within `bytes` on the rank
    (compiler/overlap/knapsack.h). The time of a gather is its attribute `cost` (picoseconds; the pass removes it), or
    its bytes if it has none. If several ranks hold a stage, only gathers that all of them choose are replaced. With
    `replicas`, only gathers over other data replicas (ZeRO 3) are replaced; their result may be a part that is then
    gathered over z.

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
    Option<"bytes", "bytes", "int64_t", /*default=*/"0", "largest number of bytes to keep on a rank">,
    Option<"replicas", "replicas", "bool", /*default=*/"false", "only gathers over the axis data">,
    ListOption<"inFlight", "in-flight", "int32_t",
               "for each stage, the microbatches between forward and backward; empty = 1">,
    ListOption<"placement", "placement", "int32_t",
               "pipe rank of each stage, one lane after the other; empty = rank i holds stage i">,
  ];
}

def PrefetchAllGather : Pass<"weft-prefetch-all-gather", "::mlir::ModuleOp"> {
  let summary = "Issues the gather of a weight before the op that reads the previous one";
  let description = [{
    The pass sorts gathers of weights by their first reader and puts each gather before the first reader of the gather
    before it, so at most two gathered weights are in memory at a time. The first gather stands at the start of the
    segment. A gather is no longer blocking if an op runs between it and its first reader.

    With `ahead` = n > 0, gathers over the axis data (ZeRO 3) are placed separately: each is issued before the first
    reader of the gather n places earlier, and the first n gathers stand at the start of the segment. With n = 0, each
    of them stays where it is needed, and blocks.

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
    Option<"ahead", "ahead", "int32_t", /*default=*/"-1",
           "how many gathers over the axis data are issued ahead; -1 = like all others">,
  ];
}

def OverlapAllReduce : Pass<"weft-overlap-all-reduce", "::mlir::ModuleOp"> {
  let summary = "Issues the sum of an input's gradient before the product that computes the weight's gradient";
  let description = [{
    In backwards, a blocking all-reduce or reduce-scatter of purpose `tensor` moves to the place right after the ops
    that compute its operands, if other ops run between that place and its old one. It is then no longer blocking; only
    ops that read the sum wait for it. In the same way, a blocking all-gather of purpose `tensor` moves before the
    preceding op, if it gathers arguments of the segment (with sequence parallelism, saved rows). In a backward_weight
    it moves before the reader of the gather before it, and the first gather moves to the start.

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
  let summary = "Detaches reduce-scatters of gradients, so that nothing waits for them until the gradients are needed";
  let description = [{
    A reduce-scatter of purpose `scatter_gradients` becomes `detached` (rule P2) if it adds to a gradient that nothing
    else in the segment reads. Its operands must be scratch values of the segment.

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

def ReuseSaved : Pass<"weft-reuse-saved", "::mlir::ModuleOp"> {
  let summary = "Lets go of saved values that only the input half of a backward reads";
  let description = [{
    Without this pass, a value that the forward saves lives until the second half of its backward. Some values only the
    first half reads. Such a value ends in one of two ways:

    - A value of the same type that backward_input makes for backward_weight (`saved_grad`) takes its place, if
      backward_input has read the saved value before it makes the new one. The new value then has the role `saved`.
      Values are placed in the order in which they are made; each takes the place that has been free the longest.
    - The values that are left are listed in the forward's attribute `weft.saved_for_input`. They lie in an operand of
      their own, which ends with backward_input.

    A gathered weight that a forward keeps is never overwritten: microbatches of one wide forward share it.

    Stages without backward_weight stay as they are. The pass stands after those that move ops within segments.

    ```mlir
    // weft-opt --weft-reuse-saved
    weft.segment @f forward stage 0 (...) -> (<saved>, <saved use 1>) { ... }
    weft.segment @i backward_input stage 0 (%a: tensor<4x8xf32> as <saved>, %b: tensor<4x8xf32> as <saved use 1>, ...)
        -> (<saved_grad>) {
      %0 = weft.gelu_backward %dy, %a
      %1 = weft.gelu_backward %0, %b
      weft.return %1 : tensor<4x8xf32>
    }
    // becomes
    weft.segment @f forward stage 0 (...) -> (<saved>, <saved use 1>)
        attributes {weft.saved_for_input = array<i32: 1>} { ... }
    weft.segment @i backward_input stage 0 (%a: tensor<4x8xf32> as <saved>, %b: tensor<4x8xf32> as <saved use 1>, ...)
        -> (<saved>) {
    ```
  }];
  let dependentDialects = ["::weft::ir::WeftDialect"];
}

def PrintSegments : Pass<"weft-print-segments", "::mlir::ModuleOp"> {
  let summary = "Prints the segments as the messages that a program holds; for tests and for reading";
  let description = [{
    Export is not a pass, because its result is not IR (ExportSegments in compiler/export/export_segments.h). This pass
    runs the export and writes the segments to standard output, as text messages of type Segment (proto/program.proto).

    A result that an op updates in place, or that is returned in the role of an argument, has the storage of that
    argument. Saved values are consecutive in the operand `saved`. All other values share the operand `workspace`; two
    of them share bytes only if no step needs both.

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
