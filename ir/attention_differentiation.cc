// Derivatives of the ops that attention consists of when it is not a single op, and of dropout with a mask.
#include "ir/checks.h"
#include "ir/gradients.h"
#include "ir/graph_ops.h"
#include "llvm/ADT/STLExtras.h"

namespace weft::ir {

namespace {

bool AnyWanted(Requests requests) {
  return llvm::any_of(requests, [](const GradientRequest& request) { return static_cast<bool>(request.type); });
}

}  // namespace

Gradients AttentionScoresOp::buildBackward(mlir::OpBuilder& builder, llvm::ArrayRef<mlir::Value> resultGrads,
                                           Requests requests) {
  Gradients gradients(requests.size());
  if (!resultGrads[0] || !AnyWanted(requests)) return gradients;
  mlir::Type dk = getK() ? PlainGradientType(getK(), requests[1]) : mlir::Type();
  auto made = builder.create<AttentionScoresBackwardOp>(
      getLoc(), PlainGradientType(getQkv(), requests[0]), dk, resultGrads[0], getQkv(), getK(), getScaleAttr(),
      getHeadsAttr(), getSequenceAttr(), getKvHeadsAttr(), getQkvByHeadAttr());
  if (requests[0].type) gradients[0] = Deliver(builder, getLoc(), made.getDqkv(), requests[0]);
  if (getK() && requests[1].type) gradients[1] = Deliver(builder, getLoc(), made.getDk(), requests[1]);
  return gradients;
}

Gradients AttentionSoftmaxOp::buildBackward(mlir::OpBuilder& builder, llvm::ArrayRef<mlir::Value> resultGrads,
                                            Requests requests) {
  if (!resultGrads[0] || !requests[0].type) return Gradients(1);
  mlir::Value ds = builder.create<AttentionSoftmaxBackwardOp>(getLoc(), resultGrads[0].getType(), resultGrads[0],
                                                              getResult(), getHeadsAttr(), getSequenceAttr());
  return {Deliver(builder, getLoc(), ds, requests[0])};
}

Gradients AttentionValuesOp::buildBackward(mlir::OpBuilder& builder, llvm::ArrayRef<mlir::Value> resultGrads,
                                           Requests requests) {
  Gradients gradients(2);
  if (!resultGrads[0] || !AnyWanted(requests)) return gradients;
  auto made = builder.create<AttentionValuesBackwardOp>(
      getLoc(), PlainGradientType(getP(), requests[0]), PlainGradientType(getQkv(), requests[1]), resultGrads[0],
      getP(), getQkv(), getHeadsAttr(), getSequenceAttr(), getKvHeadsAttr(), getQkvByHeadAttr());
  if (requests[0].type) gradients[0] = Deliver(builder, getLoc(), made.getDp(), requests[0]);
  if (requests[1].type) gradients[1] = Deliver(builder, getLoc(), made.getDqkv(), requests[1]);
  return gradients;
}

Gradients DropoutMaskOp::buildBackward(mlir::OpBuilder& builder, llvm::ArrayRef<mlir::Value> resultGrads,
                                       Requests requests) {
  if (!resultGrads[0] || !requests[0].type) return Gradients(1);
  mlir::Type type = PlainGradientType(getX(), requests[0]);
  mlir::Value dx = builder.create<DropoutByMaskOp>(getLoc(), type, resultGrads[0], getMask(), getDropoutAttr());
  return {Deliver(builder, getLoc(), dx, requests[0])};
}

}  // namespace weft::ir
