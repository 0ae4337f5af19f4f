// The conditions that every schedule puts on its parameters, and the placements that several schedules share.
#ifndef WEFT_SCHEDULES_PIPELINE_PARAMS_H_
#define WEFT_SCHEDULES_PIPELINE_PARAMS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "schedules/pipeline/schedule.h"

namespace weft {

// Maximum number of slots in all ranks' lists. It suffices for 1024 ranks with 4 stages each, 4096 microbatches and 3
// slots for each. A larger number is a mistake or an attack.
inline constexpr int64_t kMaxSlots = int64_t{1} << 26;
// Maximum cost of a slot: about 1,100 s in picoseconds.
inline constexpr int64_t kMaxSlotCost = int64_t{1} << 50;
inline constexpr int kMaxStagesPerRank = 1024;

// Returns InvalidArgument with the nearest valid value if value is not in low..high.
absl::Status CheckRange(absl::string_view name, int64_t value, int64_t low, int64_t high);

// Checks that 1 <= ranks, 1 <= microbatches, 3 slots per stage and microbatch are at most kMaxSlots, costs are in
// 1..kMaxSlotCost (weight, pair and p2p may be 0, weight is at most backward), the sum of the costs of all slots is
// at most 2^62, and no optional parameter is negative or too large. A schedule with several stages per rank passes
// their number; params.virtual_stages or 2 * params.waves counts instead if it is larger. InvalidArgument names the
// parameter, its value and the nearest valid one.
absl::Status CheckParams(const ScheduleParams& params, int stages_per_rank = 1);

// Returns placements of one lane. Linear: stage i is on rank i. Looped: stage i is on rank i mod ranks. Snake: like
// looped, but every other round runs backwards, so that neighboring stages at a turn share a rank.
std::vector<std::vector<int>> LinearPlacement(int stages);
std::vector<std::vector<int>> LoopedPlacement(int ranks, int stages);
std::vector<std::vector<int>> SnakePlacement(int ranks, int stages);
// Returns the lane that runs in the opposite direction: a stage that `lane` puts on rank r is on rank ranks - 1 - r.
std::vector<int> ReversedLane(const std::vector<int>& lane, int ranks);

}  // namespace weft

#endif  // WEFT_SCHEDULES_PIPELINE_PARAMS_H_
