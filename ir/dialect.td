// The dialect `weft`: what a model computes (graph level) and what a rank does with it (rank level).
#ifndef WEFT_IR_DIALECT_TD_
#define WEFT_IR_DIALECT_TD_

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"

def Weft_Dialect : Dialect {
  let name = "weft";
  let cppNamespace = "::weft::ir";
  let summary = "Parallel training plans, from tensor ops to lists of actions";
  let description = [{
    The dialect has two levels.

    *Graph level*: ops on statically shaped tensors. Each kernel of `proto/program.proto` has one op, which means what
    `docs/kernels.md` says of the kernel. The op's mnemonic is the kernel's name in lower case, and the op has the
    kernel's attributes. Values are immutable: an op that updates storage in place takes the old value as an operand and
    returns the new one (this *tied* operand and result share storage). Ops stand in a `weft.graph` (the whole model,
    forward only) or in a `weft.segment` (the kernels of one compute action of one stage).

    *Rank level*: one template for each group of ranks that run the same list of actions. A template is that list, in
    order, with the buffers that the actions use.

    Graph-level ops may carry these discardable attributes: `name` (shown in traces), `layer` and `stage` (i32), and in
    backward segments `part`, the part of the backward that the op belongs to ("input", "weight" or "recompute").

    Error messages of verifiers begin with an id in brackets, such as `[matmul_c1]`.
  }];
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
  // Each is defined beside the ops that it registers.
  let extraClassDeclaration = [{
    void registerTypesAndAttributes();
    void registerStructureOps();
    void registerForwardOps();
    void registerBackwardOps();
    void registerTransformerOps();
    void registerPointwiseOps();
    void registerAttentionOps();
    void registerImageOps();
    void registerOptimizerOps();
    void registerCollectiveOps();
    void registerSplitOps();
    void registerRankOps();
  }];
}

class Weft_Op<string mnemonic, list<Trait> traits = []> : Op<Weft_Dialect, mnemonic, traits>;

class Weft_Type<string name, string typeMnemonic> : TypeDef<Weft_Dialect, name> {
  let mnemonic = typeMnemonic;
}

class Weft_Attr<string name, string attrMnemonic> : AttrDef<Weft_Dialect, name> {
  let mnemonic = attrMnemonic;
}

def Weft_Exact192Type : Weft_Type<"Exact192", "exact192"> {
  let summary = "order-independent accumulator of one real number, 24 bytes";
  let description = "192-bit two's complement fixed point with least bit 2^-126 (rule P9, docs/kernels.md).";
}

// The role of a segment's tensor outside the segment. Roles of persistent buffers have the names of BufferRole in
// proto/program.proto.
def Weft_Role : I32EnumAttr<"Role", "what an argument or result of a segment holds, seen from outside the segment", [
    I32EnumAttrCase<"Input", 0, "input">,
    I32EnumAttrCase<"Output", 1, "output">,
    I32EnumAttrCase<"OutputGrad", 2, "output_grad">,
    I32EnumAttrCase<"InputGrad", 3, "input_grad">,
    I32EnumAttrCase<"Saved", 4, "saved">,
    I32EnumAttrCase<"Param", 5, "param">,
    I32EnumAttrCase<"Master", 6, "master">,
    I32EnumAttrCase<"Grad", 7, "grad">,
    I32EnumAttrCase<"GradAccumulator", 8, "grad_accumulator">,
    I32EnumAttrCase<"Moment1", 9, "moment1">,
    I32EnumAttrCase<"Moment2", 10, "moment2">,
    I32EnumAttrCase<"LocalLosses", 11, "local_losses">,
    I32EnumAttrCase<"Losses", 12, "losses">,
    I32EnumAttrCase<"LocalNorms", 13, "local_norms">,
    I32EnumAttrCase<"Norms", 14, "norms">,
    I32EnumAttrCase<"Norm", 15, "norm">,
    // Values that the input half of a backward keeps for the weight half.
    I32EnumAttrCase<"SavedGrad", 16, "saved_grad">,
    // Workspace of one action; rank level only.
    I32EnumAttrCase<"Workspace", 17, "workspace">,
    // Workspace that detached steps of an action use beyond its end; rank level only.
    I32EnumAttrCase<"Deferred", 18, "deferred">,
    I32EnumAttrCase<"LossScale", 19, "loss_scale">,
    // The rank's part of a gradient, or of its accumulator, after it is summed over data replicas and sharded over
    // them, if backwards need all of it; and the rank's part of a parameter that the optimizer has updated, before it
    // is gathered.
    I32EnumAttrCase<"GradPart", 20, "grad_part">,
    I32EnumAttrCase<"GradAccumulatorPart", 21, "grad_accumulator_part">,
    I32EnumAttrCase<"ParamPart", 22, "param_part">]> {
  let cppNamespace = "::weft::ir";
  let genSpecializedAttr = 0;
}

def Weft_RoleAttr : Weft_Attr<"Role", "role"> {
  let summary = "role of a segment's argument or result";
  let description = [{
    `tensor` is the index of the logical tensor if the role belongs to one, else -1. The meaning of `use` depends on the
    role:

    - `grad`, `grad_accumulator` and their parts: which of the places in the model that read the tensor.
    - `saved` and `saved_grad`: the number of the saved value within the stage.
    - `input`, `output` and their gradients: 0 for the tensor that crosses between neighboring stages, i for the i-th
      skip connection of the model (rule P4).

    Example: `#weft.role<grad tensor 3 use 1>`.
  }];
  let parameters = (ins EnumParameter<Weft_Role>:$role, DefaultValuedParameter<"int32_t", "-1">:$tensor,
                        DefaultValuedParameter<"int32_t", "0">:$use);
  let builders = [AttrBuilder<(ins "Role":$role, CArg<"int32_t", "-1">:$tensor, CArg<"int32_t", "0">:$use), [{
    return $_get($_ctxt, role, tensor, use);
  }]>];
  let skipDefaultBuilders = 1;
  let assemblyFormat = "`<` $role (`tensor` $tensor^)? (`use` $use^)? `>`";
}

def Weft_SegmentKind : I32EnumAttr<"SegmentKind", "what a segment does for its stage or its pipeline rank", [
    I32EnumAttrCase<"Forward", 0, "forward">,
    I32EnumAttrCase<"Backward", 1, "backward">,
    I32EnumAttrCase<"GradNorm", 2, "grad_norm">,
    I32EnumAttrCase<"ScaleGradients", 3, "scale_gradients">,
    I32EnumAttrCase<"OptimizerStep", 4, "optimizer_step">,
    // A forward without dropout that saves nothing.
    I32EnumAttrCase<"Evaluate", 5, "evaluate">,
    // The two halves of a backward.
    I32EnumAttrCase<"BackwardInput", 6, "backward_input">,
    I32EnumAttrCase<"BackwardWeight", 7, "backward_weight">,
    // A forward and a backward that run as one action; rank level only.
    I32EnumAttrCase<"ForwardBackward", 8, "forward_backward">]> {
  let cppNamespace = "::weft::ir";
  let genSpecializedAttr = 0;
}
def Weft_SegmentKindAttr : EnumAttr<Weft_Dialect, Weft_SegmentKind, "segment_kind">;

// BufferClass and Access of proto/program.proto.
def Weft_BufferClass : I32EnumAttr<"BufferClass", "what a buffer is for (rule P7)", [
    I32EnumAttrCase<"Parameter", 1, "parameter">,
    I32EnumAttrCase<"Gradient", 2, "gradient">,
    I32EnumAttrCase<"Optimizer", 3, "optimizer">,
    I32EnumAttrCase<"SavedActivation", 4, "saved_activation">,
    I32EnumAttrCase<"InFlightActivation", 5, "in_flight_activation">,
    I32EnumAttrCase<"Communication", 6, "communication">,
    I32EnumAttrCase<"Workspace", 7, "workspace">,
    I32EnumAttrCase<"SavedGradient", 8, "saved_gradient">]> {
  let cppNamespace = "::weft::ir";
  let genSpecializedAttr = 0;
}
def Weft_Access : I32EnumAttr<"Access", "how an action uses a buffer", [
    I32EnumAttrCase<"Read", 1, "read">,
    I32EnumAttrCase<"Write", 2, "write">,
    I32EnumAttrCase<"ReadWrite", 3, "read_write">]> {
  let cppNamespace = "::weft::ir";
  let genSpecializedAttr = 0;
}
// Direction and Purpose of proto/program.proto.
def Weft_Direction : I32EnumAttr<"Direction", "direction of a transfer between stages", [
    I32EnumAttrCase<"TowardsLoss", 1, "towards_loss">,
    I32EnumAttrCase<"FromLoss", 2, "from_loss">]> {
  let cppNamespace = "::weft::ir";
  let genSpecializedAttr = 0;
}
def Weft_DirectionAttr : EnumAttr<Weft_Dialect, Weft_Direction, "direction">;
def Weft_Purpose : I32EnumAttr<"Purpose", "purpose of a collective", [
    I32EnumAttrCase<"GradientSync", 1, "gradient_sync">,
    I32EnumAttrCase<"TiedSync", 2, "tied_sync">,
    I32EnumAttrCase<"NormSync", 3, "norm_sync">,
    I32EnumAttrCase<"LossSync", 4, "loss_sync">,
    I32EnumAttrCase<"Tensor", 5, "tensor">,
    I32EnumAttrCase<"GatherWeights", 6, "gather_weights">,
    I32EnumAttrCase<"ScatterGradients", 7, "scatter_gradients">]> {
  let cppNamespace = "::weft::ir";
  let genSpecializedAttr = 0;
}
def Weft_PurposeAttr : EnumAttr<Weft_Dialect, Weft_Purpose, "purpose">;
// ComputeOrder and TransferStreams of proto/program.proto, TransferPlacement and GradientSync of proto/plan.proto.
def Weft_ComputeOrder : I32EnumAttr<"ComputeOrder", "how a rank orders its forwards and backwards (rule P6)", [
    I32EnumAttrCase<"StaticOrder", 0, "static_order">,
    I32EnumAttrCase<"Arrival", 1, "arrival">,
    I32EnumAttrCase<"BackwardFirst", 2, "backward_first">]> {
  let cppNamespace = "::weft::ir";
  let genSpecializedAttr = 0;
}
def Weft_ComputeOrderAttr : EnumAttr<Weft_Dialect, Weft_ComputeOrder, "compute_order">;
def Weft_TransferStreams : I32EnumAttr<"TransferStreams", "which transfers share a stream (rule P3)", [
    I32EnumAttrCase<"PerEdge", 0, "per_edge">,
    I32EnumAttrCase<"PerDirection", 1, "per_direction">,
    I32EnumAttrCase<"Shared", 2, "shared">]> {
  let cppNamespace = "::weft::ir";
  let genSpecializedAttr = 0;
}
def Weft_TransferStreamsAttr : EnumAttr<Weft_Dialect, Weft_TransferStreams, "transfer_streams">;
def Weft_TransferPlacement : I32EnumAttr<"TransferPlacement", "when receives are posted", [
    I32EnumAttrCase<"Early", 0, "early">,
    I32EnumAttrCase<"Deferred", 1, "deferred">]> {
  let cppNamespace = "::weft::ir";
  let genSpecializedAttr = 0;
}
def Weft_TransferPlacementAttr : EnumAttr<Weft_Dialect, Weft_TransferPlacement, "transfer_placement">;
def Weft_SyncMoment : I32EnumAttr<"SyncMoment", "when the gradients of replicas are summed", [
    I32EnumAttrCase<"Eager", 0, "eager">,
    I32EnumAttrCase<"Lazy", 1, "lazy">,
    I32EnumAttrCase<"EagerOpt", 2, "eager_opt">]> {
  let cppNamespace = "::weft::ir";
  let genSpecializedAttr = 0;
}
def Weft_SyncMomentAttr : EnumAttr<Weft_Dialect, Weft_SyncMoment, "sync_moment">;

// Rank level: the types that pass between actions (rank_ops.td).
def Weft_BufferType : Weft_Type<"Buffer", "buffer"> {
  let summary = "bytes on one rank, of one class (rule P7)";
  let description = [{
    `content` is the tensor that the buffer holds. It is absent if the buffer holds several values.

    Examples: `!weft.buffer<saved_activation, 4096>`, `!weft.buffer<gradient, 64, tensor<4x4xf32>>`.
  }];
  let parameters = (ins EnumParameter<Weft_BufferClass>:$bufferClass, "int64_t":$bytes,
                        OptionalParameter<"::mlir::Type">:$content);
  let assemblyFormat = "`<` $bufferClass `,` $bytes (`,` $content^)? `>`";
  let genVerifyDecl = 1;
}

def Weft_TokenType : Weft_Type<"Token", "token"> {
  let summary = "the finish of an action; an action that takes the token waits for that action (rule P2)";
}

def Weft_MeshAttr : Weft_Attr<"Mesh", "mesh"> {
  let summary = "a named grid of ranks, innermost axis first";
  let description = "Example: `#weft.mesh<data = 2, pipe = 4>`.";
  let parameters = (ins ArrayRefParameter<"::mlir::StringAttr">:$names, ArrayRefParameter<"int64_t">:$sizes);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    // Size of an axis; 1 if the mesh does not list it.
    int64_t getSize(::llvm::StringRef axis) const;
  }];
}

def Weft_OperandAttr : Weft_Attr<"Operand", "operand"> {
  let summary = "one operand of a segment: its role, how the segment accesses it, and the type of its buffer";
  let description = [{
    Example: `#weft.operand<<grad tensor 3 use 1>, read_write, !weft.buffer<gradient, 64, tensor<4x4xf32>>>`. In a
    forward_backward, `half 1` marks the operands of the backward. `detached 1` marks operands that only detached steps
    use (rule P2); `detached 2` marks operands that detached steps and other steps use.
  }];
  let parameters = (ins "::weft::ir::RoleAttr":$role, EnumParameter<Weft_Access>:$access,
                        "::weft::ir::BufferType":$type, DefaultValuedParameter<"int32_t", "0">:$half,
                        DefaultValuedParameter<"int32_t", "0">:$detached);
  let builders = [AttrBuilder<(ins "RoleAttr":$role, "Access":$access, "BufferType":$type,
                                   CArg<"int32_t", "0">:$half, CArg<"int32_t", "0">:$detached), [{
    return $_get($_ctxt, role, access, type, half, detached);
  }]>];
  let skipDefaultBuilders = 1;
  let assemblyFormat = "`<` $role `,` $access `,` $type (`,` `half` $half^)? (`detached` $detached^)? `>`";
}

// Tensors of the graph level.
def Weft_Float : AnyTypeOf<[F64, F32, BF16, F16]>;
def Weft_Matrix : Type<And<[StaticShapeTensorOf<[Weft_Float]>.predicate, HasAnyRankOfPred<[2]>]>,
                       "statically shaped matrix of floats", "::mlir::RankedTensorType">;
def Weft_Vector : Type<And<[StaticShapeTensorOf<[Weft_Float]>.predicate, HasAnyRankOfPred<[1]>]>,
                       "statically shaped vector of floats", "::mlir::RankedTensorType">;
def Weft_Addend : Type<StaticShapeTensorOf<[Weft_Float, Weft_Exact192Type]>.predicate,
                       "statically shaped tensor of floats or exact192", "::mlir::RankedTensorType">;
def Weft_FloatTensor : Type<StaticShapeTensorOf<[Weft_Float]>.predicate, "statically shaped tensor of floats",
                            "::mlir::RankedTensorType">;
def Weft_Tokens : Type<And<[StaticShapeTensorOf<[I32]>.predicate, HasAnyRankOfPred<[1]>]>,
                       "statically shaped vector of i32", "::mlir::RankedTensorType">;
def Weft_Mask : Type<And<[StaticShapeTensorOf<[UI8]>.predicate, HasAnyRankOfPred<[2]>]>,
                     "statically shaped matrix of ui8", "::mlir::RankedTensorType">;
def Weft_F64Vector : Type<And<[StaticShapeTensorOf<[F64]>.predicate, HasAnyRankOfPred<[1]>]>,
                          "statically shaped vector of f64", "::mlir::RankedTensorType">;
def Weft_Norms : Type<And<[StaticShapeTensorOf<[F64, Weft_Exact192Type]>.predicate, HasAnyRankOfPred<[1]>]>,
                      "statically shaped vector of f64 or exact192", "::mlir::RankedTensorType">;
def Weft_Accumulator : Type<StaticShapeTensorOf<[Weft_Exact192Type]>.predicate,
                            "statically shaped tensor of exact192", "::mlir::RankedTensorType">;
def Weft_AnyTensor : Type<StaticShapeTensorOf<[AnyType]>.predicate, "statically shaped tensor",
                          "::mlir::RankedTensorType">;

#endif  // WEFT_IR_DIALECT_TD_
