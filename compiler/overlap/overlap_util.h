// Helpers that the overlap passes share (docs/overlap.md).
#ifndef WEFT_COMPILER_OVERLAP_OVERLAP_UTIL_H_
#define WEFT_COMPILER_OVERLAP_OVERLAP_UTIL_H_

#include "ir/graph_ops.h"

namespace weft {

inline constexpr llvm::StringLiteral kBlockingAttr = "blocking";
// Name of an attribute: the picoseconds that a gather takes, for weft-cache-gathered.
inline constexpr llvm::StringLiteral kCostAttr = "cost";

inline bool IsCollectiveOp(mlir::Operation* op) {
  return mlir::isa<ir::GroupAllReduceOp, ir::GroupAllGatherOp, ir::GroupReduceScatterOp>(op);
}

// True if an op between `first` and `last` (both excluded) computes, that is, is not a collective.
inline bool ComputesBetween(mlir::Operation* first, mlir::Operation* last) {
  for (mlir::Operation* op = first->getNextNode(); op && op != last; op = op->getNextNode()) {
    if (!IsCollectiveOp(op)) return true;
  }
  return false;
}

// Returns `op` if it is an all-gather of weights, else null. The inputs of such a gather are parameters of the segment
// or outputs of another such gather (for weights that are sharded over several axes).
inline ir::GroupAllGatherOp GatherOfWeights(mlir::Operation* op) {
  auto gather = mlir::dyn_cast_or_null<ir::GroupAllGatherOp>(op);
  if (!gather || gather.getPurpose() != ir::Purpose::GatherWeights) return {};
  for (mlir::Value input : gather.getInputs()) {
    if (!mlir::isa<mlir::BlockArgument>(input) && !GatherOfWeights(input.getDefiningOp())) return {};
  }
  return gather;
}

// True if the gather runs over data replicas, as in ZeRO 3.
inline bool IsOverReplicas(ir::GroupAllGatherOp gather) { return gather.getOver().contains("data"); }

}  // namespace weft

#endif  // WEFT_COMPILER_OVERLAP_OVERLAP_UTIL_H_
