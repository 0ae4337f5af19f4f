// Schedules as text that people write: PyTorch's CSV, or weft's own form, which can express every schedule (lanes,
// placement, doubled forwards, overlapped pairs, message-driven and asynchronous orders). docs/schedule_files.md is the
// reference.
#ifndef WEFT_SCHEDULES_PIPELINE_SCHEDULE_TEXT_H_
#define WEFT_SCHEDULES_PIPELINE_SCHEDULE_TEXT_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "schedules/pipeline/pytorch_csv.h"
#include "schedules/pipeline/schedule.h"

namespace weft {

// First line of the text form.
inline constexpr absl::string_view kScheduleTextHeader = "weft schedule 1";

struct NamedSchedule {
  // Empty if the file gives no name.
  std::string name;
  PipelineSchedule schedule;
  int microbatches = 0;
  // All actions, if the file is a CSV of the form compute_comms; else empty.
  std::optional<ActionLists> lists = {};
};

// Reads the text form if the first line with content begins with "weft", else PyTorch's CSV. The result has passed
// CheckSchedule. InvalidArgument names the line and column or cell, its content and what is allowed. `csv` is for CSV
// only.
absl::StatusOr<NamedSchedule> ParseSchedule(absl::string_view text, const CsvOptions& csv = {});

// Writes the text form. ParseSchedule turns it back into `named`.
std::string FormatSchedule(const NamedSchedule& named);

// Checks `params` against a schedule that the plan defines itself. Returns InvalidArgument unless `params` has the
// ranks and microbatches of `named` and sets no optional parameter.
absl::Status CheckDefinition(const NamedSchedule& named, const ScheduleParams& params);

// Checks a plan that has both a name and a definition; weft uses the definition. Returns InvalidArgument if `name` is a
// registered schedule and the definition gives itself another name or none.
absl::Status CheckDefinitionName(absl::string_view name, absl::string_view definition);

// The names of the registered message-driven schedules, whose order a plan can freeze (FreezeSchedule in timing.h).
std::vector<std::string> MessageDrivenSchedules();

// Calls ParseSchedule and CheckDefinition, for plans that contain their schedule.
absl::StatusOr<PipelineSchedule> ScheduleFromDefinition(absl::string_view text, const ScheduleParams& params);

}  // namespace weft

#endif  // WEFT_SCHEDULES_PIPELINE_SCHEDULE_TEXT_H_
