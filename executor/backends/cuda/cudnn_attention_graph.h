// Attention, forward and deterministic backward, as graphs of cuDNN operations. cuDNN matches such a graph with its
// fused kernels. cuDNN 9.19 also has one operation for all of attention, but that operation has no causal mask.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_CUDNN_ATTENTION_GRAPH_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_CUDNN_ATTENTION_GRAPH_H_

#include <cstdint>

#include "executor/backends/cuda/attention.h"
#include "executor/backends/cuda/cudnn_graph.h"

namespace weft::exec::cuda {

// Returns cuDNN's type, e.g. CUDNN_DATA_BFLOAT16 for kBf16. Only for bf16 and fp16.
cudnnDataType_t CudnnType(Type type);

// The part of a shape that one call computes: whole sequences, and heads of k and v with all heads of q that share
// them. The tensors keep the strides of the whole shape.
struct AttentionSlice {
  int64_t batch = 0;
  int64_t kv_heads = 0;
};

// True if the window leaves out some keys that come before a query.
bool HasWindow(const AttentionShape& shape);

// A graph that computes o and lse from q, k, v. `scale`, `masked` (0 without a causal mask) and `window` (0 without a
// window) are inputs that hold one float on the host.
struct AttentionForwardGraph {
  CudnnGraph graph;
  CudnnGraph::Tensor q, k, v, o, lse, scale, masked, window;
};
AttentionForwardGraph MakeAttentionForwardGraph(const Cudnn* cudnn, const AttentionShape& shape,
                                                const AttentionSlice& slice);

// A graph that computes dq, dk, dv from do and the inputs and outputs of the forward, with the same bits in every run.
// `sums` is memory for one float per row and head of the slice; `one` is the number 1.
struct AttentionBackwardGraph {
  CudnnGraph graph;
  CudnnGraph::Tensor q, k, v, o, lse, d_o, dq, dk, dv, scale, one, sums, masked, window;
};
AttentionBackwardGraph MakeAttentionBackwardGraph(const Cudnn* cudnn, const AttentionShape& shape,
                                                  const AttentionSlice& slice);

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_CUDNN_ATTENTION_GRAPH_H_
