// Interface for the fused attention of cuDNN in the CUDA backend. Shapes that cuDNN does not support run on the
// backend's own kernels.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_ATTENTION_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_ATTENTION_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "executor/backends/cuda/idle_memory.h"
#include "executor/backends/cuda/kernels/types.h"
#include "executor/backends/cuda/matmul.h"

namespace weft::exec::cuda {

// Position of heads in a matrix whose rows are positions of sequences, one sequence after the other: column c of head h
// at position s of sequence b is data[(b * sequence + s) * row_stride + h * head_stride + c].
struct HeadLayout {
  int64_t row_stride = 0;
  int64_t head_stride = 0;

  bool operator==(const HeadLayout&) const = default;
};

// Computes o = softmax(scale q kᵀ + mask) v per head; heads / kv_heads neighboring heads of q share one head of k and
// v. With `causal`, query i sees keys j <= i; with `window` > 0, only keys with j > i - window. A gradient has the
// layout of its tensor.
struct AttentionShape {
  Type type = Type::kNone;
  int64_t batch = 0;
  int64_t heads = 0, kv_heads = 0;
  int64_t sequence = 0;
  int64_t head_size = 0;
  HeadLayout q, k, v, o;
  bool causal = false;
  int64_t window = 0;
  double scale = 1;

  bool operator==(const AttentionShape&) const = default;
};

struct AttentionPointers {
  const void* q = nullptr;
  const void* k = nullptr;
  const void* v = nullptr;
  // Written by Forward, read by Backward.
  void* o = nullptr;
  // fp32 [batch, heads, sequence]: natural logarithm of the sum of exp of each row of scaled, masked scores.
  float* statistics = nullptr;
  // Used by Backward only.
  const void* gradient_o = nullptr;
  void* gradient_q = nullptr;
  void* gradient_k = nullptr;
  void* gradient_v = nullptr;
};

class FusedAttention {
 public:
  virtual ~FusedAttention() = default;

  // True if the library supports this shape. The answer changes only if a Prepare fails: from then on the shape is
  // refused.
  virtual bool Has(const AttentionShape& shape, bool backward) = 0;
  // Returns why the library refuses the shape, in the library's own words; "" if it supports the shape or gives no
  // reason.
  virtual std::string Refusal(const AttentionShape& /*shape*/, bool /*backward*/) { return ""; }
  // Announces a supported shape before the first step, so that its plan is made here and not during a step.
  virtual absl::Status Prepare(const AttentionShape& shape, bool backward) = 0;
  // Called after the last Prepare of all users of the library. Allocates the workspace of the plans and runs each plan
  // once in `memory`, on the device's default stream.
  virtual absl::Status Settle(IdleMemory& memory) = 0;
  // Forward and Backward enqueue the work on `stream`. They are deterministic: every run gives the same bits.
  virtual absl::Status Forward(const AttentionShape& shape, const AttentionPointers& pointers,
                               const StreamRef& stream) = 0;
  virtual absl::Status Backward(const AttentionShape& shape, const AttentionPointers& pointers,
                                const StreamRef& stream) = 0;
};

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_ATTENTION_H_
