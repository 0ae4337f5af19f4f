// Estimates the memory of plans without compiling whole plans. It compiles one stage of each form with few layers
// (form_pipeline.h), writes the action lists of all ranks from these stages (rank_lists.h), and extends the figures to
// all layers.
//
// An estimate predicts the planned bytes that weft compile states, or the bytes that a runtime takes. docs/fit.md has
// their errors, which memory_estimate_test.cc bounds.
#ifndef WEFT_PLANNER_FIT_MEMORY_ESTIMATE_H_
#define WEFT_PLANNER_FIT_MEMORY_ESTIMATE_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/inputs/plan_inputs.h"
#include "planner/fit/form_pipeline.h"
#include "planner/fit/plan_memory.h"
#include "planner/search/layer_runs.h"
#include "proto/cluster.pb.h"
#include "proto/model_graph.pb.h"
#include "proto/plan.pb.h"
#include "proto/recipe.pb.h"
#include "proto/runtime.pb.h"

namespace weft::planner {

// Errors of estimates (PlanMemory.error), relative to the planned bytes of the fullest rank. An estimate does not count
// the gaps between the buffers of an arena. Gaps are larger if the stages of a rank differ in what they keep and when
// they release it: backwards in halves of several stages, or stages of several lanes. Buckets of offloaded states leave
// large gaps in small models.
inline constexpr double kEstimateError = 0.02;
inline constexpr double kEstimateErrorOfSeveralStages = 0.04;
inline constexpr double kEstimateErrorOfBuckets = 0.1;

class MemoryEstimator {
 public:
  // All are borrowed; `runtime` may be null. `cost` is the model by which stages are cut.
  MemoryEstimator(const ModelGraph& model, const Cluster& cluster, std::string cost, const Runtime* runtime);

  // Returns the memory of a plan as the user wrote it. With recompute FIT, it assumes that as few layers are recomputed
  // as the memory allows. Returns the compiler's error for inputs that the compiler refuses. Returns Unimplemented for
  // plans whose memory only the compiler can find: schedules without a flush or a static order, forwards that are wider
  // than backwards, layers that are named one by one, values that skip stages, post-validation, offloaded activations,
  // cached gathered weights, and offloaded states in few buckets.
  //
  // If `fullest_only`, Estimate covers only one of the ranks whose stages have the same forms: the one that holds the
  // most microbatches. The others count as empty. That takes less time for long pipelines.
  absl::StatusOr<PlanMemory> Estimate(const Recipe& recipe, const Plan& plan, bool fullest_only = false);

  // Compiles the plan as weft compile does, but does not verify the program. If `quickly`, arenas may be some percent
  // higher than those of weft compile, never lower.
  absl::StatusOr<PlanMemory> Compile(const Recipe& recipe, const Plan& plan, bool quickly = false) const;

  // The model with fewer layers of each run.
  const ModelGraph& short_model() const { return short_model_; }

  // Device bytes that a plan may use on the device with the least memory; INT64_MAX if no size is stated.
  int64_t capacity() const { return capacity_; }

 private:
  // Resolves the inputs with the short model if that is enough.
  absl::StatusOr<PlanInputs> Resolved(const Recipe& recipe, const Plan& plan) const;
  absl::StatusOr<PlanMemory> EstimateFit(const Recipe& recipe, const Plan& plan, bool fullest_only);
  absl::StatusOr<PlanMemory> EstimateWith(const PlanInputs& inputs, const std::vector<int32_t>& layers_per_stage,
                                          bool fullest_only);
  absl::StatusOr<std::vector<int32_t>> CutOf(const PlanInputs& inputs);

  const ModelGraph& model_;
  const Cluster& cluster_;
  const std::string cost_;
  const Runtime* const runtime_;
  const std::vector<LayerRun> runs_;
  // The model with as many layers of each run as form pipelines usually need. Shortening this model takes less time
  // than shortening the whole one.
  const ModelGraph short_model_;
  const std::vector<LayerRun> short_runs_;
  const int64_t capacity_;
  // Results by a key that has the plan's fields that matter.
  std::map<std::string, absl::StatusOr<std::vector<KindCosts>>> cut_costs_;
  std::map<std::string, absl::StatusOr<Program>> forms_;
};

}  // namespace weft::planner

#endif  // WEFT_PLANNER_FIT_MEMORY_ESTIMATE_H_
