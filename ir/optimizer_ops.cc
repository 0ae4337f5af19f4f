// Registration and verifiers of the kernels at the end of an optimizer step.
#include "ir/checks.h"
#include "ir/graph_ops.h"
#include "llvm/ADT/STLExtras.h"
#include "mlir/IR/Builders.h"

#define GET_OP_CLASSES
#include "ir/optimizer_ops.cc.inc"

namespace weft::ir {

void WeftDialect::registerOptimizerOps() {
  addOperations<
#define GET_OP_LIST
#include "ir/optimizer_ops.cc.inc"
      >();
}

mlir::LogicalResult FillOp::verify() {
  mlir::Type element = getType().getElementType();
  if (BytesOfElement(element) == 0) {
    return emitOpError() << "[fill_c1] cannot fill elements of type " << element;
  }
  return Expect(*this, !mlir::isa<Exact192Type>(element) || getValue().isZero(), "fill_c2",
                "an exact192 accumulator can be filled with 0 only");
}

mlir::LogicalResult ExactAccumulateOp::verify() {
  if (mlir::failed(
          ExpectShape(*this, "exact_accumulate_c1", "x (like the accumulator)", getX(), ShapeOf(getAccumulator())))) {
    return mlir::failure();
  }
  return ExpectType(*this, "exact_accumulate_c2", "result (like the accumulator)", getResult(),
                    getAccumulator().getType());
}

mlir::LogicalResult ExactRoundOp::verify() {
  return ExpectShape(*this, "exact_round_c1", "result (like the accumulator)", getResult(), ShapeOf(getAccumulator()));
}

mlir::LogicalResult SquaredNormOp::verify() {
  if (mlir::failed(ExpectType(*this, "squared_norm_c1", "result (like norms)", getResult(), getNorms().getType()))) {
    return mlir::failure();
  }
  int64_t slot = getSlotAttr().getInt();
  if (slot >= 0 && slot < Dim(getNorms(), 0)) return mlir::success();
  return emitOpError() << "[squared_norm_c2] slot must be between 0 and " << Dim(getNorms(), 0) - 1 << ", got " << slot;
}

mlir::LogicalResult NormTotalOp::verify() {
  if (mlir::failed(ExpectShape(*this, "norm_total_c1", "result (norm and factor)", getNorm(), {2}))) {
    return mlir::failure();
  }
  if (getScale() && mlir::failed(ExpectShape(*this, "norm_total_c3", "scale (rule P11)", getScale(), {3}))) {
    return mlir::failure();
  }
  const double loss_scale = getLossScale().convertToDouble();
  if (!(loss_scale >= 0) || (getScale() && loss_scale != 0)) {
    return emitOpError() << "[norm_total_c4] loss_scale must not be negative, and 0 with the operand scale, got "
                         << std::to_string(loss_scale);
  }
  return Expect(*this, getClipNorm().convertToDouble() >= 0, "norm_total_c2",
                "clip_norm must not be negative, got " + llvm::Twine(std::to_string(getClipNorm().convertToDouble())));
}

mlir::LogicalResult UpdateLossScaleOp::verify() {
  if (mlir::failed(ExpectShape(*this, "update_loss_scale_c1", "norm (norm and factor)", getNorm(), {2})) ||
      mlir::failed(ExpectShape(*this, "update_loss_scale_c2", "scale (rule P11)", getScale(), {3})) ||
      mlir::failed(
          ExpectType(*this, "update_loss_scale_c3", "result (like scale)", getNewScale(), getScale().getType()))) {
    return mlir::failure();
  }
  const double first = getLossScale().convertToDouble();
  if (!(first > 0)) {
    return emitOpError() << "[update_loss_scale_c4] loss_scale must be positive, got " << std::to_string(first);
  }
  const int64_t interval = getGrowthIntervalAttr().getInt();
  if (interval < 1) {
    return emitOpError() << "[update_loss_scale_c5] growth_interval must be at least 1, got " << interval;
  }
  return mlir::success();
}

mlir::LogicalResult ScaleOp::verify() {
  if (mlir::failed(ExpectShape(*this, "scale_c1", "norm (norm and factor)", getNorm(), {2}))) return mlir::failure();
  return ExpectShape(*this, "scale_c2", "result (like x)", getResult(), ShapeOf(getX()));
}

namespace {

// Checks the operands of loss scaling: none, norm alone, or norm and scale.
mlir::LogicalResult VerifyScaling(mlir::Operation* op, llvm::StringRef id, mlir::ValueRange scaling) {
  if (scaling.size() > 2) {
    return op->emitOpError() << "[" << id << "] can take at most two more vectors, norm and scale, got "
                             << scaling.size() << " vectors";
  }
  for (auto [i, value] : llvm::enumerate(scaling)) {
    if (mlir::failed(ExpectShape(op, id, i == 0 ? "norm (norm and factor)" : "scale (rule P11)", value,
                                 {i == 0 ? int64_t{2} : int64_t{3}}))) {
      return mlir::failure();
    }
  }
  return mlir::success();
}

// Checks the rounding of f32 weights to bf16 or f16 parameters.
mlir::LogicalResult VerifyRounding(mlir::Operation* op, llvm::StringRef id, int64_t site, mlir::Value weight,
                                   mlir::Value param) {
  if (site == 0) return mlir::success();
  const auto element = [](mlir::Value value) {
    return mlir::cast<mlir::RankedTensorType>(value.getType()).getElementType();
  };
  if (site > 0 && param && element(weight).isF32() && (element(param).isBF16() || element(param).isF16())) {
    return mlir::success();
  }
  return op->emitOpError() << "[" << id << "] rounding_site must be 0, or positive with a weight of f32 and a param of "
                           << "bf16 or f16; got " << site;
}

}  // namespace

mlir::LogicalResult AdamwOp::verify() {
  if (mlir::failed(VerifyRounding(*this, "adamw_c5", getRoundingSiteAttr().getInt(), getWeight(), getParam()))) {
    return mlir::failure();
  }
  if (mlir::failed(VerifyScaling(*this, "adamw_c4", getScaling()))) return mlir::failure();
  llvm::ArrayRef<int64_t> shape = ShapeOf(getWeight());
  if (mlir::failed(ExpectShape(*this, "adamw_c1", "grad (like weight)", getGrad(), shape)) ||
      mlir::failed(ExpectShape(*this, "adamw_c1", "moment1 (like weight)", getMoment1(), shape)) ||
      mlir::failed(ExpectShape(*this, "adamw_c1", "moment2 (like weight)", getMoment2(), shape)) ||
      mlir::failed(ExpectShape(*this, "adamw_c2", "param (like weight)", getParam(), shape)) ||
      mlir::failed(ExpectType(*this, "adamw_c3", "new weight (like weight)", getNewWeight(), getWeight().getType())) ||
      mlir::failed(
          ExpectType(*this, "adamw_c3", "new moment1 (like moment1)", getNewMoment1(), getMoment1().getType()))) {
    return mlir::failure();
  }
  return ExpectType(*this, "adamw_c3", "new moment2 (like moment2)", getNewMoment2(), getMoment2().getType());
}

mlir::LogicalResult SgdStepOp::verify() {
  if (mlir::failed(VerifyRounding(*this, "sgd_step_c6", getRoundingSiteAttr().getInt(), getWeight(), getParam()))) {
    return mlir::failure();
  }
  if (mlir::failed(VerifyScaling(*this, "sgd_step_c5", getScaling()))) return mlir::failure();
  llvm::ArrayRef<int64_t> shape = ShapeOf(getWeight());
  if (mlir::failed(ExpectShape(*this, "sgd_step_c1", "grad (like weight)", getGrad(), shape)) ||
      mlir::failed(ExpectShape(*this, "sgd_step_c1", "momentum buffer (like weight)", getBuffer(), shape)) ||
      mlir::failed(ExpectShape(*this, "sgd_step_c2", "param (like weight)", getParam(), shape)) ||
      mlir::failed(
          ExpectType(*this, "sgd_step_c3", "new weight (like weight)", getNewWeight(), getWeight().getType()))) {
    return mlir::failure();
  }
  if (!getBuffer() != !getNewBuffer() || !getBuffer() != getMomentum().isZero()) {
    return emitOpError("[sgd_step_c4] must take and return a momentum buffer if, and only if, momentum is not 0");
  }
  if (!getBuffer()) return mlir::success();
  return ExpectType(*this, "sgd_step_c3", "new momentum buffer (like the old)", getNewBuffer(), getBuffer().getType());
}

}  // namespace weft::ir
