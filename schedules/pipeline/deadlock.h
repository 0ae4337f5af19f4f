// Whether lists that wait for each other all finish, and if not, why.
#ifndef WEFT_SCHEDULES_PIPELINE_DEADLOCK_H_
#define WEFT_SCHEDULES_PIPELINE_DEADLOCK_H_

#include "absl/status/status.h"
#include "schedules/pipeline/dependencies.h"
#include "schedules/pipeline/schedule.h"

namespace weft {

// The schedule is well formed and complete (check.h), `table` is its. InvalidArgument names two slots of a rank that
// are in the wrong order, or else the cycle.
//
// One repetition stands for all: of an asynchronous list, what is ahead never waits for what is not, so no slot waits
// for a later repetition, and whatever waits for the one before finds it finished.
absl::Status CheckDeadlock(const PipelineSchedule& schedule, SlotTable& table);

}  // namespace weft

#endif  // WEFT_SCHEDULES_PIPELINE_DEADLOCK_H_
