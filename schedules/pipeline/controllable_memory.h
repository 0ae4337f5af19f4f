// The common part of V-Half and V-Min: two stages per rank, placed as a V. One microbatch's slots on each rank (its
// "building block") repeat every six slots of equal length. The lifetimes in the block bound the activations.
#ifndef WEFT_SCHEDULES_PIPELINE_CONTROLLABLE_MEMORY_H_
#define WEFT_SCHEDULES_PIPELINE_CONTROLLABLE_MEMORY_H_

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "schedules/pipeline/closed_form.h"
#include "schedules/pipeline/schedule.h"

namespace weft {

// The numbers of one rank's slots for microbatch 0, by chunk: chunk 0 of rank r is stage r, chunk 1 is stage 2P - 1 -
// r. For microbatch m, the numbers are 6 m larger. The four numbers differ modulo 6. Of every six slots, two are left
// over for the weight gradients, first come, first served.
struct BuildingBlock {
  std::array<int64_t, 2> forward = {};
  std::array<int64_t, 2> input = {};
};

struct RepeatedBlocks {
  // One block for each rank.
  std::vector<BuildingBlock> ranks;
  // Maximum number of pairs (stage, microbatch) whose activations a rank may hold.
  int limit = 2;
  // A forward may run at most this many slots before its place in the block.
  int64_t lead = INT64_MAX;
  // If true, a weight gradient goes before a slot whose place in the blocks is later, provided that its chunk is at its
  // limit and the rank has forwards of chunk 0 left. If false, it only fills a slot in which the rank has nothing else
  // to do.
  bool punctual_weights = false;
};

// Makes each rank's list. In each slot, a rank runs the candidate whose place in the repeated blocks comes first. A
// forward is a candidate if its input is available and its chunk holds fewer activations than in the repeated blocks.
// So gaps close at the start and the end of the iteration, and in between the blocks repeat. Takes time linear in the
// length of the lists.
PipelineSchedule VSchedule(const RepeatedBlocks& blocks, int microbatches);

// Returns the times for the case that forwards, input gradients and weight gradients all cost the same. For other costs
// the times are empty. `bubble` counts slots of one stage.
ClosedForm ClosedFormOfBlocks(const ScheduleParams& params, std::optional<int64_t> bubble);

}  // namespace weft

#endif  // WEFT_SCHEDULES_PIPELINE_CONTROLLABLE_MEMORY_H_
