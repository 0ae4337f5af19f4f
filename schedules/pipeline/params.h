// What every schedule asks of its parameters.
#ifndef WEFT_SCHEDULES_PIPELINE_PARAMS_H_
#define WEFT_SCHEDULES_PIPELINE_PARAMS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "schedules/pipeline/schedule.h"

namespace weft {

// A list of all ranks' slots may be this long: 16384 ranks with 512 microbatches each. More is a slip or an attack.
inline constexpr int64_t kMaximumSlots = int64_t{1} << 24;
// Costs are at most this, so that no sum of them over all slots overflows.
inline constexpr int64_t kMaximumSlotCost = int64_t{1} << 36;

// 1 <= ranks, 1 <= microbatches, 2 * ranks * microbatches <= kMaximumSlots, and costs in 1..kMaximumSlotCost.
// InvalidArgument names the parameter, its value and the nearest valid one.
absl::Status CheckParams(const ScheduleParams& params);

// Stage i on rank i, one lane.
std::vector<std::vector<int>> LinearPlacement(int stages);

}  // namespace weft

#endif  // WEFT_SCHEDULES_PIPELINE_PARAMS_H_
