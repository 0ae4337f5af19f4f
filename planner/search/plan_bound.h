// Bounds and estimates of a plan from the profile of its blocks, without compiling it.
#ifndef WEFT_PLANNER_SEARCH_PLAN_BOUND_H_
#define WEFT_PLANNER_SEARCH_PLAN_BOUND_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "planner/search/block_profile.h"
#include "planner/search/schedule_shape.h"
#include "proto/plan.pb.h"
#include "schedules/pipeline/schedule.h"

namespace weft::planner {

struct PlanBound {
  // No simulation of the plan has a shorter iteration.
  double least_seconds = 0;
  // Estimate of the simulated iteration.
  double estimated_seconds = 0;
  // Device bytes that the fullest rank takes at least.
  int64_t least_bytes = 0;
  // False if a rank takes more than its capacity.
  bool fits = true;
  // From profiles of a larger microbatch (profile_store.h): the plan's own give a bound that is not lower.
  bool is_loose = false;
  // For a plan with recompute FIT: how many of its first layers each pipe rank must recompute at least, in fractions of
  // layers, and about how many bytes each of them frees at the rank's fullest moment.
  std::vector<double> recomputed_layers;
  std::vector<int64_t> bytes_of_layer;
};

// Times on an idle network.
struct NetworkTimes {
  // Picoseconds of the fastest message between two stages, forward and back; 0 = messages take no time.
  int64_t forward_message = 0;
  int64_t backward_message = 0;
  // Picoseconds for each further byte of a long all-reduce over all replicas, and of a long all-gather and a long
  // reduce-scatter. Bytes are those of the whole buffer; 0 = they take no time.
  double sum_ps_per_byte = 0;
  double gather_ps_per_byte = 0;
  double scatter_ps_per_byte = 0;
};

// Returns the number of replicas over which plan.zero shards.
int64_t ReplicasThatShare(const Plan& plan);

// The device of the ranks at one pipe rank, if devices are of several kinds.
struct RankDevice {
  // BoundInputs.profile, .recomputed and .memory_bytes_per_second, for this device.
  const BlockProfile* profile = nullptr;
  const BlockProfile* recomputed = nullptr;
  double memory_bytes_per_second = 0;
  // Bytes that the plan may use on each device at this pipe rank.
  int64_t capacity = 0;
};

struct BoundInputs {
  const BlockProfile& profile;
  // The profile with all layers recomputed, for a plan with recompute FIT; `profile` then recomputes none. Else null.
  const BlockProfile* recomputed = nullptr;
  const ScheduleShape& shape;
  // Layers of each stage.
  const std::vector<int32_t>& layers_per_stage;
  // Its precision is filled in.
  const Plan& plan;
  NetworkTimes network = {};
  // True if gradients of a stage are summed only after its last backward (ZeRO 0 and 1).
  bool sums_after_backward = false;
  // True if a backward has the workspace of the program; frameworks may need less.
  bool workspace_as_planned = true;
  // Bytes that gathers of weights move, divided by the bytes of the weights.
  double gathered_share = 1;
  // Bandwidth of the device's memory; 0 = unknown.
  double memory_bytes_per_second = 0;
  // Device memory that a plan may use.
  int64_t capacity = 0;
  // By pipe rank; empty = every rank is on a device like those that the fields above describe.
  std::vector<RankDevice> devices = {};
};

// Bytes of parameters, gradients and optimizer states that a rank with `costs` holds under this plan.
int64_t StateBytes(const Plan& plan, const LayerCosts& costs);

// The bound counts computation and the collectives that it waits for inside blocks (block_profile.h), the fill and the
// drain of the pipeline, and the optimizer step. For a pipe rank p,
//
//   fill(p) + work(p) + drain(p) + step(0)
//
// bounds an iteration from below. Fill: the forwards of one microbatch on the stages before those of p. Work: all
// forwards and backwards of p, less the weight halves of its backwards, which may run after the drain. Drain: the
// backwards of one microbatch, or their input halves, on the stages before those of p. A forward that runs as one
// action with a backward may compute while the backward waits for collectives, so only the backward counts, unless
// stages have no collectives. Step: the rank of stage 0 updates its weights before its next forward starts. If
// gradients are summed after the backward, step(0) includes the sum of the gradients of stage 0. There are two other
// lower bounds: the work with all halves plus step(p), and, with ZeRO 2 and 3, the time of each communicator. All
// gathers of weights run one after the other, and so do all reduce-scatters of gradients.
//
// The memory of a rank is its states, and the activations and the workspace of a moment in which it runs a backward. If
// recompute is FIT, each rank recomputes its first layers, as few as make it fit; layers count as if they could be
// recomputed in part, so the time remains a lower bound.
//
// With `devices` the bound is that of the replica whose ranks are on these devices. Ranks of other kinds can only make
// it wait, so the bound of every replica bounds the plan.
PlanBound BoundOf(const BoundInputs& inputs);

// Tightens `bound`, which BoundOf made of the same inputs, with the times of every slot of `schedule`, whose shape is
// that of the inputs: fill and drain as they are, and the idle time in between. Takes time in proportion to the slots.
absl::Status TightenBound(const BoundInputs& inputs, const PipelineSchedule& schedule, int microbatches,
                          PlanBound* bound);

}  // namespace weft::planner

#endif  // WEFT_PLANNER_SEARCH_PLAN_BOUND_H_
