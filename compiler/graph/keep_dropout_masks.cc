// The pass weft-keep-dropout-masks: makes dropout keep its mask, so that the backward need not draw random numbers
// again.
#include "compiler/passes/passes.h"
#include "llvm/ADT/STLExtras.h"

namespace weft {

#define GEN_PASS_DEF_KEEPDROPOUTMASKS
#include "compiler/passes/passes.h.inc"

namespace {

struct KeepDropoutMasksPass : impl::KeepDropoutMasksBase<KeepDropoutMasksPass> {
  using KeepDropoutMasksBase::KeepDropoutMasksBase;

  void runOnOperation() override {
    for (auto graph : getOperation().getOps<ir::GraphOp>()) {
      for (auto dropout : llvm::to_vector(graph.getBody().front().getOps<ir::DropoutOp>())) Replace(dropout);
    }
  }

 private:
  static void Replace(ir::DropoutOp dropout) {
    mlir::OpBuilder builder(dropout);
    auto type = mlir::cast<mlir::RankedTensorType>(dropout.getType());
    auto mask = mlir::RankedTensorType::get(type.getShape(), builder.getIntegerType(8, /*isSigned=*/false));
    // Keeps the attributes of the dropout op, including `name` and `layer`.
    auto made = builder.create<ir::DropoutMaskOp>(dropout.getLoc(), mlir::TypeRange{type, mask},
                                                  mlir::ValueRange{dropout.getX()}, dropout->getAttrs());
    dropout.getResult().replaceAllUsesWith(made.getResult());
    dropout.erase();
  }
};

}  // namespace
}  // namespace weft
