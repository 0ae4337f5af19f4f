// Softmax of the scores of attention as ops of its own, and its backward.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_PAIRS_SOFTMAX_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_PAIRS_SOFTMAX_H_

#include "executor/backends/cuda/kernels/heads.h"
#include "executor/backends/cuda/kernels/types.h"

namespace weft::exec::cuda {

// p (may be s) = softmax over the keys that query i sees: with `causal` those up to i, at most the last `window` of
// them if it is not 0; 0 at the others.
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
