// A forward and a backward as one segment of kind ForwardBackward (rule P5).
#ifndef WEFT_COMPILER_SEGMENTS_PAIR_SEGMENTS_H_
#define WEFT_COMPILER_SEGMENTS_PAIR_SEGMENTS_H_

#include "absl/status/statusor.h"
#include "compiler/segments/segment_set.h"

namespace weft {

// Steps of both, each list in its own order, interleaved in proportion to `cost` (null = NominalStepCost): whichever
// has done the smaller part of its work goes next, the forward on a tie. Operands are the forward's, then those of the
// backward; a persistent tensor that both read is there once. SegmentOperand.half says whose an operand is, also in its
// name ("forward input", "backward saved"); steps of the backward have `of_backward` set where their kernel reads the
// microbatch. `forward` is of kind Forward, `backward` of kind Backward or BackwardInput, of any stage.
absl::StatusOr<StageSegment> MergeSegments(const StageSegment& forward, const StageSegment& backward,
                                           const StepCost& cost = nullptr);

}  // namespace weft

#endif  // WEFT_COMPILER_SEGMENTS_PAIR_SEGMENTS_H_
