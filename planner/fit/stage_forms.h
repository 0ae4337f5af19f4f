// The different kinds of stages that a pipeline has. Most stages of a model compute the same, so a pipeline with one
// stage of each form shows what every stage holds.
#ifndef WEFT_PLANNER_FIT_STAGE_FORMS_H_
#define WEFT_PLANNER_FIT_STAGE_FORMS_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "planner/search/layer_runs.h"

namespace weft::planner {

struct StageForms {
  // By form, in the order of the first stage of each: the number of layers of every run.
  //
  //   embedding, 8 equal blocks, head on 4 stages, shortened to 2:  1 2 0 | 0 2 0 | 0 2 1
  //   layers_per_stage 3 2 2 3                                      form_of_stage 0 1 1 2
  std::vector<std::vector<int32_t>> layers;
  std::vector<int> form_of_stage;

  // Number of layers of each form, and of each run over all forms.
  std::vector<int32_t> LayersPerForm() const;
  std::vector<int32_t> LayersPerRun() const;
};

// Returns the number of layers of a run that the form of a stage has, for a stage that has `layers` of the run.
// `mixed`: the stage also has layers of other runs.
using ShortenFn = absl::FunctionRef<int32_t(int32_t layers, bool mixed)>;

// Finds the forms of the stages of a model with these runs. `layers_per_stage` covers all layers.
StageForms FormsOfStages(absl::Span<const LayerRun> runs, absl::Span<const int32_t> layers_per_stage,
                         ShortenFn shorten);

}  // namespace weft::planner

#endif  // WEFT_PLANNER_FIT_STAGE_FORMS_H_
