// The meaning of a range of bytes in the symbolic run (dataflow.cc).
#ifndef WEFT_VERIFIER_SYMBOLS_H_
#define WEFT_VERIFIER_SYMBOLS_H_

#include <algorithm>
#include <compare>
#include <cstdint>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "verifier/cuts.h"

namespace weft::verify {

// The gradient of one use of one tensor.
struct GradientPart {
  int tensor = 0;
  int use = 0;
  int stage = 0;
  int microbatches = 0;    // Number of backwards that added to it.
  int last = -1;           // The last of them.
  std::vector<int> pipes;  // Pipe coordinates of its backwards, ascending; empty = this rank's.
  Cuts sums;               // Ranks over which it is summed, ascending; without pipe.
  Cuts ranges;             // The ranges of its tensor, outermost first.
  int step = 0;            // Asynchronous: optimizer step of its microbatches.

  friend auto operator<=>(const GradientPart&, const GradientPart&) = default;
};

// The squared norm of one tensor's gradient.
struct NormPart {
  int tensor = 0;
  Cuts cuts;                 // The gradient is cut over these; each rank has the norm of its part.
  std::vector<int> counted;  // Axes on which only coordinate 0 counts the norm, ascending.

  friend auto operator<=>(const NormPart&, const NormPart&) = default;
};

struct Symbol {
  enum Kind { kUnknown, kZero, kActivation, kGradient, kNorms, kNormTotal, kLosses, kWeights, kState };
  Kind kind = kUnknown;
  // kActivation: made by the forward or backward of (stage, microbatch). If `width` > 1, it belongs to any or all of
  // the `width` microbatches from `microbatch` on.
  bool backward = false;
  int stage = 0, microbatch = 0, width = 1;
  // For kGradient only.
  std::vector<GradientPart> parts;  // Sorted.
  bool scaled = false;
  // kNorms: the norms of tensors, by ascending tensor, and the ranks over which the norms are summed.
  std::vector<NormPart> norms;
  Cuts sums;
  // kLosses: the microbatches whose losses it contains, sorted.
  std::vector<int> elements;
  // kLosses: the axes of more than one rank over which they are summed.
  bool over_pipe = false, over_data = false, over_z = false;
  // kWeights: new weights of `tensor`. `ranges` states which part of the tensor they are.
  int tensor = 0;
  Cuts ranges;
  int version = 0;  // Asynchronous: number of updates they contain.
  // kGradient, kWeights: the elements of the tensor, or of the rank's part of it, that the bytes hold. In a buffer,
  // byte b belongs to element (b + shift) / item. The value of a step begins with `element`.
  int64_t element = 0;
  int item = 0;
  // kState: bytes fetched from `buffer` in host memory. Byte b here is byte b + shift there. `updated`: the optimizer
  // has updated the bytes.
  int buffer = 0;
  int64_t shift = 0;
  bool updated = false;

  bool IsOf(int m) const { return m >= microbatch && m - microbatch < width; }
  bool HasElements() const { return kind == kGradient || kind == kWeights; }
  // InValue converts from the form in a buffer to the form of a value at `offset` with items of `bytes` bytes; InBuffer
  // converts back. InValue returns an unknown symbol if the value's items are not those that were written.
  Symbol InValue(int64_t offset, int bytes) && {
    if (!HasElements()) return std::move(*this);
    if (item != bytes || (offset + shift) % bytes != 0) return {};
    Symbol value = std::move(*this);
    value.element = (offset + value.shift) / bytes;
    value.shift = value.item = 0;
    return value;
  }
  Symbol InBuffer(int64_t offset, int bytes) && {
    if (!HasElements()) return std::move(*this);
    Symbol held = std::move(*this);
    held.shift = held.element * bytes - offset;
    held.item = bytes;
    held.element = 0;
    return held;
  }
  // The element of the first byte of the value or of the buffer.
  int64_t FirstElement() const { return item > 0 ? shift / item : element; }
  bool SameElements(const Symbol& other) const {
    return element == other.element && shift == other.shift && item == other.item;
  }

  friend bool operator==(const Symbol&, const Symbol&) = default;
};

inline Symbol SymbolOf(Symbol::Kind kind) {
  Symbol symbol;
  symbol.kind = kind;
  return symbol;
}

// The content of a buffer's bytes; T{} for bytes with unknown content.
template <typename T>
struct RangeMap {
  std::map<int64_t, std::pair<int64_t, T>> ranges;  // begin -> (end, value), disjoint

  // Calls fn(begin, end, value) for all bytes of the range in ascending order, until it returns false.
  template <typename Fn>
  void ForEach(int64_t begin, int64_t end, Fn fn) const {
    auto it = ranges.upper_bound(begin);
    if (it != ranges.begin() && std::prev(it)->second.first > begin) --it;
    while (begin < end) {
      const bool gap = it == ranges.end() || it->first > begin;
      const int64_t stop = std::min(end, !gap ? it->second.first : it == ranges.end() ? end : it->first);
      if (!(gap ? fn(begin, stop, T{}) : fn(begin, stop, it->second.second))) return;
      if (!gap) ++it;
      begin = stop;
    }
  }
  // Returns the value that was set for exactly these bytes, so that the caller may change it in place; null if there is
  // none.
  T* Find(int64_t begin, int64_t end) {
    const auto it = ranges.find(begin);
    return it != ranges.end() && it->second.first == end ? &it->second.second : nullptr;
  }
  // The value of all bytes of the range, or T{} if they differ.
  T Get(int64_t begin, int64_t end) const {
    auto it = ranges.upper_bound(begin);
    if (it == ranges.begin() || std::prev(it)->second.first <= begin) return {};
    --it;
    const T& value = it->second.second;
    for (int64_t known = it->second.first; known < end; known = it->second.first) {
      ++it;
      if (it == ranges.end() || it->first != known || !(it->second.second == value)) return {};
    }
    return value;
  }
  void Set(int64_t begin, int64_t end, T value) {
    if (T* const same = Find(begin, end)) {
      *same = std::move(value);
      return;
    }
    auto it = ranges.upper_bound(begin);
    if (it != ranges.begin() && std::prev(it)->second.first > begin) --it;
    while (it != ranges.end() && it->first < end) {
      const int64_t first = it->first;
      auto [stop, old] = std::move(it->second);
      it = ranges.erase(it);
      if (first < begin) ranges[first] = {begin, old};
      if (stop > end) it = ranges.emplace(end, std::pair(stop, std::move(old))).first;
    }
    ranges[begin] = {end, std::move(value)};
  }
};

using Content = RangeMap<Symbol>;

}  // namespace weft::verify

#endif  // WEFT_VERIFIER_SYMBOLS_H_
