// Compiles a pipeline with one rank for each form of stage (stage_forms.h), whose program shows what every stage of a
// long pipeline keeps and makes.
#ifndef WEFT_PLANNER_FIT_FORM_PIPELINE_H_
#define WEFT_PLANNER_FIT_FORM_PIPELINE_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "compiler/inputs/plan_inputs.h"
#include "planner/fit/stage_forms.h"
#include "planner/search/layer_runs.h"
#include "proto/program.pb.h"

namespace weft::planner {

// The kinds of backward that the pipeline's actions show.
struct BackwardForms {
  bool whole = true;
  bool split = false;
};

// A model and its runs of equal layers; borrowed.
struct ModelRuns {
  const ModelGraph& model;
  const std::vector<LayerRun>& runs;
};

// Compiles the program of `forms`, with two microbatches. Pipe rank i holds a stage of form i, and each other axis of
// the mesh has its size. If there are both kinds of backward, microbatch 0 has a whole one, microbatch 1 a split one.
// `inputs` are those of the whole plan; their model may have more layers of a run than `model`, which has at least
// those of the forms. Fails as the compiler does.
absl::StatusOr<Program> CompileForms(const PlanInputs& inputs, const ModelRuns& model, const StageForms& forms,
                                     BackwardForms backwards);

// Costs of all layers of the model, as the compiler measures them to cut stages (compiler/lower_segments.h), from at
// most three layers of each run of `model`. `runs` are those of the whole model.
struct CutCosts {
  std::vector<int64_t> layers;
  // Empty if nothing is recomputed; -1 for a layer that never is.
  std::vector<int64_t> recompute;
  // Every so many layers of a stage are recomputed.
  int32_t every = 1;
};
absl::StatusOr<CutCosts> CutCostsOf(const PlanInputs& inputs, const ModelRuns& model,
                                    const std::vector<LayerRun>& runs);

}  // namespace weft::planner

#endif  // WEFT_PLANNER_FIT_FORM_PIPELINE_H_
