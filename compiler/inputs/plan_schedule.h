// The schedule that a plan asks for: the one place where its name, parameters or own definition become lists of slots.
#ifndef WEFT_COMPILER_INPUTS_PLAN_SCHEDULE_H_
#define WEFT_COMPILER_INPUTS_PLAN_SCHEDULE_H_

#include <string>

#include "absl/status/statusor.h"
#include "proto/plan.pb.h"
#include "schedules/pipeline/schedule.h"

namespace weft {

struct ScheduleChoice {
  std::string name;
  // The text of a schedule of the user's own, in place of one from the registry; empty = none.
  std::string definition;
  // `microbatches` is what the schedule counts: with backward halving, halves.
  ScheduleParams params;
};

// PlanSchedule.freeze is not part of it: that needs a program (freeze_schedule.h).
ScheduleChoice ChoiceOf(const PlanSchedule& plan, int ranks, int microbatches, const SlotCosts& costs);

// A checked schedule on params.ranks ranks. NotFound for an unknown name; InvalidArgument names the parameter, or the
// slots of a definition that is wrong, or says that programs of such a schedule cannot be made.
absl::StatusOr<PipelineSchedule> ScheduleOf(const ScheduleChoice& choice);

}  // namespace weft

#endif  // WEFT_COMPILER_INPUTS_PLAN_SCHEDULE_H_
