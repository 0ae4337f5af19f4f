#include "executor/backends/cuda/cudnn_attention_choice.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/util/status.h"

namespace weft::exec::cuda {
namespace {

// Alignment in elements that the vector loads of cuDNN's kernels need: 16 bytes of two-byte elements.
constexpr int64_t kVector = 8;
constexpr int64_t kMaxHeadSize = 256;
// These limits keep all sizes far below 2^63. cuDNN's own indices overflow earlier.
constexpr int64_t kMaxRows = int64_t{1} << 20, kMaxBatch = int64_t{1} << 20, kMaxHeads = int64_t{1} << 12;
constexpr int64_t kMaxStride = int64_t{1} << 30;

bool Vectors(const HeadLayout& layout) {
  return layout.row_stride % kVector == 0 && layout.head_stride % kVector == 0 && layout.row_stride > 0 &&
         layout.head_stride > 0 && layout.row_stride < kMaxStride && layout.head_stride < kMaxStride;
}

// Returns the first slice whose graph (from `make`) has an engine within `workspace_limit`. If there is none and the
// limit is below kAttentionWorkspaceLimit, returns the smallest slice if it fits into that constant. So the free memory
// of a device may change the number of calls, which changes no bit. It never changes whether cuDNN runs a shape.
template <typename Choice, typename MakeGraph>
absl::StatusOr<std::unique_ptr<Choice>> Choose(const AttentionShape& shape, const CudnnTarget& target,
                                               int64_t workspace_limit, const MakeGraph& make) {
  if (const std::string reason = UnsupportedAttention(shape); !reason.empty()) {
    return absl::UnimplementedError(absl::StrCat("weft does not ask cuDNN for attention with ", reason));
  }
  absl::Status refused;
  for (const AttentionSlice& slice : AttentionSlices(shape)) {
    auto choice = std::make_unique<Choice>(Choice{slice, make(slice), {}, {}});
    WEFT_RETURN_IF_ERROR(choice->call.graph.Finish(target));
    WEFT_ASSIGN_OR_RETURN(std::vector<CudnnEngine> engines, choice->call.graph.Engines(target));
    absl::StatusOr<CudnnEngine> engine = ChooseCudnnEngine(std::move(engines), workspace_limit, 0, &choice->others);
    if (engine.ok()) {
      choice->engine = *std::move(engine);
      return choice;
    }
    refused = engine.status();
  }
  if (workspace_limit >= kAttentionWorkspaceLimit) return refused;
  std::vector<AttentionSlice> slices = AttentionSlices(shape);
  auto choice = std::make_unique<Choice>(Choice{slices.back(), make(slices.back()), {}, {}});
  WEFT_RETURN_IF_ERROR(choice->call.graph.Finish(target));
  WEFT_ASSIGN_OR_RETURN(std::vector<CudnnEngine> engines, choice->call.graph.Engines(target));
  WEFT_ASSIGN_OR_RETURN(choice->engine,
                        ChooseCudnnEngine(std::move(engines), kAttentionWorkspaceLimit, 0, &choice->others));
  return choice;
}

}  // namespace

int64_t AttentionWorkspaceLimit(int64_t free_bytes) {
  constexpr int64_t kMin = int64_t{64} << 20;
  return std::clamp(free_bytes / 2, kMin, kAttentionWorkspaceLimit);
}

std::string UnsupportedAttention(const AttentionShape& shape) {
  if (shape.type != Type::kBf16 && shape.type != Type::kFp16) {
    return "values that are neither bf16 nor fp16: cuDNN's kernels multiply only bf16 and fp16";
  }
  if (shape.window > 0 && !shape.causal) return absl::StrCat("a window of ", shape.window, " keys and no causal mask");
  if (shape.head_size <= 0 || shape.head_size % kVector != 0 || shape.head_size > kMaxHeadSize) {
    return absl::StrCat("heads of ", shape.head_size, " columns: cuDNN's kernels take multiples of ", kVector,
                        " up to ", kMaxHeadSize);
  }
  if (shape.kv_heads <= 0 || shape.heads <= 0 || shape.heads % shape.kv_heads != 0) {
    return absl::StrCat(shape.heads, " heads of q over ", shape.kv_heads, " of k and v");
  }
  if (!Vectors(shape.q) || !Vectors(shape.k) || !Vectors(shape.v) || !Vectors(shape.o)) {
    return absl::StrCat("heads that do not begin at multiples of ", 2 * kVector, " bytes");
  }
  for (const HeadLayout& layout : {shape.q, shape.k, shape.v, shape.o}) {
    if (layout.row_stride < shape.head_size || layout.head_stride < shape.head_size) return "heads that overlap";
  }
  if (shape.sequence <= 0 || shape.sequence > kMaxRows || shape.batch <= 0 || shape.batch > kMaxBatch ||
      shape.heads > kMaxHeads) {
    return absl::StrCat(shape.batch, " sequences of ", shape.sequence, " rows and ", shape.heads, " heads");
  }
  return "";
}

std::vector<AttentionSlice> AttentionSlices(const AttentionShape& shape) {
  std::vector<AttentionSlice> slices;
  for (int64_t batch = shape.batch; batch >= 1; --batch) {
    if (shape.batch % batch == 0) slices.push_back({batch, shape.kv_heads});
  }
  for (int64_t heads = shape.kv_heads - 1; heads >= 1; --heads) {
    if (shape.kv_heads % heads == 0) slices.push_back({1, heads});
  }
  return slices;
}

absl::StatusOr<std::unique_ptr<AttentionForwardChoice>> ChooseAttentionForward(const Cudnn* cudnn,
                                                                               const AttentionShape& shape,
                                                                               const CudnnTarget& target,
                                                                               int64_t workspace_limit) {
  return Choose<AttentionForwardChoice>(shape, target, workspace_limit, [&](const AttentionSlice& slice) {
    return MakeAttentionForwardGraph(cudnn, shape, slice);
  });
}

absl::StatusOr<std::unique_ptr<AttentionBackwardChoice>> ChooseAttentionBackward(const Cudnn* cudnn,
                                                                                 const AttentionShape& shape,
                                                                                 const CudnnTarget& target,
                                                                                 int64_t workspace_limit) {
  return Choose<AttentionBackwardChoice>(shape, target, workspace_limit, [&](const AttentionSlice& slice) {
    return MakeAttentionBackwardGraph(cudnn, shape, slice);
  });
}

}  // namespace weft::exec::cuda
