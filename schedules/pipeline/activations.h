// Counts the activations that each rank holds. A rank runs one slot, or one pair of slots, at a time, so the order of
// the slots alone determines the counts.
#ifndef WEFT_SCHEDULES_PIPELINE_ACTIVATIONS_H_
#define WEFT_SCHEDULES_PIPELINE_ACTIVATIONS_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "schedules/pipeline/schedule.h"

namespace weft {

// Returns for each rank the largest number of pairs (stage, microbatch) whose activations it holds at once. RankTiming
// defines from when to when it holds them. For an asynchronous schedule the result holds for any number of repetitions.
// The schedule must be static and pass CheckSchedule.
std::vector<int64_t> PeakActivations(const PipelineSchedule& schedule, int microbatches);

// Counts the same activations slot by slot: calls on_slot(rank, slot, held) for every slot of rank 0, then of rank 1,
// and so on. `held` is the count from the slot's start if the slot is a forward, otherwise from the slot's end.
void ForEachHeld(const PipelineSchedule& schedule, int microbatches,
                 absl::FunctionRef<void(int rank, const Slot& slot, int64_t held)> on_slot);

}  // namespace weft

#endif  // WEFT_SCHEDULES_PIPELINE_ACTIVATIONS_H_
