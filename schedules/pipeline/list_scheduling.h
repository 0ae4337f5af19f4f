// List scheduling of one lane: as time passes, a free rank starts the most urgent of the slots whose inputs are there.
// The result is not optimal, but it is a good order for any placement, number of microbatches, limit and cost.
#ifndef WEFT_SCHEDULES_PIPELINE_LIST_SCHEDULING_H_
#define WEFT_SCHEDULES_PIPELINE_LIST_SCHEDULING_H_

#include <cstdint>
#include <vector>

#include "schedules/pipeline/schedule.h"

namespace weft {

// The costs of one slot; `p2p` is defined as in SlotCosts.
struct ListCosts {
  int64_t forward = 1;
  int64_t backward = 2;
  int64_t p2p = 0;
};

// The urgency of a slot of microbatch m in stage s of S stages; the lowest value goes first:
//   of a forward:   per_microbatch * m + forward + per_forward_stage * s
//   of a backward:  per_microbatch * m + backward + per_backward_stage * (S - 1 - s)
// Ties: forward, then lower stage, then lower microbatch. With per_microbatch >= 1 every stage runs its microbatches in
// ascending order.
struct ListRule {
  int64_t per_microbatch = 1;
  int64_t forward = 0;
  int64_t per_forward_stage = 0;
  int64_t backward = 0;
  int64_t per_backward_stage = 0;
};

struct ListedOrder {
  std::vector<std::vector<Slot>> order;
  int64_t makespan = 0;
};

// `lane` is a placement of one lane (PipelineSchedule::placement[0]). Microbatch m enters the first stage when
// microbatch m - limit has left it. The sum of the costs of all slots and of their transfers must be at most 2^62.
ListedOrder ScheduleByRule(const std::vector<int>& lane, int ranks, int microbatches, int limit, const ListCosts& costs,
                           const ListRule& rule);

// The makespan of the lists of one lane. They must not deadlock, and may only have whole backwards and forwards of
// width 1.
int64_t MakespanInOrder(const std::vector<int>& lane, const std::vector<std::vector<Slot>>& order, int microbatches,
                        const ListCosts& costs);

}  // namespace weft

#endif  // WEFT_SCHEDULES_PIPELINE_LIST_SCHEDULING_H_
