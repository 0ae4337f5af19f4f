// A message-driven schedule as the static one that a simulated step of its program is.
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
  // What the simulated step took.
  double message_driven_seconds = 0;
  // Ranks at the same place of the pipeline computed in another order in another data replica, so that their part of
  // that step is not what `schedule` says.
  bool replicas_differ = false;
  // The step was of a plan without the collectives that its stages have.
  bool without_collectives = false;
};

// Each rank's slots in the order in which the ranks of the first data replica start them when one step of `program` is
// simulated on `cluster` with cost model `cost`; ranks of all replicas have one list, so the others get it too.
// `program` is `schedule`'s, message-driven, and has passed VerifyProgram. The result has passed CheckSchedule.
absl::StatusOr<FrozenSchedule> FreezeRun(const PipelineSchedule& schedule, const Program& program,
                                         const Cluster& cluster, const std::string& cost = "roofline");

}  // namespace weft::planner

#endif  // WEFT_PLANNER_FREEZE_SCHEDULE_H_
