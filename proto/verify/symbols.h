// What a range of bytes means in the symbolic run of dataflow.cc.
#ifndef WEFT_PROTO_VERIFY_SYMBOLS_H_
#define WEFT_PROTO_VERIFY_SYMBOLS_H_

#include <compare>
#include <cstdint>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

namespace weft::verify {

// The gradient of one use of one tensor.
struct Part_ {
  int tensor = 0;
  int use = 0;
  int stage = 0;
  int microbatches = 0;  // How many backwards have added to it.
  int last = -1;         // The last of them.
  int synced = 0;        // All-reduces over `data`.

  friend auto operator<=>(const Part_&, const Part_&) = default;
};

struct Symbol {
  enum Kind { kUnknown, kZero, kActivation, kGradient, kNorms, kNormTotal, kLosses };
  Kind kind = kUnknown;
  // kActivation: made by (backward?, stage, microbatch).
  bool backward = false;
  int stage = 0, microbatch = 0;
  // kGradient.
  std::vector<Part_> parts;  // Sorted.
  bool scaled = false;
  // kNorms: logical tensors. kLosses: microbatches. Sorted.
  std::vector<int> elements;
  // kLosses: the axes of more than one rank over which they are summed.
  bool over_pipe = false, over_data = false;

  friend bool operator==(const Symbol&, const Symbol&) = default;
};

inline Symbol Of(Symbol::Kind kind) {
  Symbol symbol;
  symbol.kind = kind;
  return symbol;
}

struct Content {
  std::map<int64_t, std::pair<int64_t, Symbol>> ranges;  // begin -> (end, symbol)

  // Of all bytes of the range, or kUnknown if they differ.
  Symbol Get(int64_t begin, int64_t end) const {
    auto it = ranges.upper_bound(begin);
    if (it == ranges.begin() || std::prev(it)->second.first <= begin) return {};
    --it;
    const Symbol& symbol = it->second.second;
    for (int64_t known = it->second.first; known < end; known = it->second.first) {
      ++it;
      if (it == ranges.end() || it->first != known || !(it->second.second == symbol)) return {};
    }
    return symbol;
  }
  void Set(int64_t begin, int64_t end, Symbol symbol) {
    auto it = ranges.upper_bound(begin);
    if (it != ranges.begin() && std::prev(it)->second.first > begin) --it;
    while (it != ranges.end() && it->first < end) {
      const int64_t first = it->first;
      const auto [stop, old] = std::move(it->second);
      it = ranges.erase(it);
      if (first < begin) ranges[first] = {begin, old};
      if (stop > end) it = ranges.emplace(end, std::pair(stop, old)).first;
    }
    ranges[begin] = {end, std::move(symbol)};
  }
};

}  // namespace weft::verify

#endif  // WEFT_PROTO_VERIFY_SYMBOLS_H_
