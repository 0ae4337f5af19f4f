// Which microbatch each byte is of that a segment writes, where its action is for several: a wide FORWARD, or the two
// halves of a FORWARD_BACKWARD.
#ifndef WEFT_VERIFIER_SEGMENT_FLOW_H_
#define WEFT_VERIFIER_SEGMENT_FLOW_H_

#include <string>
#include <vector>

#include "proto/program.pb.h"
#include "verifier/symbols.h"

namespace weft::verify {

// Of a wide forward: the microbatch, counted from the action's. Of a pair: 0 = the forward's, 1 = the backward's.
// -1 = of none (weights in another dtype), or of all.
struct Share {
  int index = -1;

  friend bool operator==(const Share&, const Share&) = default;
};

struct SegmentFlow {
  std::vector<RangeMap<Share>> operands;
  std::string fault;  // A step that mixes the halves of a pair.
};

// `width` microbatches, 0 = a pair. `operands` = what the operands hold before. Values of several times the rows of one
// microbatch hold one after the other; of images these are fewer at lower levels, which steps that read the microbatch
// say.
SegmentFlow FollowSegment(const Program& program, const Segment& segment, int width,
                          std::vector<RangeMap<Share>> operands);

}  // namespace weft::verify

#endif  // WEFT_VERIFIER_SEGMENT_FLOW_H_
