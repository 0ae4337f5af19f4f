// What a segment with collectives does to parts of tensors: which ranges of a parameter its kernels read, and over
// which ranks what it writes is summed.
#ifndef WEFT_VERIFIER_PART_FLOW_H_
#define WEFT_VERIFIER_PART_FLOW_H_

#include <string>
#include <vector>

#include "verifier/cuts.h"
#include "verifier/index.h"
#include "verifier/symbols.h"

namespace weft::verify {

// What scatters take that cut what `cuts` cuts into ranges left by `more`: from `least` to `most` elements, not
// counting zeros at the end.
struct Scattered {
  size_t cuts = 0, more = 0;
  int64_t least = 0, most = 0;
};

// A value that ranks hold in ranges (outermost cut first), as a sum over other ranks.
struct Held {
  Cuts ranges, sums;
  bool mixed = false;  // Not everywhere the same; `ranges` are those of a part, if any has some.
  int64_t block = 0;   // Of ranges of a parameter: elements of that which they are ranges of.
  // On the way to it, one for each pair of `cuts` and `more`. Does not tell values apart.
  std::vector<Scattered> scattered = {};

  friend bool operator==(const Held& a, const Held& b) {
    return a.ranges == b.ranges && a.sums == b.sums && a.mixed == b.mixed && a.block == b.block;
  }
};

// What an operand holds at first: ranges of a block of so many elements.
struct RangesOfBlock {
  Cuts ranges;
  int64_t block = 0;

  friend auto operator<=>(const RangesOfBlock&, const RangesOfBlock&) = default;
};

struct PartFlow {
  std::vector<Held> written;  // Per operand.
  // The first step that reads a range as if it were the whole, or gathers or sums in a way that fits nothing; and why.
  std::string fault;
};

// `ranges` of what the operands hold at first. Kernels that work element by element keep ranges and sums, collectives
// change them (those that sum only for SCATTER_GRADIENTS), all others expect wholes and make something new. What ranges
// that are rounded up have behind the end of their block is nothing that a step may read once they are gathered.
PartFlow FollowParts(const Program& program, const Segment& segment, const std::vector<RangesOfBlock>& ranges);

}  // namespace weft::verify

#endif  // WEFT_VERIFIER_PART_FLOW_H_
