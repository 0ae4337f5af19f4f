// From a model graph to the segments of every stage: import, partition, differentiate, recompute, export. The passes
// behind this are in passes.td; each works on a module that the one before has left.
#ifndef WEFT_COMPILER_SEGMENTS_H_
#define WEFT_COMPILER_SEGMENTS_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/dialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "proto/model_graph.pb.h"
#include "proto/plan.pb.h"
#include "proto/program.pb.h"
#include "proto/recipe.pb.h"

namespace weft {

// What an action must bind to one operand of a segment (Segment.operands has the same order, names and sizes).
//
// A boundary tensor (input, output, output_grad, input_grad) and a persistent tensor are an operand each. All saved
// values of a stage are one operand `saved`, with the same layout in forward (WRITE) and backward (READ). Everything
// that lives only inside the segment is one operand `workspace` (WRITE).
struct SegmentOperand {
  ir::Role role = ir::Role::Workspace;
  // Index of the logical tensor, -1 for roles without one; and which use of it.
  int32_t tensor = -1;
  int32_t use = 0;
  Access access = ACCESS_UNSPECIFIED;
  int64_t bytes = 0;
  // Unspecified and empty for `saved` and `workspace`.
  DType dtype = DTYPE_UNSPECIFIED;
  std::vector<int64_t> shape;
};

struct StageSegment {
  ir::SegmentKind kind = ir::SegmentKind::Forward;
  int32_t stage = 0;
  Segment segment;
  std::vector<SegmentOperand> operands;
};

// Indices into SegmentSet.segments, -1 where a stage has no such segment.
struct StageIndex {
  int forward = -1;
  int backward = -1;
  int grad_norm = -1;
  // Only if gradients are clipped.
  int scale_gradients = -1;
  int optimizer_step = -1;
  // Of the operand `saved`; 0 = no such operand.
  int64_t saved_bytes = 0;
};

struct SegmentSet {
  // Ordered by stage, then in the order of StageIndex.
  std::vector<StageSegment> segments;
  std::vector<StageIndex> stages;
  // LogicalTensors of the program, in model order.
  std::vector<LogicalTensor> tensors;
  // One microbatch, forward and backward without recompute: matrix-product flops as MFU counts them (the scores that
  // the backward of attention computes again are not), and those a causal mask removes.
  int64_t model_flops = 0;
  int64_t model_flops_masked = 0;
  // How many layers each stage has got.
  std::vector<int32_t> layers_per_stage;
};

// Cost of a step (its work, kernel and attributes are set, not its operands) in a forward or backward action, in
// picoseconds.
using StepCost = std::function<absl::StatusOr<int64_t>(const Step& step, ActionKind kind)>;

struct SegmentOptions {
  Precision precision;
  AccumulationMode accumulation = IN_ORDER;
  int32_t stages = 1;
  // As the plan says; empty = balanced by `cost`, or by flops and bytes if there is none.
  std::vector<int32_t> layers_per_stage;
  Recompute recompute;
  // Segments of kind Evaluate only (StageIndex.forward): no dropout, nothing saved.
  bool evaluation = false;
  StepCost cost;
};

// `graph` and `recipe` must have passed validation, and `recipe` must have its defaults filled in (ResolveRecipe); what
// the compiler alone can check (shapes, layers, stages) gives InvalidArgument naming the op or tensor.
absl::StatusOr<SegmentSet> CompileSegments(const ModelGraph& graph, const Recipe& recipe,
                                           const SegmentOptions& options);

// The last step by itself: the weft.segment ops of a module as messages, without `tensors` and flops. Errors are emitted
// at the ops.
mlir::LogicalResult ExportSegmentOps(mlir::ModuleOp module, SegmentSet* set);
// The same, with errors as a status.
absl::StatusOr<SegmentSet> ExportSegments(mlir::ModuleOp module);

}  // namespace weft

#endif  // WEFT_COMPILER_SEGMENTS_H_
