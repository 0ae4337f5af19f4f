// For an action with several microbatches (a wide FORWARD, or the two halves of a FORWARD_BACKWARD): finds the
// microbatch that each byte written by the segment belongs to.
#ifndef WEFT_VERIFIER_SEGMENT_FLOW_H_
#define WEFT_VERIFIER_SEGMENT_FLOW_H_

#include <string>
#include <vector>

#include "proto/program.pb.h"
#include "verifier/symbols.h"

namespace weft::verify {

// In a wide forward: the microbatch, counted from the action's first. In a pair: 0 = the forward's, 1 = the backward's.
// -1 = no microbatch (weights in another dtype), or all.
struct Share {
  int index = -1;

  friend bool operator==(const Share&, const Share&) = default;
};

struct SegmentFlow {
  std::vector<RangeMap<Share>> operands;
  std::string fault;  // Names a step that mixes the halves of a pair.
};

// `width`: number of microbatches, 0 = a pair. `operands`: the initial content of the operands. A value with several
// times the rows of one microbatch holds one microbatch after the other. Lower levels of images have fewer rows, which
// the steps that read the microbatch determine.
SegmentFlow FollowSegment(const Program& program, const Segment& segment, int width,
                          std::vector<RangeMap<Share>> operands);

}  // namespace weft::verify

#endif  // WEFT_VERIFIER_SEGMENT_FLOW_H_
