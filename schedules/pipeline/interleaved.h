// The order in which interleaved schedules go through stages and microbatches.
#ifndef WEFT_SCHEDULES_PIPELINE_INTERLEAVED_H_
#define WEFT_SCHEDULES_PIPELINE_INTERLEAVED_H_

#include <vector>

#include "absl/status/statusor.h"
#include "schedules/pipeline/schedule.h"

namespace weft {

// One of the N * v forwards of a rank; of backwards the chunk counts from the last.
struct VirtualStep {
  int microbatch = 0;
  // Chunk c of rank r is stage c * P + r.
  int chunk = 0;
};

// Microbatches per group: params.group if it is valid (InvalidArgument names the nearest that is), or for 0 the
// smallest valid one. Valid is a group from P to N whose last, smaller group is empty or at least P; N if N < P.
absl::StatusOr<int> InterleavedGroup(const ScheduleParams& params);

// Groups of `group` microbatches (the last may have fewer), and in each the chunks in turn.
std::vector<VirtualStep> VirtualSteps(int microbatches, int virtual_stages, int group);

}  // namespace weft

#endif  // WEFT_SCHEDULES_PIPELINE_INTERLEAVED_H_
