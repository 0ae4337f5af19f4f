// A timed schedule as people and scripts read it.
#ifndef WEFT_CLI_SCHEDULE_SCHEDULE_VIEW_H_
#define WEFT_CLI_SCHEDULE_SCHEDULE_VIEW_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/report.pb.h"
#include "schedules/pipeline/schedule.h"
#include "schedules/pipeline/timing.h"

namespace weft {

struct TimedSchedule {
  std::string name;
  PipelineSchedule schedule;
  int microbatches = 0;
  // Times are multiples of 1 / (timing.unit * scale) of what the user counts in.
  ScheduleTiming timing;
  int64_t scale = 1;
};

// Everything but the closed form.
ScheduleReport MakeScheduleReport(const TimedSchedule& timed);

// Copies of the model's weights that the ranks keep, replicas and versions counted.
double WeightCopies(const PipelineSchedule& schedule);

// The figures as a table.
std::string ScheduleTable(const ScheduleReport& report);

// One line per rank over time (cli/common/timeline.h): "f3" forward of microbatch 3, "B3" backward, "I3" and "W3" its
// halves, "p3 P1" an overlapped pair, "f2+" the forward of microbatches 2 and 3, "f3b" of the second lane; ".." idle. A
// last line says what of these it has.
std::string ScheduleTimeline(const TimedSchedule& timed, int width, bool colour);

// The same as a drawing: a row per rank, a colour per kind, lighter for later stages of the rank, a stroke per lane, a
// microbatch's number where there is room; each slot's name as a tooltip. InvalidArgument if there are more slots than
// can be seen.
absl::StatusOr<std::string> ScheduleSvg(const TimedSchedule& timed, const ScheduleReport& report);

// One line per schedule, and one for each that was skipped.
std::string ScheduleComparison(const ScheduleComparisonReport& report);

}  // namespace weft

#endif  // WEFT_CLI_SCHEDULE_SCHEDULE_VIEW_H_
