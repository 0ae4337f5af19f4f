// Attention, forward and deterministic backward, as graphs of cuDNN operations. cuDNN matches such a graph with its
// fused kernels; the single operation of cuDNN 9.19 has no causal mask.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_CUDNN_ATTENTION_GRAPH_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_CUDNN_ATTENTION_GRAPH_H_

#include <cstdint>

#include "executor/backends/cuda/attention.h"
#include "executor/backends/cuda/cudnn_graph.h"

namespace weft::exec::cuda {

// CUDNN_DATA_BFLOAT16 of kBf16; only for bf16 and fp16.
cudnnDataType_t CudnnType(Type type);

// A part of a shape that one call does: whole sequences, and heads of k and v with all heads of q that share them.
// Layouts are those of the whole.
struct AttentionSlice {
  int64_t batch = 0;
  int64_t kv_heads = 0;
};

// Whether some keys before a query's own are out of its window.
bool HasWindow(const AttentionShape& shape);

// o and lse of q, k, v. `scale`, and `masked` where there is a causal mask and `window` where there is one (else 0),
// are floats on the host.
struct AttentionForwardGraph {
  CudnnGraph graph;
  CudnnGraph::Tensor q, k, v, o, lse, scale, masked, window;
};
AttentionForwardGraph MakeAttentionForwardGraph(const Cudnn* cudnn, const AttentionShape& shape,
                                                const AttentionSlice& slice);

// dq, dk, dv of do and what the forward had and made; the same bits each time. `sums` is memory for a float for each
// row and head of the slice, `one` is 1.
struct AttentionBackwardGraph {
  CudnnGraph graph;
  CudnnGraph::Tensor q, k, v, o, lse, d_o, dq, dk, dv, scale, one, sums, masked, window;
};
AttentionBackwardGraph MakeAttentionBackwardGraph(const Cudnn* cudnn, const AttentionShape& shape,
                                                  const AttentionSlice& slice);

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_CUDNN_ATTENTION_GRAPH_H_
