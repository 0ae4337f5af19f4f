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
  // Makespan less busy; the sum of the four that follow.
  int64_t idle = 0;
  // Before its first slot; all of it for a rank without slots.
  int64_t warm_up = 0;
  // Between slots: while a result that it needs was still being computed, and while that was only on its way (p2p).
  int64_t dependency = 0;
  int64_t communication = 0;
  // After its last slot.
  int64_t tail = 0;
  // Most activations held at once, each from the start of its forward to the end of its backward (of its
  // kBackwardWeight if the backward is in halves; of the last of the backwards if the forward was doubled). The unit is
  // one microbatch's activations on one whole rank.
  int64_t peak_activations = 0;
};

// All fields, activations too, are multiples of 1 / `unit`: with 2 stages per rank, unit = 2 and a makespan of 33 means
// 16.5. With one stage per rank, unit = 1.
struct ScheduleTiming {
  int64_t unit = 1;
  // First start to last end over all ranks. Of an asynchronous schedule: of one repetition alone, that is the slots
  // ahead of it, then the others.
  int64_t makespan = 0;
  // Largest over all ranks of: own first start to own last end. (Papers on weight-gradient splitting quote this one.)
  int64_t span = 0;
  // What the busiest rank computes: the makespan of a pipeline without bubbles.
  int64_t ideal = 0;
  // What `period_repetitions` further repetitions add once many have run: the makespan, but for asynchronous schedules,
  // whose repetitions overlap. 0 if these did not settle into a pattern in the first kPeriodSearch.
  int64_t period = 0;
  int64_t period_repetitions = 1;
  std::vector<RankTiming> ranks;
  // start[rank][i], end[rank][i] of the i-th slot of order[rank]. Both slots of an overlapped pair have the pair's.
  std::vector<std::vector<int64_t>> start;
  std::vector<std::vector<int64_t>> end;
};

inline constexpr int kPeriodSearch = 4096;

// Each rank runs its list in order (a message-driven one chooses by rule P6); a slot starts as soon as its rank is free
// and its inputs are there. InvalidArgument if CheckSchedule refuses the schedule or a cost is negative or beyond
// kMaximumSlotCost (params.h).
absl::StatusOr<ScheduleTiming> TimeSchedule(const PipelineSchedule& schedule, int microbatches, const SlotCosts& costs);

// A message-driven schedule as a static one: each rank's slots in the order in which they start if slots cost this.
// Static schedules come back as they are.
absl::StatusOr<PipelineSchedule> FreezeSchedule(const PipelineSchedule& schedule, int microbatches,
                                                const SlotCosts& costs);

}  // namespace weft

#endif  // WEFT_SCHEDULES_PIPELINE_TIMING_H_
