// Estimates the simulated time of a plan from the profile of its blocks, without compiling it. Estimates only decide
// which plans are simulated first.
#ifndef WEFT_PLANNER_SEARCH_PLAN_ESTIMATE_H_
#define WEFT_PLANNER_SEARCH_PLAN_ESTIMATE_H_

#include "absl/status/statusor.h"
#include "planner/search/expected_network.h"
#include "planner/search/plan_bound.h"
#include "proto/runtime.pb.h"
#include "schedules/pipeline/schedule.h"

namespace weft::planner {

struct EstimateInputs {
  // Its profiles have estimates as their times (ExpectedOf).
  const BoundInputs& plan;
  const ExpectedNetwork& network;
  // Null = weft's own executor.
  const Runtime* runtime = nullptr;
  // False if the optimizer does not wait for the gradient norm.
  bool clips = true;
  // Bandwidth between a device and its host; 0 = unknown.
  double host_bytes_per_second = 0;
};

// Returns seconds. `bound` is that of the plan, without estimates.
//
// The estimate puts the parts of an iteration one after the other:
//
//   pipeline   each stage's forwards and backwards, with the collectives inside that they wait for, and the gathers of
//              ZeRO 3 that no computation hides; its fill and drain with messages
//   sums       of the gradients of each stage, from its last backward on. Sums of later stages are hidden by the drain
//   norm       with clipping, all pipe ranks wait for the slowest
//   step       the optimizer, or copies of its states from and to the host
//   gather     of the updated weights that the rank's first forward reads
//
// The time of the pipeline is that of its busiest rank, or with EstimateBySlots that of every slot of `schedule`.
double EstimateOf(const EstimateInputs& inputs, const PlanBound& bound);
absl::StatusOr<double> EstimateBySlots(const EstimateInputs& inputs, const PipelineSchedule& schedule, int microbatches,
                                       const PlanBound& bound);

}  // namespace weft::planner

#endif  // WEFT_PLANNER_SEARCH_PLAN_ESTIMATE_H_
