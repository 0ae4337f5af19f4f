// Registration, verifiers, derivatives and sharding of the kernels of Llama-like transformers.
#include <cmath>

#include "ir/checks.h"
#include "ir/gradients.h"
#include "ir/graph_ops.h"
#include "mlir/IR/Builders.h"

#define GET_OP_CLASSES
#include "ir/transformer_ops.cc.inc"

namespace weft::ir {

void WeftDialect::registerTransformerOps() {
  addOperations<
#define GET_OP_LIST
#include "ir/transformer_ops.cc.inc"
      >();
}

mlir::LogicalResult RmsNormOp::verify() {
  if (mlir::failed(ExpectShape(*this, "rms_norm_c1", "gamma (columns of x)", getGamma(), {Dim(getX(), 1)})) ||
      mlir::failed(ExpectShape(*this, "rms_norm_c2", "result (like x)", getResult(), ShapeOf(getX()))) ||
      mlir::failed(ExpectShape(*this, "rms_norm_c3", "rstd (rows of x)", getRstd(), {Dim(getX(), 0)})) ||
      mlir::failed(ExpectStatistics(*this, "rms_norm_c4", "rstd", getRstd(), getX()))) {
    return mlir::failure();
  }
  double epsilon = getEpsilon().convertToDouble();
  return Expect(*this, epsilon > 0 && std::isfinite(epsilon), "rms_norm_c5",
                "epsilon must be positive and finite, got " + llvm::Twine(std::to_string(epsilon)));
}

mlir::LogicalResult RmsNormBackwardOp::verify() {
  if (mlir::failed(ExpectShape(*this, "rms_norm_backward_c1", "dy (like x)", getDy(), ShapeOf(getX()))) ||
      mlir::failed(ExpectShape(*this, "rms_norm_backward_c1", "result (like x)", getDx(), ShapeOf(getX()))) ||
      mlir::failed(ExpectShape(*this, "rms_norm_backward_c2", "gamma (columns of x)", getGamma(), {Dim(getX(), 1)})) ||
      mlir::failed(ExpectShape(*this, "rms_norm_backward_c3", "rstd (rows of x)", getRstd(), {Dim(getX(), 0)})) ||
      mlir::failed(ExpectStatistics(*this, "rms_norm_backward_c4", "rstd", getRstd(), getX()))) {
    return mlir::failure();
  }
  return ExpectType(*this, "rms_norm_backward_c5", "init (like the result)", getInit(), getType());
}

mlir::LogicalResult RmsNormBackwardWeightOp::verify() {
  if (mlir::failed(ExpectShape(*this, "rms_norm_backward_weight_c1", "dy (like x)", getDy(), ShapeOf(getX()))) ||
      mlir::failed(
          ExpectShape(*this, "rms_norm_backward_weight_c2", "rstd (rows of x)", getRstd(), {Dim(getX(), 0)})) ||
      mlir::failed(ExpectStatistics(*this, "rms_norm_backward_weight_c3", "rstd", getRstd(), getX())) ||
      mlir::failed(
          ExpectShape(*this, "rms_norm_backward_weight_c4", "result (columns of x)", getDgamma(), {Dim(getX(), 1)}))) {
    return mlir::failure();
  }
  return ExpectType(*this, "rms_norm_backward_weight_c5", "init (like the result)", getInit(), getType());
}

mlir::LogicalResult RopeOp::verify() {
  if (mlir::failed(ExpectShape(*this, "rope_c1", "result (like x)", getResult(), ShapeOf(getX())))) {
    return mlir::failure();
  }
  const int64_t head_size = getHeadSizeAttr().getInt();
  const int64_t sequence = getSequenceAttr().getInt();
  if (head_size <= 0 || head_size % 2 != 0 || Dim(getX(), 1) % head_size != 0) {
    return emitOpError() << "[rope_c2] head_size = " << head_size << " must be even and divide x's " << Dim(getX(), 1)
                         << " columns";
  }
  if (sequence <= 0 || Dim(getX(), 0) % sequence != 0) {
    return emitOpError() << "[rope_c3] sequence = " << sequence << " must divide x's rows, " << Dim(getX(), 0);
  }
  const double base = getBase().convertToDouble(), magnitude = getMagnitude().convertToDouble();
  if (!(base > 1 && std::isfinite(base) && magnitude > 0 && std::isfinite(magnitude))) {
    return emitOpError() << "[rope_c4] base must be above 1 and magnitude positive, got " << std::to_string(base)
                         << " and " << std::to_string(magnitude);
  }
  const double factor = getFactor().convertToDouble(), positions = getRampPositions().convertToDouble();
  const double low = getRampLow().convertToDouble(), high = getRampHigh().convertToDouble();
  const bool plain = factor == 0 && low == 0 && high == 0 && positions == 0;
  const bool scaled = factor > 0 && std::isfinite(factor) && positions >= 0 && std::isfinite(positions) &&
                      std::isfinite(low) && std::isfinite(high) && high > low;
  return Expect(*this, plain || scaled, "rope_c5",
                "factor must be positive and ramp_low below ramp_high, or factor, ramp_low, ramp_high and "
                "ramp_positions must all be 0");
}

Gradients RmsNormOp::buildBackward(mlir::OpBuilder& builder, llvm::ArrayRef<mlir::Value> resultGrads,
                                   Requests requests) {
  Gradients gradients(2);
  mlir::Value dy = resultGrads[0];
  if (!dy) return gradients;
  if (requests[0].type) {
    gradients[0] = builder.create<RmsNormBackwardOp>(getLoc(), requests[0].type, dy, getX(), getGamma(), getRstd(),
                                                     requests[0].init);
  }
  if (requests[1].type) {
    gradients[1] =
        builder.create<RmsNormBackwardWeightOp>(getLoc(), requests[1].type, dy, getX(), getRstd(), requests[1].init);
  }
  return gradients;
}

Gradients RopeOp::buildBackward(mlir::OpBuilder& builder, llvm::ArrayRef<mlir::Value> resultGrads, Requests requests) {
  if (!resultGrads[0] || !requests[0].type) return Gradients(1);
  mlir::Value dx = builder.create<RopeOp>(getLoc(), PlainGradientType(getX(), requests[0]), resultGrads[0],
                                          getSequenceAttr(), getHeadSizeAttr(), getBaseAttr(), getMagnitudeAttr(),
                                          getFactorAttr(), getRampLowAttr(), getRampHighAttr(), getRampPositionsAttr(),
                                          getInverse() ? mlir::UnitAttr() : builder.getUnitAttr());
  return {Deliver(builder, getLoc(), dx, requests[0])};
}

}  // namespace weft::ir
