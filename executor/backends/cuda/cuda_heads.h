// Where q, k and v lie in the tensors of attention steps, for kernels and libraries. Internal to the CUDA backend.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_CUDA_HEADS_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_CUDA_HEADS_H_

#include <cstdint>

#include "executor/backends/cuda/cuda_call.h"
#include "executor/backends/cuda/kernels/heads.h"

namespace weft::exec::cuda {

// Returns all of `view`: heads of `head_step` columns each, one after the other.
inline HeadPart PartOf(const TensorView& view, int64_t head_step) {
  return {ArrayOf(view), Columns(view), 0, head_step};
}

// Returns the part of a tensor of q, k and v that holds q (index 0), k (1) or v (2).
inline HeadPart PartOfQkv(const Call& call, const TensorView& qkv, int index) {
  const int64_t width = Columns(qkv) / 3, head = width / call.attributes().heads();
  if (call.attributes().qkv_by_head()) return {ArrayOf(qkv), Columns(qkv), index * head, 3 * head};
  return {ArrayOf(qkv), Columns(qkv), index * width, head};
}

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_CUDA_HEADS_H_
