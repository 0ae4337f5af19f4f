// Compiles a short pipeline with one rank for each form of stage (stage_forms.h). Its program shows what every stage of
// the whole pipeline keeps and makes.
#ifndef WEFT_PLANNER_FIT_FORM_PIPELINE_H_
#define WEFT_PLANNER_FIT_FORM_PIPELINE_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "compiler/graph/balanced_partition.h"
#include "compiler/inputs/plan_inputs.h"
#include "compiler/rank_kinds.h"
#include "planner/fit/stage_forms.h"
#include "planner/search/layer_runs.h"
#include "proto/program.pb.h"

namespace weft::planner {

// The kinds of backward that the compiled pipeline has.
struct BackwardForms {
  bool whole = true;
  bool split = false;
};

// A model and its runs of equal layers. Both are borrowed.
struct ModelRuns {
  const ModelGraph& model;
  const std::vector<LayerRun>& runs;
};

// Compiles the program of `forms`, with two microbatches. Pipe rank i holds a stage of form i, and the other axes of
// the mesh keep their sizes. If there are both kinds of backward, microbatch 0 has a whole one and microbatch 1 a split
// one. `inputs` are the inputs of the whole plan. `model` may have fewer layers of a run than their model, but at least
// as many as all forms together. Fails as the compiler does.
absl::StatusOr<Program> CompileForms(const PlanInputs& inputs, const ModelRuns& model, const StageForms& forms,
                                     BackwardForms backwards);

// Costs of all layers of the model, as the compiler measures them to cut stages (compiler/lower_segments.h), from at
// most three layers of each run of `model`. `runs` are those of the whole model. Returns the costs on each of `kinds`
// (MixedKindsOf), or on cluster.device if there is none.
absl::StatusOr<std::vector<KindCosts>> CutCostsOf(const PlanInputs& inputs, const ModelRuns& model,
                                                  const std::vector<LayerRun>& runs, const RankKinds& kinds);

}  // namespace weft::planner

#endif  // WEFT_PLANNER_FIT_FORM_PIPELINE_H_
