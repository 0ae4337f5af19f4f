// For an action with several microbatches (a wide FORWARD, or the two halves of a FORWARD_BACKWARD): finds the
// microbatch that each byte written by the segment belongs to.
#ifndef WEFT_VERIFIER_SEGMENT_FLOW_H_
#define WEFT_VERIFIER_SEGMENT_FLOW_H_

#include <string>
#include <vector>

#include "proto/program.pb.h"
#include "verifier/symbols.h"

namespace weft::verify {

// The microbatch to which bytes belong. In a wide forward, `index` counts from the action's first microbatch. In a
// FORWARD_BACKWARD, 0 = the microbatch of the forward, 1 = that of the backward. -1 = no microbatch (such as weights in
// another dtype), or several of them.
struct Share {
  int index = -1;

  friend bool operator==(const Share&, const Share&) = default;
};

struct SegmentFlow {
  std::vector<RangeMap<Share>> operands;
  std::string fault;  // Names a step that mixes the halves of a pair.
};

// `width`: number of microbatches, 0 = a FORWARD_BACKWARD. `operands`: the initial content of the operands. If a value
// has several times the rows of one microbatch, it holds several microbatches, one after the other. The steps that read
// a microbatch determine its number of rows, which is smaller for lower levels of images.
SegmentFlow FollowSegment(const Program& program, const Segment& segment, int width,
                          std::vector<RangeMap<Share>> operands);

}  // namespace weft::verify

#endif  // WEFT_VERIFIER_SEGMENT_FLOW_H_
