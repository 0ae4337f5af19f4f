// A set of bytes as disjoint half-open ranges.
#ifndef WEFT_VERIFIER_RANGE_SET_H_
#define WEFT_VERIFIER_RANGE_SET_H_

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>

#include "absl/container/inlined_vector.h"

namespace weft {

class RangeSet {
 public:
  // Pairs (begin, end), ascending. Ranges neither touch nor overlap. One element is inlined, because there are millions
  // of sets with one range or none.
  using Ranges = absl::InlinedVector<std::pair<int64_t, int64_t>, 1>;

  void Add(int64_t begin, int64_t end) {
    if (begin >= end) return;
    auto first = FirstBeginningAfter(begin);
    if (first != ranges_.begin() && std::prev(first)->second >= begin) --first;
    auto last = first;
    for (; last != ranges_.end() && last->first <= end; ++last) {
      begin = std::min(begin, last->first);
      end = std::max(end, last->second);
    }
    if (first == last) {
      ranges_.insert(first, {begin, end});
    } else {
      *first = {begin, end};
      ranges_.erase(first + 1, last);
    }
  }

  void Remove(int64_t begin, int64_t end) {
    if (begin >= end) return;
    auto first = FirstBeginningAfter(begin);
    if (first != ranges_.begin() && std::prev(first)->second > begin) --first;
    auto last = first;
    while (last != ranges_.end() && last->first < end) ++last;
    if (first == last) return;
    const int64_t from = first->first, to = std::prev(last)->second;
    if (from < begin && to > end) {
      *first = {from, begin};
      if (std::next(first) == last) {
        ranges_.insert(last, {end, to});
      } else {
        *std::next(first) = {end, to};
        ranges_.erase(first + 2, last);
      }
      return;
    }
    if (from < begin) *first++ = {from, begin};
    if (to > end) *--last = {end, to};
    ranges_.erase(first, last);
  }

  void Remove(const RangeSet& other) {
    for (const auto& [begin, end] : other.ranges_) Remove(begin, end);
  }

  void Add(const RangeSet& other) {
    for (const auto& [begin, end] : other.ranges_) Add(begin, end);
  }

  bool Covers(int64_t begin, int64_t end) const {
    if (begin >= end) return true;
    const auto it = FirstBeginningAfter(begin);
    return it != ranges_.begin() && std::prev(it)->second >= end;
  }

  bool Covers(const RangeSet& other) const {
    return std::all_of(other.ranges_.begin(), other.ranges_.end(),
                       [&](const auto& range) { return Covers(range.first, range.second); });
  }

  bool Overlaps(int64_t begin, int64_t end) const {
    if (begin >= end) return false;
    const auto it = FirstBeginningAfter(begin);
    return (it != ranges_.end() && it->first < end) || (it != ranges_.begin() && std::prev(it)->second > begin);
  }

  // Adds the bytes of [begin, end) that are not in this set to `into`.
  void AddMissing(int64_t begin, int64_t end, RangeSet* into) const {
    auto it = FirstBeginningAfter(begin);
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
  const Ranges& ranges() const { return ranges_; }

 private:
  // The first range that begins after `byte`.
  template <typename R>
  static auto FirstBeginningAfterIn(R& ranges, int64_t byte) {
    return std::upper_bound(ranges.begin(), ranges.end(), byte,
                            [](int64_t b, const std::pair<int64_t, int64_t>& range) { return b < range.first; });
  }
  Ranges::iterator FirstBeginningAfter(int64_t byte) { return FirstBeginningAfterIn(ranges_, byte); }
  Ranges::const_iterator FirstBeginningAfter(int64_t byte) const { return FirstBeginningAfterIn(ranges_, byte); }

  Ranges ranges_;
};

}  // namespace weft

#endif  // WEFT_VERIFIER_RANGE_SET_H_
