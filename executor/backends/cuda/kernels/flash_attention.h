// ATTENTION and its backward kernel for shapes that cuDNN does not support: any width of a head, any type, dropout.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_FLASH_ATTENTION_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_FLASH_ATTENTION_H_

#include "executor/backends/cuda/kernels/dropout.h"
#include "executor/backends/cuda/kernels/heads.h"
#include "executor/backends/cuda/kernels/types.h"

namespace weft::exec::cuda {

struct AttentionProblem {
  HeadShape shape;
  bool in_double = false;
  // If true, query i sees the keys up to i, or only the last `window` of them if `window` is not 0.
  bool causal = false;
  int64_t window = 0;
  double scale = 1;
  HeadPart q, k, v, o;
  // Log-sum-exp of the scores, [sequences, heads, sequence].
  Array lse;
  // Threshold 0 = no dropout.
  DropoutKey dropout;
  Samples samples;
  // Number of the first head among all heads of the sample, which ranks may split.
  int64_t first_head = 0;
};

// Runs on tensor cores (tensor_attention.cu) if q, k, v and all results have one half-precision type and are aligned to
// 16 bytes, and heads have up to 128 columns in whole eights; else by LaunchPlain (flash_attention.cu).
// AttentionGradient runs on tensor cores only if the device also has enough shared memory.
struct AttentionForward {
  AttentionProblem problem;
};
Outcome Launch(const AttentionForward& args, void* stream);
Outcome LaunchPlain(const AttentionForward& args, void* stream);
bool OnTensorCores(const AttentionForward& args);

struct AttentionGradient {
  AttentionProblem problem;
  HeadPart d_o, dq, dk, dv;
};
Outcome Launch(const AttentionGradient& args, void* stream);
Outcome LaunchPlain(const AttentionGradient& args, void* stream);
bool OnTensorCores(const AttentionGradient& args);

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_FLASH_ATTENTION_H_
