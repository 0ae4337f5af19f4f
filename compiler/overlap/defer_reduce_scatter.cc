// The pass defer-reduce-scatter: a reduce-scatter of weight gradients may end after the backward that makes them.
#include "compiler/overlap/overlap_util.h"
#include "compiler/passes/passes.h"
#include "llvm/ADT/STLExtras.h"

namespace weft {

#define GEN_PASS_DEF_DEFERREDUCESCATTER
#include "compiler/passes/passes.h.inc"

namespace {

// True if the segment makes the value in its own storage and does not return it.
bool IsScratch(mlir::Value value) {
  auto result = mlir::dyn_cast<mlir::OpResult>(value);
  if (!result) return false;
  auto kernel = mlir::dyn_cast<ir::KernelInterface>(result.getOwner());
  if (!kernel || kernel.getTiedOperand(result.getResultNumber()) >= 0) return false;
  return llvm::none_of(value.getUsers(), [&](mlir::Operation* user) {
    if (mlir::isa<ir::ReturnOp>(user)) return true;
    // An op that updates the value in place may return it as its own result.
    auto updater = mlir::dyn_cast<ir::KernelInterface>(user);
    return !updater || llvm::any_of(user->getResults(), [&](mlir::OpResult made) {
      const int tied = updater.getTiedOperand(made.getResultNumber());
      return tied >= 0 && user->getOperand(tied) == value;
    });
  });
}

struct DeferReduceScatterPass : impl::DeferReduceScatterBase<DeferReduceScatterPass> {
  void runOnOperation() override {
    for (ir::SegmentOp segment : getOperation().getOps<ir::SegmentOp>()) {
      // Start with the last op: a scatter over one axis may feed a scatter over another axis, which must be detached
      // first.
      for (mlir::Operation& op : llvm::reverse(segment.getBody().front())) {
        auto scatter = mlir::dyn_cast<ir::GroupReduceScatterOp>(op);
        if (!scatter || !MayOutlive(scatter)) continue;
        scatter.setDetached(true);
        scatter.setBlocking(false);
      }
    }
  }

  static bool MayOutlive(ir::GroupReduceScatterOp scatter) {
    if (scatter.getPurpose() != ir::Purpose::ScatterGradients || !llvm::all_of(scatter.getInputs(), IsScratch)) {
      return false;
    }
    if (!llvm::all_of(scatter.getInits(), [](mlir::Value init) { return mlir::isa<mlir::BlockArgument>(init); })) {
      return false;
    }
    return llvm::all_of(scatter->getUsers(), [&](mlir::Operation* user) {
      if (mlir::isa<ir::ReturnOp>(user)) return !scatter.getInits().empty();
      auto next = mlir::dyn_cast<ir::GroupReduceScatterOp>(user);
      return next && next.getDetached();
    });
  }
};

}  // namespace
}  // namespace weft
