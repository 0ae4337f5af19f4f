// Kernels of the backward pass. docs/kernels.md defines each.
#ifndef WEFT_IR_BACKWARD_OPS_TD_
#define WEFT_IR_BACKWARD_OPS_TD_

include "ir/kernel_ops.td"

def Weft_EmbeddingBackwardOp : Weft_AccumulatingOp<"embedding_backward"> {
  let summary = "adds each row of `dy` to the gradient of the table row that the forward read for it";
  let arguments = (ins Weft_Tokens:$tokens, Weft_Matrix:$dy, Optional<Weft_Matrix>:$init, Weft_Shift:$column_shift);
  let results = (outs Weft_Matrix:$dtable);
  let assemblyFormat = "$tokens `,` $dy (`init` $init^)? attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Weft_PositionEmbeddingBackwardOp : Weft_AccumulatingOp<"position_embedding_backward"> {
  let summary = "sums rows of `dy` over sequences";
  let arguments = (ins Weft_Matrix:$dy, Optional<Weft_Matrix>:$init, I64Attr:$sequence, Weft_Shift:$row_shift);
  let results = (outs Weft_Matrix:$dtable);
  let assemblyFormat = "$dy (`init` $init^)? attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Weft_BiasGradientOp : Weft_AccumulatingOp<"bias_gradient"> {
  let summary = "column sums of `dy`: the gradient of a bias";
  let arguments = (ins Weft_Matrix:$dy, Optional<Weft_Vector>:$init);
  let results = (outs Weft_Vector:$dbias);
  let assemblyFormat = "$dy (`init` $init^)? attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Weft_LayerNormBackwardOp : Weft_AccumulatingOp<"layer_norm_backward"> {
  let summary = "gradient of layer_norm's input";
  let arguments = (ins Weft_Matrix:$dy, Weft_Matrix:$x, Weft_Vector:$gamma, Weft_Vector:$mean, Weft_Vector:$rstd,
                       Optional<Weft_Matrix>:$init);
  let results = (outs Weft_Matrix:$dx);
  let assemblyFormat = [{
    $dy `,` $x `,` $gamma `,` $mean `,` $rstd (`init` $init^)? attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def Weft_LayerNormBackwardWeightOp : Weft_KernelOp<"layer_norm_backward_weight", [AttrSizedOperandSegments]> {
  let summary = "gradients of layer_norm's gamma and beta, added to the inits if there are any";
  let arguments = (ins Weft_Matrix:$dy, Weft_Matrix:$x, Weft_Vector:$mean, Weft_Vector:$rstd,
                       Optional<Weft_Vector>:$init_gamma, Optional<Weft_Vector>:$init_beta);
  let results = (outs Weft_Vector:$dgamma, Weft_Vector:$dbeta);
  let assemblyFormat = [{
    $dy `,` $x `,` $mean `,` $rstd (`init` $init_gamma^ `,` $init_beta)? attr-dict
    `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
  let kernelMethods = [{
    int getTiedOperand(unsigned result) { return getInitGamma() ? 4 + static_cast<int>(result) : -1; }
    bool isStepInput(unsigned index) { return index < 4; }
    bool accumulates() { return static_cast<bool>(getInitGamma()); }
  }];
}

def Weft_AttentionBackwardOp : Weft_KernelOp<"attention_backward"> {
  let summary = "gradients of attention's inputs";
  let description = [{
    The forward has two products; the backward has five (the scores again, dv, dp, dq, dk) and takes 10 * rows * S * d
    flops, where S is `sequence` and q has d columns. The mask makes the same part unnecessary as in the forward. The
    forward has computed the scores already, so the model's flops count only four products, 8 * rows * S * d. With the
    forward these are 12 * S * d per token (Narayanan et al. 2021, arXiv:2104.04473; Chowdhery et al. 2022,
    arXiv:2204.02311, appendix B).
  }];
  let arguments = !con((ins Weft_Matrix:$dout, Weft_Matrix:$qkv, Variadic<Weft_Matrix>:$kv, Weft_Matrix:$out,
                            Weft_Matrix:$lse), Weft_AttentionAttributes);
  let results = (outs Weft_Matrix:$dqkv, Variadic<Weft_Matrix>:$dkv);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
  let kernelMethods = "int64_t flops(); int64_t modelFlops(); int64_t maskedFlops();";
}

def Weft_CrossEntropyBackwardOp : Weft_KernelOp<"cross_entropy_backward"> {
  let summary = "gradient of the logits for the sum of cross_entropy's losses, times element 0 of `scale`";
  let arguments = (ins Weft_Matrix:$logits, Weft_Vector:$lse, Weft_Tokens:$targets, Optional<Weft_F64Vector>:$scale,
                       I64Attr:$vocabulary, F64Attr:$loss_weight, Weft_Shift:$column_shift);
  let results = (outs Weft_Matrix:$dlogits);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

#endif  // WEFT_IR_BACKWARD_OPS_TD_
