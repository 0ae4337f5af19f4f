// Durations of model and machine for schedules that order their slots by time.
#ifndef WEFT_COMPILER_SEGMENTS_SLOT_COSTS_H_
#define WEFT_COMPILER_SEGMENTS_SLOT_COSTS_H_

#include "absl/status/statusor.h"
#include "compiler/segments/segment_set.h"
#include "proto/cluster.pb.h"
#include "proto/types.pb.h"
#include "schedules/pipeline/schedule.h"

namespace weft {

// The unit: forward and backward of one microbatch on one rank take a million, in the mean over all ranks. `p2p` is the
// transfer time of the slowest boundary between two ranks of the first data replica, activations or gradients, in the
// same unit. It is at most a thousand times the million, beyond which no order changes. Collectives of segments count
// as if nothing ran beside them. `segments` has the backwards that `schedule` runs. Only the placement of `schedule`
// matters. Errors are those of `cost` and of the network model.
absl::StatusOr<SlotCosts> SlotCostsOf(const SegmentSet& segments, const PipelineSchedule& schedule,
                                      const StepCost& cost, const Mesh& mesh, const Cluster& cluster);

}  // namespace weft

#endif  // WEFT_COMPILER_SEGMENTS_SLOT_COSTS_H_
