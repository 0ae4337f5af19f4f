// Attention as separate ops, and dropout with a kept mask. docs/kernels.md defines each kernel.
#ifndef WEFT_IR_ATTENTION_OPS_TD_
#define WEFT_IR_ATTENTION_OPS_TD_

include "ir/kernel_ops.td"

// Attributes of products of heads; `kv_heads` is 0 if q, k and v are columns of one matrix.
defvar Weft_HeadAttributes = (ins I64Attr:$heads, I64Attr:$sequence, DefaultValuedAttr<I64Attr, "0">:$kv_heads,
                                  UnitAttr:$qkv_by_head);

def Weft_AttentionScoresOp : Weft_KernelOp<"attention_scores", [Weft_Differentiable, Weft_ShardableInRuns]> {
  let summary = "the product scale * q k^T, head by head";
  let description = [{
    The inputs are one matrix `qkv`, which holds q, k and v side by side, or q (as the operand `qkv`) and k. In the
    second case k has `kv_heads` heads, and each serves heads / kv_heads heads of q. Row i of the result has the scores
    of query i with all keys of its sequence, one head after the other: heads * sequence columns. The op takes 2 * rows
    * sequence * d flops, where q has d columns.
  }];
  let arguments = !con((ins Weft_Matrix:$qkv, Optional<Weft_Matrix>:$k, F64Attr:$scale), Weft_HeadAttributes);
  let results = (outs Weft_Matrix:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
  let kernelMethods = "int64_t flops();";
}

def Weft_AttentionScoresBackwardOp : Weft_KernelOp<"attention_scores_backward"> {
  let summary = "gradients of attention_scores' inputs; the gradient of qkv has zeros in the columns of v";
  let arguments = !con((ins Weft_Matrix:$ds, Weft_Matrix:$qkv, Optional<Weft_Matrix>:$k, F64Attr:$scale),
                       Weft_HeadAttributes);
  let results = (outs Weft_Matrix:$dqkv, Optional<Weft_Matrix>:$dk);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
  let kernelMethods = "int64_t flops();";
}

def Weft_AttentionSoftmaxOp : Weft_KernelOp<"attention_softmax", [Weft_Differentiable, Weft_Shardable]> {
  let summary = "softmax of each head's scores over the keys that the mask allows, 0 for the other keys; in place";
  let arguments = (ins Weft_Matrix:$s, I64Attr:$heads, I64Attr:$sequence, UnitAttr:$causal,
                       DefaultValuedAttr<I64Attr, "0">:$window);
  let results = (outs Weft_Matrix:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
  let kernelMethods = "int getTiedOperand(unsigned) { return 0; }";
}

def Weft_AttentionSoftmaxBackwardOp : Weft_KernelOp<"attention_softmax_backward"> {
  let summary = "p * (dp - sum of dp * p) for each head of a row; overwrites dp";
  let arguments = (ins Weft_Matrix:$dp, Weft_Matrix:$p, I64Attr:$heads, I64Attr:$sequence);
  let results = (outs Weft_Matrix:$ds);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
  let kernelMethods = "int getTiedOperand(unsigned) { return 0; }";
}

def Weft_AttentionValuesOp : Weft_KernelOp<"attention_values", [Weft_Differentiable, Weft_ShardableInRuns]> {
  let summary = "the product p v, head by head";
  let description = [{
    `qkv` is one matrix that holds q, k and v; with `kv_heads` it is v alone. The op takes 2 * rows * sequence * d
    flops, where the result has d columns.
  }];
  let arguments = !con((ins Weft_Matrix:$p, Weft_Matrix:$qkv), Weft_HeadAttributes);
  let results = (outs Weft_Matrix:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
  let kernelMethods = "int64_t flops();";
}

def Weft_AttentionValuesBackwardOp : Weft_KernelOp<"attention_values_backward"> {
  let summary = "gradients of attention_values' inputs; the gradient of qkv has zeros in the columns of q and k";
  let arguments = !con((ins Weft_Matrix:$dout, Weft_Matrix:$p, Weft_Matrix:$qkv), Weft_HeadAttributes);
  let results = (outs Weft_Matrix:$dp, Weft_Matrix:$dqkv);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
  let kernelMethods = "int64_t flops();";
}

def Weft_DropoutMaskOp : Weft_KernelOp<"dropout_mask", [Weft_Differentiable, Weft_Shardable]> {
  let summary = "dropout that also returns a byte per element for the derivative: 1 if the element is kept";
  let description = "The op has the attributes of weft.dropout and drops the same elements.";
  let arguments = !con((ins Weft_Matrix:$x), Weft_DropoutAttributes);
  let results = (outs Weft_Matrix:$result, Weft_Mask:$mask);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Weft_DropoutByMaskOp : Weft_KernelOp<"dropout_by_mask"> {
  let summary = "gradient of dropout_mask's input";
  let arguments = (ins Weft_Matrix:$dy, Weft_Mask:$mask, F64Attr:$dropout);
  let results = (outs Weft_Matrix:$dx);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

#endif  // WEFT_IR_ATTENTION_OPS_TD_
