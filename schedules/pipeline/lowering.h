// Turns lists with compute only into lists with transfers and weight gathering, as PyTorch's pipeline runtime does.
#ifndef WEFT_SCHEDULES_PIPELINE_LOWERING_H_
#define WEFT_SCHEDULES_PIPELINE_LOWERING_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "schedules/pipeline/action_list.h"

namespace weft {

struct LoweringOptions {
  // If true, an input gradient directly before the weight gradient of the same stage and microbatch becomes a whole
  // backward.
  bool merge_backwards = false;
  // The number of stages whose weights a rank holds unsharded: those that it computes next (UNSHARD, RESHARD). 0 if no
  // weights are sharded. PyTorch uses 3.
  int unsharded_stages = 3;
  // If true, REDUCE_GRAD follows a stage's last gradient.
  bool reduce_gradients = true;
  // If true, SEND and RECV are added between ranks.
  bool transfers = true;
};

// `lists` hold compute only. Rules (PyTorch 2.13, torch/distributed/pipelining/schedules.py):
// - Before each action, look at the next K different stages to be computed, this action's first. RESHARD the held
//   stages that are not among them, in ascending order. UNSHARD those among them that are not held, in their order. A
//   pair includes both its stages, even beyond K. At the end RESHARD the rest. (PyTorch orders several RESHARDs at once
//   as a Python set does, which is ascending only below stage 8. Nothing depends on it: they free memory.)
// - REDUCE_GRAD follows the action that holds the stage's N-th W or B.
// - Ranks take turns, one action each. An action goes to its rank's list if its input is there. Its SEND follows it,
//   and the RECV goes to the end of the receiver's list at that time. Neighboring stages of one rank need neither.
//
// Returns InvalidArgument if all ranks wait for each other.
absl::StatusOr<ActionLists> Lower(const ActionLists& lists, const LoweringOptions& options = {});

// Counts the rounds that lists with transfers take, with one action per rank and round whatever the action costs
// (PyTorch's _simulate_comms_compute, with which its tests count). In each round, from rank 0 on, every rank runs its
// next action if possible. A RECV is possible once its SEND is done, even in the same round. Then the ranks that could
// not run try once more. InvalidArgument names the actions that wait forever.
absl::StatusOr<int64_t> CountUnitSteps(const ActionLists& lists);

}  // namespace weft

#endif  // WEFT_SCHEDULES_PIPELINE_LOWERING_H_
