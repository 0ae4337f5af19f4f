// Derivatives: for every differentiable op the kernels of its reverse pass, and how tensor-parallel axes may split it.
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
  gradients[1] =
      builder.create<EmbeddingBackwardOp>(getLoc(), table.type, getTokens(), resultGrads[0], table.init).getResult();
  return gradients;
}

Gradients PositionEmbeddingOp::buildBackward(mlir::OpBuilder& builder, llvm::ArrayRef<mlir::Value> resultGrads,
                                             Requests requests) {
  Gradients gradients(1);
  if (!resultGrads[0] || !requests[0].type) return gradients;
  gradients[0] = builder.create<PositionEmbeddingBackwardOp>(getLoc(), requests[0].type, resultGrads[0],
                                                             requests[0].init, getSequenceAttr());
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

// With A = op(a) [m,k], B = op(b) [k,n]: dA = dy B^T, dB = A^T dy. A transposed operand wants the transpose of that.
Gradients MatmulOp::buildBackward(mlir::OpBuilder& builder, llvm::ArrayRef<mlir::Value> resultGrads,
                                  Requests requests) {
  Gradients gradients(requests.size());
  mlir::Value dy = resultGrads[0];
  if (!dy) return gradients;
  auto matmul = [&](const GradientRequest& request, mlir::Value left, bool transpose_left, mlir::Value right,
                    bool transpose_right) -> mlir::Value {
    return builder.create<MatmulOp>(getLoc(), request.type, left, right, mlir::Value(), request.init, transpose_left,
                                    transpose_right);
  };
  if (requests[0].type) {
    gradients[0] = getTransposeA() ? matmul(requests[0], getB(), getTransposeB(), dy, true)
                                   : matmul(requests[0], dy, false, getB(), !getTransposeB());
  }
  if (requests[1].type) {
    gradients[1] = getTransposeB() ? matmul(requests[1], dy, true, getA(), getTransposeA())
                                   : matmul(requests[1], getA(), !getTransposeA(), dy, false);
  }
  unsigned next = 2;
  if (getBias()) {
    const GradientRequest& bias = requests[next];
    if (bias.type) gradients[next] = builder.create<BiasGradientOp>(getLoc(), bias.type, dy, bias.init);
    ++next;
  }
  if (getInit() && requests[next].type) gradients[next] = Deliver(builder, getLoc(), dy, requests[next]);
  return gradients;
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
  const GradientRequest& gamma = requests[1];
  const GradientRequest& beta = requests[2];
  if (!gamma.type && !beta.type) return gradients;
  // One kernel makes both. It accumulates into both or into none, so a lone init is added afterwards.
  mlir::Type gamma_type = gamma.type ? gamma.type : getGamma().getType();
  mlir::Type beta_type = beta.type ? beta.type : getBeta().getType();
  bool in_place = gamma.init && beta.init;
  auto both = builder.create<LayerNormBackwardWeightOp>(getLoc(), gamma_type, beta_type, dy, getX(), getMean(),
                                                        getRstd(), in_place ? gamma.init : mlir::Value(),
                                                        in_place ? beta.init : mlir::Value());
  auto deliver = [&](mlir::Value gradient, const GradientRequest& request) -> mlir::Value {
    if (!request.type) return {};
    return in_place ? gradient : Deliver(builder, getLoc(), gradient, request);
  };
  gradients[1] = deliver(both.getDgamma(), gamma);
  gradients[2] = deliver(both.getDbeta(), beta);
  return gradients;
}

Gradients GeluOp::buildBackward(mlir::OpBuilder& builder, llvm::ArrayRef<mlir::Value> resultGrads, Requests requests) {
  if (!resultGrads[0] || !requests[0].type) return Gradients(1);
  mlir::Type type = requests[0].init ? getX().getType() : requests[0].type;
  mlir::Value dx = builder.create<GeluBackwardOp>(getLoc(), type, resultGrads[0], getX(), getTanhApproximation());
  return {Deliver(builder, getLoc(), dx, requests[0])};
}

Gradients AttentionOp::buildBackward(mlir::OpBuilder& builder, llvm::ArrayRef<mlir::Value> resultGrads,
                                     Requests requests) {
  Gradients gradients(requests.size());
  if (!resultGrads[0] || llvm::none_of(requests, [](const GradientRequest& request) { return request.type; })) {
    return gradients;
  }
  // One kernel makes the gradients of q, k and v, wanted or not.
  llvm::SmallVector<mlir::Type> types;
  for (auto [operand, request] : llvm::zip((*this)->getOperands(), requests)) {
    types.push_back(PlainGradientType(operand, request));
  }
  auto made = builder.create<AttentionBackwardOp>(
      getLoc(), types[0], llvm::ArrayRef(types).drop_front(), resultGrads[0], getQkv(), getKv(), getResult(), getLse(),
      getHeadsAttr(), getSequenceAttr(), getCausalAttr(), getScaleAttr(), getDropoutAttr(), getDropoutSiteAttr(),
      getKvHeadsAttr(), getWindowAttr());
  for (auto [gradient, result, request] : llvm::zip(gradients, made->getResults(), requests)) {
    if (request.type) gradient = Deliver(builder, getLoc(), result, request);
  }
  return gradients;
}

Gradients DropoutOp::buildBackward(mlir::OpBuilder& builder, llvm::ArrayRef<mlir::Value> resultGrads,
                                   Requests requests) {
  if (!resultGrads[0] || !requests[0].type) return Gradients(1);
  mlir::Type type = requests[0].init ? getX().getType() : requests[0].type;
  mlir::Value dx = builder.create<DropoutOp>(getLoc(), type, resultGrads[0], getDropoutAttr(), getDropoutSiteAttr());
  return {Deliver(builder, getLoc(), dx, requests[0])};
}

Gradients CrossEntropyOp::buildBackward(mlir::OpBuilder& builder, llvm::ArrayRef<mlir::Value>, Requests requests) {
  Gradients gradients(3);
  if (!requests[0].type) return gradients;
  mlir::Type type = requests[0].init ? getLogits().getType() : requests[0].type;
  mlir::Value dlogits = builder.create<CrossEntropyBackwardOp>(getLoc(), type, getLogits(), getLse(), getTargets(),
                                                               getVocabularyAttr(), getLossWeightAttr());
  gradients[0] = Deliver(builder, getLoc(), dlogits, requests[0]);
  return gradients;
}

Gradients CastOp::buildBackward(mlir::OpBuilder& builder, llvm::ArrayRef<mlir::Value> resultGrads, Requests requests) {
  if (!resultGrads[0] || !requests[0].type) return Gradients(1);
  return {Deliver(builder, getLoc(), resultGrads[0], requests[0])};
}

// --- Sharding -------------------------------------------------------------------------------------------------------
// Rows of activations are split over z, columns over the axis that the last product left them on (y here, x for the
// output of a product); Singh et al. 2023, arXiv:2305.13525.

namespace {

using Axes = llvm::SmallVector<ShardAxis>;

}  // namespace

ShardingRule ElementwiseRule(mlir::Operation* op) {
  ShardingRule rule;
  auto axes = [](mlir::Value value) {
    Axes result(ShapeOf(value).size(), ShardAxis::kNone);
    if (!result.empty()) result.back() = ShardAxis::kY;
    if (result.size() > 1) result.front() = ShardAxis::kZ;
    return result;
  };
  for (mlir::Value operand : op->getOperands()) rule.operands.push_back(axes(operand));
  for (mlir::Value result : op->getResults()) rule.results.push_back(axes(result));
  return rule;
}

ShardingRule AddOp::getShardingRule() { return ElementwiseRule(*this); }
ShardingRule GeluOp::getShardingRule() { return ElementwiseRule(*this); }
ShardingRule DropoutOp::getShardingRule() { return ElementwiseRule(*this); }
ShardingRule CastOp::getShardingRule() { return ElementwiseRule(*this); }

ShardingRule AttentionOp::getShardingRule() {
  // Columns of q, k, v and the result, and of the log-sum-exp, are split by whole heads, rows by whole sequences. A
  // fused qkv holds three of these splits side by side, which no split of its columns is.
  ShardingRule rule = ElementwiseRule(*this);
  if (!getKv().empty()) return rule;
  for (auto* tensors : {&rule.operands, &rule.results}) {
    for (Axes& axes : *tensors) axes.back() = ShardAxis::kNone;
  }
  return rule;
}

ShardingRule EmbeddingOp::getShardingRule() {
  return {{{ShardAxis::kZ}, {ShardAxis::kNone, ShardAxis::kY}}, {{ShardAxis::kZ, ShardAxis::kY}}, {}};
}

ShardingRule LayerNormOp::getShardingRule() {
  // Statistics need whole rows.
  return {{{ShardAxis::kZ, ShardAxis::kNone}, {ShardAxis::kNone}, {ShardAxis::kNone}},
          {{ShardAxis::kZ, ShardAxis::kNone}, {ShardAxis::kZ}, {ShardAxis::kZ}},
          {}};
}

ShardingRule MatmulOp::getShardingRule() {
  auto axes = [](bool transposed, ShardAxis rows, ShardAxis columns) {
    return transposed ? Axes{columns, rows} : Axes{rows, columns};
  };
  ShardingRule rule;
  rule.operands.push_back(axes(getTransposeA(), ShardAxis::kZ, ShardAxis::kY));
  rule.operands.push_back(axes(getTransposeB(), ShardAxis::kY, ShardAxis::kX));
  if (getBias()) rule.operands.push_back({ShardAxis::kX});
  if (getInit()) rule.operands.push_back({ShardAxis::kZ, ShardAxis::kX});
  rule.results.push_back({ShardAxis::kZ, ShardAxis::kX});
  rule.partial.push_back(ShardAxis::kY);
  return rule;
}

}  // namespace weft::ir
