// From a model graph to the segments of every stage: import, partition, differentiate, recompute, export. The passes
// behind this are in passes/passes.td; each works on a module that the one before has left.
#ifndef WEFT_COMPILER_LOWER_SEGMENTS_H_
#define WEFT_COMPILER_LOWER_SEGMENTS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
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
  // As the plan says; empty = balanced by `cost`, or by flops and bytes if there is none.
  std::vector<int32_t> layers_per_stage;
  Recompute recompute;
  AttentionForm attention = FUSED;
  bool dropout_masks = false;
  // Which backwards every stage gets.
  bool whole_backward = true;
  bool split_backward = false;
  // placement[lane][stage] = pipe rank, as PipelineSchedule has it; empty = rank i holds stage i.
  std::vector<std::vector<int>> placement;
  // Segments of kind Evaluate only (StageIndex.forward): no dropout, nothing saved.
  bool evaluation = false;
  // Sizes of x, y and z.
  ir::TensorParallel tensor_parallel;
  StateShards zero;
  // Of an asynchronous program (rule P14): optimizer steps in a repetition; optimizer_step always has MASTER, and there
  // is no grad_norm. 0 = it is synchronous.
  int32_t steps_per_repetition = 0;
  // Which collectives run beside computation (docs/overlap.md); what is absent is as plan.proto says.
  Overlap overlap;
  // Resolved (proto/validate/validate.h).
  LossScale loss_scale;
  // By stage: most microbatches on one rank between their forward and the last of their backward, for
  // overlap.gathered_cache_bytes; empty = 1.
  std::vector<int32_t> in_flight;
  StepCost cost;
};

// `graph` and `recipe` must have passed validation, and `recipe` must have its defaults filled in (ResolveRecipe); what
// the compiler alone can check (shapes, layers, stages) gives InvalidArgument naming the op or tensor.
absl::StatusOr<SegmentSet> CompileSegments(const ModelGraph& graph, const Recipe& recipe,
                                           const SegmentOptions& options);

}  // namespace weft

#endif  // WEFT_COMPILER_LOWER_SEGMENTS_H_
