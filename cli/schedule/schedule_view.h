// Formats a timed schedule for people and scripts.
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
  // Times in `timing` are in 1 / (timing.unit * scale) of the user's unit.
  ScheduleTiming timing;
  int64_t scale = 1;
};

// Fills everything except the closed form.
ScheduleReport MakeScheduleReport(const TimedSchedule& timed);

// Copies of the model's weights on all ranks, including replicas and versions.
double WeightCopies(const PipelineSchedule& schedule);

// The figures as a table.
std::string ScheduleTable(const ScheduleReport& report);

// One line per rank over time (cli/common/timeline.h): "f3" forward of microbatch 3, "B3" backward, "I3" and "W3" its
// halves, "p3 P1" an overlapped pair, "f2+" the forward of microbatches 2 and 3, "f3b" a forward of the second lane;
// ".." idle. The last line explains the symbols that occur.
std::string ScheduleTimeline(const TimedSchedule& timed, int width, bool color);

// Draws the schedule as SVG: a row per rank, a color per kind, lighter for later stages of the rank, an outline for the
// lane, a microbatch's number if there is space, and each slot's name as a tooltip. Returns InvalidArgument if there
// are too many slots to see.
absl::StatusOr<std::string> ScheduleSvg(const TimedSchedule& timed, const ScheduleReport& report);

// One line per schedule, and one for each that was skipped.
std::string ScheduleComparison(const ScheduleComparisonReport& report);

}  // namespace weft

#endif  // WEFT_CLI_SCHEDULE_SCHEDULE_VIEW_H_
