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

  friend bool operator==(const Symbol&, const Symbol&) = default;
};

inline Symbol Of(Symbol::Kind kind) {
  Symbol symbol;
  symbol.kind = kind;
  return symbol;
}

struct Content {
  std::map<int64_t, std::pair<int64_t, Symbol>> ranges;  // begin -> (end, symbol)

  Symbol Get(int64_t begin, int64_t end) const {
    const auto it = ranges.upper_bound(begin);
    if (it == ranges.begin()) return {};
    const auto& [stop, symbol] = std::prev(it)->second;
    return stop >= end ? symbol : Symbol{};
  }
  void Set(int64_t begin, int64_t end, Symbol symbol) {
    auto it = ranges.lower_bound(begin);
    if (it != ranges.begin() && std::prev(it)->second.first > begin) --it;
    while (it != ranges.end() && it->first < end) it = ranges.erase(it);
    ranges[begin] = {end, std::move(symbol)};
  }
};

}  // namespace weft::verify

#endif  // WEFT_PROTO_VERIFY_SYMBOLS_H_
