// What a segment with collectives does to parts of tensors: which ranges of a parameter its kernels read, and over
// which ranks what it writes is summed.
#ifndef WEFT_PROTO_VERIFY_PART_FLOW_H_
#define WEFT_PROTO_VERIFY_PART_FLOW_H_

#include <string>
#include <vector>

#include "proto/verify/cuts.h"
#include "proto/verify/index.h"
#include "proto/verify/symbols.h"

namespace weft::verify {

// A value that ranks hold in ranges (outermost cut first), as a sum over other ranks.
struct Held {
  Cuts ranges, sums;
  bool mixed = false;  // Not everywhere the same; `ranges` are those of a part, if any has some.

  friend bool operator==(const Held&, const Held&) = default;
};

struct PartFlow {
  std::vector<Held> written;  // Per operand.
  // The first step that reads a range as if it were the whole, or gathers or sums in a way that fits nothing; and why.
  std::string fault;
};

// `ranges` of what the operands hold at first. Kernels that work element by element keep ranges and sums, collectives
// change them (those that sum only for SCATTER_GRADIENTS), all others expect wholes and make something new.
PartFlow FollowParts(const Program& program, const Segment& segment, const std::vector<Cuts>& ranges);

}  // namespace weft::verify

#endif  // WEFT_PROTO_VERIFY_PART_FLOW_H_
