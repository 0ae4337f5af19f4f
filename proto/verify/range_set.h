// A set of bytes as disjoint half-open ranges.
#ifndef WEFT_PROTO_VERIFY_RANGE_SET_H_
#define WEFT_PROTO_VERIFY_RANGE_SET_H_

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>

namespace weft {

class RangeSet {
 public:
  using Map = std::map<int64_t, int64_t>;  // begin -> end, neither touching nor overlapping the next

  void Add(int64_t begin, int64_t end) {
    if (begin >= end) return;
    auto it = ranges_.upper_bound(begin);
    if (it != ranges_.begin() && std::prev(it)->second >= begin) --it;
    while (it != ranges_.end() && it->first <= end) {
      begin = std::min(begin, it->first);
      end = std::max(end, it->second);
      it = ranges_.erase(it);
    }
    ranges_[begin] = end;
  }

  void Remove(int64_t begin, int64_t end) {
    if (begin >= end) return;
    auto it = ranges_.upper_bound(begin);
    if (it != ranges_.begin() && std::prev(it)->second > begin) --it;
    while (it != ranges_.end() && it->first < end) {
      const auto [b, e] = *it;
      it = ranges_.erase(it);
      if (b < begin) ranges_[b] = begin;
      if (e > end) it = ranges_.emplace(end, e).first;
    }
  }

  void Remove(const RangeSet& other) {
    for (const auto& [begin, end] : other.ranges_) Remove(begin, end);
  }

  void Add(const RangeSet& other) {
    for (const auto& [begin, end] : other.ranges_) Add(begin, end);
  }

  bool Covers(int64_t begin, int64_t end) const {
    if (begin >= end) return true;
    auto it = ranges_.upper_bound(begin);
    return it != ranges_.begin() && std::prev(it)->second >= end;
  }

  bool Covers(const RangeSet& other) const {
    return std::all_of(other.ranges_.begin(), other.ranges_.end(),
                       [&](const auto& range) { return Covers(range.first, range.second); });
  }

  bool Overlaps(int64_t begin, int64_t end) const {
    auto it = ranges_.lower_bound(begin);
    if (it != ranges_.end() && it->first < end && begin < end) return true;
    return it != ranges_.begin() && std::prev(it)->second > begin && begin < end;
  }

  // Adds to `into` the parts of [begin, end) that are not in this set.
  void AddMissing(int64_t begin, int64_t end, RangeSet* into) const {
    auto it = ranges_.upper_bound(begin);
    if (it != ranges_.begin()) --it;
    for (; it != ranges_.end() && it->first < end; ++it) {
      if (it->second <= begin) continue;
      if (it->first > begin) into->Add(begin, it->first);
      begin = it->second;
    }
    into->Add(begin, end);
  }

  bool empty() const { return ranges_.empty(); }
  void clear() { ranges_.clear(); }
  const Map& ranges() const { return ranges_; }

 private:
  Map ranges_;
};

}  // namespace weft

#endif  // WEFT_PROTO_VERIFY_RANGE_SET_H_
