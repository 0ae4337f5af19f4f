// Each stage has four segments: forward, backward, and the two halves of the backward. From these, selects or combines
// the segments that a schedule runs.
#ifndef WEFT_COMPILER_SEGMENTS_SCHEDULE_SEGMENTS_H_
#define WEFT_COMPILER_SEGMENTS_SCHEDULE_SEGMENTS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "compiler/segments/segment_set.h"
#include "schedules/pipeline/schedule.h"

namespace weft {

// The kinds of backward that a schedule runs: whole ones, or ones that are split into two halves.
struct BackwardKinds {
  bool whole = false;
  bool split = false;
};
BackwardKinds BackwardKindsOf(const PipelineSchedule& schedule);

// Returns, for each stage, the largest number of microbatches that one rank has in flight. A microbatch is in flight
// from the start of its forward to the end of its backward (of both halves).
std::vector<int32_t> MicrobatchesInFlight(const PipelineSchedule& schedule);

// Replaces the segments of stages by the segments that `schedule` runs. Makes wide forwards, the backwards of their
// parts, and pairs (interleaved by `cost`) from the existing segments, and drops segments that no slot runs. `set` must
// have a segment of every kind that the schedule needs. StageIndex keeps the indices of the segments of width 1.
absl::Status SelectSegments(const PipelineSchedule& schedule, const StepCost& cost, SegmentSet* set);

}  // namespace weft

#endif  // WEFT_COMPILER_SEGMENTS_SCHEDULE_SEGMENTS_H_
