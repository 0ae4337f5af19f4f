#include "compiler/overlap/knapsack.h"

#include <algorithm>

namespace weft {

namespace {

constexpr int kMaxNodes = 1 << 16;

class Search {
 public:
  // `order`: the candidates by value per byte, best first. Each of them fits alone.
  Search(const std::vector<KnapsackItem>& items, const std::vector<int>& order) : items_(items), order_(order) {}

  std::vector<int> Run(int64_t room) {
    Greedy(room);
    taken_.clear();
    Branch(0, room, 0);
    return best_;
  }

 private:
  const KnapsackItem& Item(size_t i) const { return items_[order_[i]]; }

  void Keep(const std::vector<int>& chosen, __int128 value) {
    if (value <= best_value_) return;
    best_ = chosen;
    best_value_ = value;
  }

  void Greedy(int64_t room) {
    __int128 value = 0;
    for (size_t i = 0; i < order_.size(); ++i) {
      Keep({order_[i]}, Item(i).value);
      if (Item(i).bytes > room) continue;
      room -= Item(i).bytes;
      value += Item(i).value;
      taken_.push_back(order_[i]);
    }
    Keep(taken_, value);
  }

  // True if items from `next` on can be worth more than `missing` within `room` bytes. The last item may be taken in
  // part.
  bool MayReach(size_t next, int64_t room, __int128 missing) const {
    __int128 sum = 0;
    for (size_t i = next; i < order_.size() && sum <= missing; ++i) {
      if (Item(i).bytes > room)
        return (sum - missing) * Item(i).bytes + static_cast<__int128>(Item(i).value) * room > 0;
      room -= Item(i).bytes;
      sum += Item(i).value;
    }
    return sum > missing;
  }

  void Branch(size_t next, int64_t room, __int128 value) {
    Keep(taken_, value);
    if (next == order_.size() || ++nodes_ > kMaxNodes || !MayReach(next, room, best_value_ - value)) return;
    if (Item(next).bytes <= room) {
      taken_.push_back(order_[next]);
      Branch(next + 1, room - Item(next).bytes, value + Item(next).value);
      taken_.pop_back();
    }
    // If an item is left out, all items equal to it are left out too: the search never needs to choose between equal
    // items.
    size_t other = next + 1;
    while (other < order_.size() && Item(other).bytes == Item(next).bytes && Item(other).value == Item(next).value) {
      ++other;
    }
    Branch(other, room, value);
  }

  const std::vector<KnapsackItem>& items_;
  const std::vector<int>& order_;
  std::vector<int> taken_;
  std::vector<int> best_;
  __int128 best_value_ = 0;
  int nodes_ = 0;
};

}  // namespace

std::vector<int> ChooseItems(const std::vector<KnapsackItem>& items, int64_t room) {
  std::vector<int> order, chosen;
  for (int i = 0; i < static_cast<int>(items.size()); ++i) {
    if (items[i].value <= 0 || items[i].bytes > room) continue;
    if (items[i].bytes <= 0) {
      chosen.push_back(i);
    } else {
      order.push_back(i);
    }
  }
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    const __int128 left = static_cast<__int128>(items[a].value) * items[b].bytes;
    const __int128 right = static_cast<__int128>(items[b].value) * items[a].bytes;
    if (left != right) return left > right;
    return items[a].bytes > items[b].bytes;
  });
  for (int i : Search(items, order).Run(room)) chosen.push_back(i);
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

}  // namespace weft
