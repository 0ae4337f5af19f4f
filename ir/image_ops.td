// Kernels of image models: convolutions, group norms, and the inputs for times and noise. docs/kernels.md defines each.
//
// Activations are matrices [rows, columns]: a row per position of each sample; channels are columns.
#ifndef WEFT_IR_IMAGE_OPS_TD_
#define WEFT_IR_IMAGE_OPS_TD_

include "ir/kernel_ops.td"

// A float tensor [outputs, inputs, side, side], or [outputs, inputs, 1] for a convolution over single positions.
def Weft_Filter : Type<And<[StaticShapeTensorOf<[Weft_Float]>.predicate, HasAnyRankOfPred<[3, 4]>]>,
                       "statically shaped filter of floats", "::mlir::RankedTensorType">;

// Attributes that a convolution and its derivatives share. Height and width are those of the convolution's input.
defvar Weft_ConvolutionAttributes = (ins I64Attr:$height, I64Attr:$width, I64Attr:$kernel_size, I64Attr:$stride);

// --- Sources --------------------------------------------------------------------------------------------------------

def Weft_LoadTimestepsOp : Weft_KernelOp<"load_timesteps", [Weft_ShardableByElement]> {
  let summary = "the noise level (timestep) of every sample";
  let arguments = (ins I64Attr:$diffusion_steps);
  let results = (outs Weft_Tokens:$timesteps);
  let assemblyFormat = "attr-dict `:` type($timesteps)";
  let hasVerifier = 1;
}

def Weft_LoadNoisyImageOp : Weft_KernelOp<"load_noisy_image", [Weft_ShardableByElement]> {
  let summary = "the microbatch's images, each with noise of its sample's level";
  let arguments = (ins I64Attr:$sequence, I64Attr:$diffusion_steps, UnitAttr:$cosine_schedule);
  let results = (outs Weft_Matrix:$image);
  let assemblyFormat = "attr-dict `:` type($image)";
  let hasVerifier = 1;
}

def Weft_LoadNoiseOp : Weft_KernelOp<"load_noise", [Weft_ShardableByElement]> {
  let summary = "the noise that load_noisy_image adds, before it is scaled";
  let arguments = (ins I64Attr:$sequence);
  let results = (outs Weft_Matrix:$noise);
  let assemblyFormat = "attr-dict `:` type($noise)";
  let hasVerifier = 1;
}

def Weft_TimestepEmbeddingOp : Weft_KernelOp<"timestep_embedding", [Weft_ShardableByElement]> {
  let summary = "cosines and sines of every timestep at falling frequencies";
  let arguments = (ins Weft_Tokens:$timesteps, F64Attr:$timestep_scale);
  let results = (outs Weft_Matrix:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

// --- Convolution ----------------------------------------------------------------------------------------------------

def Weft_Conv2dOp : Weft_KernelOp<"conv2d", [Weft_Differentiable, Weft_ShardableInRuns]> {
  let summary = "two-dimensional convolution (cross-correlation) with a bias";
  let description = [{
    `x` is [samples * height * width, inputs] and `weight` is [outputs, inputs, kernel_size, kernel_size]. Each side of
    the image is padded with kernel_size / 2 zeros. The result has ceil(height / stride) x ceil(width / stride)
    positions per sample. The op takes 2 * (rows of the result) * outputs * inputs * kernel_size^2 flops.
  }];
  let arguments = !con((ins Weft_Matrix:$x, Weft_Filter:$weight, Optional<Weft_Vector>:$bias),
                       Weft_ConvolutionAttributes);
  let results = (outs Weft_Matrix:$result);
  let assemblyFormat = "$x `,` $weight (`bias` $bias^)? attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
  let kernelMethods = "int64_t flops();";
}

def Weft_Conv2dBackwardOp : Weft_AccumulatingOp<"conv2d_backward"> {
  let summary = "gradient of conv2d's input";
  let arguments = !con((ins Weft_Matrix:$dy, Weft_Filter:$weight, Optional<Weft_Matrix>:$init),
                       Weft_ConvolutionAttributes);
  let results = (outs Weft_Matrix:$dx);
  let assemblyFormat = "$dy `,` $weight (`init` $init^)? attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
  let extraClassDeclaration = kernelMethods # "int64_t flops();";
}

def Weft_Conv2dBackwardWeightOp : Weft_AccumulatingOp<"conv2d_backward_weight"> {
  let summary = "gradient of conv2d's weight";
  let arguments = !con((ins Weft_Matrix:$dy, Weft_Matrix:$x, Optional<Weft_Filter>:$init), Weft_ConvolutionAttributes);
  let results = (outs Weft_Filter:$dweight);
  let assemblyFormat = "$dy `,` $x (`init` $init^)? attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
  let extraClassDeclaration = kernelMethods # "int64_t flops();";
}

// --- Norm and activation --------------------------------------------------------------------------------------------

def Weft_GroupNormOp : Weft_KernelOp<"group_norm", [Weft_Differentiable, Weft_Shardable]> {
  let summary = "normalizes each of `groups` runs of columns over all rows of a sample";
  let arguments = (ins Weft_Matrix:$x, Weft_Vector:$gamma, Weft_Vector:$beta, I64Attr:$groups, I64Attr:$sequence,
                       F64Attr:$epsilon);
  let results = (outs Weft_Matrix:$result, Weft_Matrix:$mean, Weft_Matrix:$rstd);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Weft_GroupNormBackwardOp : Weft_AccumulatingOp<"group_norm_backward"> {
  let summary = "gradient of group_norm's input";
  let arguments = (ins Weft_Matrix:$dy, Weft_Matrix:$x, Weft_Vector:$gamma, Weft_Matrix:$mean, Weft_Matrix:$rstd,
                       Optional<Weft_Matrix>:$init, I64Attr:$groups, I64Attr:$sequence);
  let results = (outs Weft_Matrix:$dx);
  let assemblyFormat = [{
    $dy `,` $x `,` $gamma `,` $mean `,` $rstd (`init` $init^)? attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def Weft_GroupNormBackwardWeightOp : Weft_KernelOp<"group_norm_backward_weight", [AttrSizedOperandSegments]> {
  let summary = "gradients of group_norm's gamma and beta, added to the inits if there are any";
  let arguments = (ins Weft_Matrix:$dy, Weft_Matrix:$x, Weft_Matrix:$mean, Weft_Matrix:$rstd,
                       Optional<Weft_Vector>:$init_gamma, Optional<Weft_Vector>:$init_beta, I64Attr:$groups,
                       I64Attr:$sequence);
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

// --- Columns and positions ------------------------------------------------------------------------------------------

def Weft_ConcatColumnsOp : Weft_KernelOp<"concat_columns", [Weft_Differentiable, Weft_ShardableInRuns]> {
  let summary = "the columns of a, then those of b";
  let arguments = (ins Weft_Matrix:$a, Weft_Matrix:$b);
  let results = (outs Weft_Matrix:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Weft_SliceColumnsOp : Weft_KernelOp<"slice_columns", [Weft_Differentiable]> {
  let summary = "the columns of x from `first_column` on";
  let description = [{
    With `groups`, x holds `groups` matrices one below the other, which is how an all-gather leaves its members' parts.
    The op then takes its columns from these matrices side by side. `column_shift` is added to `first_column`.

    If columns are gathered or scattered (docs/tensor_parallelism.md), the derivative depends on `over`, an axis of
    `members` ranks. With `part` (the rank's own part of the gathered columns), the result has all columns, and the
    gradient of `part` is the rank's columns of the result's gradient. Without `part`, the result is the rank's part of
    x, and the gradient of x is gathered.
  }];
  let arguments = (ins Weft_Matrix:$x, Optional<Weft_Matrix>:$part, I64Attr:$first_column,
                       DefaultValuedAttr<I64Attr, "0">:$groups, Weft_Shift:$column_shift,
                       OptionalAttr<DictionaryAttr>:$over, DefaultValuedAttr<I64Attr, "0">:$members,
                       OptionalAttr<StrAttr>:$algorithm);
  let builders = [
    // A slice of an unsharded x.
    OpBuilder<(ins "::mlir::Type":$type, "::mlir::Value":$x, "::mlir::IntegerAttr":$first_column), [{
      build($_builder, $_state, type, x, ::mlir::Value(), first_column, $_builder.getI64IntegerAttr(0),
            $_builder.getDictionaryAttr({}), ::mlir::DictionaryAttr(), $_builder.getI64IntegerAttr(0),
            ::mlir::StringAttr());
    }]>,
  ];
  let results = (outs Weft_Matrix:$result);
  let assemblyFormat = "$x (`part` $part^)? attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
  let kernelMethods = [{
    // Only the part of x that the result has is read.
    int64_t bytes();
    bool isStepInput(unsigned index) { return index == 0; }
  }];
}

def Weft_UpsampleOp : Weft_KernelOp<"upsample", [Weft_Differentiable, Weft_ShardableByElement]> {
  let summary = "copies every position to a square of four positions";
  let arguments = (ins Weft_Matrix:$x, I64Attr:$height, I64Attr:$width);
  let results = (outs Weft_Matrix:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Weft_UpsampleBackwardOp : Weft_KernelOp<"upsample_backward"> {
  let summary = "sums over squares of four positions";
  let arguments = (ins Weft_Matrix:$dy, I64Attr:$height, I64Attr:$width);
  let results = (outs Weft_Matrix:$dx);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

// --- A row per sample -----------------------------------------------------------------------------------------------

def Weft_AddPerSampleOp : Weft_KernelOp<"add_per_sample", [Weft_Differentiable, Weft_Shardable]> {
  let summary = "adds the sample's row of e to each of its `sequence` rows of x";
  let arguments = (ins Weft_Matrix:$x, Weft_Matrix:$e, I64Attr:$sequence);
  let results = (outs Weft_Matrix:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Weft_SumPerSampleOp : Weft_KernelOp<"sum_per_sample"> {
  let summary = "sums the `sequence` rows of each sample";
  let arguments = (ins Weft_Matrix:$dy, I64Attr:$sequence);
  let results = (outs Weft_Matrix:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Weft_ScaleShiftOp : Weft_KernelOp<"scale_shift", [Weft_Differentiable, Weft_ShardableInRuns]> {
  let summary = "x * (1 + scale) + shift, with a row [scale, shift] of e for each sample";
  let arguments = (ins Weft_Matrix:$x, Weft_Matrix:$e, I64Attr:$sequence);
  let results = (outs Weft_Matrix:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Weft_ScaleShiftBackwardOp : Weft_KernelOp<"scale_shift_backward"> {
  let summary = "gradient of scale_shift's x";
  let arguments = (ins Weft_Matrix:$dy, Weft_Matrix:$e, I64Attr:$sequence);
  let results = (outs Weft_Matrix:$dx);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Weft_ScaleShiftBackwardSampleOp : Weft_KernelOp<"scale_shift_backward_sample"> {
  let summary = "gradient of scale_shift's e";
  let arguments = (ins Weft_Matrix:$dy, Weft_Matrix:$x, I64Attr:$sequence);
  let results = (outs Weft_Matrix:$de);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

// --- Loss -----------------------------------------------------------------------------------------------------------

def Weft_SquaredErrorOp : Weft_KernelOp<"squared_error", [Weft_Differentiable, Weft_Shardable]> {
  let summary = "writes the microbatch's weighted sum of squared differences into its element of `losses`";
  let description = [{
    The op updates `losses` in place. The backward differentiates the sum of the elements of `losses`, so it takes no
    gradient of `losses` as an operand.
  }];
  let arguments = (ins Weft_Matrix:$prediction, Weft_Matrix:$target, Weft_F64Vector:$losses, I64Attr:$sequence,
                       F64Attr:$loss_weight);
  let results = (outs Weft_F64Vector:$new_losses);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
  let kernelMethods = [{
    int getTiedOperand(unsigned result) { return 2; }
    bool isStepInput(unsigned index) { return index != 2; }
  }];
}

def Weft_SquaredErrorBackwardOp : Weft_KernelOp<"squared_error_backward"> {
  let summary = "gradient of the prediction for the sum of squared_error's losses, times element 0 of `scale`";
  let arguments = (ins Weft_Matrix:$prediction, Weft_Matrix:$target, Optional<Weft_F64Vector>:$scale,
                       F64Attr:$loss_weight);
  let results = (outs Weft_Matrix:$dprediction);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

#endif  // WEFT_IR_IMAGE_OPS_TD_
