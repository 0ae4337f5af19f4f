#include "planner/choose_recompute.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/util/status.h"

namespace weft::planner {
namespace {

int64_t Highest(const PlannedArenas& arenas) {
  return arenas.bytes.empty() ? 0 : *std::max_element(arenas.bytes.begin(), arenas.bytes.end());
}

}  // namespace

std::vector<std::vector<int32_t>> RecomputableLayers(const std::vector<std::vector<int>>& placement, int64_t ranks,
                                                     const std::vector<int32_t>& layers_per_stage) {
  std::vector<std::vector<int32_t>> layers(ranks);
  for (const std::vector<int>& lane : placement) {
    int32_t layer = 0;
    for (size_t stage = 0; stage < layers_per_stage.size(); ++stage) {
      for (const int32_t end = layer + layers_per_stage[stage]; layer < end; ++layer) {
        const bool loss = stage + 1 == layers_per_stage.size() && layer + 1 == end;
        if (!loss) layers[lane[stage]].push_back(layer);
      }
    }
  }
  for (std::vector<int32_t>& of_rank : layers) std::sort(of_rank.begin(), of_rank.end());
  return layers;
}

Recompute RecomputeFirst(const std::vector<std::vector<int32_t>>& layers, const std::vector<int>& counts) {
  std::set<int32_t> chosen;
  for (size_t rank = 0; rank < counts.size(); ++rank) {
    chosen.insert(layers[rank].begin(), layers[rank].begin() + counts[rank]);
  }
  Recompute recompute;
  if (chosen.empty()) return recompute;
  recompute.set_mode(Recompute::LAYERS);
  recompute.mutable_layers()->Add(chosen.begin(), chosen.end());
  return recompute;
}

absl::StatusOr<RecomputeDecision> ChooseInterval(const PlanArenas& plan) {
  Recompute tried;
  tried.set_mode(Recompute::INTERVAL);
  RecomputeDecision best;
  int64_t lowest = 0;
  size_t longest = 1;
  for (size_t interval = 1; interval <= longest; ++interval) {
    tried.set_interval(static_cast<int32_t>(interval));
    WEFT_ASSIGN_OR_RETURN(const PlannedArenas arenas, plan(tried));
    for (const std::vector<int32_t>& layers : arenas.layers) longest = std::max(longest, layers.size());
    const int64_t bytes = Highest(arenas);
    if (interval > 1 && bytes >= lowest) continue;
    lowest = bytes;
    best.recompute = tried;
  }
  best.note = absl::StrCat("plan.recompute.interval = ", best.recompute.interval(),
                           " needs the least memory of the intervals 1 to ", longest, ": ", lowest,
                           " planned bytes on the fullest rank");
  return best;
}

absl::StatusOr<RecomputeDecision> ChooseFit(const PlanArenas& plan, int64_t capacity) {
  WEFT_ASSIGN_OR_RETURN(const PlannedArenas none, plan(Recompute()));
  const size_t ranks = none.bytes.size();
  // A rank that does not fit even if it recomputes all layers needs no search. However, recomputing one layer less may
  // take less memory, because a layer needs memory while it is recomputed. So a rank counts as hopeless only if it
  // lacks more than an eighth of the capacity.
  std::vector<bool> hopeless(ranks);
  if (Highest(none) > capacity) {
    std::vector<int> all;
    for (const std::vector<int32_t>& layers : none.layers) all.push_back(static_cast<int>(layers.size()));
    WEFT_ASSIGN_OR_RETURN(const PlannedArenas least, plan(RecomputeFirst(none.layers, all)));
    for (size_t rank = 0; rank < ranks; ++rank) hopeless[rank] = least.bytes[rank] - capacity > capacity / 8;
  }
  // For each rank: `low` is a number of layers that is too few (-1: none is known to be too few). `high` is a number
  // that is enough, or the number of all layers.
  std::vector<int> low(ranks), high(ranks);
  for (size_t rank = 0; rank < ranks; ++rank) {
    const bool fits = none.bytes[rank] <= capacity;
    low[rank] = fits ? -1 : 0;
    high[rank] = fits ? 0 : static_cast<int>(none.layers[rank].size());
    if (hopeless[rank]) low[rank] = high[rank];
  }
  while (true) {
    bool searching = false;
    std::vector<int> middle = high;
    for (size_t rank = 0; rank < ranks; ++rank) {
      if (high[rank] - low[rank] <= 1) continue;
      middle[rank] = low[rank] + (high[rank] - low[rank]) / 2;
      searching = true;
    }
    if (!searching) break;
    WEFT_ASSIGN_OR_RETURN(const PlannedArenas arenas, plan(RecomputeFirst(none.layers, middle)));
    for (size_t rank = 0; rank < ranks; ++rank) {
      if (high[rank] - low[rank] <= 1) continue;
      (arenas.bytes[rank] <= capacity ? high : low)[rank] = middle[rank];
    }
  }
  RecomputeDecision decision;
  decision.recompute = RecomputeFirst(none.layers, high);
  std::vector<std::string> counts;
  for (size_t rank = 0; rank < ranks; ++rank) counts.push_back(absl::StrCat(high[rank], "/", none.layers[rank].size()));
  decision.note = absl::StrCat("plan.recompute.mode = FIT: recomputed layers on each rank of the pipeline: ",
                               absl::StrJoin(counts, ", "));
  return decision;
}

}  // namespace weft::planner
