// The segments that a schedule runs, out of the four that every stage has.
#ifndef WEFT_COMPILER_SEGMENTS_SCHEDULE_SEGMENTS_H_
#define WEFT_COMPILER_SEGMENTS_SCHEDULE_SEGMENTS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "compiler/segments/segment_set.h"
#include "schedules/pipeline/schedule.h"

namespace weft {

// Which backwards a schedule needs of every stage.
struct BackwardKinds {
  bool whole = false;
  bool split = false;
};
BackwardKinds BackwardKindsOf(const PipelineSchedule& schedule);

// By stage: the most microbatches that one rank has between the beginning of their forward and the end of their
// backward (of both halves).
std::vector<int32_t> MicrobatchesInFlight(const PipelineSchedule& schedule);

// Replaces the segments of stages by those that `schedule` runs: wide forwards, the backwards of their parts, and pairs
// (interleaved by `cost`) are made of the ones there; what no slot runs is left out. `set` has a segment of every kind
// that the schedule needs; StageIndex keeps those of width 1.
absl::Status SelectSegments(const PipelineSchedule& schedule, const StepCost& cost, SegmentSet* set);

}  // namespace weft

#endif  // WEFT_COMPILER_SEGMENTS_SCHEDULE_SEGMENTS_H_
