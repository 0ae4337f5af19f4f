// How many activations each rank holds. A rank runs one slot, or pair, at a time, so this follows from the order alone.
#ifndef WEFT_SCHEDULES_PIPELINE_ACTIVATIONS_H_
#define WEFT_SCHEDULES_PIPELINE_ACTIVATIONS_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "schedules/pipeline/schedule.h"

namespace weft {

// Per rank, the most (stage, microbatch) whose activations it holds at once, as RankTiming says. Of an asynchronous
// schedule, over any number of repetitions. The schedule is static and passes CheckSchedule.
std::vector<int64_t> PeakActivations(const PipelineSchedule& schedule, int microbatches);

// The same step by step: calls on_slot(rank, slot, held) for every slot of rank 0, then of rank 1, ..., with what the
// rank holds from the slot's start if it is a forward, else from its end.
void ForEachHeld(const PipelineSchedule& schedule, int microbatches,
                 absl::FunctionRef<void(int rank, const Slot& slot, int64_t held)> on_slot);

}  // namespace weft

#endif  // WEFT_SCHEDULES_PIPELINE_ACTIVATIONS_H_
