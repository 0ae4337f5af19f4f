// Builds the schedule that a plan asks for. Only this file turns the schedule's name, its parameters or its own
// definition into lists of slots.
#ifndef WEFT_COMPILER_INPUTS_PLAN_SCHEDULE_H_
#define WEFT_COMPILER_INPUTS_PLAN_SCHEDULE_H_

#include <string>

#include "absl/status/statusor.h"
#include "proto/plan.pb.h"
#include "schedules/pipeline/schedule.h"

namespace weft {

struct ScheduleChoice {
  std::string name;
  // Text of a schedule that the user defines, in place of one from the registry; empty = none.
  std::string definition;
  // `params.microbatches` counts the schedule's microbatches. With backward halving, these are halves of the recipe's
  // microbatches.
  ScheduleParams params;
};

// PlanSchedule.freeze is not part of the choice, because freezing needs a program (freeze_schedule.h).
ScheduleChoice ChoiceOf(const PlanSchedule& plan, int ranks, int microbatches, const SlotCosts& costs);

// Returns a checked schedule on params.ranks ranks. NotFound for an unknown name. InvalidArgument names the parameter,
// names the wrong slots of a definition, or says that programs of such a schedule cannot be made.
absl::StatusOr<PipelineSchedule> ScheduleOf(const ScheduleChoice& choice);

}  // namespace weft

#endif  // WEFT_COMPILER_INPUTS_PLAN_SCHEDULE_H_
