// Registration and verifiers of the kernels at the end of an optimizer step.
#include "ir/checks.h"
#include "ir/graph_ops.h"
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
  return Expect(*this, getClipNorm().convertToDouble() >= 0, "norm_total_c2",
                "clip_norm must not be negative, got " + llvm::Twine(std::to_string(getClipNorm().convertToDouble())));
}

mlir::LogicalResult ScaleOp::verify() {
  if (mlir::failed(ExpectShape(*this, "scale_c1", "norm (norm and factor)", getNorm(), {2}))) return mlir::failure();
  return ExpectType(*this, "scale_c2", "result (like x)", getResult(), getX().getType());
}

mlir::LogicalResult AdamwOp::verify() {
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
  llvm::ArrayRef<int64_t> shape = ShapeOf(getWeight());
  if (mlir::failed(ExpectShape(*this, "sgd_step_c1", "grad (like weight)", getGrad(), shape)) ||
      mlir::failed(ExpectShape(*this, "sgd_step_c1", "momentum buffer (like weight)", getBuffer(), shape)) ||
      mlir::failed(ExpectShape(*this, "sgd_step_c2", "param (like weight)", getParam(), shape)) ||
      mlir::failed(
          ExpectType(*this, "sgd_step_c3", "new weight (like weight)", getNewWeight(), getWeight().getType()))) {
    return mlir::failure();
  }
  if (!getBuffer() != !getNewBuffer() || !getBuffer() != getMomentum().isZero()) {
    return emitOpError("[sgd_step_c4] takes and returns a momentum buffer if momentum is not 0, and only then");
  }
  if (!getBuffer()) return mlir::success();
  return ExpectType(*this, "sgd_step_c3", "new momentum buffer (like the old)", getNewBuffer(), getBuffer().getType());
}

}  // namespace weft::ir
