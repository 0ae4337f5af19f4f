// From compute only to compute with transfers and weight gathering, as PyTorch's pipeline runtime does it.
#ifndef WEFT_SCHEDULES_PIPELINE_LOWERING_H_
#define WEFT_SCHEDULES_PIPELINE_LOWERING_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "schedules/pipeline/action_list.h"

namespace weft {

struct LoweringOptions {
  // An input gradient directly before the weight gradient of the same stage and microbatch becomes a whole backward.
  bool merge_backwards = false;
  // The weights of this many stages, the next to be computed, are held unsharded (UNSHARD, RESHARD); 0: none are
  // sharded. PyTorch has 3.
  int unsharded_stages = 3;
  // REDUCE_GRAD after a stage's last gradient.
  bool reduce_gradients = true;
  // SEND and RECV between ranks.
  bool transfers = true;
};

// `lists` hold compute only. Rules (PyTorch 2.13, torch/distributed/pipelining/schedules.py):
// - Before each action, look at the next K different stages to be computed, this action's first: RESHARD those that are
//   held and not among them, in ascending order, UNSHARD those that are among them and not held, in their order. A pair
//   brings both its stages, even beyond K. At the end RESHARD the rest. (PyTorch's order of several RESHARDs at once is
//   that of a Python set, ascending only below stage 8. Nothing depends on it: they free memory.)
// - REDUCE_GRAD follows the action that holds the stage's N-th W or B.
// - Ranks take turns, one action each. An action goes to its rank's list if its input is there; its SEND follows it,
// and
//   the RECV goes to the end of the receiver's list at that time. Neighbouring stages of one rank need neither.
// InvalidArgument if they all wait for each other.
absl::StatusOr<ActionLists> Lower(const ActionLists& lists, const LoweringOptions& options = {});

// How long lists with transfers take in rounds of one action per rank, however long it takes (PyTorch's
// _simulate_comms_compute, which its tests count with): in each round, from rank 0 on, every rank does its next action
// if it can. A RECV can from the moment its SEND is done, so also in the same round; then those that could not may try
// once more. InvalidArgument names the actions that wait for ever.
absl::StatusOr<int64_t> CountUnitSteps(const ActionLists& lists);

}  // namespace weft

#endif  // WEFT_SCHEDULES_PIPELINE_LOWERING_H_
