// Forward doubling: makes one forward that processes two adjacent microbatches at once, and the backwards of each of
// them.
//
// Every value of the forward that has rows of tokens or images gets twice as many rows; the lower microbatch's rows
// come first. Parameters, and values made of parameters alone, stay as they are. The steps are the same, on more rows.
//
// Some steps run once for each microbatch: losses, collectives of rows, and the steps that unpack a collective's
// result. So does every step on a value within the stage whose half is not a multiple of 64 bytes (for example norms of
// 632 rows), because the two halves of such a value lie apart.
//
// A backward keeps its steps and reads its part of the forward's `input` and `saved`. All results equal, bit for bit,
// the results of two forwards and two backwards of one microbatch each.
#ifndef WEFT_COMPILER_SEGMENTS_WIDEN_SEGMENT_H_
#define WEFT_COMPILER_SEGMENTS_WIDEN_SEGMENT_H_

#include "absl/status/statusor.h"
#include "compiler/segments/segment_set.h"

namespace weft {

inline constexpr int kForwardWidth = 2;

// `forward` is of kind Forward and width 1. InvalidArgument, naming segment and value, if the second half of a value
// that crosses between stages would not begin at a multiple of 64 bytes, or if a kernel mixes rows (a product over
// tokens).
absl::StatusOr<StageSegment> WidenForward(const StageSegment& forward);

// Returns the backward of one microbatch of a wide forward. `forward` is as for WidenForward. `backward` is of kind
// Backward, BackwardInput or BackwardWeight of the same stage. `part` is 0 or 1. A BackwardWeight reads only `input`
// and `saved` of the wide forward, because its `saved_grad` holds only one microbatch.
absl::StatusOr<StageSegment> BackwardOfWide(const StageSegment& forward, const StageSegment& backward, int part);

}  // namespace weft

#endif  // WEFT_COMPILER_SEGMENTS_WIDEN_SEGMENT_H_
