// Sums for collectives in device memory, with the same bits as executor/numerics/sum_parts.h.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_SUM_PARTS_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_SUM_PARTS_H_

#include "executor/backends/cuda/kernels/types.h"

namespace weft::exec::cuda {

// Largest number of parts of one sum. Their addresses are arguments of the kernel.
inline constexpr int kMaxParts = 256;

// destination[i] = parts[0][i] + parts[1][i] + ... in this order. All have one type, which must have a sum. A part may
// be the destination.
struct SumParts {
  Type type = Type::kNone;
  int64_t elements = 0;
  const void* const* parts = nullptr;
  // Number of parts, from 1 to kMaxParts.
  int count = 0;
  void* destination = nullptr;
};
Outcome Launch(const SumParts& args, void* stream);

// destination[i] = values[i], or destination[i] + values[i] with `accumulate`. The sum is computed in double if either
// type is fp64, otherwise in float, and rounded once. If only the destination is EXACT192, each value is rounded to the
// grid of that type; if both arrays are EXACT192, the sum is exact.
struct AddValues {
  Array values;
  int64_t elements = 0;
  bool accumulate = false;
  Array destination;
};
Outcome Launch(const AddValues& args, void* stream);

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_SUM_PARTS_H_
