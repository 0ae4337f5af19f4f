// Attention as separate ops, and dropout with a kept mask. docs/kernels.md defines each kernel.
#ifndef WEFT_IR_ATTENTION_OPS_TD_
#define WEFT_IR_ATTENTION_OPS_TD_

include "ir/kernel_ops.td"

// Attributes of products of heads; `kv_heads` is 0 if q, k and v are columns of one matrix.
defvar Weft_HeadAttributes = (ins I64Attr:$heads, I64Attr:$sequence, DefaultValuedAttr<I64Attr, "0">:$kv_heads,
                                  UnitAttr:$qkv_by_head);

def Weft_AttentionScoresOp : Weft_KernelOp<"attention_scores", [Weft_Differentiable, Weft_ShardableInRuns]> {
  let summary = "scale * q k^T, head by head";
  let description = [{
    Of one matrix `qkv`, or of q (in its place) and k, where `kv_heads` heads of k serve heads / kv_heads heads of q each.
    Row i of the result has the scores of query i with all keys of its sequence, one head after the other: heads *
    sequence columns. flops: 2 * rows * sequence * d with d the columns of q.
  }];
  let arguments = !con((ins Weft_Matrix:$qkv, Optional<Weft_Matrix>:$k, F64Attr:$scale), Weft_HeadAttributes);
  let results = (outs Weft_Matrix:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
  let kernelMethods = "int64_t flops();";
}

def Weft_AttentionScoresBackwardOp : Weft_KernelOp<"attention_scores_backward"> {
  let summary = "gradients of attention_scores' inputs; of qkv with zeros in the columns of v";
  let arguments = !con((ins Weft_Matrix:$ds, Weft_Matrix:$qkv, Optional<Weft_Matrix>:$k, F64Attr:$scale),
                       Weft_HeadAttributes);
  let results = (outs Weft_Matrix:$dqkv, Optional<Weft_Matrix>:$dk);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
  let kernelMethods = "int64_t flops();";
}

def Weft_AttentionSoftmaxOp : Weft_KernelOp<"attention_softmax", [Weft_Differentiable, Weft_Shardable]> {
  let summary = "softmax of each head's scores over the keys that the mask shows, 0 at the others; in place";
  let arguments = (ins Weft_Matrix:$s, I64Attr:$heads, I64Attr:$sequence, UnitAttr:$causal,
                       DefaultValuedAttr<I64Attr, "0">:$window);
  let results = (outs Weft_Matrix:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
  let kernelMethods = "int getTiedOperand(unsigned) { return 0; }";
}

def Weft_AttentionSoftmaxBackwardOp : Weft_KernelOp<"attention_softmax_backward"> {
  let summary = "p * (dp - sum of dp * p) for each head of a row; in place of dp";
  let arguments = (ins Weft_Matrix:$dp, Weft_Matrix:$p, I64Attr:$heads, I64Attr:$sequence);
  let results = (outs Weft_Matrix:$ds);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
  let kernelMethods = "int getTiedOperand(unsigned) { return 0; }";
}

def Weft_AttentionValuesOp : Weft_KernelOp<"attention_values", [Weft_Differentiable, Weft_ShardableInRuns]> {
  let summary = "p v, head by head";
  let description = [{
    `qkv` is one matrix with all three, or with `kv_heads` it is v. flops: 2 * rows * sequence * d with d the columns of
    the result.
  }];
  let arguments = !con((ins Weft_Matrix:$p, Weft_Matrix:$qkv), Weft_HeadAttributes);
  let results = (outs Weft_Matrix:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
  let kernelMethods = "int64_t flops();";
}

def Weft_AttentionValuesBackwardOp : Weft_KernelOp<"attention_values_backward"> {
  let summary = "gradients of attention_values' inputs; of qkv with zeros in the columns of q and k";
  let arguments = !con((ins Weft_Matrix:$dout, Weft_Matrix:$p, Weft_Matrix:$qkv), Weft_HeadAttributes);
  let results = (outs Weft_Matrix:$dp, Weft_Matrix:$dqkv);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
  let kernelMethods = "int64_t flops();";
}

def Weft_DropoutMaskOp : Weft_KernelOp<"dropout_mask", [Weft_Differentiable, Weft_Shardable]> {
  let summary = "dropout that also returns a byte per element for the derivative: 1 if the element is kept";
  let description = "It has the attributes of weft.dropout and drops the same elements.";
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
