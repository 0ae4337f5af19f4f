// Whether a list of messages is an all-reduce, found by running it on symbols. Knows nothing of any algorithm.
#ifndef WEFT_SCHEDULES_COLLECTIVE_CHECK_H_
#define WEFT_SCHEDULES_COLLECTIVE_CHECK_H_

#include "absl/status/status.h"
#include "schedules/collective/plan.h"

namespace weft {

// OK if every member ends with each contribution exactly once in every chunk, summed in the same order as on all other
// members (rule P10), and the steps are well formed (plan.h). InvalidArgument names the round, member and chunk.
absl::Status CheckCollective(const CollectivePlan& plan);

}  // namespace weft

#endif  // WEFT_SCHEDULES_COLLECTIVE_CHECK_H_
