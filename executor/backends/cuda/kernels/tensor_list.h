// Casts, copies, scalings and constants of many tensors in one launch.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_TENSOR_LIST_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_TENSOR_LIST_H_

#include "executor/backends/cuda/kernels/tensor_table.h"
#include "executor/backends/cuda/kernels/types.h"

namespace weft::exec::cuda {

struct ListedTensor {
  int64_t elements = 0;
  // Unused by kFill.
  Array from;
  // May be `from`.
  Array to;
};

enum class ListOp {
  // to = from
  kCast,
  // to = from, of one type. Keeps all bits, even those of a NaN.
  kCopy,
  // to = from * *scale
  kScale,
  // to = value
  kFill,
};

struct TensorList {
  ListOp op = ListOp::kCast;
  TensorTable<ListedTensor> table;
  // Type of all arrays, or kNone if they differ.
  Type type = Type::kNone;
  bool in_double = false;
  double value = 0;
  const double* scale = nullptr;
};
Outcome Launch(const TensorList& args, void* stream);

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_TENSOR_LIST_H_
