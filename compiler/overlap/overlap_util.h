// What the overlap passes share (docs/overlap.md).
#ifndef WEFT_COMPILER_OVERLAP_OVERLAP_UTIL_H_
#define WEFT_COMPILER_OVERLAP_OVERLAP_UTIL_H_

#include "ir/graph_ops.h"

namespace weft {

inline constexpr llvm::StringLiteral kBlockingAttr = "blocking";
// Picoseconds of a gather, for weft-cache-gathered.
inline constexpr llvm::StringLiteral kCostAttr = "cost";

inline bool IsCollectiveOp(mlir::Operation* op) {
  return mlir::isa<ir::GroupAllReduceOp, ir::GroupAllGatherOp, ir::GroupReduceScatterOp>(op);
}

// Whether something is computed between two ops of a block, without these.
inline bool ComputesBetween(mlir::Operation* first, mlir::Operation* last) {
  for (mlir::Operation* op = first->getNextNode(); op && op != last; op = op->getNextNode()) {
    if (!IsCollectiveOp(op)) return true;
  }
  return false;
}

// The all-gather of weights that `op` is, if it gathers parameters of the segment, or what such a gather makes (weights
// that are cut over several axes); else null.
inline ir::GroupAllGatherOp GatherOfWeights(mlir::Operation* op) {
  auto gather = mlir::dyn_cast_or_null<ir::GroupAllGatherOp>(op);
  if (!gather || gather.getPurpose() != ir::Purpose::GatherWeights) return {};
  for (mlir::Value input : gather.getInputs()) {
    if (!mlir::isa<mlir::BlockArgument>(input) && !GatherOfWeights(input.getDefiningOp())) return {};
  }
  return gather;
}

// Whether a gather is over data replicas, as ZeRO 3 has them.
inline bool IsOverReplicas(ir::GroupAllGatherOp gather) { return gather.getOver().contains("data"); }

}  // namespace weft

#endif  // WEFT_COMPILER_OVERLAP_OVERLAP_UTIL_H_
