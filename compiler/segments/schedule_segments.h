// Selects and combines the segments that a schedule runs from the four that every stage has.
#ifndef WEFT_COMPILER_SEGMENTS_SCHEDULE_SEGMENTS_H_
#define WEFT_COMPILER_SEGMENTS_SCHEDULE_SEGMENTS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "compiler/segments/segment_set.h"
#include "schedules/pipeline/schedule.h"

namespace weft {

// The kinds of backward that a schedule needs of every stage.
struct BackwardKinds {
  bool whole = false;
  bool split = false;
};
BackwardKinds BackwardKindsOf(const PipelineSchedule& schedule);

// By stage: the most microbatches that one rank has in flight, from the start of their forward to the end of their
// backward (of both halves).
std::vector<int32_t> MicrobatchesInFlight(const PipelineSchedule& schedule);

// Replaces the segments of stages by those that `schedule` runs. Makes wide forwards, the backwards of their parts, and
// pairs (interleaved by `cost`) from the existing segments, and drops segments that no slot runs. `set` must have a
// segment of every kind that the schedule needs; StageIndex keeps those of width 1.
absl::Status SelectSegments(const PipelineSchedule& schedule, const StepCost& cost, SegmentSet* set);

}  // namespace weft

#endif  // WEFT_COMPILER_SEGMENTS_SCHEDULE_SEGMENTS_H_
