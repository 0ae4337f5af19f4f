// Checks that lists that wait for each other all finish, and explains why if they do not.
#ifndef WEFT_SCHEDULES_PIPELINE_DEADLOCK_H_
#define WEFT_SCHEDULES_PIPELINE_DEADLOCK_H_

#include <optional>

#include "absl/status/status.h"
#include "schedules/pipeline/check.h"
#include "schedules/pipeline/dependencies.h"
#include "schedules/pipeline/schedule.h"

namespace weft {

// The schedule is well formed and complete (check.h), and `table` is made from it. InvalidArgument names two slots of a
// rank that are in the wrong order, or else the cycle; `wrong` receives the first slot that it names.
//
// It is enough to run one repetition. In an asynchronous list no slot that is ahead waits for one that is not. So no
// slot waits for a later repetition, and results of the repetition before are always there.
absl::Status CheckDeadlock(const PipelineSchedule& schedule, SlotTable& table, std::optional<WrongSlot>* wrong);

}  // namespace weft

#endif  // WEFT_SCHEDULES_PIPELINE_DEADLOCK_H_
