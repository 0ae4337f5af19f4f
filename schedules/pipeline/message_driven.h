// Runs a message-driven schedule: which slot each rank chooses, and when (rule P6 of docs/program.md).
#ifndef WEFT_SCHEDULES_PIPELINE_MESSAGE_DRIVEN_H_
#define WEFT_SCHEDULES_PIPELINE_MESSAGE_DRIVEN_H_

#include <cstdint>
#include <vector>

#include "schedules/pipeline/schedule.h"
#include "schedules/pipeline/slot_times.h"

namespace weft {

// Returns for each rank the indices of its slots in `order`, in the order in which the slots start. The schedule must
// be message-driven and pass CheckSchedule.
std::vector<std::vector<int32_t>> ReplayMessageDriven(const PipelineSchedule& schedule, int microbatches,
                                                      const UnitCosts& costs);

}  // namespace weft

#endif  // WEFT_SCHEDULES_PIPELINE_MESSAGE_DRIVEN_H_
