// Finds what each pipe rank holds: stages, tensors, and the gradient buffers that go with them (rule P9).
//
// Let R be all pipe ranks that hold a stage with a use of a tensor. Each rank of R has one PARAM buffer of the tensor
// (and one MASTER and one of each moment). It has GRAD (or GRAD_ACCUMULATOR) buffers for these uses: - If there is only
// one use: that use. Its gradients are summed over R (and the data replicas) with those of its stage. - If R is one
// rank: all uses. The rank's grad_norm adds them in model order. - If every use has one holder, all holders differ and
// ascend in model order: the rank's own use. The sum over R, in
//   the order of its members, is the sum over uses (TIED_SYNC).
// - Otherwise: all uses, also those that the rank does not compute and that stay zero. Each is summed over R and the
//   data replicas (TIED_SYNC); then every rank's grad_norm adds them in model order.
#ifndef WEFT_COMPILER_SEGMENTS_RANK_CONTENT_H_
#define WEFT_COMPILER_SEGMENTS_RANK_CONTENT_H_

#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace weft {

struct HeldTensor {
  int32_t tensor = 0;
  // Uses for which the rank has a gradient buffer, ascending. Their sum is stored in the GRAD buffer of the first use.
  std::vector<int32_t> uses;
  // The uses among `uses` that are in stages of the rank itself.
  std::vector<int32_t> computed;
  // True if the rank writes the tensor's element of LOCAL_NORMS. This is the lowest rank that holds the first stage
  // with a use of the tensor.
  bool writes_norm = false;
};

struct RankContent {
  // The rank's stages in all lanes, ascending.
  std::vector<int32_t> stages;
  // The rank's tensors, ascending.
  std::vector<HeldTensor> tensors;
};

// How the gradients of a tensor's uses are summed: the four cases above.
enum class TiedSum { kOneUse, kOneRank, kOverRanks, kEveryUse };

struct TensorHolders {
  // The pipe ranks that hold a stage with a use of the tensor (R above), ascending. Empty for a tensor without uses.
  std::vector<int32_t> ranks;
  TiedSum sum = TiedSum::kOneUse;
};

struct Holdings {
  // Indexed by pipe rank.
  std::vector<RankContent> ranks;
  // Indexed by tensor.
  std::vector<TensorHolders> tensors;
};

constexpr int kMaxPipeRank = (1 << 20) - 1;

// Uses of each tensor in one stage, ascending. A use is in one stage only.
using StageUses = std::map<int32_t, std::vector<int32_t>>;

// Finds what each rank holds. placement[lane][stage] = pipe rank, as PipelineSchedule has it. Holdings.ranks covers all
// ranks from 0 to the largest rank placed; some of them may hold no stage. InvalidArgument if there is no lane, if a
// lane does not place every stage, or if a rank is below 0 or above kMaxPipeRank.
absl::StatusOr<Holdings> HoldingsOf(absl::Span<const std::vector<int>> placement, absl::Span<const StageUses> uses);

// The placement of `stages` stages on the same number of ranks: rank i holds stage i.
std::vector<std::vector<int>> OneStagePerRank(int stages);

}  // namespace weft

#endif  // WEFT_COMPILER_SEGMENTS_RANK_CONTENT_H_
