#include "compiler/segments/rank_content.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"

namespace weft {

namespace {

// The ranks and uses of one tensor over all stages.
struct TensorPlaces {
  std::set<int32_t> ranks;
  // Maps a use (uses are numbered in model order) to its stage and to the ranks that hold that stage.
  std::map<int32_t, std::pair<int32_t, std::set<int32_t>>> uses;
};

TiedSum SumOf(const TensorPlaces& places) {
  if (places.uses.size() <= 1) return TiedSum::kOneUse;
  if (places.ranks.size() <= 1) return TiedSum::kOneRank;
  int32_t last = -1;
  for (const auto& [use, place] : places.uses) {
    const std::set<int32_t>& holders = place.second;
    if (holders.size() != 1 || *holders.begin() <= last) return TiedSum::kEveryUse;
    last = *holders.begin();
  }
  return TiedSum::kOverRanks;
}

HeldTensor Held(int32_t tensor, const TensorPlaces& places, TiedSum sum, int32_t rank) {
  HeldTensor held;
  held.tensor = tensor;
  for (const auto& [use, place] : places.uses) {
    const bool computes = place.second.count(rank) > 0;
    if (computes) held.computed.push_back(use);
    if (computes || sum == TiedSum::kEveryUse) held.uses.push_back(use);
  }
  // Uses are numbered in model order, so the first use is in the first stage.
  held.writes_norm = *places.uses.begin()->second.second.begin() == rank;
  return held;
}

}  // namespace

absl::StatusOr<Holdings> HoldingsOf(absl::Span<const std::vector<int>> placement, absl::Span<const StageUses> uses) {
  const size_t stages = uses.size();
  std::vector<std::set<int32_t>> holders(stages);
  int32_t last = -1;
  for (size_t lane = 0; lane < placement.size(); ++lane) {
    if (placement[lane].size() != stages) {
      return absl::InvalidArgumentError(absl::StrCat("placement: lane ", lane, " places ", placement[lane].size(),
                                                     " stages; the model has ", stages));
    }
    for (size_t stage = 0; stage < stages; ++stage) {
      const int rank = placement[lane][stage];
      if (rank < 0 || rank > kMaxPipeRank) {
        return absl::InvalidArgumentError(absl::StrCat("placement: lane ", lane, " puts stage ", stage, " on rank ",
                                                       rank, "; allowed: 0 to ", kMaxPipeRank));
      }
      holders[stage].insert(rank);
      last = std::max<int32_t>(last, rank);
    }
  }
  if (last < 0) return absl::InvalidArgumentError("placement: no rank holds a stage");
  Holdings holdings;
  holdings.ranks.resize(int64_t{last} + 1);
  std::map<int32_t, TensorPlaces> tensors;
  for (size_t stage = 0; stage < stages; ++stage) {
    for (int32_t rank : holders[stage]) holdings.ranks[rank].stages.push_back(static_cast<int32_t>(stage));
    for (const auto& [tensor, used] : uses[stage]) {
      TensorPlaces& places = tensors[tensor];
      places.ranks.insert(holders[stage].begin(), holders[stage].end());
      for (int32_t use : used) places.uses[use] = {static_cast<int32_t>(stage), holders[stage]};
    }
  }
  for (const auto& [tensor, places] : tensors) {
    if (tensor >= static_cast<int64_t>(holdings.tensors.size())) holdings.tensors.resize(tensor + 1);
    TensorHolders& of_tensor = holdings.tensors[tensor];
    of_tensor.ranks.assign(places.ranks.begin(), places.ranks.end());
    of_tensor.sum = SumOf(places);
    for (int32_t rank : places.ranks) {
      holdings.ranks[rank].tensors.push_back(Held(tensor, places, of_tensor.sum, rank));
    }
  }
  return holdings;
}

std::vector<std::vector<int>> OneStagePerRank(int stages) {
  std::vector<std::vector<int>> placement(1);
  for (int stage = 0; stage < stages; ++stage) placement[0].push_back(stage);
  return placement;
}

}  // namespace weft
