// A timed schedule as people and scripts read it.
#ifndef WEFT_CLI_SCHEDULE_VIEW_H_
#define WEFT_CLI_SCHEDULE_VIEW_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "proto/report.pb.h"
#include "schedules/pipeline/schedule.h"
#include "schedules/pipeline/timing.h"

namespace weft {

// Times of `timing` are multiples of 1 / (timing.unit * scale) of the report's unit.
ScheduleReport MakeScheduleReport(absl::string_view name, int microbatches, const ScheduleTiming& timing,
                                  int64_t scale);

// The figures as a table.
std::string ScheduleTable(const ScheduleReport& report);

// One line per rank over time (cli/timeline.h): "f3" forward of microbatch 3, "B3" backward, ".." idle.
std::string ScheduleTimeline(const PipelineSchedule& schedule, const ScheduleTiming& timing, int64_t scale, int width,
                             bool colour);

// The same as a drawing: a row per rank, forwards blue, backwards green, a microbatch's number where there is room.
std::string ScheduleSvg(const PipelineSchedule& schedule, const ScheduleTiming& timing, const ScheduleReport& report);

// One line per rank: its slots as STAGE F|B MICROBATCH, e.g. "0F0,0F1,0B0", which PyTorch's pipeline runtime reads as
// a compute-only schedule.
std::string ScheduleCsv(const PipelineSchedule& schedule);

}  // namespace weft

#endif  // WEFT_CLI_SCHEDULE_VIEW_H_
