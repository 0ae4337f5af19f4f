#include "compiler/graph/balanced_partition.h"

#include <algorithm>
#include <functional>

#include "absl/strings/str_cat.h"

namespace weft {

namespace {

constexpr int64_t kCostLimit = int64_t{1} << 61;
// Largest stages^2 * layers^2 for which the exact dynamic program runs.
constexpr int64_t kExactWork = int64_t{1} << 30;

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

std::vector<int32_t> SmallestSortedCosts(const StageCosts& costs, int64_t layers, int32_t stages) {
  // best[i]: costs of the stages of the best cut of layers [i, layers) into s + 1 stages, descending.
  std::vector<std::vector<int64_t>> best(layers), before;
  std::vector<std::vector<int32_t>> ends(stages, std::vector<int32_t>(layers, static_cast<int32_t>(layers)));
  for (int64_t i = 0; i < layers; ++i) best[i] = {costs.CostOf(i, layers)};
  for (int32_t s = 1; s < stages; ++s) {
    before.swap(best);
    best.assign(layers, {});
    for (int64_t i = 0; i + s < layers; ++i) {
      for (int64_t end = i + 1; end + s <= layers; ++end) {
        const int64_t cost = costs.CostOf(i, end);
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

std::vector<int32_t> SmallestMaximum(const StageCosts& sums, int64_t layers, int32_t stages) {
  // best[s][i]: smallest maximum for layers [i, layers) in s + 1 stages. Only i <= layers - s - 1 has a meaning.
  std::vector<std::vector<int64_t>> best(stages, std::vector<int64_t>(layers + 1, 0));
  for (int64_t i = 0; i <= layers; ++i) best[0][i] = sums.CostOf(i, layers);
  for (int32_t s = 1; s < stages; ++s) {
    for (int64_t i = 0; i + s < layers; ++i) {
      // The first stage ends at j. Its sum grows with j, and the best maximum of the rest falls, so the optimum is
      // where the two cross.
      int64_t low = i + 1;
      int64_t high = layers - s;
      while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (sums.CostOf(i, middle) >= best[s - 1][middle]) {
          high = middle;
        } else {
          low = middle + 1;
        }
      }
      int64_t value = std::max(sums.CostOf(i, low), best[s - 1][low]);
      if (low > i + 1) value = std::min(value, std::max(sums.CostOf(i, low - 1), best[s - 1][low - 1]));
      best[s][i] = value;
    }
  }
  const int64_t optimum = best[stages - 1][0];
  std::vector<int32_t> counts;
  int64_t from = 0;
  for (int32_t s = stages - 1; s > 0; --s) {
    int64_t to = from + 1;
    while (best[s - 1][to] > optimum) ++to;
    counts.push_back(static_cast<int32_t>(to - from));
    from = to;
  }
  counts.push_back(static_cast<int32_t>(layers - from));
  return counts;
}

}  // namespace

absl::StatusOr<std::vector<int32_t>> BalancedPartition(absl::Span<const int64_t> costs, int32_t stages,
                                                       const RecomputeCosts& recompute) {
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
  const bool exact = layers <= kExactWork / stages / stages / layers;
  if (exact) return SmallestSortedCosts(StageCosts(costs, recompute), layers, stages);
  std::vector<int64_t> shares(costs.begin(), costs.end());
  for (size_t i = 0; i < recompute.layers.size(); ++i) {
    const int64_t share = std::max<int64_t>(0, recompute.layers[i]) / std::max(1, recompute.every);
    shares[i] = std::min(shares[i], kCostLimit) + std::min(share, kCostLimit);
  }
  return SmallestMaximum(StageCosts(shares, {}), layers, stages);
}

}  // namespace weft
