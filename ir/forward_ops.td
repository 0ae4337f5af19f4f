// Kernels of the forward pass. docs/kernels.md defines each.
#ifndef WEFT_IR_FORWARD_OPS_TD_
#define WEFT_IR_FORWARD_OPS_TD_

include "ir/kernel_ops.td"

def Weft_LoadTokensOp : Weft_KernelOp<"load_tokens", [Weft_ShardableByElement]> {
  let summary = "token ids of the microbatch";
  let description = [{
    With `masked` > 0, that many positions of every sequence hold `mask_token`, a random token of `vocabulary` or what
    they held (docs/kernels.md): the input of a masked language model.
  }];
  let arguments = Weft_MaskingAttributes;
  let results = (outs Weft_Tokens:$tokens);
  let assemblyFormat = "attr-dict `:` type($tokens)";
  let hasVerifier = 1;
}

def Weft_LoadTargetsOp : Weft_KernelOp<"load_targets", [Weft_ShardableByElement]> {
  let summary = "the next token at every position, -1 where it does not count";
  let description = "With `masked` > 0: the token at every masked position, -1 at all others.";
  let arguments = Weft_MaskingAttributes;
  let results = (outs Weft_Tokens:$targets);
  let assemblyFormat = "attr-dict `:` type($targets)";
  let hasVerifier = 1;
}

def Weft_EmbeddingOp : Weft_KernelOp<"embedding", [Weft_Differentiable, Weft_Shardable]> {
  let summary = "rows of a table";
  let arguments = (ins Weft_Tokens:$tokens, Weft_Matrix:$table, Weft_Shift:$column_shift);
  let results = (outs Weft_Matrix:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
  // Only the rows that tokens select are read, not the whole table.
  let kernelMethods = "int64_t bytes();";
}

def Weft_PositionEmbeddingOp : Weft_KernelOp<"position_embedding", [Weft_Differentiable, Weft_Shardable]> {
  let summary = "row `r mod sequence` of a table, for every row r";
  let arguments = (ins Weft_Matrix:$table, I64Attr:$sequence, Weft_Shift:$row_shift);
  let results = (outs Weft_Matrix:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
  let kernelMethods = "int64_t bytes();";
}

def Weft_AddOp : Weft_KernelOp<"add", [Weft_Differentiable, Weft_Shardable]> {
  let summary = "adds a, b and, if given, init; merges accumulator b exactly into a";
  let arguments = (ins Weft_Addend:$a, Weft_Addend:$b, Optional<Weft_FloatTensor>:$init);
  let results = (outs Weft_Addend:$result);
  let kernelMethods = [{
    bool isMerge() { return ::mlir::isa<Exact192Type>(getType().getElementType()); }
    int getTiedOperand(unsigned result) { return getInit() ? 2 : isMerge() ? 0 : -1; }
    bool isStepInput(unsigned index) { return index < 2; }
    bool accumulates() { return static_cast<bool>(getInit()); }
  }];
  let assemblyFormat = "$a `,` $b (`init` $init^)? attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Weft_MatmulOp : Weft_AccumulatingOp<"matmul", [AttrSizedOperandSegments, Weft_Differentiable, Weft_ShardableInRuns]> {
  let summary = "op(a) op(b) + bias (+ init)";
  let description = [{
    `a` is [m, k], or [k, m] with `transpose_a`; `b` is [k, n], or [n, k] with `transpose_b`; 2mnk flops. With `tf32`,
    `a` and `b` are f32 and rounded to TF32 before they are multiplied; so are those of the products of its gradients.
  }];
  let arguments = (ins Weft_Matrix:$a, Weft_Matrix:$b, Optional<Weft_Vector>:$bias, Optional<Weft_Matrix>:$init,
                       UnitAttr:$transpose_a, UnitAttr:$transpose_b, UnitAttr:$tf32);
  let results = (outs Weft_Matrix:$result);
  let assemblyFormat = [{
    $a `,` $b (`bias` $bias^)? (`init` $init^)? attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = kernelMethods # [{
    int64_t flops();
    // The length of the sums.
    int64_t getInner() { return getA().getType().getDimSize(getTransposeA() ? 0 : 1); }
  }];
}

def Weft_LayerNormOp : Weft_KernelOp<"layer_norm", [Weft_Differentiable, Weft_Shardable]> {
  let summary = "(x - mean) * rstd * gamma + beta for every row, and mean and rstd";
  let arguments = (ins Weft_Matrix:$x, Weft_Vector:$gamma, Weft_Vector:$beta, F64Attr:$epsilon);
  let results = (outs Weft_Matrix:$result, Weft_Vector:$mean, Weft_Vector:$rstd);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Weft_AttentionOp : Weft_KernelOp<"attention", [Weft_Differentiable, Weft_ShardableInRuns]> {
  let summary = "multi-head attention, and the log-sum-exp of every row of scores";
  let description = [{
    Of one matrix `qkv`, or of q (in its place), k and v, where `kv_heads` heads of k and v serve heads / kv_heads heads
    of q each. With a `window`, a query sees that many keys at most, its own the last.

    flops: two products of [S, d/h] by [d/h, S] size per head and sequence, 4 * rows * S * d with d the columns of q,
    whatever the heads of k and v; a causal mask makes all but (S + 1) / 2S of it unnecessary, a window of W < S all but
    W (2S - W + 1) / 2S^2.
  }];
  let arguments = !con((ins Weft_Matrix:$qkv, Variadic<Weft_Matrix>:$kv), Weft_AttentionAttributes);
  let results = (outs Weft_Matrix:$result, Weft_Matrix:$lse);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
  let kernelMethods = "int64_t flops(); int64_t maskedFlops();";
}

def Weft_DropoutOp : Weft_KernelOp<"dropout", [Weft_Differentiable, Weft_Shardable]> {
  let summary = "zeroes elements at random, scales the others by 1/(1-p)";
  let description = [{
    Of a part of a matrix: `column_shift` and `whole_columns` say which columns of the whole they are, `row_shift` and
    `sequence` which rows of whole sequences. Of images `sequence` is the rows of one sample. With `heads` x is [rows,
    heads * sequence] and what is dropped are the probabilities that weft.attention drops: `column_shift` and
    `whole_columns` then count heads.
  }];
  let arguments = !con((ins Weft_Matrix:$x), Weft_DropoutAttributes);
  let results = (outs Weft_Matrix:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Weft_CrossEntropyOp : Weft_KernelOp<"cross_entropy", [Weft_Differentiable, Weft_Shardable]> {
  let summary = "writes the microbatch's weighted loss into its element of `losses`";
  let description = [{
    `losses` is updated in place. Its gradient is taken with respect to the sum of its elements, so none is passed in.
  }];
  let arguments = (ins Weft_Matrix:$logits, Weft_Tokens:$targets, Weft_F64Vector:$losses, I64Attr:$vocabulary,
                       F64Attr:$loss_weight);
  let results = (outs Weft_Vector:$lse, Weft_F64Vector:$new_losses);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
  let kernelMethods = [{
    int getTiedOperand(unsigned result) { return result == 1 ? 2 : -1; }
    bool isStepInput(unsigned index) { return index != 2; }
  }];
}

def Weft_CastOp : Weft_KernelOp<"cast", [Weft_Differentiable, Weft_ShardableByElement]> {
  let summary = "rounds to another type";
  let arguments = (ins Weft_FloatTensor:$x);
  let results = (outs Weft_FloatTensor:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

#endif  // WEFT_IR_FORWARD_OPS_TD_
