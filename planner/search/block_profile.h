// Measures what the layers of a model cost under a tensor configuration, by compiling and simulating a model with few
// blocks. One profile serves every pipeline, every number of replicas and every schedule.
#ifndef WEFT_PLANNER_SEARCH_BLOCK_PROFILE_H_
#define WEFT_PLANNER_SEARCH_BLOCK_PROFILE_H_

#include <cstdint>
#include <string>
#include <vector>

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
  int64_t saved_bytes = 0;
  // The part that is kept until the weight half of the backward; 0 if the profile was made without halves.
  int64_t half_saved_bytes = 0;
  // Kept from the input half of the backward for the weight half.
  int64_t saved_gradient_bytes = 0;
  // What a backward needs while it runs, besides what is kept. Of a stage: of the layer that needs most.
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
  // Of the first layer of a stage's part of the run, and of each further layer.
  LayerCosts first;
  LayerCosts further;
  // By how much the backwards of a layer take less if gradients are sharded over replicas (ZeRO 2 and 3): they are
  // written for the reduce-scatter instead of added to what the rank holds.
  LayerCosts less_if_sharded;
};

struct BlockProfile {
  // In model order, all layers of the model.
  std::vector<RunCosts> runs;
  // By how much a stage with a layer of every run costs less than these layers as stages of their own: steps of two
  // layers may be one launch, and two layers may share a parameter.
  LayerCosts saved_by_joining;
  // The smallest messages from one stage to the next, and back.
  int64_t activation_bytes = 0;
  int64_t gradient_bytes = 0;

  // Costs of the layers from `begin` to `end` as one stage, at least: if the stage has layers of several runs, all that
  // joining saves counts; parameters that layers share, only if the stage has layers of all runs.
  // `sharded`: gradients are sharded over replicas.
  LayerCosts CostsOf(int32_t begin, int32_t end, bool sharded) const;
  // Bytes of the gradients of two of these layers, at least: the compiler lets gradients wait for their reduce-scatter
  // until those of two layers of the largest size wait (docs/overlap.md).
  int64_t GradientsOfTwoLayers(int32_t begin, int32_t end) const;
  int32_t layers() const { return runs.empty() ? 0 : runs.back().run.first + runs.back().run.layers; }
};

// A model with at most one, and with at most two layers of each run.
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

// Candidates with equal keys have the same profile: they have the same microbatch, and plans that differ in their
// pipeline, their replicas and their schedule only.
std::string ProfileKey(const Recipe& recipe, const Plan& plan);

// Compiles a model with one and with two layers of each run, each run on its own rank of the pipeline, and one with all
// runs on one rank, and simulates one microbatch. Fails as the compiler does, for example if heads do not divide.
absl::StatusOr<BlockProfile> ProfileBlocks(const ProfileRequest& request);

}  // namespace weft::planner

#endif  // WEFT_PLANNER_SEARCH_BLOCK_PROFILE_H_
