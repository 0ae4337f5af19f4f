// List scheduling of one lane: time passes, and a rank that is free starts the most urgent of the slots whose inputs
// are there. It finds no optimum, but good orders for any placement, number of microbatches, limit and cost.
#ifndef WEFT_SCHEDULES_PIPELINE_LIST_SCHEDULING_H_
#define WEFT_SCHEDULES_PIPELINE_LIST_SCHEDULING_H_

#include <cstdint>
#include <vector>

#include "schedules/pipeline/schedule.h"

namespace weft {

// What one slot costs; `p2p` as in SlotCosts.
struct ListCosts {
  int64_t forward = 1;
  int64_t backward = 2;
  int64_t p2p = 0;
};

// The lower, the more urgent:
//   of a forward:   per_microbatch * m + forward + per_forward_stage * s
//   of a backward:  per_microbatch * m + backward + per_backward_stage * (S - 1 - s)
// Ties: forward, then lower stage, then lower microbatch. With per_microbatch >= 1 every stage does its microbatches in
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

// `lane` is a placement of one lane (PipelineSchedule::placement[0]). Microbatch m enters the first stage when m -
// limit has left it. The sum of the costs of all slots and of their transfers is at most 2^62.
ListedOrder ScheduleByRule(const std::vector<int>& lane, int ranks, int microbatches, int limit, const ListCosts& costs,
                           const ListRule& rule);

// Of lists of whole backwards and forwards of width 1, of one lane, that cannot deadlock.
int64_t MakespanInOrder(const std::vector<int>& lane, const std::vector<std::vector<Slot>>& order, int microbatches,
                        const ListCosts& costs);

}  // namespace weft

#endif  // WEFT_SCHEDULES_PIPELINE_LIST_SCHEDULING_H_
