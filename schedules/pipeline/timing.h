// Computes when each slot of a schedule runs, given the costs of slots. The times are exact integers.
#ifndef WEFT_SCHEDULES_PIPELINE_TIMING_H_
#define WEFT_SCHEDULES_PIPELINE_TIMING_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "schedules/pipeline/schedule.h"

namespace weft {

struct RankTiming {
  int64_t busy = 0;
  // Makespan minus busy; the sum of the four fields that follow.
  int64_t idle = 0;
  // Idle time before the rank's first slot; for a rank without slots, the whole makespan.
  int64_t warm_up = 0;
  // Idle time between slots. `dependency`: a result that the next slot needs was still being computed. `communication`:
  // the result was computed but still in flight (p2p).
  int64_t dependency = 0;
  int64_t communication = 0;
  // Idle time after the rank's last slot.
  int64_t tail = 0;
  // The most activations held at once. A rank holds a microbatch's activations from the start of the forward to the end
  // of the backward: the end of kBackwardWeight if the backward is in halves, the end of the last backward if the
  // forward was doubled. The unit is one microbatch's activations on one whole rank.
  int64_t peak_activations = 0;
};

// All fields, also the activations, are multiples of 1 / `unit`: with 2 stages per rank, unit = 2 and a makespan of 33
// means 16.5. With one stage per rank, unit = 1.
struct ScheduleTiming {
  int64_t unit = 1;
  // From the first start to the last end over all ranks. For an asynchronous schedule, the time of one repetition
  // alone: first its slots with `ahead`, then its other slots.
  int64_t makespan = 0;
  // The longest time of any rank from its own first start to its own last end. (Papers on weight-gradient splitting
  // quote this one.)
  int64_t span = 0;
  // The compute time of the busiest rank: the makespan of a pipeline without bubbles.
  int64_t ideal = 0;
  // The time that `period_repetitions` further repetitions add in steady state. It equals the makespan, except for
  // asynchronous schedules, whose repetitions overlap. 0 if the times of an asynchronous schedule show no pattern in
  // the first kPeriodSearch repetitions (fewer for very long lists).
  int64_t period = 0;
  int64_t period_repetitions = 1;
  std::vector<RankTiming> ranks;
  // start[rank][i], end[rank][i] of the i-th slot of order[rank]. Both slots of an overlapped pair have the times of
  // the pair.
  std::vector<std::vector<int64_t>> start;
  std::vector<std::vector<int64_t>> end;
};

inline constexpr int kPeriodSearch = 4096;

// Times a schedule. Each rank runs its list in order (a message-driven rank chooses by rule P6). A slot starts as soon
// as its rank is free and its inputs are there. Returns InvalidArgument if CheckSchedule refuses the schedule, or if a
// cost is negative or too large (slot_times.h).
absl::StatusOr<ScheduleTiming> TimeSchedule(const PipelineSchedule& schedule, int microbatches, const SlotCosts& costs);

// Times a static schedule that flushes, with costs by stage. `p2p` is as in SlotCosts. The unit is 1, and
// peak_activations counts pairs (stage, microbatch). Also returns InvalidArgument if the schedule is message-driven or
// asynchronous, or if a stage has no costs.
absl::StatusOr<ScheduleTiming> TimeSchedule(const PipelineSchedule& schedule, int microbatches,
                                            std::vector<StageCosts> costs, int64_t p2p);

// Turns a message-driven schedule into a static one: each rank's slots are in the order in which they start with these
// costs. Returns static schedules unchanged.
absl::StatusOr<PipelineSchedule> FreezeSchedule(const PipelineSchedule& schedule, int microbatches,
                                                const SlotCosts& costs);
absl::StatusOr<PipelineSchedule> FreezeSchedule(const PipelineSchedule& schedule, int microbatches,
                                                std::vector<StageCosts> costs, int64_t p2p);

}  // namespace weft

#endif  // WEFT_SCHEDULES_PIPELINE_TIMING_H_
