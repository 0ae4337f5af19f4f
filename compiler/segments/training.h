// The settings of recipe and precision that the passes need. They are stored as the attribute `weft.training` of a
// module:
//
//   module attributes {weft.training = {accumulation = "in_order", clip_norm = 1.0 : f64, grads = f32, master = f32,
//       moments = f32, optimizer = "adamw", beta1 = 0.9 : f64, beta2 = 0.95 : f64, epsilon = 1.0e-8 : f64}}
//
// or `optimizer = "sgd", momentum = 0.9 : f64`. An asynchronous program has the unit attribute `asynchronous`. Loss
// scaling adds `loss_scale = 1024.0 : f64`, and a dynamic scale adds `growth_interval = 2000 : i32`. The unit attribute
// `stochastic_rounding` is set if recipe.weight_rounding asks for it. Weight decay is per tensor, on weft.tensor.
#ifndef WEFT_COMPILER_SEGMENTS_TRAINING_H_
#define WEFT_COMPILER_SEGMENTS_TRAINING_H_

#include <cstdint>

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "proto/types.pb.h"

namespace weft {

struct Training {
  AccumulationMode accumulation = IN_ORDER;
  // 0 = no clipping.
  double clip_norm = 0;
  // Element types of gradients, master weights and moments.
  mlir::Type grads;
  mlir::Type master;
  mlir::Type moments;
  bool adamw = true;
  double beta1 = 0;
  double beta2 = 0;
  double epsilon = 0;
  // SGD; 0 = no momentum buffer.
  double momentum = 0;
  // Loss scaling (rule P11): the fixed factor, or, if growth_interval is set, the first factor of a dynamic scale; 0 =
  // none.
  double loss_scale = 0;
  int32_t growth_interval = 0;
  bool scaled() const { return loss_scale > 0; }
  bool dynamic() const { return growth_interval > 0; }
  // Rule P14: the optimizer always has its own copy of the weights, and there are no norms.
  bool asynchronous = false;
  // Weights are rounded to half precision stochastically (docs/kernels.md).
  bool stochastic_rounding = false;
};

void SetTraining(mlir::ModuleOp module, const Training& training);

// Emits an error at the module if the attribute is missing or a field of it is wrong.
mlir::FailureOr<Training> GetTraining(mlir::ModuleOp module);

// The IR's element type of a dtype. TypeOfDType returns null for DTYPE_UNSPECIFIED and for TF32, which nothing is
// stored in. DTypeOfType returns DTYPE_UNSPECIFIED for a type without a dtype.
mlir::Type TypeOfDType(mlir::MLIRContext* context, DType dtype);
DType DTypeOfType(mlir::Type type);

}  // namespace weft

#endif  // WEFT_COMPILER_SEGMENTS_TRAINING_H_
