#include "compiler/inputs/plan_schedule.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/util/status.h"
#include "schedules/pipeline/check.h"
#include "schedules/pipeline/schedule_text.h"

namespace weft {

absl::StatusOr<PipelineSchedule> ScheduleOf(const ScheduleChoice& choice) {
  const ScheduleParams& params = choice.params;
  PipelineSchedule schedule;
  if (!choice.definition.empty()) {
    absl::StatusOr<PipelineSchedule> defined = ScheduleFromDefinition(choice.definition, params);
    if (!defined.ok()) {
      return absl::Status(
          defined.status().code(),
          absl::StrCat("plan.schedule.definition", choice.name.empty() ? "" : absl::StrCat(" ('", choice.name, "')"),
                       ": ", defined.status().message()));
    }
    schedule = *std::move(defined);
  } else {
    WEFT_ASSIGN_OR_RETURN(const ScheduleEntry* entry, FindSchedule(choice.name));
    WEFT_ASSIGN_OR_RETURN(schedule, BuildSchedule(*entry, params));
  }
  const std::string name = choice.name.empty() ? "of plan.schedule.definition" : absl::StrCat("'", choice.name, "'");
  if (schedule.asynchrony) {
    return absl::InvalidArgumentError(absl::StrCat(
        "schedule ", name, " updates the weights without a flush; to compile it, its list must have at least ",
        params.ranks, " microbatches, one per rank"));
  }
  if (static_cast<int>(schedule.order.size()) != params.ranks) {
    return absl::InvalidArgumentError(absl::StrCat("schedule ", name, " is for ", schedule.order.size(),
                                                   " ranks; the pipe axis of plan.mesh has ", params.ranks));
  }
  WEFT_RETURN_IF_ERROR(CheckSchedule(schedule, params.microbatches));
  return schedule;
}

ScheduleChoice ChoiceOf(const PlanSchedule& plan, int ranks, int microbatches, const SlotCosts& costs) {
  ScheduleChoice choice;
  choice.name = plan.name();
  choice.definition = plan.definition();
  choice.params = {.ranks = ranks,
                   .microbatches = microbatches,
                   .costs = costs,
                   .virtual_stages = plan.virtual_stages(),
                   .waves = plan.waves(),
                   .lanes = plan.lanes(),
                   .limit = plan.limit(),
                   .group = plan.group(),
                   .scaling = static_cast<Scaling>(plan.scaling())};
  return choice;
}

}  // namespace weft
