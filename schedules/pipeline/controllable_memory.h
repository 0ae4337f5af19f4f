// What V-Half and V-Min share: two stages per rank, placed as a V, and one microbatch's slots on each rank (its
// "building block"), repeated every six slots of equal length. The lifetimes in the block bound the activations.
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
// has its own 6 m later. The four, modulo 6, differ; the two that are left over are the weight gradients', first come
// first served.
struct BuildingBlock {
  std::array<int64_t, 2> forward = {};
  std::array<int64_t, 2> input = {};
};

struct RepeatedBlocks {
  // Of each rank.
  std::vector<BuildingBlock> ranks;
  // Stages whose activations a rank may hold.
  int limit = 2;
  // So many slots before its place in the block may a forward run.
  int64_t lead = INT64_MAX;
  // Whether a weight gradient whose place has come goes before a slot whose place has not, if its chunk holds as much
  // as it may and has forwards to come. If not, it only ever fills a slot in which the rank has nothing else to do.
  bool punctual_weights = false;
};

// Each rank's list: what it runs if, slot after slot, it takes of all that it could run the one whose place in the
// repeated blocks is first. A forward could run if its input is there and its chunk holds fewer activations than in the
// repeated blocks. So the start and the end of the step close up, and in between the blocks repeat. Linear in the
// length of the lists.
PipelineSchedule VSchedule(const RepeatedBlocks& blocks, int microbatches);

// The times, if forwards, input gradients and weight gradients all cost the same; other costs have no formula. `bubble`
// counts slots of one stage.
ClosedForm ClosedFormOfBlocks(const ScheduleParams& params, std::optional<int64_t> bubble);

}  // namespace weft

#endif  // WEFT_SCHEDULES_PIPELINE_CONTROLLABLE_MEMORY_H_
