// Derivatives: builds the kernels of the reverse pass for the differentiable ops.
#include "ir/checks.h"
#include "ir/gradients.h"
#include "ir/graph_ops.h"
#include "llvm/ADT/STLExtras.h"

namespace weft::ir {

mlir::Value Deliver(mlir::OpBuilder& builder, mlir::Location loc, mlir::Value gradient,
                    const GradientRequest& request) {
  if (request.init) return builder.create<AddOp>(loc, request.type, request.init, gradient, mlir::Value());
  if (gradient.getType() == request.type) return gradient;
  return builder.create<CastOp>(loc, request.type, gradient);
}

mlir::Type PlainGradientType(mlir::Value operand, const GradientRequest& request) {
  if (request.type && !request.init) return request.type;
  return operand.getType();
}

Gradients EmbeddingOp::buildBackward(mlir::OpBuilder& builder, llvm::ArrayRef<mlir::Value> resultGrads,
                                     Requests requests) {
  Gradients gradients(2);
  const GradientRequest& table = requests[1];
  if (!resultGrads[0] || !table.type) return gradients;
  gradients[1] = builder
                     .create<EmbeddingBackwardOp>(getLoc(), table.type, getTokens(), resultGrads[0], table.init,
                                                  getColumnShiftAttr())
                     .getResult();
  return gradients;
}

Gradients PositionEmbeddingOp::buildBackward(mlir::OpBuilder& builder, llvm::ArrayRef<mlir::Value> resultGrads,
                                             Requests requests) {
  Gradients gradients(1);
  if (!resultGrads[0] || !requests[0].type) return gradients;
  gradients[0] = builder.create<PositionEmbeddingBackwardOp>(getLoc(), requests[0].type, resultGrads[0],
                                                             requests[0].init, getSequenceAttr(), getRowShiftAttr());
  return gradients;
}

Gradients AddOp::buildBackward(mlir::OpBuilder& builder, llvm::ArrayRef<mlir::Value> resultGrads, Requests requests) {
  Gradients gradients(requests.size());
  if (!resultGrads[0]) return gradients;
  for (auto [gradient, request] : llvm::zip(gradients, requests)) {
    if (request.type) gradient = Deliver(builder, getLoc(), resultGrads[0], request);
  }
  return gradients;
}

// With A = op(a) [m,k] and B = op(b) [k,n]: dA = dy B^T, dB = A^T dy. If an operand is transposed, its gradient is the
// transpose of dA or dB.
Gradients MatmulOp::buildBackward(mlir::OpBuilder& builder, llvm::ArrayRef<mlir::Value> resultGrads,
                                  Requests requests) {
  Gradients gradients(requests.size());
  mlir::Value dy = resultGrads[0];
  if (!dy) return gradients;
  auto matmul = [&](const GradientRequest& request, mlir::Value left, bool transpose_left, mlir::Value right,
                    bool transpose_right) -> mlir::Value {
    return builder.create<MatmulOp>(getLoc(), request.type, left, right, mlir::Value(), request.init, transpose_left,
                                    transpose_right, getTf32());
  };
  unsigned next = 2;
  if (getBias()) {
    const GradientRequest& bias = requests[next];
    // The bias gradient comes first, right after the op that makes dy, so that a device can sum the columns of dy while
    // it makes dy (proto/util/step_runs.h).
    if (bias.type) gradients[next] = builder.create<BiasGradientOp>(getLoc(), bias.type, dy, bias.init);
    ++next;
  }
  if (requests[0].type) {
    gradients[0] = getTransposeA() ? matmul(requests[0], getB(), getTransposeB(), dy, true)
                                   : matmul(requests[0], dy, false, getB(), !getTransposeB());
  }
  if (requests[1].type) {
    gradients[1] = getTransposeB() ? matmul(requests[1], dy, true, getA(), getTransposeA())
                                   : matmul(requests[1], getA(), !getTransposeA(), dy, false);
  }
  if (getInit() && requests[next].type) gradients[next] = Deliver(builder, getLoc(), dy, requests[next]);
  return gradients;
}

void BuildNormWeightGradients(mlir::OpBuilder& builder, mlir::Location loc, mlir::Value dy, mlir::Value x,
                              mlir::Value mean, mlir::Value rstd, const GradientRequest& gamma,
                              const GradientRequest& beta, mlir::Value* dgamma, mlir::Value* dbeta) {
  if (!gamma.type && !beta.type) return;
  // One kernel makes both gradients. It adds to the inits of both or of none. If only one gradient has an init, the
  // init is added afterwards.
  auto columns =
      mlir::RankedTensorType::get({ShapeOf(x)[1]}, mlir::cast<mlir::RankedTensorType>(x.getType()).getElementType());
  mlir::Type gamma_type = gamma.type ? gamma.type : columns;
  mlir::Type beta_type = beta.type ? beta.type : columns;
  bool in_place = gamma.init && beta.init;
  auto both = builder.create<LayerNormBackwardWeightOp>(loc, gamma_type, beta_type, dy, x, mean, rstd,
                                                        in_place ? gamma.init : mlir::Value(),
                                                        in_place ? beta.init : mlir::Value());
  auto deliver = [&](mlir::Value gradient, const GradientRequest& request) -> mlir::Value {
    if (!request.type) return {};
    return in_place ? gradient : Deliver(builder, loc, gradient, request);
  };
  *dgamma = deliver(both.getDgamma(), gamma);
  *dbeta = deliver(both.getDbeta(), beta);
}

Gradients LayerNormOp::buildBackward(mlir::OpBuilder& builder, llvm::ArrayRef<mlir::Value> resultGrads,
                                     Requests requests) {
  Gradients gradients(3);
  mlir::Value dy = resultGrads[0];
  if (!dy) return gradients;
  if (requests[0].type) {
    gradients[0] = builder.create<LayerNormBackwardOp>(getLoc(), requests[0].type, dy, getX(), getGamma(), getMean(),
                                                       getRstd(), requests[0].init);
  }
  BuildNormWeightGradients(builder, getLoc(), dy, getX(), getMean(), getRstd(), requests[1], requests[2], &gradients[1],
                           &gradients[2]);
  return gradients;
}

Gradients AttentionOp::buildBackward(mlir::OpBuilder& builder, llvm::ArrayRef<mlir::Value> resultGrads,
                                     Requests requests) {
  Gradients gradients(requests.size());
  if (!resultGrads[0] || llvm::none_of(requests, [](const GradientRequest& request) { return request.type; })) {
    return gradients;
  }
  // One kernel makes the gradients of q, k and v, whether they are requested or not.
  llvm::SmallVector<mlir::Type> types;
  for (auto [operand, request] : llvm::zip((*this)->getOperands(), requests)) {
    types.push_back(PlainGradientType(operand, request));
  }
  auto made = builder.create<AttentionBackwardOp>(
      getLoc(), types[0], llvm::ArrayRef(types).drop_front(), resultGrads[0], getQkv(), getKv(), getResult(), getLse(),
      getHeadsAttr(), getSequenceAttr(), getCausalAttr(), getScaleAttr(), getDropoutAttr(), getDropoutSiteAttr(),
      getKvHeadsAttr(), getWindowAttr(), getColumnShiftAttr(), getWholeColumnsAttr(), getQkvByHeadAttr());
  for (auto [gradient, result, request] : llvm::zip(gradients, made->getResults(), requests)) {
    if (request.type) gradient = Deliver(builder, getLoc(), result, request);
  }
  return gradients;
}

Gradients DropoutOp::buildBackward(mlir::OpBuilder& builder, llvm::ArrayRef<mlir::Value> resultGrads,
                                   Requests requests) {
  if (!resultGrads[0] || !requests[0].type) return Gradients(1);
  mlir::Type type = requests[0].init ? getX().getType() : requests[0].type;
  mlir::Value dx = builder.create<DropoutOp>(getLoc(), type, resultGrads[0], getDropoutAttr(), getDropoutSiteAttr(),
                                             getColumnShiftAttr(), getRowShiftAttr(), getWholeColumnsAttr(),
                                             getSequenceAttr(), getHeadsAttr());
  return {Deliver(builder, getLoc(), dx, requests[0])};
}

Gradients CrossEntropyOp::buildBackward(mlir::OpBuilder& builder, llvm::ArrayRef<mlir::Value>, Requests requests) {
  Gradients gradients(3);
  if (!requests[0].type) return gradients;
  mlir::Type type = requests[0].init ? getLogits().getType() : requests[0].type;
  mlir::Value dlogits = builder.create<CrossEntropyBackwardOp>(getLoc(), type, getLogits(), getLse(), getTargets(),
                                                               mlir::Value(), getVocabularyAttr(), getLossWeightAttr());
  gradients[0] = Deliver(builder, getLoc(), dlogits, requests[0]);
  return gradients;
}

Gradients CastOp::buildBackward(mlir::OpBuilder& builder, llvm::ArrayRef<mlir::Value> resultGrads, Requests requests) {
  if (!resultGrads[0] || !requests[0].type) return Gradients(1);
  return {Deliver(builder, getLoc(), resultGrads[0], requests[0])};
}

}  // namespace weft::ir
