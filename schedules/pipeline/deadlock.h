// Checks that lists that wait for each other all finish, and explains why if they do not.
#ifndef WEFT_SCHEDULES_PIPELINE_DEADLOCK_H_
#define WEFT_SCHEDULES_PIPELINE_DEADLOCK_H_

#include <optional>

#include "absl/status/status.h"
#include "schedules/pipeline/check.h"
#include "schedules/pipeline/dependencies.h"
#include "schedules/pipeline/schedule.h"

namespace weft {

// `schedule` must be well formed and complete (check.h), and `table` must be made from it. InvalidArgument names two
// slots of a rank that are in the wrong order, or else the cycle; `wrong` receives the first slot that the error names.
//
// It is enough to run one repetition. In an asynchronous list no slot that is ahead waits for one that is not ahead. So
// no slot waits for a later repetition, and the results of the previous repetition are always available.
absl::Status CheckDeadlock(const PipelineSchedule& schedule, SlotTable& table, std::optional<WrongSlot>* wrong);

}  // namespace weft

#endif  // WEFT_SCHEDULES_PIPELINE_DEADLOCK_H_
