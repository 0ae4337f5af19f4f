// Checks that a list of messages performs the collective that it claims, by executing the messages with symbols in
// place of numbers. The check knows nothing about the algorithm that made the list.
#ifndef WEFT_SCHEDULES_COLLECTIVE_CHECK_H_
#define WEFT_SCHEDULES_COLLECTIVE_CHECK_H_

#include <string>

#include "absl/status/status.h"
#include "schedules/collective/plan.h"

namespace weft {

// OK if the steps are well formed (plan.h) and every member ends with the right content:
// - all-reduce: every chunk holds each contribution exactly once, summed in the same order on all members (rule P10);
// - reduce-scatter: the member's own chunk holds each contribution exactly once;
// - all-gather: the member holds every member's chunk.
//
// InvalidArgument names the member and chunk and, if a single message is at fault, its round.
absl::Status CheckCollective(const CollectivePlan& plan);

// The order in which member `member` of a plan that passed CheckCollective sums `chunk`, e.g. "(0+(1+2))".
std::string SumOrder(const CollectivePlan& plan, int member, int chunk);

}  // namespace weft

#endif  // WEFT_SCHEDULES_COLLECTIVE_CHECK_H_
