// Fused attention of the CUDA backend: what it asks of cuDNN. What that does not have runs on kernels of our own.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_ATTENTION_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_ATTENTION_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "executor/backends/cuda/idle_memory.h"
#include "executor/backends/cuda/kernels/types.h"
#include "executor/backends/cuda/matmul.h"

namespace weft::exec::cuda {

// Where heads lie in a matrix whose rows are positions of sequences, one sequence after the other: column c of head h
// at position s of sequence b is data[(b * sequence + s) * row_stride + h * head_stride + c].
struct HeadLayout {
  int64_t row_stride = 0;
  int64_t head_stride = 0;

  bool operator==(const HeadLayout&) const = default;
};

// o = softmax(scale q kᵀ + mask) v per head; heads / kv_heads neighbouring heads of q share one of k and v. With
// `causal` query i sees keys j <= i, with `window` > 0 only those with j > i - window. Layouts of gradients are those
// of what they are gradients of; do has that of o.
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
  // Written by the forward, read by the backward.
  void* o = nullptr;
  // fp32 [batch, heads, sequence]: natural logarithm of the sum of exp of each row of scaled, masked scores.
  float* statistics = nullptr;
  // The backward's.
  const void* gradient_o = nullptr;
  void* gradient_q = nullptr;
  void* gradient_k = nullptr;
  void* gradient_v = nullptr;
};

class FusedAttention {
 public:
  virtual ~FusedAttention() = default;

  // Whether it does this shape. The answer changes only where a Prepare fails: the shape is refused from then on.
  virtual bool Has(const AttentionShape& shape, bool backward) = 0;
  // Why it does not, in its own words; "" if it does, or says nothing.
  virtual std::string Refusal(const AttentionShape& /*shape*/, bool /*backward*/) { return ""; }
  // Announces a shape that it has before the first step: plans are made here, not in a step.
  virtual absl::Status Prepare(const AttentionShape& shape, bool backward) = 0;
  // After the last Prepare of all that use the library: allocates what plans work in, and runs each once in `memory`,
  // on the device's default stream.
  virtual absl::Status Settle(IdleMemory& memory) = 0;
  // Enqueue. Deterministic: the same bits each time.
  virtual absl::Status Forward(const AttentionShape& shape, const AttentionPointers& pointers,
                               const StreamRef& stream) = 0;
  virtual absl::Status Backward(const AttentionShape& shape, const AttentionPointers& pointers,
                                const StreamRef& stream) = 0;
};

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_ATTENTION_H_
