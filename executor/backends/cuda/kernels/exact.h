// EXACT_ACCUMULATE and EXACT_ROUND (executor/numerics/exact192_limbs.h).
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_EXACT_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_EXACT_H_

#include "executor/backends/cuda/kernels/tensor_table.h"
#include "executor/backends/cuda/kernels/types.h"
#include "executor/numerics/exact192_limbs.h"

namespace weft::exec::cuda {

// accumulators[i] += x[i], for x of any floating-point type. With `fresh`, the accumulators start at 0.
struct ExactTerms {
  Array x;
  int64_t elements = 0;
  bool fresh = false;
  Exact192* accumulators = nullptr;
};
Outcome Launch(const ExactTerms& args, void* stream);

struct ExactResult {
  const Exact192* accumulators = nullptr;
  int64_t elements = 0;
  Array y;
};
Outcome Launch(const ExactResult& args, void* stream);

// accumulators[i] = value.
struct ExactConstant {
  Exact192 value;
  int64_t elements = 0;
  Exact192* accumulators = nullptr;
};
Outcome Launch(const ExactConstant& args, void* stream);

// ExactTensors runs one of the operations above on all tensors of a table. The table splits each tensor into tiles of
// kExactTile elements.
inline constexpr int64_t kExactTile = 512;
inline int64_t ExactTilesOf(int64_t elements) { return (elements + kExactTile - 1) / kExactTile; }
struct ExactTensor {
  int64_t elements = 0;
  Exact192* accumulators = nullptr;
  // The tensor's terms, or its result.
  Array x;
};
enum class ExactOp { kAccumulate, kRound, kConstant };
struct ExactTensors {
  ExactOp op = ExactOp::kConstant;
  TensorTable<ExactTensor> table;
  Exact192 value = {};
};
Outcome Launch(const ExactTensors& args, void* stream);

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_EXACT_H_
