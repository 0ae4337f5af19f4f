// Turns a message-driven schedule into a static one: the order of a simulated step of its program.
#ifndef WEFT_PLANNER_FREEZE_SCHEDULE_H_
#define WEFT_PLANNER_FREEZE_SCHEDULE_H_

#include <string>

#include "absl/status/statusor.h"
#include "proto/cluster.pb.h"
#include "proto/program.pb.h"
#include "schedules/pipeline/schedule.h"

namespace weft::planner {

struct FrozenSchedule {
  PipelineSchedule schedule;
  // Seconds of the simulated step.
  double message_driven_seconds = 0;
  // True if ranks at the same place of the pipeline computed in another order in another data replica. `schedule` does
  // then not describe their part of the step.
  bool replicas_differ = false;
  // True if the simulated plan lacked the collectives that the plan's stages have.
  bool without_collectives = false;
};

// Simulates one step of `program` on `cluster` with cost model `cost`, and returns each rank's slots in the order in
// which the ranks of the first data replica start them. Ranks of all replicas share one list, so the others get it too.
// `program` belongs to `schedule`, is message-driven, and has passed VerifyProgram. The result has passed
// CheckSchedule.
absl::StatusOr<FrozenSchedule> FreezeRun(const PipelineSchedule& schedule, const Program& program,
                                         const Cluster& cluster, const std::string& cost = "roofline");

}  // namespace weft::planner

#endif  // WEFT_PLANNER_FREEZE_SCHEDULE_H_
