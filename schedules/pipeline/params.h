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
// Costs are at most this: 1000 s in picoseconds.
inline constexpr int64_t kMaximumSlotCost = int64_t{1} << 50;

// 1 <= ranks, 1 <= microbatches, 2 * ranks * microbatches <= kMaximumSlots, costs in 1..kMaximumSlotCost, and the sum
// of the costs of all slots at most 2^62. InvalidArgument names the parameter, its value and the nearest valid one.
absl::Status CheckParams(const ScheduleParams& params);

// Stage i on rank i, one lane.
std::vector<std::vector<int>> LinearPlacement(int stages);

}  // namespace weft

#endif  // WEFT_SCHEDULES_PIPELINE_PARAMS_H_
