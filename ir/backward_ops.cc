// Registration, verifiers and costs of backward kernels.
#include "ir/checks.h"
#include "ir/graph_ops.h"
#include "mlir/IR/Builders.h"

#define GET_OP_CLASSES
#include "ir/backward_ops.cc.inc"

namespace weft::ir {

void WeftDialect::registerBackwardOps() {
  addOperations<
#define GET_OP_LIST
#include "ir/backward_ops.cc.inc"
      >();
}

mlir::LogicalResult EmbeddingBackwardOp::verify() {
  if (mlir::failed(ExpectShape(*this, "embedding_backward_c1", "dy (tokens x columns of the table)", getDy(),
                               {Dim(getTokens(), 0), Dim(getDtable(), 1)}))) {
    return mlir::failure();
  }
  if (mlir::failed(CheckShift(*this, "embedding_backward_c3", "column_shift", getColumnShiftAttr()))) {
    return mlir::failure();
  }
  return ExpectType(*this, "embedding_backward_c2", "init (like the result)", getInit(), getType());
}

mlir::LogicalResult PositionEmbeddingBackwardOp::verify() {
  int64_t sequence = getSequenceAttr().getInt();
  if (mlir::failed(CheckShift(*this, "position_embedding_backward_c4", "row_shift", getRowShiftAttr()))) {
    return mlir::failure();
  }
  if (sequence <= 0 || (getRowShift().empty() && Dim(getDy(), 0) % sequence != 0) || sequence > Dim(getDtable(), 0)) {
    return emitOpError() << "[position_embedding_backward_c1] sequence = " << sequence << " must divide dy's "
                         << Dim(getDy(), 0) << " rows and be at most the table's " << Dim(getDtable(), 0)
                         << " positions";
  }
  if (mlir::failed(ExpectShape(*this, "position_embedding_backward_c2", "dy (any rows x columns of the table)", getDy(),
                               {Dim(getDy(), 0), Dim(getDtable(), 1)}))) {
    return mlir::failure();
  }
  return ExpectType(*this, "position_embedding_backward_c3", "init (like the result)", getInit(), getType());
}

mlir::LogicalResult BiasGradientOp::verify() {
  if (mlir::failed(ExpectShape(*this, "bias_gradient_c1", "result (columns of dy)", getDbias(), {Dim(getDy(), 1)}))) {
    return mlir::failure();
  }
  return ExpectType(*this, "bias_gradient_c2", "init (like the result)", getInit(), getType());
}

mlir::LogicalResult LayerNormBackwardOp::verify() {
  int64_t rows = Dim(getX(), 0);
  if (mlir::failed(ExpectShape(*this, "layer_norm_backward_c1", "dy (like x)", getDy(), ShapeOf(getX()))) ||
      mlir::failed(ExpectShape(*this, "layer_norm_backward_c1", "result (like x)", getDx(), ShapeOf(getX()))) ||
      mlir::failed(
          ExpectShape(*this, "layer_norm_backward_c2", "gamma (columns of x)", getGamma(), {Dim(getX(), 1)})) ||
      mlir::failed(ExpectShape(*this, "layer_norm_backward_c3", "mean (rows of x)", getMean(), {rows})) ||
      mlir::failed(ExpectShape(*this, "layer_norm_backward_c3", "rstd (rows of x)", getRstd(), {rows})) ||
      mlir::failed(ExpectStatistics(*this, "layer_norm_backward_c4", "mean", getMean(), getX())) ||
      mlir::failed(ExpectStatistics(*this, "layer_norm_backward_c4", "rstd", getRstd(), getX()))) {
    return mlir::failure();
  }
  return ExpectType(*this, "layer_norm_backward_c5", "init (like the result)", getInit(), getType());
}

mlir::LogicalResult LayerNormBackwardWeightOp::verify() {
  int64_t rows = Dim(getX(), 0);
  int64_t columns = Dim(getX(), 1);
  if (mlir::failed(ExpectShape(*this, "layer_norm_backward_weight_c1", "dy (like x)", getDy(), ShapeOf(getX()))) ||
      mlir::failed(ExpectShape(*this, "layer_norm_backward_weight_c2", "mean (rows of x)", getMean(), {rows})) ||
      mlir::failed(ExpectShape(*this, "layer_norm_backward_weight_c2", "rstd (rows of x)", getRstd(), {rows})) ||
      mlir::failed(ExpectStatistics(*this, "layer_norm_backward_weight_c3", "mean", getMean(), getX())) ||
      mlir::failed(ExpectStatistics(*this, "layer_norm_backward_weight_c3", "rstd", getRstd(), getX())) ||
      mlir::failed(
          ExpectShape(*this, "layer_norm_backward_weight_c4", "dgamma (columns of x)", getDgamma(), {columns})) ||
      mlir::failed(
          ExpectShape(*this, "layer_norm_backward_weight_c4", "dbeta (columns of x)", getDbeta(), {columns}))) {
    return mlir::failure();
  }
  if (!getInitGamma() != !getInitBeta()) {
    return emitOpError("[layer_norm_backward_weight_c5] must take an init for both results or for none");
  }
  if (mlir::failed(ExpectType(*this, "layer_norm_backward_weight_c6", "init of gamma (like the result)", getInitGamma(),
                              getDgamma().getType()))) {
    return mlir::failure();
  }
  return ExpectType(*this, "layer_norm_backward_weight_c6", "init of beta (like the result)", getInitBeta(),
                    getDbeta().getType());
}

mlir::LogicalResult AttentionBackwardOp::verify() {
  int64_t rows = Dim(getQkv(), 0);
  int64_t columns = Dim(getQkv(), 1);
  int64_t d = columns / (getKv().empty() ? 3 : 1);
  int64_t heads = getHeadsAttr().getInt();
  int64_t sequence = getSequenceAttr().getInt();
  if (getKv().empty() && (heads <= 0 || columns % 3 != 0 || d % heads != 0)) {
    return emitOpError() << "[attention_backward_c1] columns of qkv must be 3 x heads x head size, got " << columns
                         << " columns and " << heads << " heads";
  }
  if (mlir::failed(VerifyHeads(*this, "attention_backward_c8", getQkv(), getKv(), heads, getKvHeadsAttr().getInt()))) {
    return mlir::failure();
  }
  if (getDkv().size() != getKv().size()) {
    return emitOpError() << "[attention_backward_c9] has " << getDkv().size() + 1 << " results for "
                         << getKv().size() + 1 << " inputs of attention";
  }
  for (auto [gradient, value] : llvm::zip(getDkv(), getKv())) {
    if (mlir::failed(ExpectShape(*this, "attention_backward_c9", "gradient of k and v (like k and v)", gradient,
                                 ShapeOf(value)))) {
      return mlir::failure();
    }
  }
  if (getWindowAttr().getInt() < 0 || (getWindowAttr().getInt() > 0 && !getCausal())) {
    return emitOpError() << "[attention_backward_c10] window = " << getWindowAttr().getInt()
                         << " must not be negative, and needs causal";
  }
  if (sequence <= 0 || rows % sequence != 0) {
    return emitOpError() << "[attention_backward_c2] sequence = " << sequence << " must divide qkv's rows, " << rows;
  }
  if (mlir::failed(ExpectShape(*this, "attention_backward_c3", "dout (like out)", getDout(), {rows, d})) ||
      mlir::failed(ExpectShape(*this, "attention_backward_c3", "out (rows x columns of q)", getOut(), {rows, d})) ||
      mlir::failed(ExpectShape(*this, "attention_backward_c4", "lse (rows x heads)", getLse(), {rows, heads})) ||
      mlir::failed(ExpectStatistics(*this, "attention_backward_c5", "lse", getLse(), getQkv())) ||
      mlir::failed(ExpectShape(*this, "attention_backward_c6", "result (like qkv)", getDqkv(), {rows, columns}))) {
    return mlir::failure();
  }
  double p = getDropout().convertToDouble();
  return Expect(*this, p >= 0 && p < 1, "attention_backward_c7",
                "dropout must be at least 0 and below 1, got " + llvm::Twine(std::to_string(p)));
}

int64_t AttentionBackwardOp::flops() { return SaturatingMultiply(10, AttentionVolume(getOut(), getSequence())); }
int64_t AttentionBackwardOp::modelFlops() { return SaturatingMultiply(8, AttentionVolume(getOut(), getSequence())); }
int64_t AttentionBackwardOp::maskedFlops() {
  return getCausal() ? SaturatingMultiply(4, HiddenAttentionVolume(getOut(), getSequence(), getWindow())) : 0;
}

mlir::LogicalResult CrossEntropyBackwardOp::verify() {
  int64_t rows = Dim(getLogits(), 0);
  if (mlir::failed(ExpectShape(*this, "cross_entropy_backward_c1", "lse (rows of logits)", getLse(), {rows})) ||
      mlir::failed(ExpectStatistics(*this, "cross_entropy_backward_c2", "lse", getLse(), getLogits())) ||
      mlir::failed(ExpectShape(*this, "cross_entropy_backward_c3", "targets (rows of logits)", getTargets(), {rows})) ||
      mlir::failed(ExpectShape(*this, "cross_entropy_backward_c4", "result (like logits)", getDlogits(),
                               ShapeOf(getLogits())))) {
    return mlir::failure();
  }
  if (getScale() &&
      mlir::failed(ExpectShape(*this, "cross_entropy_backward_c7", "scale (rule P11)", getScale(), {3}))) {
    return mlir::failure();
  }
  if (mlir::failed(CheckShift(*this, "cross_entropy_backward_c6", "column_shift", getColumnShiftAttr()))) {
    return mlir::failure();
  }
  int64_t vocabulary = getVocabularyAttr().getInt();
  if (vocabulary < 1 || (getColumnShift().empty() && vocabulary > Dim(getLogits(), 1))) {
    return emitOpError() << "[cross_entropy_backward_c5] vocabulary must be between 1 and the columns of logits, "
                         << Dim(getLogits(), 1) << ", got " << vocabulary;
  }
  return mlir::success();
}

}  // namespace weft::ir
