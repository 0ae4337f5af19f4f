// Schedules as text that people write: weft's own form, which says everything that a schedule can (lanes, placement,
// doubled forwards, overlapped pairs, message-driven and asynchronous orders), or PyTorch's CSV.
// docs/schedule_files.md is the reference.
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
  // Empty where the file gives none.
  std::string name;
  PipelineSchedule schedule;
  int microbatches = 0;
  // Of a compute_comms file: all its actions.
  std::optional<ActionLists> lists = {};
};

// The text form if the first line that holds anything begins with "weft", else PyTorch's CSV. The result has passed
// CheckSchedule. InvalidArgument names line and column or cell, what is there and what is allowed. `csv` is for CSV
// only.
absl::StatusOr<NamedSchedule> ParseSchedule(absl::string_view text, const CsvOptions& csv = {});

// The text form; ParseSchedule of it gives `named` back.
std::string FormatSchedule(const NamedSchedule& named);

// InvalidArgument unless the ranks and microbatches are those of `params`, and these set no optional parameter.
absl::Status CheckDefinition(const NamedSchedule& named, const ScheduleParams& params);

// Of a plan that has a name and a definition, which is what counts: InvalidArgument if the name is a registered
// schedule's and the definition does not call itself so.
absl::Status CheckDefinitionName(absl::string_view name, absl::string_view definition);

// The names of the registered schedules that are message-driven, so that a plan can freeze them.
std::vector<std::string> MessageDrivenSchedules();

// For plans that bring their schedule: ParseSchedule and CheckDefinition.
absl::StatusOr<PipelineSchedule> ScheduleFromDefinition(absl::string_view text, const ScheduleParams& params);

}  // namespace weft

#endif  // WEFT_SCHEDULES_PIPELINE_SCHEDULE_TEXT_H_
