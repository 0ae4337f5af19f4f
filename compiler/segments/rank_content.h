// Which pipe rank holds what: stages, tensors, and the gradient buffers that go with them (rule P9).
//
// Let R be all pipe ranks that hold a stage with a use of a tensor. A rank of R has one PARAM (MASTER, moments) buffer
// of it, and GRAD (or GRAD_ACCUMULATOR) buffers for these of its uses:
// - one use only: that use. Its gradients are summed over R (and the data replicas) as those of its stage.
// - R is one rank: all of them; its grad_norm adds them in model order.
// - every use has one holder, all are different, and ascend in model order: its own. The sum over R, in order of its
//   members, is the sum over uses (TIED_SYNC).
// - otherwise: all of them, also those that the rank computes nothing of and that stay zero. Each is summed over R and
//   the data replicas (TIED_SYNC); then every rank's grad_norm adds them in model order.
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
  // Uses that the rank has a gradient buffer of, ascending. The sum over them ends up in GRAD of the first.
  std::vector<int32_t> uses;
  // Of these, the uses in stages that the rank holds itself.
  std::vector<int32_t> computed;
  // Writes the tensor's element of LOCAL_NORMS: the lowest rank that holds the first stage with a use of it.
  bool writes_norm = false;
};

struct RankContent {
  // Ascending; of all lanes.
  std::vector<int32_t> stages;
  // Ascending by tensor.
  std::vector<HeldTensor> tensors;
};

// How the gradients of the uses of a tensor come together; the cases above.
enum class TiedSum { kOneUse, kOneRank, kOverRanks, kEveryUse };

struct TensorHolders {
  // R, ascending. Empty for a tensor without uses.
  std::vector<int32_t> ranks;
  TiedSum sum = TiedSum::kOneUse;
};

struct Holdings {
  // By pipe rank.
  std::vector<RankContent> ranks;
  // By tensor.
  std::vector<TensorHolders> tensors;
};

constexpr int kMaximumPipeRank = (1 << 20) - 1;

// Uses of each tensor in one stage, ascending. A use is in one stage only.
using StageUses = std::map<int32_t, std::vector<int32_t>>;

// placement[lane][stage] = pipe rank, as PipelineSchedule has it. `ranks` has 0 to the largest, some perhaps without a
// stage; ranks above that hold nothing either. InvalidArgument if a lane does not place every stage, if there is none,
// or if a rank is below 0 or above kMaximumPipeRank.
absl::StatusOr<Holdings> HoldingsOf(absl::Span<const std::vector<int>> placement, absl::Span<const StageUses> uses);

// The placement of as many stages as ranks in order: rank i holds stage i.
std::vector<std::vector<int>> OneStagePerRank(int stages);

}  // namespace weft

#endif  // WEFT_COMPILER_SEGMENTS_RANK_CONTENT_H_
