// Products of attention as separate ops: scores, weighted sums of values, and their backward kernels.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_ATTENTION_OPS_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_ATTENTION_OPS_H_

#include "executor/backends/cuda/kernels/heads.h"
#include "executor/backends/cuda/kernels/types.h"

namespace weft::exec::cuda {

// `pairs` is [rows, heads * sequence]: for each query and head, one number per key. Below, `group` is the number of
// heads of q that share one head of k.
//
// pairs[i, h, j] = factor * sum of queries[i, h, c] * keys[j, h / group, c] over the columns c of a head.
struct HeadPairs {
  HeadShape shape;
  bool in_double = false;
  HeadPart queries, keys;
  double factor = 1;
  HeadPart pairs;
};
Outcome Launch(const HeadPairs& args, void* stream);

// result[i, h, c] = factor * sum of pairs[i, h, j] * keys[j, h / group, c] over keys j, with `group` as in HeadPairs.
struct HeadSums {
  HeadShape shape;
  bool in_double = false;
  HeadPart pairs, keys;
  double factor = 1;
  HeadPart result;
};
Outcome Launch(const HeadSums& args, void* stream);

// result[j, g, c] = factor * sum of pairs[i, h, j] * queries[i, h, c] over the heads h of q that share head g of k,
// then over queries i.
struct GroupSums {
  HeadShape shape;
  bool in_double = false;
  HeadPart pairs, queries;
  double factor = 1;
  HeadPart result;
};
Outcome Launch(const GroupSums& args, void* stream);

// Zeros the columns of `heads` heads.
struct ClearHeads {
  HeadShape shape;
  int64_t heads = 0;
  HeadPart part;
};
Outcome Launch(const ClearHeads& args, void* stream);

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_ATTENTION_OPS_H_
