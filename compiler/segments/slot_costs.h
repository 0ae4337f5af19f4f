// Computes durations of slots and transfers, from the model and the cluster, for schedules that order slots by time.
#ifndef WEFT_COMPILER_SEGMENTS_SLOT_COSTS_H_
#define WEFT_COMPILER_SEGMENTS_SLOT_COSTS_H_

#include "absl/status/statusor.h"
#include "compiler/segments/segment_set.h"
#include "proto/cluster.pb.h"
#include "proto/types.pb.h"
#include "schedules/pipeline/schedule.h"

namespace weft {

// Durations are in a unit such that the forward and backward of one microbatch on one rank take a million, on average
// over all ranks. `p2p` is the transfer time of the slowest boundary between two ranks of the first data replica,
// activations or gradients, in the same unit. It is at most 10^9, because larger values change no order. A collective
// in a segment counts only if computation waits for it. `segments` must have the backwards that `schedule` runs. Only
// the placement of `schedule` matters. Returns the errors of `cost` and of the network model.
absl::StatusOr<SlotCosts> SlotCostsOf(const SegmentSet& segments, const PipelineSchedule& schedule,
                                      const StepCost& cost, const Mesh& mesh, const Cluster& cluster);

}  // namespace weft

#endif  // WEFT_COMPILER_SEGMENTS_SLOT_COSTS_H_
