// Turns a message-driven schedule into a static one, with the order in which a simulated step ran.
#ifndef WEFT_PLANNER_FREEZE_SCHEDULE_H_
#define WEFT_PLANNER_FREEZE_SCHEDULE_H_

#include "absl/status/statusor.h"
#include "planner/evaluate.h"
#include "schedules/pipeline/schedule.h"

namespace weft::planner {

struct FrozenSchedule {
  PipelineSchedule schedule;
  // Seconds of the simulated step.
  double message_driven_seconds = 0;
  // True if ranks at the same pipeline position computed in different orders in different data replicas. `schedule`
  // then describes only the first replica's part of the step.
  bool replicas_differ = false;
  // True if the simulated plan lacked the collectives that the plan's stages have.
  bool without_collectives = false;
};

// Returns each rank's slots in the order in which the ranks of the first data replica start them in the trace of `run`.
// Ranks of all replicas share one list, so the other replicas get this order too. The program of `run` must belong to
// `schedule` and be message-driven. The result has passed CheckSchedule. Fails if `run` has no trace.
absl::StatusOr<FrozenSchedule> FreezeRun(const PipelineSchedule& schedule, const Evaluation& run);

}  // namespace weft::planner

#endif  // WEFT_PLANNER_FREEZE_SCHEDULE_H_
