// Registration, verifiers and derivatives of the kernels that work on columns that are split over ranks.
#include <cmath>

#include "ir/checks.h"
#include "ir/gradients.h"
#include "ir/graph_ops.h"
#include "mlir/IR/Builders.h"

#define GET_OP_CLASSES
#include "ir/split_ops.cc.inc"

namespace weft::ir {

void WeftDialect::registerSplitOps() {
  addOperations<
#define GET_OP_LIST
#include "ir/split_ops.cc.inc"
      >();
}

namespace {

// The checks that norm_apply and its backwards have in common.
template <typename Op>
mlir::LogicalResult CheckNorm(Op op, llvm::StringRef id, bool root_mean_square) {
  const int64_t rows = Dim(op.getX(), 0);
  const std::string base = id.str();
  if (mlir::failed(ExpectShape(op, base + "_c1", "gamma (columns of x)", op.getGamma(), {Dim(op.getX(), 1)})) ||
      mlir::failed(ExpectShape(op, base + "_c2", "rstd (rows of x)", op.getRstd(), {rows})) ||
      mlir::failed(ExpectStatistics(op, base + "_c3", "rstd", op.getRstd(), op.getX()))) {
    return mlir::failure();
  }
  if (static_cast<bool>(op.getMean()) == root_mean_square) {
    return op.emitOpError() << "[" << base << "_c4] must take a mean if, and only if, root_mean_square is not set";
  }
  if (!op.getMean()) return mlir::success();
  if (mlir::failed(ExpectShape(op, base + "_c2", "mean (rows of x)", op.getMean(), {rows}))) return mlir::failure();
  return ExpectStatistics(op, base + "_c3", "mean", op.getMean(), op.getX());
}

}  // namespace

mlir::LogicalResult BiasAddOp::verify() {
  if (mlir::failed(ExpectShape(*this, "bias_add_c1", "bias (columns of x)", getBias(), {Dim(getX(), 1)}))) {
    return mlir::failure();
  }
  return ExpectShape(*this, "bias_add_c2", "result (like x)", getResult(), ShapeOf(getX()));
}

Gradients BiasAddOp::buildBackward(mlir::OpBuilder& builder, llvm::ArrayRef<mlir::Value> resultGrads,
                                   Requests requests) {
  Gradients gradients(2);
  if (!resultGrads[0]) return gradients;
  if (requests[0].type) gradients[0] = Deliver(builder, getLoc(), resultGrads[0], requests[0]);
  if (requests[1].type) {
    gradients[1] = builder.create<BiasGradientOp>(getLoc(), requests[1].type, resultGrads[0], requests[1].init);
  }
  return gradients;
}

mlir::LogicalResult CrossEntropyPartialOp::verify() {
  const int64_t rows = Dim(getLogits(), 0);
  if (mlir::failed(ExpectShape(*this, "cross_entropy_partial_c1", "targets (rows of logits)", getTargets(), {rows})) ||
      mlir::failed(ExpectShape(*this, "cross_entropy_partial_c2", "result (rows x 2)", getPartial(), {rows, 2})) ||
      mlir::failed(ExpectStatistics(*this, "cross_entropy_partial_c3", "result", getPartial(), getLogits())) ||
      mlir::failed(CheckShift(*this, "cross_entropy_partial_c4", "column_shift", getColumnShiftAttr()))) {
    return mlir::failure();
  }
  return Expect(*this, getVocabularyAttr().getInt() >= 1, "cross_entropy_partial_c5",
                "vocabulary must be positive, got " + llvm::Twine(getVocabularyAttr().getInt()));
}

mlir::LogicalResult CrossEntropyCombineOp::verify() {
  const int64_t rows = Dim(getLogits(), 0);
  if (Dim(getPartials(), 1) != 2 || rows == 0 || Dim(getPartials(), 0) % rows != 0) {
    return emitOpError() << "[cross_entropy_combine_c1] partials must be one or more parts of " << rows << "x2, got "
                         << ShapeText(ShapeOf(getPartials()));
  }
  if (mlir::failed(ExpectShape(*this, "cross_entropy_combine_c2", "targets (rows of logits)", getTargets(), {rows})) ||
      mlir::failed(ExpectShape(*this, "cross_entropy_combine_c3", "lse (rows of logits)", getLse(), {rows})) ||
      mlir::failed(ExpectStatistics(*this, "cross_entropy_combine_c4", "lse", getLse(), getLogits())) ||
      mlir::failed(ExpectStatistics(*this, "cross_entropy_combine_c4", "partials", getPartials(), getLogits()))) {
    return mlir::failure();
  }
  if (mlir::failed(ExpectType(*this, "cross_entropy_combine_c5", "new_losses (like losses)", getNewLosses(),
                              getLosses().getType()))) {
    return mlir::failure();
  }
  return CheckShift(*this, "cross_entropy_combine_c6", "logits_shift", getLogitsShiftAttr());
}

int64_t CrossEntropyCombineOp::bytes() {
  return SaturatingAdd(BytesOfTensor(getPartials().getType()),
                       SaturatingAdd(BytesOfTensor(getTargets().getType()), BytesOfTensor(getLse().getType())));
}

Gradients CrossEntropyCombineOp::buildBackward(mlir::OpBuilder& builder, llvm::ArrayRef<mlir::Value>,
                                               Requests requests) {
  Gradients gradients(4);
  if (!requests[2].type) return gradients;
  mlir::Type type = requests[2].init ? getLogits().getType() : requests[2].type;
  mlir::Value dlogits =
      builder.create<CrossEntropyBackwardOp>(getLoc(), type, getLogits(), getLse(), getTargets(), mlir::Value(),
                                             getLogitsVocabularyAttr(), getLossWeightAttr(), getLogitsShiftAttr());
  gradients[2] = Deliver(builder, getLoc(), dlogits, requests[2]);
  return gradients;
}

mlir::LogicalResult NormPartialOp::verify() {
  if (mlir::failed(ExpectShape(*this, "norm_partial_c1", "result (rows x statistics)", getPartial(),
                               {Dim(getX(), 0), getRootMeanSquare() ? 1 : 2}))) {
    return mlir::failure();
  }
  return ExpectStatistics(*this, "norm_partial_c2", "result", getPartial(), getX());
}

mlir::LogicalResult NormCombineOp::verify() {
  const int64_t rows = Dim(getRstd(), 0);
  const int64_t statistics = getRootMeanSquare() ? 1 : 2;
  if (rows == 0 || Dim(getPartials(), 1) != statistics || Dim(getPartials(), 0) % rows != 0) {
    return emitOpError() << "[norm_combine_c1] partials must be one or more parts of " << rows << "x" << statistics
                         << ", got " << ShapeText(ShapeOf(getPartials()));
  }
  if (static_cast<bool>(getMean()) == getRootMeanSquare()) {
    return emitOpError("[norm_combine_c2] must make a mean if, and only if, root_mean_square is not set");
  }
  if (getMean() &&
      mlir::failed(ExpectType(*this, "norm_combine_c3", "mean (like rstd)", getMean(), getRstd().getType()))) {
    return mlir::failure();
  }
  const double epsilon = getEpsilon().convertToDouble();
  if (!(epsilon > 0 && std::isfinite(epsilon))) {
    return emitOpError() << "[norm_combine_c4] epsilon must be positive and finite, got " << std::to_string(epsilon);
  }
  return Expect(*this, getWholeColumnsAttr().getInt() >= 1, "norm_combine_c5",
                "whole_columns must be positive, got " + llvm::Twine(getWholeColumnsAttr().getInt()));
}

mlir::LogicalResult NormApplyOp::verify() {
  if (mlir::failed(CheckNorm(*this, "norm_apply", getRootMeanSquare()))) return mlir::failure();
  if (static_cast<bool>(getBeta()) == getRootMeanSquare()) {
    return emitOpError("[norm_apply_c5] must take a beta if, and only if, root_mean_square is not set");
  }
  if (getBeta() &&
      mlir::failed(ExpectShape(*this, "norm_apply_c6", "beta (columns of x)", getBeta(), {Dim(getX(), 1)}))) {
    return mlir::failure();
  }
  if (mlir::failed(ExpectShape(*this, "norm_apply_c7", "result (like x)", getResult(), ShapeOf(getX())))) {
    return mlir::failure();
  }
  return Expect(*this, getRowColumnsAttr().getInt() >= Dim(getX(), 1), "norm_apply_c8",
                "row_columns must be at least the columns of x, got " + llvm::Twine(getRowColumnsAttr().getInt()));
}

Gradients NormApplyOp::buildBackward(mlir::OpBuilder& builder, llvm::ArrayRef<mlir::Value> resultGrads,
                                     Requests requests) {
  Gradients gradients((*this)->getNumOperands());
  mlir::Value dy = resultGrads[0];
  if (!dy) return gradients;
  const bool rms = getRootMeanSquare();
  if (requests[0].type) {
    auto sums_type = mlir::RankedTensorType::get({Dim(getX(), 0), rms ? 1 : 2}, getRstd().getType().getElementType());
    mlir::Value sums =
        builder.create<NormBackwardPartialOp>(getLoc(), sums_type, dy, getX(), getGamma(), getMean(), getRstd(), rms);
    auto whole = builder.create<GroupAllReduceOp>(getLoc(), mlir::TypeRange{sums_type}, sums, getOverAttr(),
                                                  getMembersAttr(), PurposeAttr::get(getContext(), Purpose::Tensor),
                                                  getAlgorithmAttr(), builder.getUnitAttr(), mlir::UnitAttr());
    gradients[0] = builder.create<NormBackwardApplyOp>(
        getLoc(), requests[0].type, dy, getX(), getGamma(), getMean(), getRstd(), whole.getOutputs()[0],
        requests[0].init, getRowColumnsAttr(), rms ? builder.getUnitAttr() : mlir::UnitAttr());
  }
  if (rms) {
    if (requests[1].type) {
      gradients[1] =
          builder.create<RmsNormBackwardWeightOp>(getLoc(), requests[1].type, dy, getX(), getRstd(), requests[1].init);
    }
  } else {
    BuildNormWeightGradients(builder, getLoc(), dy, getX(), getMean(), getRstd(), requests[1], requests[2],
                             &gradients[1], &gradients[2]);
  }
  return gradients;
}

mlir::LogicalResult NormBackwardPartialOp::verify() {
  if (mlir::failed(CheckNorm(*this, "norm_backward_partial", getRootMeanSquare())) ||
      mlir::failed(ExpectShape(*this, "norm_backward_partial_c5", "dy (like x)", getDy(), ShapeOf(getX()))) ||
      mlir::failed(ExpectShape(*this, "norm_backward_partial_c6", "result (rows x sums)", getSums(),
                               {Dim(getX(), 0), getRootMeanSquare() ? 1 : 2}))) {
    return mlir::failure();
  }
  return ExpectStatistics(*this, "norm_backward_partial_c7", "result", getSums(), getX());
}

mlir::LogicalResult NormBackwardApplyOp::verify() {
  if (mlir::failed(CheckNorm(*this, "norm_backward_apply", getRootMeanSquare())) ||
      mlir::failed(ExpectShape(*this, "norm_backward_apply_c5", "dy (like x)", getDy(), ShapeOf(getX()))) ||
      mlir::failed(ExpectShape(*this, "norm_backward_apply_c6", "sums (rows x sums)", getSums(),
                               {Dim(getX(), 0), getRootMeanSquare() ? 1 : 2})) ||
      mlir::failed(ExpectShape(*this, "norm_backward_apply_c7", "result (like x)", getDx(), ShapeOf(getX()))) ||
      mlir::failed(ExpectType(*this, "norm_backward_apply_c8", "init (like the result)", getInit(), getType()))) {
    return mlir::failure();
  }
  return Expect(*this, getWholeColumnsAttr().getInt() >= Dim(getX(), 1), "norm_backward_apply_c9",
                "whole_columns must be at least the columns of x, got " + llvm::Twine(getWholeColumnsAttr().getInt()));
}

}  // namespace weft::ir
