// Follows parts of tensors through a segment with collectives: which ranges of a parameter its kernels read, and over
// which ranks its results are summed.
#ifndef WEFT_VERIFIER_PART_FLOW_H_
#define WEFT_VERIFIER_PART_FLOW_H_

#include <string>
#include <vector>

#include "verifier/cuts.h"
#include "verifier/index.h"
#include "verifier/symbols.h"

namespace weft::verify {

// Scatters of one form: `cuts` cuts had divided the scattered values before, and the scatters divided them by `more`
// further cuts. The values had from `least` to `most` elements, not counting zeros at the end.
struct Scattered {
  size_t cuts = 0, more = 0;
  int64_t least = 0, most = 0;
};

// The content of a value on each rank: one range of a whole (`ranges`, outermost cut first), summed over other ranks
// (`sums`).
struct Held {
  Cuts ranges, sums;
  bool mixed = false;  // Parts differ. If any part has ranges, `ranges` is that of one of these.
  int64_t block = 0;   // For ranges of a parameter: number of elements in the block that they divide.
  // The scatters on the way to this value, one entry for each pair of `cuts` and `more`. Comparison ignores them.
  std::vector<Scattered> scattered = {};

  friend bool operator==(const Held& a, const Held& b) {
    return a.ranges == b.ranges && a.sums == b.sums && a.mixed == b.mixed && a.block == b.block;
  }
};

// The initial content of an operand: ranges of a block of `block` elements.
struct RangesOfBlock {
  Cuts ranges;
  int64_t block = 0;

  friend auto operator<=>(const RangesOfBlock&, const RangesOfBlock&) = default;
};

struct PartFlow {
  std::vector<Held> written;  // By operand: what the steps wrote to it.
  // Names the first step that reads a range as if it were the whole, or whose gather or sum does not fit its input, and
  // says why. Empty if there is none.
  std::string fault;
};

// Follows the parts of tensors through a segment; `ranges` is the initial content of its operands. Kernels that work
// element by element keep ranges and sums. Collectives change them (sums only for SCATTER_GRADIENTS). Norms and
// optimizers may read ranges too; all other kernels expect whole values. The results of all of these count as whole
// values. Ranges that are rounded up have padding after the end of their block. No step may read this padding after the
// ranges are gathered.
PartFlow FollowParts(const Program& program, const Segment& segment, const std::vector<RangesOfBlock>& ranges);

}  // namespace weft::verify

#endif  // WEFT_VERIFIER_PART_FLOW_H_
