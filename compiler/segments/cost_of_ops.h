// Turns kernel ops into steps, and sums what the layers of a graph cost.
#ifndef WEFT_COMPILER_SEGMENTS_COST_OF_OPS_H_
#define WEFT_COMPILER_SEGMENTS_COST_OF_OPS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/segments/segment_set.h"
#include "ir/graph_ops.h"
#include "proto/program.pb.h"

namespace weft {

// Returns the kernel of an op: the kernel whose name is the op's mnemonic in upper case. KERNEL_UNSPECIFIED if there is
// no such kernel.
Kernel KernelOf(mlir::Operation* op);

// Makes the step that `op` becomes: its name, kernel, attributes, accumulate and work, without inputs and outputs. `op`
// must be a kernel op.
Step MakeStep(mlir::Operation* op);

// Makes a segment with only the step that `op` becomes. Inputs and outputs have the op's types.
Segment SegmentOfOp(mlir::Operation* op);

// A step's cost in picoseconds at 100 Tflop/s or 1 TB/s, whichever takes longer. For use when nothing is known about
// the device.
absl::StatusOr<int64_t> NominalStepCost(const Segment& segment, const Step& step, ActionKind kind);

// The cost of the step that `op` becomes.
absl::StatusOr<int64_t> CostOfOp(mlir::Operation* op, ActionKind kind, const StepCost& cost);

// Costs of one microbatch: forward plus backward of each layer, without recompute, and the model flops of the graph.
struct GraphCosts {
  std::vector<int64_t> layers;
  int64_t flops = 0;
  int64_t flops_masked = 0;
};

// Fails as `cost` does, or if an op of the graph has no layer.
absl::StatusOr<GraphCosts> CostsOfGraph(ir::GraphOp graph, const StepCost& cost);

}  // namespace weft

#endif  // WEFT_COMPILER_SEGMENTS_COST_OF_OPS_H_
