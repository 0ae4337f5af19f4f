#include "compiler/memory/arena_search.h"

#include <algorithm>
#include <limits>
#include <random>
#include <utility>

#include "proto/util/units.h"

namespace weft {
namespace {

// The search gives up if more than kMaxPairs pairs of items live together, and after kComparisons comparisons.
constexpr size_t kMaxPairs = 2'000'000;
constexpr int64_t kComparisons = 6'000'000;
constexpr int64_t kNowhere = -1;

class Fit {
 public:
  Fit(absl::Span<const ArenaItem> items, int64_t height, std::vector<int64_t> start, uint32_t seed)
      : height_(height / kArenaAlignment * kArenaAlignment), offsets_(std::move(start)), random_(seed) {
    for (const ArenaItem& item : items) bytes_.push_back(RoundUp(item.bytes, kArenaAlignment));
    FindNeighbors(items);
  }

  bool Run() {
    if (too_many_) return false;
    for (int i = 0; i < static_cast<int>(bytes_.size()); ++i) {
      if (bytes_[i] > height_) return false;
      if (bytes_[i] == 0) {
        offsets_[i] = 0;
      } else if (offsets_[i] > height_ - bytes_[i]) {
        PutAside(i);
      }
    }
    weights_.assign(bytes_.size(), 1);
    while (!aside_.empty() && comparisons_ < kComparisons) {
      const int item = aside_.back();
      aside_.pop_back();
      Insert(item);
    }
    return aside_.empty();
  }

  std::vector<int64_t> TakeOffsets() { return std::move(offsets_); }

 private:
  struct Occupied {
    int64_t begin = 0, end = 0;
    int item = 0;
  };

  void FindNeighbors(absl::Span<const ArenaItem> items) {
    neighbors_.resize(items.size());
    std::vector<int> by_start;
    for (int i = 0; i < static_cast<int>(items.size()); ++i) {
      if (bytes_[i] > 0) by_start.push_back(i);
    }
    std::stable_sort(by_start.begin(), by_start.end(), [&](int a, int b) { return items[a].first < items[b].first; });
    size_t pairs = 0;
    for (size_t a = 0; a < by_start.size(); ++a) {
      for (size_t b = a + 1; b < by_start.size() && items[by_start[b]].first <= items[by_start[a]].last; ++b) {
        neighbors_[by_start[a]].push_back(by_start[b]);
        neighbors_[by_start[b]].push_back(by_start[a]);
        if ((too_many_ = ++pairs > kMaxPairs)) return;
      }
    }
  }

  // Takes the item out of the arena. The search later inserts the items that are put aside again, the largest first.
  void PutAside(int item) {
    offsets_[item] = kNowhere;
    const auto before = [this](int a, int b) { return std::make_pair(bytes_[a], a) < std::make_pair(bytes_[b], b); };
    aside_.insert(std::upper_bound(aside_.begin(), aside_.end(), item, before), item);
  }

  // Places the item where the items that must be put aside for it have the least weight. Chooses at random among equal
  // offsets.
  void Insert(int item) {
    occupied_.clear();
    for (int other : neighbors_[item]) {
      if (offsets_[other] != kNowhere) occupied_.push_back({offsets_[other], offsets_[other] + bytes_[other], other});
    }
    std::sort(occupied_.begin(), occupied_.end(), [](const Occupied& a, const Occupied& b) {
      return std::make_pair(a.begin, a.item) < std::make_pair(b.begin, b.item);
    });
    best_weight_ = std::numeric_limits<int64_t>::max();
    Consider(item, 0);
    Consider(item, height_ - bytes_[item]);
    for (const Occupied& other : occupied_) {
      Consider(item, other.end);
      Consider(item, other.begin - bytes_[item]);
    }
    if (best_weight_ > 0) {
      ++weights_[item];
      for (const Occupied& other : occupied_) {
        if (other.begin < best_ + bytes_[item] && other.end > best_) PutAside(other.item);
      }
    }
    offsets_[item] = best_;
  }

  void Consider(int item, int64_t offset) {
    if (offset < 0 || offset > height_ - bytes_[item]) return;
    int64_t weight = 0;
    comparisons_ += static_cast<int64_t>(occupied_.size()) / 2 + 1;
    for (const Occupied& other : occupied_) {
      if (other.begin >= offset + bytes_[item]) break;
      if (other.end <= offset) continue;
      if ((weight += weights_[other.item]) > best_weight_) return;
    }
    if (weight < best_weight_) {
      best_weight_ = weight;
      ties_ = 0;
    }
    if (random_() % ++ties_ == 0) best_ = offset;
  }

  const int64_t height_;
  std::vector<int64_t> bytes_;
  // The offset of each item, or kNowhere.
  std::vector<int64_t> offsets_;
  // For each item, the items that live at the same time.
  std::vector<std::vector<int>> neighbors_;
  bool too_many_ = false;
  // For each item, 1 + how often it found no free place.
  std::vector<int64_t> weights_;
  // The items that are put aside, ascending by size.
  std::vector<int> aside_;
  std::mt19937 random_;
  int64_t comparisons_ = 0;
  // The state of one insertion.
  std::vector<Occupied> occupied_;
  int64_t best_ = 0;
  int64_t best_weight_ = 0;
  uint32_t ties_ = 0;
};

}  // namespace

std::optional<std::vector<int64_t>> FitArena(absl::Span<const ArenaItem> items, int64_t height,
                                             std::vector<int64_t> start, uint32_t seed) {
  Fit fit(items, height, std::move(start), seed);
  if (!fit.Run()) return std::nullopt;
  return fit.TakeOffsets();
}

}  // namespace weft
