// Bounds and estimates of a plan from the profile of its blocks, without compiling it.
#ifndef WEFT_PLANNER_SEARCH_PLAN_BOUND_H_
#define WEFT_PLANNER_SEARCH_PLAN_BOUND_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "planner/search/block_profile.h"
#include "proto/plan.pb.h"
#include "schedules/pipeline/schedule.h"

namespace weft::planner {

// What bounds need to know about a schedule, whose lists may be long.
struct ScheduleShape {
  int stages = 0;
  // placement[lane][stage] = pipe rank.
  std::vector<std::vector<int>> placement;
  // microbatches[lane] = number of microbatches that run through the lane.
  std::vector<int64_t> microbatches = {};
  // What a rank holds while it runs a backward, or the input half of one, of `stage`.
  struct Held {
    int stage = 0;
    // (stage, number of microbatches): whose activations are kept, and whose input half has begun and whose weight half
    // has not ended.
    std::vector<std::pair<int, int64_t>> saved;
    std::vector<std::pair<int, int64_t>> saved_gradients;

    friend bool operator==(const Held&, const Held&) = default;
  };
  // By pipe rank: some of the moments at which it holds most, at most kMaxMoments.
  std::vector<std::vector<Held>> held = {};
  bool split_backward = false;
  bool whole_backward = false;
};

inline constexpr int kMaxMoments = 16;

// `schedule` must be static, flush and have passed CheckSchedule. `frees_between_halves`: activations are freed after
// the input half of a backward (RuntimeMemory).
ScheduleShape ShapeOf(const PipelineSchedule& schedule, bool frees_between_halves);

struct PlanBound {
  // No simulation of the plan has a shorter iteration.
  double least_seconds = 0;
  // What the simulation is expected to give.
  double estimated_seconds = 0;
  // Device bytes that the fullest rank takes at least.
  int64_t least_bytes = 0;
  // For a plan with recompute FIT: the least share of its layers that each pipe rank must recompute.
  std::vector<double> recomputed_share;
  bool recomputes() const;
};

// Times on an idle network.
struct NetworkTimes {
  // Picoseconds of the fastest message between two stages, forward and back; 0 = messages take no time.
  int64_t forward_message = 0;
  int64_t backward_message = 0;
  // Picoseconds for each further byte of a long all-reduce over all replicas; half of that for an all-gather or a
  // reduce-scatter.
  double sum_ps_per_byte = 0;
};

// Replicas that share one copy of what plan.zero shards.
int64_t ReplicasThatShare(const Plan& plan);

struct BoundInputs {
  const BlockProfile& profile;
  // The profile with all layers recomputed, for a plan with recompute FIT; `profile` then recomputes none. Else null.
  const BlockProfile* recomputed = nullptr;
  const ScheduleShape& shape;
  // Layers of each stage.
  const std::vector<int32_t>& layers_per_stage;
  // With its precision filled in.
  const Plan& plan;
  NetworkTimes network = {};
  // Gradients of a stage are summed only after its last backward (ZeRO 0 and 1).
  bool sums_after_backward = false;
  // A backward has the workspace of the program; frameworks may need less.
  bool workspace_as_planned = true;
  // A backward keeps the whole gradients of two layers, which wait for their reduce-scatter (ZeRO 2 and 3).
  bool whole_gradients = false;
  // Bytes that gathers of weights move, relative to the weights' own.
  double gathered_share = 1;
  // Bandwidth of the device's memory; 0 = unknown.
  double memory_bytes_per_second = 0;
  // Device memory that a plan may use.
  int64_t capacity = 0;
};

// The bound counts computation and the collectives that it waits for inside blocks (block_profile.h), the fill and the
// drain of the pipeline, and the optimizer step. For a pipe rank p,
//
//   fill(p) + work(p) + drain(p) + step(0)
//
// bounds an iteration from below. Fill: the forwards of one microbatch on the stages before those of p. Work: all
// forwards and backwards of p, less the weight halves of its backwards, which may run after the drain. Drain: the
// backwards of one microbatch, or their input halves, on the stages before those of p. Then the rank of stage 0 updates
// its weights, without which its next forward cannot start; if gradients are summed after the backward, those of stage
// 0 come before that. The work with all halves plus step(p) bounds it too, and so does the time of each communicator
// with ZeRO 2 and 3: all gathers of weights, and all reduce-scatters of gradients, which run one after the other.
//
// The memory of a rank is its states, and the activations and the workspace of a moment in which it runs a backward. If
// recompute is FIT, each rank recomputes the share of its layers that makes it fit; layers count as if they could be
// recomputed in part, so the time remains a lower bound.
PlanBound BoundOf(const BoundInputs& inputs);

// Tightens `bound`, which BoundOf made of the same inputs, with the times of every slot of `schedule`, whose shape is
// that of the inputs: fill and drain as they are, and the idle time in between. Takes time in proportion to the slots.
absl::Status TightenBound(const BoundInputs& inputs, const PipelineSchedule& schedule, int microbatches,
                          PlanBound* bound);

}  // namespace weft::planner

#endif  // WEFT_PLANNER_SEARCH_PLAN_BOUND_H_
