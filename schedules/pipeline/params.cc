#include "schedules/pipeline/params.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"

namespace weft {
namespace {

absl::Status CheckParamCosts(const ScheduleParams& params) {
  const SlotCosts& costs = params.costs;
  if (absl::Status s = CheckRange("forward", costs.forward, 1, kMaxSlotCost); !s.ok()) return s;
  if (absl::Status s = CheckRange("backward", costs.backward, 1, kMaxSlotCost); !s.ok()) return s;
  if (absl::Status s = CheckRange("weight", costs.weight, 0, costs.backward); !s.ok()) return s;
  if (absl::Status s = CheckRange("pair", costs.pair, 0, 2 * kMaxSlotCost); !s.ok()) return s;
  if (absl::Status s = CheckRange("p2p", costs.p2p, 0, kMaxSlotCost); !s.ok()) return s;
  const int64_t both = costs.forward + costs.backward;
  const int64_t most = (int64_t{1} << 62) / (int64_t{params.ranks} * params.microbatches);
  if (std::max(both, costs.pair) > most) {
    return absl::InvalidArgumentError(
        absl::StrCat(costs.pair > both ? "pair = " : "forward + backward = ", std::max(both, costs.pair), " for ",
                     params.ranks, " ranks and ", params.microbatches, " microbatches; allowed: 2 to ", most));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckRange(absl::string_view name, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, " = ", value, "; allowed: ", low, " to ", high,
                                                 ", nearest valid: ", std::clamp(value, low, high)));
}

absl::Status CheckParams(const ScheduleParams& params, int stages_per_rank) {
  const int64_t most = kMaxSlots / 3;
  if (absl::Status s = CheckRange("ranks", params.ranks, 1, most); !s.ok()) return s;
  for (const auto& [name, value, high, wave] : {std::tuple<absl::string_view, int64_t, int64_t, absl::string_view>{
                                                    "virtual_stages", params.virtual_stages, kMaxStagesPerRank, ""},
                                                {"waves", params.waves, kMaxStagesPerRank / 2, ", a wave is 2"}}) {
    // 0 lets the schedule choose.
    if (value == 0) continue;
    if (absl::Status s = CheckRange(name, value, 1, high); !s.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(s.message(), " (a rank has at most ", kMaxStagesPerRank, " stages", wave, ")"));
    }
  }
  const int64_t per_rank =
      std::max({int64_t{stages_per_rank}, int64_t{params.virtual_stages}, int64_t{2} * params.waves});
  if (absl::Status s = CheckRange("microbatches", params.microbatches, 1, most); !s.ok()) return s;
  // The error suggests reducing the larger of the numbers of ranks and microbatches.
  if (params.microbatches > most / per_rank / params.ranks) {
    const bool ranks = params.ranks > params.microbatches;
    const int64_t others = ranks ? params.microbatches : params.ranks;
    const int64_t nearest = most / per_rank / others;
    return absl::InvalidArgumentError(absl::StrCat(
        "ranks = ", params.ranks, ", microbatches = ", params.microbatches, " and ", per_rank,
        " stages per rank have up to ", int64_t{3} * params.ranks * params.microbatches * per_rank,
        " slots; allowed: at most ", kMaxSlots, ", nearest valid: ",
        nearest < 1 ? "fewer stages per rank" : absl::StrCat(ranks ? "ranks = " : "microbatches = ", nearest)));
  }
  for (const auto& [name, value] : {std::pair<absl::string_view, int64_t>{"lanes", params.lanes},
                                    {"limit", params.limit},
                                    {"group", params.group}}) {
    if (absl::Status s = CheckRange(name, value, 0, most); !s.ok()) return s;
  }
  return CheckParamCosts(params);
}

std::vector<std::vector<int>> LinearPlacement(int stages) { return LoopedPlacement(stages, stages); }

std::vector<std::vector<int>> LoopedPlacement(int ranks, int stages) {
  std::vector<int> lane(stages);
  for (int stage = 0; stage < stages; ++stage) lane[stage] = stage % ranks;
  return {lane};
}

std::vector<std::vector<int>> SnakePlacement(int ranks, int stages) {
  std::vector<int> lane(stages);
  for (int stage = 0; stage < stages; ++stage) {
    lane[stage] = stage / ranks % 2 == 0 ? stage % ranks : ranks - 1 - stage % ranks;
  }
  return {lane};
}

std::vector<int> ReversedLane(const std::vector<int>& lane, int ranks) {
  std::vector<int> reversed = lane;
  for (int& rank : reversed) rank = ranks - 1 - rank;
  return reversed;
}

}  // namespace weft
