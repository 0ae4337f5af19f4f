// Merges a forward and a backward into one segment of kind ForwardBackward (rule P5).
#ifndef WEFT_COMPILER_SEGMENTS_PAIR_SEGMENTS_H_
#define WEFT_COMPILER_SEGMENTS_PAIR_SEGMENTS_H_

#include "absl/status/statusor.h"
#include "compiler/segments/segment_set.h"

namespace weft {

// Merges the two segments and interleaves their steps, each list in its own order, in proportion to `cost` (null =
// NominalStepCost). The side that has done the smaller share of its work adds its next step; on a tie, the forward. The
// operands of the forward come first, then the operands of the backward. A persistent tensor that both read appears
// once. SegmentOperand.half states which side an operand belongs to, and so does the operand's name ("forward input",
// "backward saved"). Steps of the backward have `of_backward` set if their kernel reads the microbatch. `forward` is of
// kind Forward, `backward` of kind Backward or BackwardInput. They may be of different stages.
absl::StatusOr<StageSegment> MergeSegments(const StageSegment& forward, const StageSegment& backward,
                                           const StepCost& cost = nullptr);

}  // namespace weft

#endif  // WEFT_COMPILER_SEGMENTS_PAIR_SEGMENTS_H_
