// Finds the layers of each stage if the plan does not state them, as the framework that runs the plan would cut the
// model (Runtime.stage_cut).
#ifndef WEFT_COMPILER_INPUTS_STAGE_CUT_H_
#define WEFT_COMPILER_INPUTS_STAGE_CUT_H_

#include <cstdint>
#include <vector>

#include "proto/model_graph.pb.h"
#include "proto/plan.pb.h"
#include "proto/recipe.pb.h"
#include "proto/runtime.pb.h"

namespace weft {

// Implements Runtime::BY_BLOCKS: the number of layers of each of `stages` stages, for a model of `blocks` blocks
// between an embedding and a head. If possible, every stage gets the same number of blocks. Otherwise, if possible,
// every stage gets the same number of layers, embedding and head included. Otherwise the remaining blocks go to the
// stages after the first. Every stage has a layer if stages <= blocks + 2.
std::vector<int32_t> LayersPerStage(int64_t blocks, int64_t stages);

// Implements Runtime::BY_WEIGHTS: cuts as nanotron cuts a model (src/nanotron/models/base.py, "Balance compute across
// PP blocks"; its models' get_block_compute_costs). A stage ends with the layer at which the parameters of products
// (including the head's product) exceed its share. Every attention head counts as having its own keys and values. Empty
// if a stage would have no layer.
std::vector<int32_t> LayersByWeights(const ModelGraph& model, int64_t stages);

// Returns plan.partition.layers_per_stage as `runtime` chooses it. Empty, so that costs decide, in these cases: the
// plan states its own, the runtime cuts by cost, the schedule places its stages in another way (back and forth, on
// several lanes), the model has fewer layers than stages, or the inputs are wrong, which compilation reports.
std::vector<int32_t> StageCutOf(const Runtime& runtime, const ModelGraph& model, const Recipe& recipe,
                                const Plan& plan);

// Sets the partition of `plan` to this cut and returns the cut. If the plan states a partition, or if costs decide, the
// plan stays as it is.
std::vector<int32_t> CutStagesAs(const Runtime& runtime, const ModelGraph& model, const Recipe& recipe, Plan* plan);

}  // namespace weft

#endif  // WEFT_COMPILER_INPUTS_STAGE_CUT_H_
