// Which layers each stage of a framework's run has, where its plan does not say it (Runtime.stage_cut).
#ifndef WEFT_COMPILER_INPUTS_STAGE_CUT_H_
#define WEFT_COMPILER_INPUTS_STAGE_CUT_H_

#include <cstdint>
#include <vector>

#include "proto/model_graph.pb.h"
#include "proto/plan.pb.h"
#include "proto/recipe.pb.h"
#include "proto/runtime.pb.h"

namespace weft {

// Runtime::BY_BLOCKS. Layers of each of `stages` stages of a model of `blocks` blocks between an embedding and a head:
// as many blocks in each where that comes out; else as many layers, embedding and head counted; else what is left over
// goes to the stages behind the first. Every stage has a layer where stages <= blocks + 2.
std::vector<int32_t> LayersPerStage(int64_t blocks, int64_t stages);

// Runtime::BY_WEIGHTS, as nanotron cuts a model (src/nanotron/models/base.py, "Balance compute across PP blocks"; its
// models' get_block_compute_costs): a stage ends with the layer that brings the parameters of products, those of the
// head among them, over its share. Every head counts as having keys and values of its own. Empty if a stage would be.
std::vector<int32_t> LayersByWeights(const ModelGraph& model, int64_t stages);

// plan.partition.layers_per_stage as `runtime` has it. Empty, so that costs decide: the plan states its own, the
// runtime says nothing, the schedule places its stages in a way of its own (back and forth, on several lanes), the
// model has fewer layers than stages, or the inputs are wrong, which compiling them tells.
std::vector<int32_t> StageCutOf(const Runtime& runtime, const ModelGraph& model, const Recipe& recipe,
                                const Plan& plan);

// Cuts the stages of `plan` so; a partition that it states, and one that costs decide, stay as they are. Returns the
// cut.
std::vector<int32_t> CutStagesAs(const Runtime& runtime, const ModelGraph& model, const Recipe& recipe, Plan* plan);

}  // namespace weft

#endif  // WEFT_COMPILER_INPUTS_STAGE_CUT_H_
