#include "compiler/balanced_partition.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace weft {

namespace {

constexpr int64_t kCostLimit = int64_t{1} << 62;

// Sums of contiguous costs.
class Sums {
 public:
  explicit Sums(absl::Span<const int64_t> costs) : prefix_(costs.size() + 1, 0) {
    for (size_t i = 0; i < costs.size(); ++i) {
      prefix_[i + 1] = std::min(kCostLimit, prefix_[i] + std::min(costs[i], kCostLimit));
    }
  }
  // Of layers [from, to).
  int64_t Of(int64_t from, int64_t to) const { return prefix_[to] - prefix_[from]; }

 private:
  std::vector<int64_t> prefix_;
};

}  // namespace

absl::StatusOr<std::vector<int32_t>> BalancedPartition(absl::Span<const int64_t> costs, int32_t stages) {
  const int64_t layers = static_cast<int64_t>(costs.size());
  if (stages < 1) return absl::InvalidArgumentError(absl::StrCat("stages = ", stages, ", must be at least 1"));
  if (layers < stages) {
    return absl::InvalidArgumentError(absl::StrCat("cannot cut ", layers, " layers into ", stages,
                                                   " stages of at least one layer; at most ", layers, " stages"));
  }
  for (int64_t i = 0; i < layers; ++i) {
    if (costs[i] < 0) return absl::InvalidArgumentError(absl::StrCat("cost of layer ", i, " is ", costs[i]));
  }
  const Sums sums(costs);
  // best[s][i]: smallest maximum for layers [i, layers) in s + 1 stages. Only i <= layers - s - 1 has a meaning.
  std::vector<std::vector<int64_t>> best(stages, std::vector<int64_t>(layers + 1, 0));
  for (int64_t i = 0; i <= layers; ++i) best[0][i] = sums.Of(i, layers);
  for (int32_t s = 1; s < stages; ++s) {
    for (int64_t i = 0; i + s < layers; ++i) {
      // The first stage ends at j. Its sum grows with j, the best of the rest falls: the optimum is where they cross.
      int64_t low = i + 1;
      int64_t high = layers - s;
      while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (sums.Of(i, middle) >= best[s - 1][middle]) {
          high = middle;
        } else {
          low = middle + 1;
        }
      }
      int64_t value = std::max(sums.Of(i, low), best[s - 1][low]);
      if (low > i + 1) value = std::min(value, std::max(sums.Of(i, low - 1), best[s - 1][low - 1]));
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

}  // namespace weft
