// Ops that contain others: the model, its tensors, segments.
#ifndef WEFT_IR_STRUCTURE_OPS_TD_
#define WEFT_IR_STRUCTURE_OPS_TD_

include "ir/dialect.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Weft_TensorOp : Weft_Op<"tensor", [Symbol]> {
  let summary = "declares a parameter of the model";
  let description = [{
    Declares logical tensor `index` (LogicalTensor of proto/program.proto). `type` is the type of its padded storage,
    which forward and backward read. `shape` is the unpadded shape; it differs from the padded shape in dimension 0
    only.

    If the tensor is cut over ranks, `type` is the type of the rank's part in its PARAM buffer, and `padded` is the
    shape of the whole tensor. `cuts` says which dimension an axis cuts, and in how many runs: {x = array<i64: 1, 3>}
    cuts dimension 1 in 3 runs over axis x. The part that is left is cut into ranges over the axes of `ranges`, one axis
    after the other.

    Gradients have the type `grad_type` and are cut over `grad_ranges`; master weights and moments have the type
    `state_type` and are cut over `state_ranges`. An absent type is that of PARAM.

    Ranges over `data` are shared by all its ranks, or by blocks of `data_block` neighbors. If the number of ranges does
    not divide the number of elements, all ranges have the size of the largest, and buffers from which ranges are taken
    have room for `room` elements (an attribute that weft-shard-states sets).

    The gradients that a rank's backwards compute are partial sums over `data` and over the axes of `partial`.

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
    A graph is one block of kernel ops and `weft.parameter` ops. The block's argument is the fp64 vector of the weighted
    losses of an iteration's microbatches. `weft.yield` ends the block and returns that vector with this microbatch's
    loss in it.

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
    If the model reads a tensor in several places, there is one op per place, and `use` numbers them in model order.
    Each use has its own gradient (rule P9).
  }];
  let arguments = (ins I32Attr:$tensor, DefaultValuedAttr<I32Attr, "0">:$use);
  let results = (outs Weft_FloatTensor:$result);
  let assemblyFormat = "$tensor (`use` $use^)? attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Weft_YieldOp : Weft_Op<"yield", [Pure, Terminator, HasParent<"GraphOp">]> {
  let summary = "ends a graph and returns its losses";
  let arguments = (ins Weft_F64Vector:$losses);
  let assemblyFormat = "$losses attr-dict `:` type($losses)";
}

def Weft_SegmentOp : Weft_Op<"segment", [Symbol, IsolatedFromAbove, SingleBlock]> {
  let summary = "the kernels that one compute action runs";
  let description = [{
    Every tensor that the segment reads is an argument, and every tensor that other actions use after it is a result.
    Each has a role. A result with the same role as an argument is the new content of that tensor, in the same storage.
    The `saved` arguments of a stage's backwards are the `saved` results of its forward with the same `use` numbers. In
    the same way, `saved_grad` connects the two halves of a backward.

    The segments `grad_norm`, `scale_gradients` and `optimizer_step` belong to one pipeline rank and serve all stages
    that it holds. `stage` is the lowest of these stages. Without `rank`, the pipeline rank has the number `stage`.

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
