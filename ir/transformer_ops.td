// Kernels of Llama-like transformers, forward and backward. docs/kernels.md defines each.
#ifndef WEFT_IR_TRANSFORMER_OPS_TD_
#define WEFT_IR_TRANSFORMER_OPS_TD_

include "ir/kernel_ops.td"

def Weft_RmsNormOp : Weft_KernelOp<"rms_norm", [Weft_Differentiable, Weft_Shardable]> {
  let summary = "x * rstd * gamma for every row; also returns rstd = 1 / sqrt(mean of squares + epsilon)";
  let arguments = (ins Weft_Matrix:$x, Weft_Vector:$gamma, F64Attr:$epsilon);
  let results = (outs Weft_Matrix:$result, Weft_Vector:$rstd);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Weft_RmsNormBackwardOp : Weft_AccumulatingOp<"rms_norm_backward"> {
  let summary = "gradient of rms_norm's input";
  let arguments = (ins Weft_Matrix:$dy, Weft_Matrix:$x, Weft_Vector:$gamma, Weft_Vector:$rstd,
                       Optional<Weft_Matrix>:$init);
  let results = (outs Weft_Matrix:$dx);
  let assemblyFormat = [{
    $dy `,` $x `,` $gamma `,` $rstd (`init` $init^)? attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def Weft_RmsNormBackwardWeightOp : Weft_AccumulatingOp<"rms_norm_backward_weight"> {
  let summary = "gradient of rms_norm's gamma";
  let arguments = (ins Weft_Matrix:$dy, Weft_Matrix:$x, Weft_Vector:$rstd, Optional<Weft_Vector>:$init);
  let results = (outs Weft_Vector:$dgamma);
  let assemblyFormat = "$dy `,` $x `,` $rstd (`init` $init^)? attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Weft_RopeOp : Weft_KernelOp<"rope", [Weft_Differentiable, Weft_Shardable]> {
  let summary = "rotates the halves of every head by angles that grow with the position";
  let description = [{
    The derivative is the rotation back: the same op with the opposite `inverse`. docs/kernels.md gives the angles and
    their scaling.
  }];
  let arguments = (ins Weft_Matrix:$x, I64Attr:$sequence, I64Attr:$head_size, F64Attr:$base, F64Attr:$magnitude,
                       DefaultValuedAttr<F64Attr, "0.0">:$factor, DefaultValuedAttr<F64Attr, "0.0">:$ramp_low,
                       DefaultValuedAttr<F64Attr, "0.0">:$ramp_high,
                       DefaultValuedAttr<F64Attr, "0.0">:$ramp_positions, UnitAttr:$inverse);
  let results = (outs Weft_Matrix:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

#endif  // WEFT_IR_TRANSFORMER_OPS_TD_
