// Registration, verifiers and costs of forward kernels. Their derivatives are in differentiation.cc.
#include <cmath>

#include "ir/checks.h"
#include "ir/graph_ops.h"
#include "mlir/IR/Builders.h"

#define GET_OP_CLASSES
#include "ir/forward_ops.cc.inc"

namespace weft::ir {

void WeftDialect::registerForwardOps() {
  addOperations<
#define GET_OP_LIST
#include "ir/forward_ops.cc.inc"
      >();
}

namespace {

// True if the rows of `value` are whole sequences of `sequence` rows.
bool DividesRows(int64_t sequence, mlir::Value value) { return sequence > 0 && Dim(value, 0) % sequence == 0; }

bool IsProbability(const llvm::APFloat& p) { return p.convertToDouble() >= 0 && p.convertToDouble() < 1; }

}  // namespace

// Checks the attributes of masked loading. `id` names the rule.
static mlir::LogicalResult VerifyMasking(mlir::Operation* op, llvm::StringRef id, int64_t rows, int64_t masked,
                                         int64_t mask_token, int64_t vocabulary) {
  if (masked == 0 && mask_token == 0 && vocabulary == 0) return mlir::success();
  return Expect(op, masked >= 1 && masked <= rows && vocabulary >= 1 && mask_token >= 0 && mask_token < vocabulary, id,
                "masked must be between 1 and the rows, " + llvm::Twine(rows) +
                    ", and mask_token below vocabulary; got masked = " + llvm::Twine(masked) +
                    ", mask_token = " + llvm::Twine(mask_token) + ", vocabulary = " + llvm::Twine(vocabulary));
}

mlir::LogicalResult LoadTokensOp::verify() {
  return VerifyMasking(*this, "load_tokens_c1", Dim(getTokens(), 0), getMaskedAttr().getInt(),
                       getMaskTokenAttr().getInt(), getVocabularyAttr().getInt());
}

mlir::LogicalResult LoadTargetsOp::verify() {
  return VerifyMasking(*this, "load_targets_c1", Dim(getTargets(), 0), getMaskedAttr().getInt(),
                       getMaskTokenAttr().getInt(), getVocabularyAttr().getInt());
}

mlir::LogicalResult EmbeddingOp::verify() {
  if (mlir::failed(CheckShift(*this, "embedding_c2", "column_shift", getColumnShiftAttr()))) return mlir::failure();
  return ExpectShape(*this, "embedding_c1", "result (tokens x columns of the table)", getResult(),
                     {Dim(getTokens(), 0), Dim(getTable(), 1)});
}

int64_t EmbeddingOp::bytes() {
  return SaturatingAdd(BytesOfTensor(getTokens().getType()), SaturatingMultiply(2, BytesOfTensor(getType())));
}

mlir::LogicalResult PositionEmbeddingOp::verify() {
  if (mlir::failed(CheckShift(*this, "position_embedding_c4", "row_shift", getRowShiftAttr()))) return mlir::failure();
  // A rank's rows may be only a part of a sequence.
  if (getRowShift().empty() && !DividesRows(getSequence(), getResult())) {
    return emitOpError() << "[position_embedding_c1] sequence = " << getSequence() << " must divide the result's rows, "
                         << Dim(getResult(), 0);
  }
  if (getSequenceAttr().getInt() > Dim(getTable(), 0)) {
    return emitOpError() << "[position_embedding_c2] sequence = " << getSequence() << " is more than the table's "
                         << Dim(getTable(), 0) << " positions";
  }
  return ExpectShape(*this, "position_embedding_c3", "result (its own rows x the columns of the table)", getResult(),
                     {Dim(getResult(), 0), Dim(getTable(), 1)});
}

int64_t PositionEmbeddingOp::bytes() {
  mlir::RankedTensorType table = getTable().getType();
  int64_t read =
      SaturatingMultiply(SaturatingMultiply(getSequence(), Dim(getTable(), 1)), BytesOfElement(table.getElementType()));
  return SaturatingAdd(read, BytesOfTensor(getType()));
}

mlir::LogicalResult AddOp::verify() {
  if (mlir::failed(ExpectShape(*this, "add_c1", "b (like a)", getB(), ShapeOf(getA()))) ||
      mlir::failed(ExpectShape(*this, "add_c2", "result (like a)", getResult(), ShapeOf(getA())))) {
    return mlir::failure();
  }
  if (isMerge() || mlir::isa<Exact192Type>(getA().getType().getElementType()) ||
      mlir::isa<Exact192Type>(getB().getType().getElementType())) {
    if (getA().getType() != getType() || getB().getType() != getType() || getInit()) {
      return emitOpError("[add_c4] an accumulator can be added only to an accumulator, without init");
    }
  }
  return ExpectType(*this, "add_c3", "init (like the result)", getInit(), getType());
}

mlir::LogicalResult MatmulOp::verify() {
  int64_t m = Dim(getA(), getTransposeA() ? 1 : 0);
  int64_t k = getInner();
  int64_t other = Dim(getB(), getTransposeB() ? 1 : 0);
  int64_t n = Dim(getB(), getTransposeB() ? 0 : 1);
  if (k != other) {
    return emitOpError() << "[matmul_c1] inner dimensions " << k << " and " << other << " differ";
  }
  if (mlir::failed(ExpectShape(*this, "matmul_c2", "result", getResult(), {m, n})) ||
      mlir::failed(ExpectShape(*this, "matmul_c3", "bias (columns of the result)", getBias(), {n}))) {
    return mlir::failure();
  }
  if (getTf32() && !(getA().getType().getElementType().isF32() && getB().getType().getElementType().isF32())) {
    return emitOpError() << "[matmul_c5] only factors of f32 can be rounded to TF32; the factors are "
                         << getA().getType().getElementType() << " and " << getB().getType().getElementType();
  }
  return ExpectType(*this, "matmul_c4", "init (like the result)", getInit(), getType());
}

int64_t MatmulOp::flops() {
  return SaturatingMultiply(SaturatingMultiply(2, getInner()),
                            SaturatingMultiply(Dim(getResult(), 0), Dim(getResult(), 1)));
}

mlir::LogicalResult LayerNormOp::verify() {
  int64_t rows = Dim(getX(), 0);
  int64_t columns = Dim(getX(), 1);
  if (mlir::failed(ExpectShape(*this, "layer_norm_c1", "gamma (columns of x)", getGamma(), {columns})) ||
      mlir::failed(ExpectShape(*this, "layer_norm_c1", "beta (columns of x)", getBeta(), {columns})) ||
      mlir::failed(ExpectShape(*this, "layer_norm_c2", "result (like x)", getResult(), ShapeOf(getX()))) ||
      mlir::failed(ExpectShape(*this, "layer_norm_c3", "mean (rows of x)", getMean(), {rows})) ||
      mlir::failed(ExpectShape(*this, "layer_norm_c3", "rstd (rows of x)", getRstd(), {rows})) ||
      mlir::failed(ExpectStatistics(*this, "layer_norm_c4", "mean", getMean(), getX())) ||
      mlir::failed(ExpectStatistics(*this, "layer_norm_c4", "rstd", getRstd(), getX()))) {
    return mlir::failure();
  }
  double epsilon = getEpsilon().convertToDouble();
  return Expect(*this, epsilon > 0 && std::isfinite(epsilon), "layer_norm_c5",
                "epsilon must be positive and finite, got " + llvm::Twine(std::to_string(epsilon)));
}

mlir::LogicalResult AttentionOp::verify() {
  int64_t rows = Dim(getQkv(), 0);
  int64_t d = Dim(getQkv(), 1) / (getKv().empty() ? 3 : 1);
  int64_t heads = getHeadsAttr().getInt();
  if (getKv().empty() && (heads <= 0 || Dim(getQkv(), 1) % 3 != 0 || d % heads != 0)) {
    return emitOpError() << "[attention_c1] columns of qkv must be 3 x heads x head size, got " << Dim(getQkv(), 1)
                         << " columns and " << heads << " heads";
  }
  if (mlir::failed(VerifyHeads(*this, "attention_c7", getQkv(), getKv(), heads, getKvHeadsAttr().getInt()))) {
    return mlir::failure();
  }
  if (getWindowAttr().getInt() < 0 || (getWindowAttr().getInt() > 0 && !getCausal())) {
    return emitOpError() << "[attention_c8] window = " << getWindowAttr().getInt()
                         << " must not be negative, and needs causal";
  }
  if (mlir::failed(ExpectShape(*this, "attention_c2", "result (rows x columns of q)", getResult(), {rows, d})) ||
      mlir::failed(ExpectShape(*this, "attention_c3", "lse (rows x heads)", getLse(), {rows, heads})) ||
      mlir::failed(ExpectStatistics(*this, "attention_c4", "lse", getLse(), getQkv()))) {
    return mlir::failure();
  }
  if (!DividesRows(getSequenceAttr().getInt(), getQkv())) {
    return emitOpError() << "[attention_c5] sequence = " << getSequenceAttr().getInt() << " must divide qkv's rows, "
                         << rows;
  }
  return Expect(
      *this, IsProbability(getDropout()), "attention_c6",
      "dropout must be at least 0 and below 1, got " + llvm::Twine(std::to_string(getDropout().convertToDouble())));
}

int64_t AttentionOp::flops() { return SaturatingMultiply(4, AttentionVolume(getResult(), getSequence())); }
int64_t AttentionOp::maskedFlops() {
  if (!getCausal()) return 0;
  return SaturatingMultiply(2, HiddenAttentionVolume(getResult(), getSequence(), getWindow()));
}

mlir::LogicalResult CrossEntropyOp::verify() {
  int64_t rows = Dim(getLogits(), 0);
  if (mlir::failed(ExpectShape(*this, "cross_entropy_c1", "targets (rows of logits)", getTargets(), {rows})) ||
      mlir::failed(ExpectShape(*this, "cross_entropy_c2", "lse (rows of logits)", getLse(), {rows})) ||
      mlir::failed(ExpectStatistics(*this, "cross_entropy_c3", "lse", getLse(), getLogits())) ||
      mlir::failed(
          ExpectType(*this, "cross_entropy_c4", "new_losses (like losses)", getNewLosses(), getLosses().getType()))) {
    return mlir::failure();
  }
  int64_t vocabulary = getVocabularyAttr().getInt();
  if (vocabulary < 1 || vocabulary > Dim(getLogits(), 1)) {
    return emitOpError() << "[cross_entropy_c5] vocabulary must be between 1 and the columns of logits, "
                         << Dim(getLogits(), 1) << ", got " << vocabulary;
  }
  return mlir::success();
}

mlir::LogicalResult CastOp::verify() {
  return ExpectShape(*this, "cast_c1", "result (like x)", getResult(), ShapeOf(getX()));
}

}  // namespace weft::ir
