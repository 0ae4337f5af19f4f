// Recipe and plan of a measured run.
#ifndef WEFT_TESTS_ACCURACY_RUN_PLAN_H_
#define WEFT_TESTS_ACCURACY_RUN_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/cluster.pb.h"
#include "proto/plan.pb.h"
#include "proto/recipe.pb.h"
#include "proto/runtime.pb.h"
#include "tests/accuracy/measurement.h"

namespace weft {

struct RunPlan {
  Recipe recipe;
  Plan plan;
  // The source does not say what is recomputed: all activations are kept if that fits, else every layer's input.
  bool recompute_unknown = false;
};

// InvalidArgument says why weft cannot express the run: a size that is not stated, context parallelism, ...
absl::StatusOr<RunPlan> PlanOf(const Measurement& run, const Runtime& runtime, std::vector<std::string>* assumptions);

// Layers of each of `stages` stages of a model of `blocks` blocks between an embedding and a head: as many blocks in
// each where that comes out; else as many layers, embedding and head counted; else what is left over goes to the stages
// behind the first.
std::vector<int32_t> LayersPerStage(int64_t blocks, int64_t stages);

// As nanotron cuts a model (src/nanotron/models/base.py, "Balance compute across PP blocks"): a stage ends with the
// part that brings the parameters of products, those of the head among them, over its share. In the units of
// `layers_per_stage`, in which the embedding and the head are one each. Empty if sizes are not stated, or if a stage
// would be.
std::vector<int32_t> LayersByCost(const Measurement::Model& model, int64_t stages);

}  // namespace weft

#endif  // WEFT_TESTS_ACCURACY_RUN_PLAN_H_
