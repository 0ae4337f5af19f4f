// What `weft schedule` and its like are asked to show: a schedule of the list, or one from a file.
#ifndef WEFT_CLI_SCHEDULE_SCHEDULE_LOAD_H_
#define WEFT_CLI_SCHEDULE_SCHEDULE_LOAD_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "cli/schedule/schedule_view.h"
#include "proto/report.pb.h"
#include "schedules/pipeline/action_list.h"
#include "schedules/pipeline/closed_form.h"
#include "schedules/pipeline/pytorch_csv.h"
#include "schedules/pipeline/schedule.h"

namespace weft {

struct ScheduleRequest {
  // A registered name, or else a file (docs/schedule_files.md).
  std::string name;
  // Costs are in 1 / scale. 0 ranks or microbatches: 4 and 8 of a registered schedule, of a file its own.
  ScheduleParams params;
  int64_t scale = 1;
  CsvOptions csv;
  // Message-driven orders become the static ones that they take with these costs.
  bool freeze = false;
  // Schedules that hold more (CheckActivations) are refused, or left out of a comparison.
  std::optional<Ratio> activation_cap = {};
  // Of the parameters that the schedule does not take, forget them instead of refusing.
  bool ignore_foreign = false;
};

struct LoadedSchedule {
  // With the name to show; of a file without one its path.
  TimedSchedule timed;
  // What a file calls itself, or a registered name.
  std::string own_name;
  // With the closed form, where there is one.
  ScheduleReport report;
  // It was message-driven.
  bool frozen = false;
  // Null for a file.
  const ScheduleEntry* entry = nullptr;
  // All actions of a file that has transfers.
  std::optional<ActionLists> lists;
};

// NotFound if there is neither such a schedule nor such a file.
absl::StatusOr<LoadedSchedule> LoadSchedule(const ScheduleRequest& request);

// `params` with those optional parameters cleared that `entry` does not take.
ScheduleParams OnlyTaken(const ScheduleEntry& entry, ScheduleParams params);

// The schedules with all their names or, if `names` is {"all"}, all registered ones, by makespan. Those of "all" that
// do not exist for these parameters are skipped, with the reason; a named one is an error.
absl::StatusOr<ScheduleComparisonReport> CompareSchedules(const ScheduleRequest& request,
                                                          const std::vector<std::string>& names);

// The actions of a schedule in PyTorch's words: as its file has them, or else lowered (lowering.h) if the form is
// compute_comms. InvalidArgument if lists of actions cannot say it.
absl::StatusOr<ActionLists> ActionsOf(const LoadedSchedule& loaded, CsvForm form);

}  // namespace weft

#endif  // WEFT_CLI_SCHEDULE_SCHEDULE_LOAD_H_
