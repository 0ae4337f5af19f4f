// Whether a list of messages is the collective that it says, found by running it on symbols. Knows nothing of any
// algorithm.
#ifndef WEFT_SCHEDULES_COLLECTIVE_CHECK_H_
#define WEFT_SCHEDULES_COLLECTIVE_CHECK_H_

#include <string>

#include "absl/status/status.h"
#include "schedules/collective/plan.h"

namespace weft {

// OK if the steps are well formed (plan.h) and every member ends with what it must have, made of what it may have: in
// an all-reduce each contribution exactly once in every chunk, summed in the same order as on all other members (rule
// P10); in a reduce-scatter the same in its own chunk; in an all-gather every member's chunk. InvalidArgument names the
// round, member and chunk.
absl::Status CheckCollective(const CollectivePlan& plan);

// The order in which member `member` of a plan that passed CheckCollective sums `chunk`, e.g. "(0+(1+2))".
std::string SumOrder(const CollectivePlan& plan, int member, int chunk);

}  // namespace weft

#endif  // WEFT_SCHEDULES_COLLECTIVE_CHECK_H_
