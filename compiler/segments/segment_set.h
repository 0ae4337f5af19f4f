// The segments of all stages, and what they share: the role of each operand, which rank holds what, how tensors are
// sharded. The rank level and the export read this; lower_segments.h makes it.
#ifndef WEFT_COMPILER_SEGMENTS_SEGMENT_SET_H_
#define WEFT_COMPILER_SEGMENTS_SEGMENT_SET_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/segments/rank_content.h"
#include "ir/dialect.h"
#include "proto/plan.pb.h"
#include "proto/program.pb.h"

namespace weft {

// Describes the buffer that an action must bind to one operand of a segment. Segment.operands lists the same operands
// in the same order, with their names and sizes.
//
// Each boundary tensor (input, output, output_grad, input_grad) and each persistent tensor is one operand. All saved
// values of a stage are one operand `saved`, with the same layout in forward (WRITE) and backwards (READ). Values that
// live only inside the segment are one operand `workspace` (WRITE), except those that a detached step touches. These
// are one operand `deferred` (WRITE), which nothing else may use until the action's detached steps have finished.
//
// Steps are in the order of the segment's ops. Collectives are on stream COLLECTIVE. A step waits for an earlier step
// on another stream if both touch the same bytes and one of them writes. A collective waits in the same way for earlier
// collectives on its own stream. A collective also waits for the compute step before it. The compute step after a
// blocking collective waits for it.
//
// A backward in two halves: BackwardInput writes `input_grad` (not in stage 0) and `saved_grad`, one operand with
// what it makes for BackwardWeight (gradients, recomputed values, and a copy of `output_grad`). BackwardWeight reads
// `saved_grad`, `saved` and perhaps `input` and parameters, and adds to gradients. Gradients get the same bits as from
// the whole backward.
//
// weft-reuse-saved splits `saved` in two: values that BackwardWeight does not read lie in an operand `saved_for_input`
// (role Saved, use kSavedForInput), or BackwardInput overwrites them in `saved` (READ_WRITE) with what it makes.
struct SegmentOperand {
  ir::Role role = ir::Role::Workspace;
  // Index of the logical tensor (-1 for roles without one), and the number of the tensor's use. For inputs, outputs and
  // their gradients, `use` is 0 for the tensor that crosses to the next stage, and i for the tensor that crosses by
  // SegmentSet.skips[i - 1]. For saved values it is 0 or kSavedForInput (saved_for_input.h).
  int32_t tensor = -1;
  int32_t use = 0;
  Access access = ACCESS_UNSPECIFIED;
  int64_t bytes = 0;
  // `dtype` is unspecified and `shape` is empty for `saved`, `saved_for_input`, `saved_grad`, `workspace` and
  // `deferred`.
  DType dtype = DTYPE_UNSPECIFIED;
  std::vector<int64_t> shape;
  // In a ForwardBackward: 0 = operand of the forward, 1 = operand of the backward. A tensor that both read appears
  // once, with 0.
  int32_t half = 0;
  // Which steps touch the operand: 0 = no detached steps, 1 = detached steps only, 2 = detached and other steps (rule
  // P2).
  int32_t detached = 0;
};

struct StageSegment {
  ir::SegmentKind kind = ir::SegmentKind::Forward;
  // For ForwardBackward the forward's stage; for GradNorm, ScaleGradients and OptimizerStep the lowest stage of `rank`.
  int32_t stage = 0;
  // Pipe rank of GradNorm, ScaleGradients and OptimizerStep; -1 for all others.
  int32_t rank = -1;
  // Number of microbatches of a Forward. A forward with width 2 is wide: its operands input, output and saved hold the
  // microbatches one after the other, the lower microbatch first in every tensor (widen_segment.h).
  int32_t width = 1;
  // For a backward of a microbatch whose forward was wide: the microbatch's position in that forward; -1 if the forward
  // had width 1. The backward has the wide forward's operands input and saved, and reads only its part of them.
  int32_t part = -1;
  // For a ForwardBackward (pair_segments.h): the stage of its backward.
  int32_t backward_stage = -1;
  Segment segment;
  std::vector<SegmentOperand> operands;
};

// Indices into SegmentSet.segments, -1 if a stage has no such segment.
struct StageIndex {
  int forward = -1;
  int backward = -1;
  int backward_input = -1;
  int backward_weight = -1;
  // Bytes of the operands `saved`, `saved_for_input` and `saved_grad`; 0 = no such operand.
  int64_t saved_bytes = 0;
  int64_t saved_for_input_bytes = 0;
  int64_t saved_grad_bytes = 0;
};

// Indices of a pipe rank's segments into SegmentSet.segments, -1 if the rank has no such segment.
struct RankIndex {
  int grad_norm = -1;
  // -1 if gradients are not clipped, or if the loss is scaled: then the optimizer step clips.
  int scale_gradients = -1;
  int optimizer_step = -1;
};

// A value that a stage makes for a stage other than the next (rule P4). If several such stages read it, each reader has
// a SkipTensor.
struct SkipTensor {
  std::string name;
  int32_t from_stage = 0;
  int32_t to_stage = 0;
  DType dtype = DTYPE_UNSPECIFIED;
  std::vector<int64_t> shape;
};

// How the buffers of a logical tensor are sharded over ranks (rule P8); an empty Shard is the whole tensor.
struct TensorShards {
  Shard param;
  Shard grad;
  // How master weights and moments are sharded.
  Shard state;
  // Axes over which backwards leave gradients as partial sums; the gradient sync completes these sums. Usually contains
  // `data`, or kOverGroups if the sums within each group of replicas are already made.
  std::vector<std::string> sync_axes;
};

struct SegmentSet {
  // Segments of stages, ordered by stage and kind, then segments of ranks, ordered by rank and kind.
  std::vector<StageSegment> segments;
  std::vector<StageIndex> stages;
  // Indexed by pipe rank; empty in an evaluation program.
  std::vector<RankIndex> ranks;
  Holdings holdings;
  // Sorted by from_stage, then to_stage, then order in the model.
  std::vector<SkipTensor> skips;
  // LogicalTensors of the program, in model order.
  std::vector<LogicalTensor> tensors;
  // Indexed by tensor.
  std::vector<TensorShards> shards;
  // Mesh axes that cut some gradient. Squared norms are summed over these axes.
  std::vector<std::string> norm_axes;
  // Flops of one microbatch of the whole model, forward and backward without recompute. `model_flops` counts matrix
  // products as MFU does (without the scores that attention's backward recomputes). `model_flops_masked` is the part of
  // them that a causal mask removes.
  int64_t model_flops = 0;
  int64_t model_flops_masked = 0;
  // Number of layers of each stage.
  std::vector<int32_t> layers_per_stage;
};

// Cost of a step in a forward or backward action, in picoseconds. Its inputs and outputs are values of `segment`.
using StepCost = std::function<absl::StatusOr<int64_t>(const Segment& segment, const Step& step, ActionKind kind)>;

}  // namespace weft

#endif  // WEFT_COMPILER_SEGMENTS_SEGMENT_SET_H_
