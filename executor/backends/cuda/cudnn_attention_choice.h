// Chooses cuDNN's engine for a shape of attention, and the number of calls: the deterministic backward needs memory for
// all scores, so beyond a limit a call takes only some sequences or heads.
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

// Maximum bytes of workspace for one call.
inline constexpr int64_t kAttentionWorkspaceLimit = int64_t{2} << 30;
// Returns the limit of the workspace if `free_bytes` are free on the device after the arena is allocated. Other users
// need some of these bytes too. Smaller slices cost a little time and change no bit; too large a workspace ends the
// run.
int64_t AttentionWorkspaceLimit(int64_t free_bytes);

// Returns why cuDNN is never used for this shape; empty if it may be used. Even then cuDNN may have no engine, which
// ChooseAttention* reports.
std::string UnsupportedAttention(const AttentionShape& shape);

// Returns slices that divide a shape evenly, largest first: whole sequences with all heads, then one sequence with some
// of its heads of k and v.
std::vector<AttentionSlice> AttentionSlices(const AttentionShape& shape);

// The graph of a slice and the engine that runs it. The graph runs once for each slice.
struct AttentionForwardChoice {
  AttentionSlice slice;
  AttentionForwardGraph call;
  CudnnEngine engine;
  // Other engines, in case `engine` does not compile.
  std::vector<CudnnEngine> others;
};
struct AttentionBackwardChoice {
  AttentionSlice slice;
  AttentionBackwardGraph call;
  CudnnEngine engine;
  // Other engines, in case `engine` does not compile.
  std::vector<CudnnEngine> others;
};

// Return the largest slice with a deterministic engine whose workspace is within the limit. If there is none, return
// the smallest slice, provided that it is within kAttentionWorkspaceLimit. Otherwise return Unimplemented with the
// reason; the backend's own kernels then run the shape.
absl::StatusOr<std::unique_ptr<AttentionForwardChoice>> ChooseAttentionForward(
    const Cudnn* cudnn, const AttentionShape& shape, const CudnnTarget& target,
    int64_t workspace_limit = kAttentionWorkspaceLimit);
absl::StatusOr<std::unique_ptr<AttentionBackwardChoice>> ChooseAttentionBackward(
    const Cudnn* cudnn, const AttentionShape& shape, const CudnnTarget& target,
    int64_t workspace_limit = kAttentionWorkspaceLimit);

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_CUDNN_ATTENTION_CHOICE_H_
