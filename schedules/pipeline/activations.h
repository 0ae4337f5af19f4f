// How many activations each rank holds. A rank runs one slot, or pair, at a time, so this follows from the order alone.
#ifndef WEFT_SCHEDULES_PIPELINE_ACTIVATIONS_H_
#define WEFT_SCHEDULES_PIPELINE_ACTIVATIONS_H_

#include <cstdint>
#include <vector>

#include "schedules/pipeline/schedule.h"

namespace weft {

// Per rank, the most (stage, microbatch) whose activations it holds at once, as RankTiming says. Of an asynchronous
// schedule, over any number of repetitions. The schedule is static and passes CheckSchedule.
std::vector<int64_t> PeakActivations(const PipelineSchedule& schedule, int microbatches);

}  // namespace weft

#endif  // WEFT_SCHEDULES_PIPELINE_ACTIVATIONS_H_
