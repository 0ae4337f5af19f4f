// Kernels in which no element depends on its neighbors (kernels/pointwise.def). docs/kernels.md defines each.
#ifndef WEFT_IR_POINTWISE_OPS_TD_
#define WEFT_IR_POINTWISE_OPS_TD_

include "ir/kernel_ops.td"

// All tensors must have the shape of operand 0.
def Weft_Pointwise : NativeOpTrait<"Pointwise"> {
  let cppNamespace = "::weft::ir";
}

// The op `mnemonic`, and `mnemonic`_backward of dy and the same operands and attributes, which makes `gradients`.
multiclass Weft_PointwiseOps<string mnemonic, string meaning, dag operands, dag gradients, dag attributes = (ins)> {
  def Op : Weft_KernelOp<mnemonic, [Weft_Pointwise, Weft_DifferentiableInterface, Weft_ShardableByElement]> {
    let summary = meaning;
    let arguments = !con(operands, attributes);
    let results = (outs Weft_FloatTensor:$result);
    let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
    let kernelMethods = [{
      ::llvm::SmallVector<::mlir::Value> buildBackward(::mlir::OpBuilder& builder,
                                                       ::llvm::ArrayRef<::mlir::Value> resultGrads,
                                                       ::llvm::ArrayRef<GradientRequest> requests) {
        return BuildPointwiseBackward(*this, builder, resultGrads[0], requests);
      }
    }];
  }
  def BackwardOp : Weft_KernelOp<mnemonic # "_backward", [Weft_Pointwise]> {
    let summary = "gradients of the inputs of " # mnemonic;
    let arguments = !con((ins Weft_FloatTensor:$dy), operands, attributes);
    let results = gradients;
    let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  }
}

defm Weft_Gelu : Weft_PointwiseOps<"gelu", "Gaussian error linear unit", (ins Weft_FloatTensor:$x),
                                   (outs Weft_FloatTensor:$dx), (ins UnitAttr:$tanh_approximation)>;
defm Weft_Silu : Weft_PointwiseOps<"silu", "x / (1 + exp(-x))", (ins Weft_FloatTensor:$x),
                                   (outs Weft_FloatTensor:$dx)>;
defm Weft_Swiglu : Weft_PointwiseOps<"swiglu", "gate * sigmoid(gate) * up",
                                     (ins Weft_FloatTensor:$gate, Weft_FloatTensor:$up),
                                     (outs Weft_FloatTensor:$dgate, Weft_FloatTensor:$dup)>;
defm Weft_ReluSquared : Weft_PointwiseOps<"relu_squared", "max(x, 0)^2", (ins Weft_FloatTensor:$x),
                                          (outs Weft_FloatTensor:$dx)>;

#endif  // WEFT_IR_POINTWISE_OPS_TD_
