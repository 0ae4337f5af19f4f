// Ops that contain others: the model, its tensors, segments.
#ifndef WEFT_IR_STRUCTURE_OPS_TD_
#define WEFT_IR_STRUCTURE_OPS_TD_

include "ir/dialect.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Weft_TensorOp : Weft_Op<"tensor", [Symbol]> {
  let summary = "a parameter as the model knows it";
  let description = [{
    Declares logical tensor `index` (LogicalTensor of proto/program.proto). `type` is that of its padded storage as
    forward and backward read it; `shape` is the unpadded shape and differs in dimension 0 only.

    Of a tensor that is cut over ranks `type` is that of the rank's part as PARAM has it, and `padded` the shape of which
    it is a part. `cuts` says which dimension an axis cuts, and in how many runs: {x = array<i64: 1, 3>}; what that
    leaves is cut into ranges over the axes of `ranges`, one after the other. Gradients are of `grad_type`, cut over
    `grad_ranges`, master weights and moments of `state_type` over `state_ranges`, where these are not like PARAM.
    Ranges over `data` are of all its ranks, or of blocks of `data_block` neighbours; where these do not divide what is
    cut, each has as many elements as if the last were full, and buffers of what is cut have room for `room` elements (an
    attribute that weft-shard-states sets).
    Gradients of the rank's backwards stay partial sums over the axes of `partial`, besides `data`.

    ```mlir
    weft.tensor @wte.weight index 0 shape [50257, 768] : tensor<50304x768xf32> {uses = 2 : i32, weight_decay = 0.1}
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, I32Attr:$index, DenseI64ArrayAttr:$shape, TypeAttr:$type,
                       DefaultValuedAttr<I32Attr, "1">:$uses, DefaultValuedAttr<F64Attr, "0.0">:$weight_decay,
                       OptionalAttr<DenseI64ArrayAttr>:$padded, OptionalAttr<DictionaryAttr>:$cuts,
                       DefaultValuedAttr<StrArrayAttr, "{}">:$ranges, OptionalAttr<TypeAttr>:$grad_type,
                       DefaultValuedAttr<StrArrayAttr, "{}">:$grad_ranges, OptionalAttr<TypeAttr>:$state_type,
                       DefaultValuedAttr<StrArrayAttr, "{}">:$state_ranges,
                       DefaultValuedAttr<I64Attr, "0">:$data_block,
                       DefaultValuedAttr<StrArrayAttr, "{}">:$partial);
  let builders = [
    // For a tensor that is not sharded.
    OpBuilder<(ins "::llvm::StringRef":$name, "uint32_t":$index, "::llvm::ArrayRef<int64_t>":$shape,
                   "::mlir::Type":$type, "uint32_t":$uses, "::llvm::APFloat":$weight_decay), [{
      Properties& properties = $_state.getOrAddProperties<Properties>();
      properties.sym_name = $_builder.getStringAttr(name);
      properties.index = $_builder.getI32IntegerAttr(static_cast<int32_t>(index));
      properties.shape = $_builder.getDenseI64ArrayAttr(shape);
      properties.type = ::mlir::TypeAttr::get(type);
      properties.uses = $_builder.getI32IntegerAttr(static_cast<int32_t>(uses));
      properties.weight_decay = $_builder.getFloatAttr($_builder.getF64Type(), weight_decay);
    }]>,
  ];
  let assemblyFormat = "$sym_name `index` $index `shape` $shape `:` $type attr-dict";
  let hasVerifier = 1;
}

def Weft_GraphOp : Weft_Op<"graph", [Symbol, IsolatedFromAbove, SingleBlock]> {
  let summary = "a model: the forward of one microbatch";
  let description = [{
    One block of kernel ops and `weft.parameter`s. Its argument is the vector of weighted losses of the step's
    microbatches, fp64; `weft.yield` ends it with the vector that holds this microbatch's loss.

    ```mlir
    weft.graph @gpt2 {
    ^bb0(%losses: tensor<4xf64>):
      ...
      weft.yield %new_losses : tensor<4xf64>
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name attr-dict-with-keyword $body";
  let hasRegionVerifier = 1;
}

def Weft_ParameterOp : Weft_Op<"parameter", [Pure, HasParent<"GraphOp">]> {
  let summary = "one use of a parameter";
  let description = [{
    A tensor that the model reads in several places has one op per place, `use` counting them in model order: each has a
    gradient of its own (rule P9).
  }];
  let arguments = (ins I32Attr:$tensor, DefaultValuedAttr<I32Attr, "0">:$use);
  let results = (outs Weft_FloatTensor:$result);
  let assemblyFormat = "$tensor (`use` $use^)? attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Weft_YieldOp : Weft_Op<"yield", [Pure, Terminator, HasParent<"GraphOp">]> {
  let summary = "ends a graph with its losses";
  let arguments = (ins Weft_F64Vector:$losses);
  let assemblyFormat = "$losses attr-dict `:` type($losses)";
}

def Weft_SegmentOp : Weft_Op<"segment", [Symbol, IsolatedFromAbove, SingleBlock]> {
  let summary = "the kernels that one compute action runs";
  let description = [{
    Everything it reads is an argument and everything it leaves behind is a result; each has a role. A result with the
    role of an argument is that tensor's new content, in the same storage. The `saved` arguments of a stage's backwards
    are `saved` results of its forward, with the same `use` numbers; so it is with `saved_grad` between the two halves
    of a backward.

    `grad_norm`, `scale_gradients` and `optimizer_step` are of one rank of the pipeline, for all stages that it holds;
    `stage` is the lowest of these, and the rank has the same number where none is given.

    ```mlir
    weft.segment @rank1.optimizer_step optimizer_step stage 0 rank 1 (
        %g: tensor<4xf32> as <grad tensor 0>, %w: tensor<4xf32> as <param tensor 0>)
        -> (<param tensor 0>, <grad tensor 0>) {
      %w1 = weft.sgd_step %g, %w {momentum = 0.0, weight_decay = 0.0} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      %zero = weft.fill {value = 0.0} : tensor<4xf32>
      weft.return %w1, %zero : tensor<4xf32>, tensor<4xf32>
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, Weft_SegmentKindAttr:$kind, I32Attr:$stage, OptionalAttr<I32Attr>:$rank,
                       TypedArrayAttrBase<Weft_RoleAttr, "roles">:$arg_roles,
                       TypedArrayAttrBase<Weft_RoleAttr, "roles">:$result_roles);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasRegionVerifier = 1;
  let skipDefaultBuilders = 1;
  let builders = [
    // Builds a segment with an empty block; arguments, results and their roles are added later.
    OpBuilder<(ins "::llvm::StringRef":$name, "SegmentKind":$kind, "int32_t":$stage)>,
  ];
  let extraClassDeclaration = [{
    RoleAttr getArgRole(unsigned index) { return ::mlir::cast<RoleAttr>(getArgRoles()[index]); }
    RoleAttr getResultRole(unsigned index) { return ::mlir::cast<RoleAttr>(getResultRoles()[index]); }
    // The argument with this role, or null.
    ::mlir::BlockArgument findArgument(RoleAttr role);
    // Adds an argument at the end.
    ::mlir::BlockArgument addArgument(RoleAttr role, ::mlir::Type type, ::mlir::Location loc);
    ReturnOp getReturn();
  }];
}

def Weft_ReturnOp : Weft_Op<"return", [Pure, Terminator, HasParent<"SegmentOp">]> {
  let summary = "ends a segment";
  let arguments = (ins Variadic<Weft_AnyTensor>:$values);
  let assemblyFormat = "attr-dict ($values^ `:` type($values))?";
}

#endif  // WEFT_IR_STRUCTURE_OPS_TD_
