// Loads the schedules that `weft schedule` and similar commands show: a registered schedule, or one from a file.
#ifndef WEFT_CLI_SCHEDULE_SCHEDULE_LOAD_H_
#define WEFT_CLI_SCHEDULE_SCHEDULE_LOAD_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/schedule/schedule_view.h"
#include "proto/report.pb.h"
#include "schedules/pipeline/action_list.h"
#include "schedules/pipeline/closed_form.h"
#include "schedules/pipeline/pytorch_csv.h"
#include "schedules/pipeline/schedule.h"

namespace weft {

// Times of one slot by stage, in the unit of SlotCosts. A field without entries, or with one, means the time of all
// stages of a rank together (as SlotCosts does), of which each stage takes an equal share.
struct StageTimes {
  std::vector<int64_t> forward, backward, input, weight;

  // The number of stages that the lists name; 0 if there is no list.
  int stages() const;
};

struct ScheduleRequest {
  // A registered name, or a file (docs/schedule_files.md).
  std::string name;
  // Costs are in 1 / scale. If the number of ranks or microbatches is 0, a registered schedule uses 4 ranks and 8
  // microbatches, and a file uses its own numbers.
  ScheduleParams params;
  int64_t scale = 1;
  // If given, these replace the forward, backward and weight of `params.costs`, which then order the slots of schedules
  // that look at times. Overlapped pairs run one slot after the other.
  std::optional<StageTimes> stage_times = {};
  CsvOptions csv;
  // Replaces a message-driven order by the static order in which its slots run with these costs.
  bool freeze = false;
  // The most microbatches whose activations a rank may hold, each counted over all stages of a rank (CheckActivations).
  // A schedule in which a rank holds more is refused, or left out of a comparison.
  std::optional<Ratio> activation_cap = {};
  // If true, ignores parameters that the schedule does not take, instead of refusing them.
  bool ignore_foreign = false;
};

struct LoadedSchedule {
  // The timed schedule. Its name is the name to show: the path if a file contains no name.
  TimedSchedule timed;
  // The registered name, or the name in the file; empty if the file has none.
  std::string own_name;
  // Includes the closed form, if there is one.
  ScheduleReport report;
  // True if a message-driven order was frozen.
  bool frozen = false;
  // The registered schedule; null for a file.
  const ScheduleEntry* entry = nullptr;
  // All actions of the file, if it has transfers.
  std::optional<ActionLists> lists;
};

// Returns NotFound if there is neither such a schedule nor such a file.
absl::StatusOr<LoadedSchedule> LoadSchedule(const ScheduleRequest& request);

// Costs by stage as exact integers.
struct ScaledCosts {
  // All costs are multiples of 1 / (unit * ScheduleRequest::scale).
  int64_t unit = 1;
  // The activations of a microbatch in one stage, in multiples of 1 / unit of its activations on one whole rank.
  int64_t activations = 1;
  std::vector<StageCosts> stages;
  int64_t p2p = 0;
};

// InvalidArgument names the flag of a list that has another length, or a time that is out of range.
absl::StatusOr<ScaledCosts> ScaleCosts(const StageTimes& times, int64_t p2p, int ranks, int stages);

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
