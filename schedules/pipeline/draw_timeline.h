// Draws timelines like the drawings in the schedules' files, so that tests can compare the drawings with the lists.
#ifndef WEFT_SCHEDULES_PIPELINE_DRAW_TIMELINE_H_
#define WEFT_SCHEDULES_PIPELINE_DRAW_TIMELINE_H_

#include <string>

#include "absl/strings/string_view.h"
#include "schedules/pipeline/schedule.h"

namespace weft {

// Returns "rank 0: f0 i0 w0 .. \n...": one cell per unit of a slot's time, ".." if the rank is idle, otherwise a letter
// for the kind and the microbatch. Lower case is a rank's first stage or lane 0, upper case the other stages or lanes.
// An overlapped pair shows the forward with a "+" in the first cell and the backward in the others. If there is no
// schedule, returns the message of the error.
std::string Draw(absl::string_view schedule, const ScheduleParams& params);

// Returns only the slots of each list: "f0 i0 w0 ...\n". A pair is written "f3+ b1".
std::string Lists(const PipelineSchedule& schedule);

}  // namespace weft

#endif  // WEFT_SCHEDULES_PIPELINE_DRAW_TIMELINE_H_
