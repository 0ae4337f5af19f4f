// Kernels of the forward pass. docs/kernels.md defines each.
#ifndef WEFT_IR_FORWARD_OPS_TD_
#define WEFT_IR_FORWARD_OPS_TD_

include "ir/kernel_ops.td"

def Weft_LoadTokensOp : Weft_KernelOp<"load_tokens", [Weft_ShardableByElement]> {
  let summary = "token ids of the microbatch";
  let description = [{
    With `masked` > 0 the tokens are the input of a masked language model: at `masked` positions of every sequence
    stands `mask_token`, a random token of `vocabulary`, or the original token (docs/kernels.md says which).
  }];
  let arguments = Weft_MaskingAttributes;
  let results = (outs Weft_Tokens:$tokens);
  let assemblyFormat = "attr-dict `:` type($tokens)";
  let hasVerifier = 1;
}

def Weft_LoadTargetsOp : Weft_KernelOp<"load_targets", [Weft_ShardableByElement]> {
  let summary = "the next token at every position, or -1 for a position that has no loss";
  let description = "With `masked` > 0: the token at every masked position, -1 at all others.";
  let arguments = Weft_MaskingAttributes;
  let results = (outs Weft_Tokens:$targets);
  let assemblyFormat = "attr-dict `:` type($targets)";
  let hasVerifier = 1;
}

def Weft_EmbeddingOp : Weft_KernelOp<"embedding", [Weft_Differentiable, Weft_Shardable]> {
  let summary = "the row of the table for each token";
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
  let summary = "op(a) op(b) + bias + init, where op transposes or does nothing";
  let description = [{
    `a` is [m, k], or [k, m] with `transpose_a`; `b` is [k, n], or [n, k] with `transpose_b`. The op takes 2mnk flops.
    With `tf32`, `a` and `b` are f32 and are rounded to TF32 before they are multiplied; so are the operands of the
    products that compute the gradients.
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
  let summary = "(x - mean) * rstd * gamma + beta for every row; also returns mean and rstd";
  let arguments = (ins Weft_Matrix:$x, Weft_Vector:$gamma, Weft_Vector:$beta, F64Attr:$epsilon);
  let results = (outs Weft_Matrix:$result, Weft_Vector:$mean, Weft_Vector:$rstd);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Weft_AttentionOp : Weft_KernelOp<"attention", [Weft_Differentiable, Weft_ShardableInRuns]> {
  let summary = "multi-head attention; also returns the log-sum-exp of every row of scores";
  let description = [{
    The inputs are one matrix `qkv`, which holds q, k and v side by side, or q (as the operand `qkv`), k and v. In the
    second case k and v have `kv_heads` heads, and each serves heads / kv_heads heads of q. With a `window`, a query
    attends to at most `window` keys, of which its own is the last.

    The op has two products of size [S, d/h] by [d/h, S] for each head and sequence, where S is `sequence`, h is `heads`
    and q has d columns. These are 4 * rows * S * d flops, for any number of heads of k and v. A causal mask leaves the
    fraction (S + 1) / 2S of them necessary, and a window of W < S keys the fraction W (2S - W + 1) / 2S^2.
  }];
  let arguments = !con((ins Weft_Matrix:$qkv, Variadic<Weft_Matrix>:$kv), Weft_AttentionAttributes);
  let results = (outs Weft_Matrix:$result, Weft_Matrix:$lse);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
  let kernelMethods = "int64_t flops(); int64_t maskedFlops();";
}

def Weft_DropoutOp : Weft_KernelOp<"dropout", [Weft_Differentiable, Weft_Shardable]> {
  let summary = "zeroes elements with probability p (`dropout`) and scales the others by 1/(1-p)";
  let description = [{
    If x is a rank's part of a matrix, `column_shift` and `whole_columns` say which columns of the whole matrix it has,
    and `row_shift` and `sequence` which rows of whole sequences. For images, `sequence` is the number of rows of one
    sample. With `heads`, x is [rows, heads * sequence], and the op drops the same attention probabilities as
    weft.attention; `column_shift` and `whole_columns` then count heads.
  }];
  let arguments = !con((ins Weft_Matrix:$x), Weft_DropoutAttributes);
  let results = (outs Weft_Matrix:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Weft_CrossEntropyOp : Weft_KernelOp<"cross_entropy", [Weft_Differentiable, Weft_Shardable]> {
  let summary = "writes the microbatch's weighted loss into its element of `losses`";
  let description = [{
    The op updates `losses` in place. The backward differentiates the sum of the elements of `losses`, so it takes no
    gradient of `losses` as an operand.
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
