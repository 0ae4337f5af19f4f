// Softmax of the scores for attention as separate ops, and its backward kernel.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_PAIRS_SOFTMAX_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_PAIRS_SOFTMAX_H_

#include "executor/backends/cuda/kernels/heads.h"
#include "executor/backends/cuda/kernels/types.h"

namespace weft::exec::cuda {

// p (may be s) = softmax over the keys that query i sees, and 0 at other keys. With `causal`, query i sees the keys up
// to i, and if `window` is not 0 only the last `window` of them.
struct PairsSoftmax {
  HeadShape shape;
  bool in_double = false, causal = false;
  int64_t window = 0;
  Array s, p;
};
Outcome Launch(const PairsSoftmax& args, void* stream);

// ds (may be dp) = p * (dp - sum of dp * p).
struct PairsSoftmaxGradient {
  HeadShape shape;
  bool in_double = false;
  Array dp, p, ds;
};
Outcome Launch(const PairsSoftmaxGradient& args, void* stream);

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_PAIRS_SOFTMAX_H_
