// When each slot of a schedule runs, given what slots cost: exact, in integers.
#ifndef WEFT_SCHEDULES_PIPELINE_TIMING_H_
#define WEFT_SCHEDULES_PIPELINE_TIMING_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "schedules/pipeline/schedule.h"

namespace weft {

struct RankTiming {
  int64_t busy = 0;
  // Makespan less busy.
  int64_t idle = 0;
  // Most activations held at once, each from the start of its forward to the end of its backward. The unit is one
  // microbatch's activations on one whole rank.
  int64_t peak_activations = 0;
};

// All fields, activations too, are multiples of 1 / `unit`: with 2 stages per rank, unit = 2 and a makespan of 33 means
// 16.5. With one stage per rank, unit = 1.
struct ScheduleTiming {
  int64_t unit = 1;
  // First start to last end over all ranks.
  int64_t makespan = 0;
  // Largest over all ranks of: own first start to own last end. (Papers on weight-gradient splitting quote this one.)
  int64_t span = 0;
  // What the busiest rank computes: the makespan of a pipeline without bubbles.
  int64_t ideal = 0;
  std::vector<RankTiming> ranks;
  // start[rank][i], end[rank][i] of the i-th slot of order[rank].
  std::vector<std::vector<int64_t>> start;
  std::vector<std::vector<int64_t>> end;
};

// Each rank runs its list in order; a slot starts as soon as its rank is free and its inputs are there. InvalidArgument
// if CheckSchedule refuses the schedule or a cost is negative or beyond kMaximumSlotCost (params.h).
absl::StatusOr<ScheduleTiming> TimeSchedule(const PipelineSchedule& schedule, int microbatches, const SlotCosts& costs);

}  // namespace weft

#endif  // WEFT_SCHEDULES_PIPELINE_TIMING_H_
