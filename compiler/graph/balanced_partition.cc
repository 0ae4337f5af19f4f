#include "compiler/graph/balanced_partition.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "absl/strings/str_cat.h"
#include "proto/util/status.h"

namespace weft {

namespace {

constexpr int64_t kCostLimit = int64_t{1} << 61;
// Largest stages^2 * layers^2 for which the exact dynamic program runs.
constexpr int64_t kExactWork = int64_t{1} << 30;
// Cost of layers that the devices of a stage cannot hold: above all sums of costs.
constexpr int64_t kCannotHold = std::numeric_limits<int64_t>::max();

// Cost of a stage of layers [from, to): it does not fall as `to` grows.
class StageCosts {
 public:
  StageCosts(absl::Span<const int64_t> costs, const RecomputeCosts& recompute)
      : prefix_(costs.size() + 1, 0), position_(costs.size() + 1, 0) {
    std::vector<int64_t> again;
    for (size_t i = 0; i < costs.size(); ++i) {
      prefix_[i + 1] = std::min(kCostLimit, prefix_[i] + std::min(costs[i], kCostLimit));
      if (i < recompute.layers.size() && recompute.layers[i] >= 0) again.push_back(recompute.layers[i]);
      position_[i + 1] = static_cast<int64_t>(again.size());
    }
    const int64_t count = static_cast<int64_t>(again.size());
    every_ = std::clamp<int64_t>(recompute.every, 1, std::max<int64_t>(count, 1));
    suffix_.resize(count + every_, 0);
    for (int64_t i = count - 1; i >= 0; --i) {
      suffix_[i] = std::min(kCostLimit, suffix_[i + every_] + std::min(again[i], kCostLimit));
    }
  }

  int64_t CostOf(int64_t from, int64_t to) const {
    const int64_t begin = position_[from], end = position_[to];
    // The stage recomputes every `every_`-th layer of those that can be recomputed, from its first one on. `behind` is
    // the first layer in this sequence after the end of the stage.
    const int64_t behind = begin + (end - begin + every_ - 1) / every_ * every_;
    return prefix_[to] - prefix_[from] + suffix_[begin] - suffix_[behind];
  }

 private:
  std::vector<int64_t> prefix_;
  // position_[i]: how many of the layers before i can be recomputed.
  std::vector<int64_t> position_;
  // suffix_[i]: cost of recomputing the i-th of the layers that can be recomputed, and every `every_`-th of them after
  // it.
  std::vector<int64_t> suffix_;
  int64_t every_ = 1;
};

// Costs per layer with each layer's share of the recomputation.
std::vector<int64_t> WithShares(absl::Span<const int64_t> costs, const RecomputeCosts& recompute) {
  std::vector<int64_t> shares(costs.begin(), costs.end());
  for (size_t i = 0; i < recompute.layers.size(); ++i) {
    const int64_t share = std::max<int64_t>(0, recompute.layers[i]) / std::max(1, recompute.every);
    shares[i] = std::min(shares[i], kCostLimit) + std::min(share, kCostLimit);
  }
  return shares;
}

// Costs of the stages by the kinds of their devices.
class CostsOfStages {
 public:
  // `exact`: with the costs of recomputation as they are, else with each layer's share. `mixed` is borrowed.
  CostsOfStages(const MixedStages& mixed, bool exact) : mixed_(mixed) {
    for (const KindCosts& kind : mixed.kinds) {
      kinds_.push_back(exact ? StageCosts(kind.layers, kind.recompute)
                             : StageCosts(WithShares(kind.layers, kind.recompute), {}));
    }
  }

  int32_t stages() const { return static_cast<int32_t>(mixed_.kinds_of_stage.size()); }

  // Cost of layers [from, to) as this stage: it does not fall as `to` grows.
  int64_t CostOf(int32_t stage, int64_t from, int64_t to) const {
    if (mixed_.holds != nullptr && !mixed_.holds(stage, from, to)) return kCannotHold;
    int64_t slowest = 0;
    for (const int32_t kind : mixed_.kinds_of_stage[stage]) slowest = std::max(slowest, kinds_[kind].CostOf(from, to));
    return slowest;
  }

  // The most that all layers cost on one kind of device.
  int64_t MostOfAllLayers(int64_t layers) const {
    int64_t most = 0;
    for (const StageCosts& kind : kinds_) most = std::max(most, kind.CostOf(0, layers));
    return most;
  }

  bool AllHold(absl::Span<const int32_t> counts) const {
    int64_t from = 0;
    for (int32_t stage = 0; stage < stages(); ++stage) {
      const int64_t to = from + counts[stage];
      if (!mixed_.holds(stage, from, to)) return false;
      from = to;
    }
    return true;
  }

 private:
  const MixedStages& mixed_;
  std::vector<StageCosts> kinds_;
};

// True if `cost`, inserted into the descending list `rest`, makes a lexicographically smaller list than `best`.
bool IsBetter(int64_t cost, absl::Span<const int64_t> rest, absl::Span<const int64_t> best) {
  bool used = false;
  size_t next = 0;
  for (int64_t old : best) {
    const bool take = !used && (next == rest.size() || cost >= rest[next]);
    const int64_t value = take ? cost : rest[next++];
    used |= take;
    if (value != old) return value < old;
  }
  return false;
}

std::vector<int32_t> SmallestSortedCosts(const CostsOfStages& costs, int64_t layers, int32_t stages) {
  // best[i]: costs of the stages of the best cut of layers [i, layers) into s + 1 stages, descending.
  std::vector<std::vector<int64_t>> best(layers), before;
  std::vector<std::vector<int32_t>> ends(stages, std::vector<int32_t>(layers, static_cast<int32_t>(layers)));
  for (int64_t i = 0; i < layers; ++i) best[i] = {costs.CostOf(stages - 1, i, layers)};
  for (int32_t s = 1; s < stages; ++s) {
    before.swap(best);
    best.assign(layers, {});
    for (int64_t i = 0; i + s < layers; ++i) {
      for (int64_t end = i + 1; end + s <= layers; ++end) {
        const int64_t cost = costs.CostOf(stages - 1 - s, i, end);
        // A longer first stage does not cost less, so no later end can be better.
        if (!best[i].empty() && cost > best[i].front()) break;
        if (!best[i].empty() && !IsBetter(cost, before[end], best[i])) continue;
        best[i] = before[end];
        best[i].insert(std::upper_bound(best[i].begin(), best[i].end(), cost, std::greater<>()), cost);
        ends[s][i] = static_cast<int32_t>(end);
      }
    }
  }
  std::vector<int32_t> counts;
  int32_t from = 0;
  for (int32_t s = stages - 1; s >= 0; --s) {
    const int32_t end = ends[s][from];
    counts.push_back(end - from);
    from = end;
  }
  return counts;
}

// The cut with the smallest maximum whose counts are lexicographically smallest. Looks for the maximum by halving.
class MaximumSearch {
 public:
  MaximumSearch(const CostsOfStages& costs, int64_t layers)
      : costs_(costs), layers_(layers), stages_(costs.stages()), next_(stages_, std::vector<int64_t>(layers + 1)) {}

  std::vector<int32_t> Find() {
    // No stage costs more than all layers, unless it cannot hold its own.
    int64_t low = 0, high = costs_.MostOfAllLayers(layers_);
    if (!CanBe(high)) high = kCannotHold;
    while (low < high) {
      const int64_t middle = low + (high - low) / 2;
      if (CanBe(middle)) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    CanBe(high);
    std::vector<int32_t> counts;
    int64_t from = 0;
    for (int32_t s = 0; s < stages_; ++s) {
      const int64_t to = s + 1 == stages_ ? layers_ : next_[s + 1][from + 1];
      counts.push_back(static_cast<int32_t>(to - from));
      from = to;
    }
    return counts;
  }

 private:
  // True if there is a cut without a stage that costs more than `maximum`. Sets next_[s][i] to the smallest layer j >=
  // i for which stages s, s + 1, ... can hold all layers from j on; layers_ = there is none.
  bool CanBe(int64_t maximum) {
    for (int32_t s = stages_ - 1; s >= 0; --s) {
      std::vector<int64_t>& next = next_[s];
      next[layers_] = layers_;
      for (int64_t i = layers_ - 1; i >= 0; --i) {
        // The shortest stage is the cheapest one.
        const int64_t end = s + 1 == stages_ ? layers_ : next_[s + 1][i + 1];
        const bool ends = s + 1 == stages_ || end < layers_;
        next[i] = ends && costs_.CostOf(s, i, end) <= maximum ? i : next[i + 1];
      }
    }
    return next_[0][0] == 0;
  }

  const CostsOfStages& costs_;
  const int64_t layers_;
  const int32_t stages_;
  std::vector<std::vector<int64_t>> next_;
};

absl::Status CheckCosts(absl::Span<const int64_t> costs, int64_t stages, const RecomputeCosts& recompute) {
  const int64_t layers = static_cast<int64_t>(costs.size());
  if (stages < 1) return absl::InvalidArgumentError(absl::StrCat("stages = ", stages, "; it must be at least 1"));
  if (layers < stages) {
    return absl::InvalidArgumentError(absl::StrCat("cannot cut ", layers, " layers into ", stages,
                                                   " stages of at least one layer; at most ", layers, " stages"));
  }
  for (int64_t i = 0; i < layers; ++i) {
    if (costs[i] < 0) return absl::InvalidArgumentError(absl::StrCat("cost of layer ", i, " is ", costs[i]));
  }
  if (!recompute.layers.empty() && recompute.layers.size() != costs.size()) {
    return absl::InvalidArgumentError(absl::StrCat(recompute.layers.size(), " costs of recompute are given for ",
                                                   layers, " layers; allowed: one per layer"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<int32_t>> BalancedPartition(absl::Span<const int64_t> costs, int32_t stages,
                                                       const RecomputeCosts& recompute) {
  WEFT_RETURN_IF_ERROR(CheckCosts(costs, stages, recompute));
  return MixedPartition({.kinds = {{{costs.begin(), costs.end()}, recompute}},
                         .kinds_of_stage = std::vector<std::vector<int32_t>>(stages, {0})});
}

absl::StatusOr<std::vector<int32_t>> MixedPartition(const MixedStages& mixed) {
  const auto stages = static_cast<int32_t>(mixed.kinds_of_stage.size());
  if (stages == 0) return absl::InvalidArgumentError("there is no stage");
  const int64_t layers = mixed.kinds.empty() ? 0 : static_cast<int64_t>(mixed.kinds[0].layers.size());
  for (const KindCosts& kind : mixed.kinds) {
    WEFT_RETURN_IF_ERROR(CheckCosts(kind.layers, stages, kind.recompute));
    if (static_cast<int64_t>(kind.layers.size()) == layers) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("one kind of device has costs of ", layers, " layers, another of ", kind.layers.size()));
  }
  for (int32_t stage = 0; stage < stages; ++stage) {
    const std::vector<int32_t>& kinds = mixed.kinds_of_stage[stage];
    const auto known = [&](int32_t kind) { return kind >= 0 && kind < static_cast<int64_t>(mixed.kinds.size()); };
    if (!kinds.empty() && std::all_of(kinds.begin(), kinds.end(), known)) continue;
    return absl::InvalidArgumentError(absl::StrCat("stage ", stage, " has no kind of device, or one without costs"));
  }
  const bool exact = layers <= kExactWork / stages / stages / layers;
  const CostsOfStages costs(mixed, exact);
  std::vector<int32_t> counts =
      exact ? SmallestSortedCosts(costs, layers, stages) : MaximumSearch(costs, layers).Find();
  if (mixed.holds == nullptr || costs.AllHold(counts)) return counts;
  MixedStages unlimited = mixed;
  unlimited.holds = nullptr;
  return MixedPartition(unlimited);
}

}  // namespace weft
