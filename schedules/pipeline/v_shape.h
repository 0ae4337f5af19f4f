// Two stages per rank, placed as a V: rank r of P has stages r and 2P - 1 - r.
#ifndef WEFT_SCHEDULES_PIPELINE_V_SHAPE_H_
#define WEFT_SCHEDULES_PIPELINE_V_SHAPE_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "schedules/pipeline/schedule.h"

namespace weft {

// Calls CheckParams, and checks that virtual_stages is 2 or not given.
absl::Status CheckVShape(absl::string_view schedule, const ScheduleParams& params);

}  // namespace weft

#endif  // WEFT_SCHEDULES_PIPELINE_V_SHAPE_H_
