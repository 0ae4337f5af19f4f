// The order in which interleaved schedules process stages and microbatches.
#ifndef WEFT_SCHEDULES_PIPELINE_INTERLEAVED_H_
#define WEFT_SCHEDULES_PIPELINE_INTERLEAVED_H_

#include <vector>

#include "absl/status/statusor.h"
#include "schedules/pipeline/schedule.h"

namespace weft {

// One of the N * v forwards of a rank, or one of its N * v backwards, whose chunks count from the last.
struct VirtualStep {
  int microbatch = 0;
  // Chunk c of rank r is stage c * P + r.
  int chunk = 0;
};

// Microbatches per group: params.group, or the smallest valid number if params.group is 0. If params.group is not
// valid, InvalidArgument names the nearest valid number. A number is valid if it is from P to N and the last, smaller
// group is empty or has at least P microbatches. If N < P, only N is valid.
absl::StatusOr<int> InterleavedGroup(const ScheduleParams& params);

// The steps in groups of `group` microbatches (the last group may be smaller). Each group runs the chunks in turn.
std::vector<VirtualStep> VirtualSteps(int microbatches, int virtual_stages, int group);

}  // namespace weft

#endif  // WEFT_SCHEDULES_PIPELINE_INTERLEAVED_H_
