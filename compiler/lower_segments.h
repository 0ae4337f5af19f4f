// From a model graph to the segments of every stage: import, partition, differentiate, recompute, export.
// passes/passes.td describes the passes. Each pass works on the module that the previous pass has left.
#ifndef WEFT_COMPILER_LOWER_SEGMENTS_H_
#define WEFT_COMPILER_LOWER_SEGMENTS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/graph/balanced_partition.h"
#include "compiler/segments/segment_set.h"
#include "compiler/segments/state_shards.h"
#include "ir/tensor_parallel.h"
#include "proto/model_graph.pb.h"
#include "proto/plan.pb.h"
#include "proto/recipe.pb.h"

namespace weft {

struct SegmentOptions {
  Precision precision;
  AccumulationMode accumulation = IN_ORDER;
  int32_t stages = 1;
  // The plan's number of layers per stage. Empty = balanced by `cost`, or by flops and bytes if `cost` is not set.
  std::vector<int32_t> layers_per_stage;
  Recompute recompute;
  AttentionForm attention = FUSED;
  bool dropout_masks = false;
  // The kinds of backward that every stage gets.
  bool whole_backward = true;
  bool split_backward = false;
  BetweenHalves between_halves = OWN_ROWS;
  // placement[lane][stage] = pipe rank, as PipelineSchedule has it; empty = rank i holds stage i.
  std::vector<std::vector<int>> placement;
  // True = make only segments of kind Evaluate (StageIndex.forward), without dropout and without saved values.
  bool evaluation = false;
  // Sizes of x, y and z.
  ir::TensorParallel tensor_parallel;
  StateShards zero;
  // Iterations in a repetition of an asynchronous program (rule P14). The optimizer_step of such a program always has
  // MASTER, and there is no grad_norm. 0 = the program is synchronous.
  int32_t steps_per_repetition = 0;
  // Chooses the collectives that run beside computation (docs/overlap.md). Absent fields have the defaults that
  // plan.proto states.
  Overlap overlap;
  // The loss scale, with its defaults resolved (proto/validate/validate.h).
  LossScale loss_scale;
  // For each stage: the most microbatches that one rank holds between their forward and the end of their backward.
  // Limits overlap.gathered_cache_bytes. Empty = 1 for every stage.
  std::vector<int32_t> in_flight;
  StepCost cost;
};

// Costs of layers as the plan runs them, including the steps of exact accumulation, and the costs of recomputation.
// Stages are cut by these costs (balanced_partition.h).
struct MeasuredLayers {
  std::vector<int64_t> layers;
  RecomputeCosts recompute;
};

// Measures the layers of `graph` as one stage. `options` need no stages; the rest is as for CompileSegments.
absl::StatusOr<MeasuredLayers> MeasureLayers(const ModelGraph& graph, const Recipe& recipe,
                                             const SegmentOptions& options);

// `graph` and `recipe` must have passed validation, and `recipe` must have its defaults filled in (ValidateAndResolve).
// Errors that only the compiler can find (shapes, layers, stages) are InvalidArgument and name the op or tensor.
absl::StatusOr<SegmentSet> CompileSegments(const ModelGraph& graph, const Recipe& recipe,
                                           const SegmentOptions& options);

}  // namespace weft

#endif  // WEFT_COMPILER_LOWER_SEGMENTS_H_
