// The order in which interleaved schedules process stages and microbatches.
#ifndef WEFT_SCHEDULES_PIPELINE_INTERLEAVED_H_
#define WEFT_SCHEDULES_PIPELINE_INTERLEAVED_H_

#include <vector>

#include "absl/status/statusor.h"
#include "schedules/pipeline/schedule.h"

namespace weft {

// One of the N * v forwards of a rank. For backwards, the chunk counts from the last.
struct VirtualStep {
  int microbatch = 0;
  // Chunk c of rank r is stage c * P + r.
  int chunk = 0;
};

// Microbatches per group: params.group if it is valid (InvalidArgument names the nearest valid group), or for 0 the
// smallest valid one. A group is valid if it is from P to N and the last, smaller group is empty or at least P. If N <
// P, only N is valid.
absl::StatusOr<int> InterleavedGroup(const ScheduleParams& params);

// The steps in groups of `group` microbatches (the last group may be smaller). Each group runs the chunks in turn.
std::vector<VirtualStep> VirtualSteps(int microbatches, int virtual_stages, int group);

}  // namespace weft

#endif  // WEFT_SCHEDULES_PIPELINE_INTERLEAVED_H_
