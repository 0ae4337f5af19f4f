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

// One rank's slots for microbatch 0, by chunk: chunk 0 of rank r is stage r, chunk 1 is stage 2P - 1 - r. Microbatch m
// has the same slots 6 m later. The four slots differ modulo 6. The two slots that are left over belong to the weight
// gradients, first come, first served.
struct BuildingBlock {
  std::array<int64_t, 2> forward = {};
  std::array<int64_t, 2> input = {};
};

struct RepeatedBlocks {
  // One block for each rank.
  std::vector<BuildingBlock> ranks;
  // Maximum number of stages whose activations a rank may hold.
  int limit = 2;
  // A forward may run at most this many slots before its place in the block.
  int64_t lead = INT64_MAX;
  // If true, a weight gradient whose place has come goes before a slot whose place has not, provided that its chunk is
  // at its limit and has forwards to come. If false, it only fills a slot in which the rank has nothing else to do.
  bool punctual_weights = false;
};

// Makes each rank's list. Slot after slot, a rank runs, of all that it could run, the one whose place in the repeated
// blocks is first. A forward could run if its input is there and its chunk holds fewer activations than in the repeated
// blocks. So the start and the end of the step close up, and in between the blocks repeat. Takes time linear in the
// length of the lists.
PipelineSchedule VSchedule(const RepeatedBlocks& blocks, int microbatches);

// The times if forwards, input gradients and weight gradients all cost the same; other costs have no formula. `bubble`
// counts slots of one stage.
ClosedForm ClosedFormOfBlocks(const ScheduleParams& params, std::optional<int64_t> bubble);

}  // namespace weft

#endif  // WEFT_SCHEDULES_PIPELINE_CONTROLLABLE_MEMORY_H_
