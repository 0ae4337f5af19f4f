// Timelines as the schedules' files draw them, so that tests can hold the drawings against what is built.
#ifndef WEFT_SCHEDULES_PIPELINE_DRAW_TIMELINE_H_
#define WEFT_SCHEDULES_PIPELINE_DRAW_TIMELINE_H_

#include <string>

#include "absl/strings/string_view.h"
#include "schedules/pipeline/schedule.h"

namespace weft {

// "rank 0: f0 i0 w0 .. \n...": one cell per unit of a slot's time, ".." where the rank is idle; a letter of the kind
// and the microbatch; lower case for a rank's first stage or lane 0, upper case for the others. An overlapped pair is
// the forward with a "+" in the first cell, the backward in the others. An error's message where there is no schedule.
std::string Draw(absl::string_view schedule, const ScheduleParams& params);

// The lists alone: "f0 i0 w0 ...\n", a pair as "f3+ b1".
std::string Lists(const PipelineSchedule& schedule);

}  // namespace weft

#endif  // WEFT_SCHEDULES_PIPELINE_DRAW_TIMELINE_H_
