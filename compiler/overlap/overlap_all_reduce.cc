// The pass overlap-all-reduce: sums input gradients while the product for the weight gradient is computed, and gathers
// rows for the next product of weight gradients.
#include <vector>

#include "compiler/overlap/overlap_util.h"
#include "compiler/passes/passes.h"
#include "llvm/ADT/STLExtras.h"

namespace weft {

#define GEN_PASS_DEF_OVERLAPALLREDUCE
#include "compiler/passes/passes.h.inc"

namespace {

struct OverlapAllReducePass : impl::OverlapAllReduceBase<OverlapAllReducePass> {
  void runOnOperation() override {
    for (ir::SegmentOp segment : getOperation().getOps<ir::SegmentOp>()) {
      if (segment.getKind() == ir::SegmentKind::BackwardWeight) AdvanceAll(segment.getBody().front());
      if (segment.getKind() != ir::SegmentKind::Backward && segment.getKind() != ir::SegmentKind::BackwardInput) {
        continue;
      }
      for (mlir::Operation& op : llvm::make_early_inc_range(segment.getBody().front())) {
        if (mlir::isa<ir::GroupAllReduceOp, ir::GroupReduceScatterOp>(op)) Hoist(&op);
        if (auto gather = mlir::dyn_cast<ir::GroupAllGatherOp>(op)) Advance(gather);
      }
    }
  }

  // Moves a blocking collective of activations directly after the ops that make its operands and makes it non-blocking,
  // if some op then computes while the collective runs.
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

  // Moves a gather of saved rows before the preceding product, which makes the input gradient, so that the two run at
  // the same time. The weight gradient needs these rows. Since they were saved, the gather waits for nothing that the
  // segment computes.
  static void Advance(ir::GroupAllGatherOp gather) {
    if (!gather.getBlocking() || gather.getPurpose() != ir::Purpose::Tensor) return;
    if (!llvm::all_of(gather.getInputs(), [](mlir::Value input) { return mlir::isa<mlir::BlockArgument>(input); })) {
      return;
    }
    mlir::Operation* before = gather->getPrevNode();
    while (before && IsCollectiveOp(before)) before = before->getPrevNode();
    if (!before) return;
    gather->moveBefore(before);
    gather.setBlocking(false);
  }

  // A weight half gathers all rows that it reads, and its gathers wait for nothing that it computes. Each is issued
  // before the reader of the gather before it, so that two gathered activations exist at a time.
  static void AdvanceAll(mlir::Block& block) {
    std::vector<ir::GroupAllGatherOp> gathers;
    for (auto gather : block.getOps<ir::GroupAllGatherOp>()) {
      const bool rows = gather.getBlocking() && gather.getPurpose() == ir::Purpose::Tensor;
      if (rows && llvm::all_of(gather.getInputs(), llvm::IsaPred<mlir::BlockArgument>)) gathers.push_back(gather);
    }
    mlir::Operation* before = nullptr;
    for (ir::GroupAllGatherOp gather : gathers) {
      mlir::Operation* reader = nullptr;
      for (mlir::Operation* user : gather->getUsers()) {
        if (reader == nullptr || user->isBeforeInBlock(reader)) reader = user;
      }
      if (reader == nullptr) continue;
      if (before == nullptr) {
        gather->moveBefore(&block, block.begin());
      } else if (before->isBeforeInBlock(gather)) {
        gather->moveBefore(before);
      }
      if (ComputesBetween(gather, reader)) gather.setBlocking(false);
      before = reader;
    }
  }
};

}  // namespace
}  // namespace weft
