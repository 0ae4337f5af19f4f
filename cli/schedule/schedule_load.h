// Loads the schedules that `weft schedule` and similar commands show: a registered schedule, or one from a file.
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
  // A registered name, or a file (docs/schedule_files.md).
  std::string name;
  // Costs are in 1 / scale. If ranks or microbatches are 0, a registered schedule gets 4 and 8, and a file its own
  // numbers.
  ScheduleParams params;
  int64_t scale = 1;
  CsvOptions csv;
  // Replaces a message-driven order by the static order that it takes with these costs.
  bool freeze = false;
  // A schedule that holds more activations (CheckActivations) is refused, or left out of a comparison.
  std::optional<Ratio> activation_cap = {};
  // Ignores parameters that the schedule does not take, instead of refusing them.
  bool ignore_foreign = false;
};

struct LoadedSchedule {
  // Its name is the one to show: for a file without a name, the path.
  TimedSchedule timed;
  // The name in the file, empty if it has none; or the registered name.
  std::string own_name;
  // Includes the closed form, if there is one.
  ScheduleReport report;
  // True if a message-driven order was frozen.
  bool frozen = false;
  // Null for a file.
  const ScheduleEntry* entry = nullptr;
  // All actions of the file, if it has transfers.
  std::optional<ActionLists> lists;
};

// Returns NotFound if there is neither such a schedule nor such a file.
absl::StatusOr<LoadedSchedule> LoadSchedule(const ScheduleRequest& request);

// Returns `params` without the optional parameters that `entry` does not take.
ScheduleParams OnlyTaken(const ScheduleEntry& entry, ScheduleParams params);

// Compares the schedule of `request` with the schedules in `names`, sorted by makespan. "all" in `names` stands for all
// registered schedules. A schedule of "all" that does not exist for these parameters is skipped, with the reason. For a
// schedule asked for by name, that is an error.
absl::StatusOr<ScheduleComparisonReport> CompareSchedules(const ScheduleRequest& request,
                                                          const std::vector<std::string>& names);

// The actions of a schedule in PyTorch's notation: as its file has them, or lowered (lowering.h) if the form is
// compute_comms. Returns InvalidArgument if lists of actions cannot express the schedule.
absl::StatusOr<ActionLists> ActionsOf(const LoadedSchedule& loaded, CsvForm form);

}  // namespace weft

#endif  // WEFT_CLI_SCHEDULE_SCHEDULE_LOAD_H_
