// Kernels of the end of an optimizer step. docs/kernels.md defines each.
#ifndef WEFT_IR_OPTIMIZER_OPS_TD_
#define WEFT_IR_OPTIMIZER_OPS_TD_

include "ir/kernel_ops.td"

def Weft_FillOp : Weft_KernelOp<"fill"> {
  let summary = "a tensor whose elements are all `value`";
  let arguments = (ins F64Attr:$value);
  let results = (outs Weft_AnyTensor:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Weft_ExactAccumulateOp : Weft_KernelOp<"exact_accumulate"> {
  let summary = "adds x to an accumulator exactly, in place";
  let arguments = (ins Weft_FloatTensor:$x, Weft_Accumulator:$accumulator);
  let results = (outs Weft_Accumulator:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
  let kernelMethods = [{
    int getTiedOperand(unsigned result) { return 1; }
    bool isStepInput(unsigned index) { return index == 0; }
  }];
}

def Weft_ExactRoundOp : Weft_KernelOp<"exact_round"> {
  let summary = "rounds each accumulator to the nearest value of the result's type";
  let arguments = (ins Weft_Accumulator:$accumulator);
  let results = (outs Weft_FloatTensor:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Weft_SquaredNormOp : Weft_KernelOp<"squared_norm"> {
  let summary = "writes the sum of x*x into element `slot` of `norms`, in place";
  let description = [{
    Copies of x must count once: a rank whose coordinate on an axis of `counted_once` is not 0 writes 0.
  }];
  let arguments = (ins Weft_FloatTensor:$x, Weft_Norms:$norms, I64Attr:$slot,
                       DefaultValuedAttr<StrArrayAttr, "{}">:$counted_once);
  let results = (outs Weft_Norms:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
  let kernelMethods = [{
    int getTiedOperand(unsigned result) { return 1; }
    bool isStepInput(unsigned index) { return index == 0; }
  }];
}

def Weft_NormTotalOp : Weft_KernelOp<"norm_total"> {
  let summary = "global gradient norm, and the factor that clipping applies";
  let description = [{
    If the gradients are those of the loss times `scale` or `loss_scale` (rule P11), the factor also divides by that
    scale. At most one of the two is given.
  }];
  let arguments = (ins Weft_Norms:$norms, Optional<Weft_F64Vector>:$scale, F64Attr:$clip_norm,
                       DefaultValuedAttr<F64Attr, "0.0">:$loss_scale);
  let results = (outs Weft_F64Vector:$norm);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Weft_UpdateLossScaleOp : Weft_KernelOp<"update_loss_scale"> {
  let summary = "halves the loss scale after an overflow, doubles it after `growth_interval` good iterations; in place";
  let description = "`loss_scale` is the scale before the first iteration.";
  let arguments = (ins Weft_F64Vector:$norm, Weft_F64Vector:$scale, F64Attr:$loss_scale, I32Attr:$growth_interval);
  let results = (outs Weft_F64Vector:$new_scale);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
  let kernelMethods = "int getTiedOperand(unsigned result) { return 1; }";
}

def Weft_ScaleOp : Weft_KernelOp<"scale"> {
  let summary = "x times element 1 of `norm`; in place, unless the result is of another type";
  let arguments = (ins Weft_F64Vector:$norm, Weft_FloatTensor:$x);
  let results = (outs Weft_FloatTensor:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
  let kernelMethods =
      "int getTiedOperand(unsigned result) { return getX().getType() == getResult().getType() ? 1 : -1; }";
}

def Weft_AdamwOp : Weft_KernelOp<"adamw"> {
  let summary = "one step of AdamW, in place; `param` is the new weight rounded to the type that compute reads";
  let description = [{
    With loss scaling, `scaling` is `norm`, followed by `scale` if the scaling is dynamic. With `rounding_site` > 0,
    `param` is rounded stochastically with the random numbers of tensor `rounding_site` - 1 (docs/kernels.md).
  }];
  let arguments = (ins Weft_FloatTensor:$grad, Weft_FloatTensor:$weight, Weft_FloatTensor:$moment1,
                       Weft_FloatTensor:$moment2, Variadic<Weft_F64Vector>:$scaling, F64Attr:$beta1, F64Attr:$beta2,
                       F64Attr:$epsilon, F64Attr:$weight_decay, DefaultValuedAttr<I32Attr, "0">:$rounding_site);
  let results = (outs Weft_FloatTensor:$new_weight, Weft_FloatTensor:$new_moment1, Weft_FloatTensor:$new_moment2,
                      Optional<Weft_FloatTensor>:$param);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
  let kernelMethods = "int getTiedOperand(unsigned result) { return result < 3 ? static_cast<int>(result) + 1 : -1; }";
}

def Weft_SgdStepOp : Weft_KernelOp<"sgd_step", [AttrSizedOperandSegments, AttrSizedResultSegments]> {
  let summary = "one step of SGD, in place; it has a momentum buffer if and only if `momentum` is not 0";
  let description = "`scaling` and `rounding_site` mean the same as in adamw.";
  let arguments = (ins Weft_FloatTensor:$grad, Weft_FloatTensor:$weight, Optional<Weft_FloatTensor>:$buffer,
                       Variadic<Weft_F64Vector>:$scaling, F64Attr:$momentum, F64Attr:$weight_decay,
                       DefaultValuedAttr<I32Attr, "0">:$rounding_site);
  let results = (outs Weft_FloatTensor:$new_weight, Optional<Weft_FloatTensor>:$new_buffer,
                      Optional<Weft_FloatTensor>:$param);
  let assemblyFormat = [{
    $grad `,` $weight (`,` $buffer^)? (`scaled` `by` $scaling^)? attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
  let kernelMethods = [{
    int getTiedOperand(unsigned result) {
      if (result == 0) return 1;
      return result == 1 && getBuffer() ? 2 : -1;
    }
  }];
}

#endif  // WEFT_IR_OPTIMIZER_OPS_TD_
