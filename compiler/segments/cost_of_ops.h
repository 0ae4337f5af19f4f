// What kernel ops are as steps, and what layers of a graph cost.
#ifndef WEFT_COMPILER_SEGMENTS_COST_OF_OPS_H_
#define WEFT_COMPILER_SEGMENTS_COST_OF_OPS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/segments/segment_set.h"
#include "ir/graph_ops.h"
#include "proto/program.pb.h"

namespace weft {

// The kernel that an op stands for: the one whose name is the op's mnemonic in upper case. KERNEL_UNSPECIFIED for an op
// that is none.
Kernel KernelOf(mlir::Operation* op);

// Name, kernel, attributes, accumulate and work of the step that `op` becomes; not its inputs and outputs. `op` must
// be a kernel op.
Step MakeStep(mlir::Operation* op);

// `op` by itself: a segment of the one step that it becomes, with inputs and outputs of the op's types.
Segment SegmentOfOp(mlir::Operation* op);

// Picoseconds at 100 Tflop/s and 1 TB/s, the larger of the two: for when nothing is known about the device.
absl::StatusOr<int64_t> NominalStepCost(const Segment& segment, const Step& step, ActionKind kind);

// What `cost` says of the step that `op` becomes.
absl::StatusOr<int64_t> CostOfOp(mlir::Operation* op, ActionKind kind, const StepCost& cost);

// One microbatch of a graph: cost of each layer 0, 1, ..., forward plus backward without recompute, and the model flops
// of all.
struct GraphCosts {
  std::vector<int64_t> layers;
  int64_t flops = 0;
  int64_t flops_masked = 0;
};

// Fails as `cost` does, or if an op of the graph has no layer.
absl::StatusOr<GraphCosts> CostsOfGraph(ir::GraphOp graph, const StepCost& cost);

}  // namespace weft

#endif  // WEFT_COMPILER_SEGMENTS_COST_OF_OPS_H_
