// Which of cuDNN's engines runs a shape of attention, and in how many calls: the deterministic backward needs memory
// for all scores, so beyond a limit it takes some sequences or heads at a time.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_CUDNN_ATTENTION_CHOICE_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_CUDNN_ATTENTION_CHOICE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "executor/backends/cuda/attention.h"
#include "executor/backends/cuda/cudnn_attention_graph.h"
#include "executor/backends/cuda/cudnn_graph.h"

namespace weft::exec::cuda {

// Of workspace for one call.
inline constexpr int64_t kAttentionWorkspaceLimit = int64_t{2} << 30;
// The limit where so many bytes of the device are free, with the arena already taken: others need some of them too.
// Smaller slices cost a little time and change no bit; too large a workspace is the end of the run.
int64_t AttentionWorkspaceLimit(int64_t free_bytes);

// Why cuDNN is not asked for this shape; empty if it is. What it then has no engine for, Choose says.
std::string UnsupportedAttention(const AttentionShape& shape);

// Slices that a shape falls into evenly, most at a time first: whole sequences with all heads, then one sequence with
// some of its heads of k and v.
std::vector<AttentionSlice> AttentionSlices(const AttentionShape& shape);

// A graph for the slice that is run again and again, and the engine that runs it.
struct AttentionForwardChoice {
  AttentionSlice slice;
  AttentionForwardGraph call;
  CudnnEngine engine;
  // What else there is, should that one not compile.
  std::vector<CudnnEngine> others;
};
struct AttentionBackwardChoice {
  AttentionSlice slice;
  AttentionBackwardGraph call;
  CudnnEngine engine;
  // What else there is, should that one not compile.
  std::vector<CudnnEngine> others;
};

// The largest slice with a deterministic engine whose workspace is within the limit, else the smallest slice if it is
// within kAttentionWorkspaceLimit. Unimplemented, with the reason, if there is none: kernels of our own are for that.
absl::StatusOr<std::unique_ptr<AttentionForwardChoice>> ChooseAttentionForward(
    const Cudnn* cudnn, const AttentionShape& shape, const CudnnTarget& target,
    int64_t workspace_limit = kAttentionWorkspaceLimit);
absl::StatusOr<std::unique_ptr<AttentionBackwardChoice>> ChooseAttentionBackward(
    const Cudnn* cudnn, const AttentionShape& shape, const CudnnTarget& target,
    int64_t workspace_limit = kAttentionWorkspaceLimit);

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_CUDNN_ATTENTION_CHOICE_H_
