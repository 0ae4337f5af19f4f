// Measures what the layers of a model cost under a tensor configuration, by compiling and simulating a model with few
// blocks. One profile serves every pipeline, every number of replicas and every schedule.
#ifndef WEFT_PLANNER_SEARCH_BLOCK_PROFILE_H_
#define WEFT_PLANNER_SEARCH_BLOCK_PROFILE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "planner/search/layer_runs.h"
#include "proto/cluster.pb.h"
#include "proto/model_graph.pb.h"
#include "proto/plan.pb.h"
#include "proto/recipe.pb.h"
#include "proto/runtime.pb.h"

namespace weft::planner {

// Times are picoseconds on one device, from the first to the last compute step, on a network with nothing else on it.
// So they include the collectives that computation waits for in between, but none before the first or after the last
// step; with mesh axis z, which gathers weights, they are sums of compute steps. Bytes are for one device and one
// microbatch.
struct LayerCosts {
  int64_t forward = 0;
  // The whole backward.
  int64_t backward = 0;
  // The two halves of the backward; 0 if the profile was made without them.
  int64_t backward_input = 0;
  int64_t backward_weight = 0;
  // Everything that a device computes once per optimizer step, if it holds all states: norms, scaling, the optimizer.
  int64_t step = 0;
  // By how much the first forward of an optimizer step takes longer than the others, whose time is `forward`: it may
  // cast weights to 8 bits, for all microbatches of the step.
  int64_t first_forward = 0;
  int64_t saved_bytes = 0;
  // The part that is kept until the weight half of the backward; 0 if the profile was made without halves.
  int64_t half_saved_bytes = 0;
  // Kept from the input half of the backward for the weight half.
  int64_t saved_gradient_bytes = 0;
  // Bytes that a backward needs while it runs, besides what is kept. For a stage, the layer that needs most counts.
  int64_t workspace_bytes = 0;
  // The same for the input half of a backward; 0 if the profile was made without halves.
  int64_t half_workspace_bytes = 0;
  int64_t parameter_bytes = 0;
  int64_t gradient_bytes = 0;
  int64_t optimizer_bytes = 0;

  LayerCosts& operator+=(const LayerCosts& other);
};

struct RunCosts {
  LayerRun run;
  // Costs of the first layer of the run on a stage, and of each further layer of the run on the same stage.
  LayerCosts first;
  LayerCosts further;
  // Time that each layer saves if gradients are sharded over replicas (ZeRO 2 and 3): a backward then writes its
  // gradients for the reduce-scatter, instead of adding them to the gradients that the rank holds.
  LayerCosts less_if_sharded;
  // How many bytes less than planned a rank takes at most if it has layers of this run, however many: frameworks that
  // work in tiles do not hold all that a program plans (sim::TiledBytes).
  int64_t tiled_bytes = 0;
};

struct BlockProfile {
  // In model order, all layers of the model.
  std::vector<RunCosts> runs;
  // Savings of a stage with one layer of every run, compared with one stage per layer: steps of two layers may be one
  // launch, and two layers may share a parameter.
  LayerCosts saved_by_joining;
  // Why the compiler refuses split backwards, and gradients that are sharded over replicas. Then the profile serves
  // only plans without them.
  absl::Status halves = absl::OkStatus();
  absl::Status sharded = absl::OkStatus();
  // The smallest messages from one stage to the next, and back.
  int64_t activation_bytes = 0;
  int64_t gradient_bytes = 0;

  // Returns a lower bound of the costs of layers begin, …, end - 1 as one stage. If the stage has layers of several
  // runs, the bound subtracts everything that joining saves. It subtracts shared parameters only if the stage has
  // layers of all runs. `sharded`: gradients are sharded over replicas.
  LayerCosts CostsOf(int32_t begin, int32_t end, bool sharded) const;
  int32_t layers() const { return runs.empty() ? 0 : runs.back().run.first + runs.back().run.layers; }
};

// The model with at most one layer of each run, and with at most two.
struct ShortModels {
  ModelGraph one;
  ModelGraph two;
};
ShortModels ShortModelsOf(const ModelGraph& model, const std::vector<LayerRun>& runs);

struct ProfileRequest {
  // The resolved inputs of a candidate. Its pipeline, its replicas, its schedule and its recompute FIT do not matter.
  const ShortModels& models;
  const std::vector<LayerRun>& runs;
  const Recipe& recipe;
  const Plan& plan;
  const Cluster& cluster;
  std::string cost;
  std::string network;
  const Runtime* runtime = nullptr;
  // Also measure the halves of backwards.
  bool split_backward = false;
  // Also measure backwards with sharded gradients.
  bool sharded_gradients = false;
};

// Returns a key. Candidates with equal keys and equal microbatches have the same profile: their plans differ only in
// fields that do not change the cost of a layer, such as the pipeline, the replicas and the schedule.
std::string ConfigurationKey(const Plan& plan);

// Returns what `profile` says at least of a microbatch with one `part`-th of its sequences (profile_store.h says when).
// Work and states of the optimizer step do not depend on the microbatch.
BlockProfile PartOf(const BlockProfile& profile, int64_t part);

// Compiles a model with one and with two layers of each run, each run on its own rank of the pipeline, and one with all
// runs on one rank, and simulates one microbatch. Fails as the compiler does, for example if heads do not divide,
// unless it refuses only split backwards or sharded gradients.
absl::StatusOr<BlockProfile> ProfileBlocks(const ProfileRequest& request);

}  // namespace weft::planner

#endif  // WEFT_PLANNER_SEARCH_BLOCK_PROFILE_H_
