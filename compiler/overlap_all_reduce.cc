// The pass overlap-all-reduce: sums of input gradients run beside the product that makes the weight's.
#include "compiler/overlap_util.h"
#include "compiler/passes.h"
#include "llvm/ADT/STLExtras.h"

namespace weft {

#define GEN_PASS_DEF_OVERLAPALLREDUCE
#include "compiler/passes.h.inc"

namespace {

struct OverlapAllReducePass : impl::OverlapAllReduceBase<OverlapAllReducePass> {
  void runOnOperation() override {
    for (ir::SegmentOp segment : getOperation().getOps<ir::SegmentOp>()) {
      if (segment.getKind() != ir::SegmentKind::Backward && segment.getKind() != ir::SegmentKind::BackwardInput) {
        continue;
      }
      for (mlir::Operation& op : llvm::make_early_inc_range(segment.getBody().front())) {
        if (mlir::isa<ir::GroupAllReduceOp, ir::GroupReduceScatterOp>(op)) Hoist(&op);
      }
    }
  }

  // Moves a blocking collective of activations right behind what makes its operands, if there is then something to
  // compute beside it.
  static void Hoist(mlir::Operation* op) {
    if (!op->hasAttr(kBlockingAttr)) return;
    if (op->getAttrOfType<ir::PurposeAttr>("purpose").getValue() != ir::Purpose::Tensor) return;
    mlir::Operation* last = nullptr;
    for (mlir::Value operand : op->getOperands()) {
      mlir::Operation* maker = operand.getDefiningOp();
      if (!maker) return;
      if (last == nullptr || last->isBeforeInBlock(maker)) last = maker;
    }
    if (last == nullptr || !ComputesBetween(last, op)) return;
    op->moveAfter(last);
    op->removeAttr(kBlockingAttr);
  }
};

}  // namespace
}  // namespace weft
