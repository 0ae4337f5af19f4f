// Kernels that replace ops whose columns are sharded over ranks. docs/kernels.md defines each,
// docs/tensor_parallelism.md states where they are inserted.
#ifndef WEFT_IR_SPLIT_OPS_TD_
#define WEFT_IR_SPLIT_OPS_TD_

include "ir/kernel_ops.td"

def Weft_BiasAddOp : Weft_KernelOp<"bias_add", [Weft_Differentiable]> {
  let summary = "adds a vector to every row: the bias of a product whose sums a collective completes";
  let arguments = (ins Weft_Matrix:$x, Weft_Vector:$bias);
  let results = (outs Weft_Matrix:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Weft_CrossEntropyPartialOp : Weft_KernelOp<"cross_entropy_partial"> {
  let summary = "log-sum-exp of the rank's columns of logits, and the logit of the target if the rank has its column";
  let description = "`vocabulary` counts columns of the whole matrix; `column_shift` is the rank's first one.";
  let arguments = (ins Weft_Matrix:$logits, Weft_Tokens:$targets, I64Attr:$vocabulary,
                       Weft_Shift:$column_shift);
  let results = (outs Weft_Matrix:$partial);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Weft_CrossEntropyCombineOp : Weft_KernelOp<"cross_entropy_combine", [Weft_Differentiable]> {
  let summary = "log-sum-exp of whole rows, from the log-sum-exps of their parts, and the microbatch's weighted loss";
  let description = [{
    `logits` are the rank's columns, which begin at column `logits_shift` of the whole matrix; only the derivative reads
    them. The op updates `losses` in place, as weft.cross_entropy does.
  }];
  let arguments = (ins Weft_Matrix:$partials, Weft_Tokens:$targets, Weft_Matrix:$logits, Weft_F64Vector:$losses,
                       F64Attr:$loss_weight, I64Attr:$logits_vocabulary, Weft_Shift:$logits_shift);
  let results = (outs Weft_Vector:$lse, Weft_F64Vector:$new_losses);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
  let kernelMethods = [{
    int getTiedOperand(unsigned result) { return result == 1 ? 3 : -1; }
    bool isStepInput(unsigned index) { return index < 2; }
    int64_t bytes();
  }];
}

def Weft_NormPartialOp : Weft_KernelOp<"norm_partial"> {
  let summary = "statistics of the rank's columns of every row";
  let arguments = (ins Weft_Matrix:$x, UnitAttr:$root_mean_square);
  let results = (outs Weft_Matrix:$partial);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Weft_NormCombineOp : Weft_KernelOp<"norm_combine"> {
  let summary = "rstd of whole rows, and unless `root_mean_square` their mean, from the statistics of equal parts";
  let arguments = (ins Weft_Matrix:$partials, F64Attr:$epsilon, I64Attr:$whole_columns, UnitAttr:$root_mean_square);
  let results = (outs Optional<Weft_Vector>:$mean, Weft_Vector:$rstd);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Weft_NormApplyOp : Weft_KernelOp<"norm_apply", [AttrSizedOperandSegments, Weft_Differentiable]> {
  let summary = "normalizes the rank's columns with statistics of whole rows";
  let description = [{
    Without `beta` and `mean` the op is a root mean square norm. Its derivative needs two sums over each whole row, or
    one for a root mean square norm; the ranks of `over` complete them with a collective. `row_columns` is the number of
    columns of a whole row.
  }];
  let arguments = (ins Weft_Matrix:$x, Weft_Vector:$gamma, Optional<Weft_Vector>:$beta, Optional<Weft_Vector>:$mean,
                       Weft_Vector:$rstd, UnitAttr:$root_mean_square, I64Attr:$row_columns, DictionaryAttr:$over,
                       I64Attr:$members, StrAttr:$algorithm);
  let results = (outs Weft_Matrix:$result);
  let assemblyFormat = [{
    $x `,` $gamma (`beta` $beta^)? (`mean` $mean^)? `rstd` $rstd attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def Weft_NormBackwardPartialOp : Weft_KernelOp<"norm_backward_partial"> {
  let summary = "the sums over the rank's columns that the derivative of a norm needs";
  let arguments = (ins Weft_Matrix:$dy, Weft_Matrix:$x, Weft_Vector:$gamma, Optional<Weft_Vector>:$mean,
                       Weft_Vector:$rstd, UnitAttr:$root_mean_square);
  let results = (outs Weft_Matrix:$sums);
  let assemblyFormat = [{
    $dy `,` $x `,` $gamma (`mean` $mean^)? `rstd` $rstd attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def Weft_NormBackwardApplyOp
    : Weft_AccumulatingOp<"norm_backward_apply", [AttrSizedOperandSegments]> {
  let summary = "gradient of the rank's columns of a norm's input, from sums over whole rows";
  let arguments = (ins Weft_Matrix:$dy, Weft_Matrix:$x, Weft_Vector:$gamma, Optional<Weft_Vector>:$mean,
                       Weft_Vector:$rstd, Weft_Matrix:$sums, Optional<Weft_Matrix>:$init, I64Attr:$whole_columns,
                       UnitAttr:$root_mean_square);
  let results = (outs Weft_Matrix:$dx);
  let assemblyFormat = [{
    $dy `,` $x `,` $gamma (`mean` $mean^)? `rstd` $rstd `,` $sums (`init` $init^)? attr-dict
    `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

#endif  // WEFT_IR_SPLIT_OPS_TD_
