// The segments of all stages with what their parts have in common: what each operand is, which rank holds what, how
// tensors are cut. The rank level and the export read this; lower_segments.h makes it.
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

// What an action must bind to one operand of a segment (Segment.operands has the same order, names and sizes).
//
// A boundary tensor (input, output, output_grad, input_grad) and a persistent tensor are an operand each. All saved
// values of a stage are one operand `saved`, with the same layout in forward (WRITE) and backwards (READ). Everything
// that lives only inside the segment is one operand `workspace` (WRITE), but for what a detached step touches: that is
// one operand `deferred` (WRITE), which must be left alone until the action is finished with its detached steps.
//
// Steps are in the order of the segment's ops. Those of collectives are on stream COLLECTIVE; a step waits for earlier
// ones of other streams, and for collectives of its own, that touch the same bytes, one of the two to write. A
// collective also waits for the compute step before it; a blocking one is waited for by the compute step behind it.
//
// A backward in two halves: BackwardInput writes `input_grad` (not in stage 0) and `saved_grad`, one operand with
// everything made there (gradients, what was computed again, and a copy of `output_grad`) that BackwardWeight reads;
// BackwardWeight reads `saved_grad`, `saved` and perhaps `input` and parameters, and adds to gradients. Gradients get
// the same bits as from the whole backward.
struct SegmentOperand {
  ir::Role role = ir::Role::Workspace;
  // Index of the logical tensor, -1 for roles without one; and which use of it. Of input, output and their gradients:
  // 0 = what crosses to the next stage, i = what crosses by SegmentSet.skips[i - 1].
  int32_t tensor = -1;
  int32_t use = 0;
  Access access = ACCESS_UNSPECIFIED;
  int64_t bytes = 0;
  // Unspecified and empty for `saved`, `saved_grad` and `workspace`.
  DType dtype = DTYPE_UNSPECIFIED;
  std::vector<int64_t> shape;
  // Of a ForwardBackward: 0 = of the forward, 1 = of the backward. A tensor that both read is there once, with 0.
  int32_t half = 0;
  // Who touches it: 0 = no detached step, 1 = detached steps only, 2 = those and others (rule P2).
  int32_t detached = 0;
};

struct StageSegment {
  ir::SegmentKind kind = ir::SegmentKind::Forward;
  // Of a ForwardBackward the forward's; of GradNorm, ScaleGradients and OptimizerStep the lowest stage of `rank`.
  int32_t stage = 0;
  // Pipe rank of GradNorm, ScaleGradients and OptimizerStep; -1 for all others.
  int32_t rank = -1;
  // Microbatches of a Forward. Operands input, output and saved of a wide one hold `width` microbatches each, the lower
  // first in every tensor (widen_segment.h).
  int32_t width = 1;
  // Of a backward of a microbatch whose forward was wide: which of the forward's microbatches; -1 = of a forward of
  // width 1. Its operands input and saved are the wide forward's, of which it reads its part.
  int32_t part = -1;
  // Of a ForwardBackward (pair_segments.h): the backward's stage.
  int32_t backward_stage = -1;
  Segment segment;
  std::vector<SegmentOperand> operands;
};

// Indices into SegmentSet.segments, -1 where a stage has no such segment.
struct StageIndex {
  int forward = -1;
  int backward = -1;
  int backward_input = -1;
  int backward_weight = -1;
  // Of the operands `saved` and `saved_grad`; 0 = no such operand.
  int64_t saved_bytes = 0;
  int64_t saved_grad_bytes = 0;
};

// The same for a rank of the pipeline.
struct RankIndex {
  int grad_norm = -1;
  // Only if gradients are clipped.
  int scale_gradients = -1;
  int optimizer_step = -1;
};

// A value that a stage makes for one that is not the next (rule P4). One that several such stages read has one of these
// per reader.
struct SkipTensor {
  std::string name;
  int32_t from_stage = 0;
  int32_t to_stage = 0;
  DType dtype = DTYPE_UNSPECIFIED;
  std::vector<int64_t> shape;
};

// How the buffers of a logical tensor are cut over ranks (rule P8); an empty Shard is the whole tensor.
struct TensorShards {
  Shard param;
  Shard grad;
  // Master weights and moments.
  Shard state;
  // Axes over which gradients of backwards stay partial sums, which the gradient sync completes: `data` among them, or
  // kOverGroups for what they have summed over a group of replicas.
  std::vector<std::string> sync_axes;
};

struct SegmentSet {
  // Those of stages, ordered by stage and kind; then those of ranks, ordered by rank and kind.
  std::vector<StageSegment> segments;
  std::vector<StageIndex> stages;
  // By pipe rank; empty in an evaluation.
  std::vector<RankIndex> ranks;
  Holdings holdings;
  // Ordered by from_stage, to_stage and order in the model.
  std::vector<SkipTensor> skips;
  // LogicalTensors of the program, in model order.
  std::vector<LogicalTensor> tensors;
  // By tensor.
  std::vector<TensorShards> shards;
  // Mesh axes that cut some gradient: squared norms are summed over these.
  std::vector<std::string> norm_axes;
  // One microbatch of the whole model, forward and backward without recompute: matrix-product flops as MFU counts them
  // (the scores that the backward of attention computes again are not), and those a causal mask removes.
  int64_t model_flops = 0;
  int64_t model_flops_masked = 0;
  // How many layers each stage has got.
  std::vector<int32_t> layers_per_stage;
};

// Cost of a step in a forward or backward action, in picoseconds. Its inputs and outputs are values of `segment`.
using StepCost = std::function<absl::StatusOr<int64_t>(const Segment& segment, const Step& step, ActionKind kind)>;

}  // namespace weft

#endif  // WEFT_COMPILER_SEGMENTS_SEGMENT_SET_H_
