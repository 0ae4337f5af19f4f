#include "compiler/arena_search.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "proto/units.h"

namespace weft {
namespace {

constexpr int64_t kLargeParts = 32;
constexpr size_t kMostLarge = 500;
// Moves of one search from the start, and pairs of items compared in all.
constexpr int64_t kMoves = 30'000;
constexpr int64_t kComparisons = 60'000'000;
// At first an order may be worse by so little of the bound.
constexpr int64_t kThreshold = 500;
constexpr uint32_t kMostStarts = 16;

bool Overlap(const ArenaItem& a, const ArenaItem& b) { return a.first <= b.last && b.first <= a.last; }

class Search {
 public:
  Search(absl::Span<const ArenaItem> items, int64_t lower_bound, int64_t enough) : items_(items), enough_(enough) {
    for (const ArenaItem& item : items) bytes_.push_back(RoundUp(item.bytes, kArenaAlignment));
    for (int i = 0; i < static_cast<int>(items.size()); ++i) {
      if (bytes_[i] > 0) (bytes_[i] >= lower_bound / kLargeParts ? large_ : small_).push_back(i);
    }
    best_.lower_bound = lower_bound;
    best_.height = std::numeric_limits<int64_t>::max();
  }

  Arena Run() {
    if (large_.size() > kMostLarge) return best_;
    const auto by_size = [this](int a, int b) { return bytes_[a] > bytes_[b]; };
    std::stable_sort(large_.begin(), large_.end(), by_size);
    std::stable_sort(small_.begin(), small_.end(), by_size);
    offsets_.assign(items_.size(), 0);
    beside_.resize(items_.size());
    for (int a : large_) {
      for (int b : large_) {
        if (a != b && Overlap(items_[a], items_[b])) beside_[a].push_back(b);
      }
      int64_t live = 0;
      for (int b : large_)
        live += items_[b].first <= items_[a].first && items_[a].first <= items_[b].last ? bytes_[b] : 0;
      needed_ = std::max(needed_, live);
    }
    for (uint32_t seed = 1; seed <= kMostStarts && comparisons_ < kComparisons && best_.height > enough_; ++seed) {
      From(seed);
    }
    return best_;
  }

 private:
  // Places the large items; what they reach above what they need.
  int64_t Place(const std::vector<int>& order) {
    placed_.assign(items_.size(), false);
    height_ = 0;
    int64_t above = 0;
    highest_ = 0;
    for (int at = 0; at < static_cast<int>(order.size()); ++at) {
      const int i = order[at];
      occupied_.clear();
      for (int other : beside_[i]) {
        if (placed_[other]) occupied_.emplace_back(offsets_[other], offsets_[other] + bytes_[other]);
      }
      comparisons_ += static_cast<int64_t>(beside_[i].size());
      const int64_t end = FirstFit(i) + bytes_[i];
      placed_[i] = true;
      if (end >= height_) highest_ = at;
      height_ = std::max(height_, end);
      above += std::max<int64_t>(0, end - needed_);
    }
    return above;
  }

  int64_t FirstFit(int i) {
    std::sort(occupied_.begin(), occupied_.end());
    int64_t offset = 0;
    for (const auto& [begin, end] : occupied_) {
      if (begin - offset >= bytes_[i]) break;
      offset = std::max(offset, end);
    }
    return offsets_[i] = offset;
  }

  // Puts the small items between the large ones where these are now, and keeps the result if it is better.
  void Complete() {
    std::vector<int> order = small_;
    for (const bool by_life : {false, true}) {
      if (by_life) {
        std::stable_sort(order.begin(), order.end(), [this](int a, int b) {
          return items_[a].last - items_[a].first > items_[b].last - items_[b].first;
        });
      }
      std::vector<int> all = large_;
      int64_t height = height_;
      for (int i : order) {
        occupied_.clear();
        for (int other : all) {
          if (Overlap(items_[i], items_[other])) {
            occupied_.emplace_back(offsets_[other], offsets_[other] + bytes_[other]);
          }
        }
        comparisons_ += static_cast<int64_t>(all.size());
        height = std::max(height, FirstFit(i) + bytes_[i]);
        if (height >= best_.height) break;
        all.push_back(i);
      }
      if (height >= best_.height) continue;
      best_.height = height;
      best_.offsets = offsets_;
    }
  }

  void From(uint32_t seed) {
    std::mt19937 random(seed);
    const auto below = [&](size_t n) { return static_cast<size_t>(random()) % n; };
    std::vector<int> order = large_;
    int64_t now = Place(order), lowest = height_;
    size_t highest = highest_;
    Complete();
    std::vector<int> next;
    for (int64_t move = 0; move < kMoves && lowest > needed_ && comparisons_ < kComparisons; ++move) {
      next = order;
      size_t from = below(next.size()), to = below(next.size());
      if (below(3) == 0) {
        // The item that reaches highest, nearer to the front.
        from = highest;
        to = below(from + 1);
      }
      const int item = next[from];
      next.erase(next.begin() + static_cast<int64_t>(from));
      next.insert(next.begin() + static_cast<int64_t>(to), item);
      const int64_t above = Place(next);
      const int64_t threshold =
          needed_ / kThreshold / kMoves * (kMoves - move) / 1000 * static_cast<int64_t>(below(1000));
      if (height_ < lowest) {
        lowest = height_;
        Complete();
        if (best_.height <= enough_) return;
      }
      if (above > now + threshold) continue;
      now = above;
      order.swap(next);
      highest = highest_;
    }
  }

  absl::Span<const ArenaItem> items_;
  const int64_t enough_;
  std::vector<int64_t> bytes_;
  std::vector<int> large_, small_;
  // Of large items: those that are live together with it.
  std::vector<std::vector<int>> beside_;
  // Most bytes of large items at one time.
  int64_t needed_ = 0;
  int64_t comparisons_ = 0;
  // Where items are now; of large ones, which are placed, and how high they reach.
  std::vector<int64_t> offsets_;
  std::vector<char> placed_;
  int64_t height_ = 0;
  // Place in the order of the last one that reaches so high.
  size_t highest_ = 0;
  std::vector<std::pair<int64_t, int64_t>> occupied_;
  Arena best_;
};

}  // namespace

Arena SearchArena(absl::Span<const ArenaItem> items, int64_t lower_bound, int64_t enough) {
  return Search(items, lower_bound, enough).Run();
}

}  // namespace weft
