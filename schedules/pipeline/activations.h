// Counts the activations that each rank holds. A rank runs one slot, or pair, at a time, so the order alone determines
// them.
#ifndef WEFT_SCHEDULES_PIPELINE_ACTIVATIONS_H_
#define WEFT_SCHEDULES_PIPELINE_ACTIVATIONS_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "schedules/pipeline/schedule.h"

namespace weft {

// For each rank, the most pairs (stage, microbatch) whose activations it holds at once, as RankTiming defines. For an
// asynchronous schedule the result holds for any number of repetitions. The schedule is static and passes
// CheckSchedule.
std::vector<int64_t> PeakActivations(const PipelineSchedule& schedule, int microbatches);

// Does the same slot by slot: calls on_slot(rank, slot, held) for every slot of rank 0, then of rank 1, and so on.
// `held` is what the rank holds from the slot's start if the slot is a forward, else from its end.
void ForEachHeld(const PipelineSchedule& schedule, int microbatches,
                 absl::FunctionRef<void(int rank, const Slot& slot, int64_t held)> on_slot);

}  // namespace weft

#endif  // WEFT_SCHEDULES_PIPELINE_ACTIVATIONS_H_
