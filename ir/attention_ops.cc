// Registration, verifiers and costs of the ops that attention consists of when it is not a single op, and of dropout
// with a mask.
#include "ir/checks.h"
#include "ir/graph_ops.h"
#include "mlir/IR/Builders.h"

#define GET_OP_CLASSES
#include "ir/attention_ops.cc.inc"

namespace weft::ir {

void WeftDialect::registerAttentionOps() {
  addOperations<
#define GET_OP_LIST
#include "ir/attention_ops.cc.inc"
      >();
}

bool MakesProbabilities(mlir::Operation* op) {
  if (auto dropout = mlir::dyn_cast<DropoutOp>(op)) return dropout.getHeadsAttr().getInt() > 0;
  if (auto dropout = mlir::dyn_cast<DropoutMaskOp>(op)) return dropout.getHeadsAttr().getInt() > 0;
  return mlir::isa<AttentionScoresOp, AttentionSoftmaxOp>(op);
}

namespace {

// Checks that `matrix` has the shape of attention scores: [rows, heads * sequence], where the rows are whole sequences.
mlir::LogicalResult CheckScores(mlir::Operation* op, llvm::StringRef id, llvm::StringRef what, mlir::Value matrix,
                                int64_t rows, int64_t heads, int64_t sequence) {
  if (heads < 1 || sequence < 1 || rows % sequence != 0) {
    return op->emitOpError() << "[" << id << "] heads = " << heads << " must be positive, and sequence = " << sequence
                             << " must divide the rows, " << rows;
  }
  return ExpectShape(op, id, what, matrix, {rows, SaturatingMultiply(heads, sequence)});
}

// Checks that the columns of `matrix` divide into heads. If `kv_heads` is 0, the matrix has q, k and v side by side;
// otherwise it has only k or v. Returns the number of columns of q.
mlir::FailureOr<int64_t> QueryColumns(mlir::Operation* op, llvm::StringRef id, mlir::Value matrix, int64_t heads,
                                      int64_t kv_heads, bool by_head) {
  const int64_t parts = kv_heads == 0 ? 3 : 1, own = kv_heads == 0 ? heads : kv_heads;
  const bool divides =
      heads > 0 && own > 0 && heads % own == 0 && Dim(matrix, 1) % parts == 0 && Dim(matrix, 1) / parts % own == 0;
  if (!divides || (by_head && kv_heads != 0)) {
    return op->emitOpError() << "[" << id << "] " << Dim(matrix, 1) << " columns do not hold "
                             << (kv_heads == 0 ? "q, k and v of " : "k or v of ") << own << " heads that serve "
                             << heads << " heads of q" << (by_head && kv_heads != 0 ? "; qkv_by_head needs qkv" : "");
  }
  return SaturatingMultiply(Dim(matrix, 1) / parts / own, heads);
}

// Flops of `products` matrix products of 2 * rows * sequence * columns flops each.
int64_t ProductFlops(int64_t products, mlir::Value probabilities, int64_t heads, int64_t columns) {
  const int64_t pairs = SaturatingMultiply(Dim(probabilities, 0), Dim(probabilities, 1) / heads);
  return SaturatingMultiply(2 * products, SaturatingMultiply(pairs, columns));
}

template <typename Op>
mlir::LogicalResult CheckQueryAndKey(Op op, llvm::StringRef id) {
  const int64_t heads = op.getHeadsAttr().getInt(), kv_heads = op.getKvHeadsAttr().getInt();
  if ((kv_heads != 0) != static_cast<bool>(op.getK())) {
    return op->emitOpError() << "[" << id << "] kv_heads = " << kv_heads
                             << " must be 0 with qkv, and not 0 with q and k";
  }
  mlir::Value of_heads = op.getK() ? mlir::Value(op.getK()) : mlir::Value(op.getQkv());
  mlir::FailureOr<int64_t> columns = QueryColumns(op, id, of_heads, heads, kv_heads, op.getQkvByHead());
  if (mlir::failed(columns)) return mlir::failure();
  if (!op.getK()) return mlir::success();
  return ExpectShape(op, id, "q (rows of k x heads * head size)", op.getQkv(), {Dim(op.getK(), 0), *columns});
}

template <typename Op>
mlir::LogicalResult CheckDropoutOf(Op op, llvm::StringRef id) {
  const int64_t heads = op.getHeadsAttr().getInt(), sequence = op.getSequenceAttr().getInt();
  if (heads != 0) {
    if (mlir::failed(
            CheckScores(op, id, "x (rows x heads * sequence)", op.getX(), Dim(op.getX(), 0), heads, sequence))) {
      return mlir::failure();
    }
    if (!op.getRowShift().empty()) {
      return op->emitOpError() << "[" << id << "] heads need whole sequences, so row_shift is not allowed with heads";
    }
  }
  if (mlir::failed(ExpectShape(op, id, "result (like x)", op.getResult(), ShapeOf(op.getX()))) ||
      mlir::failed(CheckShift(op, id, "column_shift", op.getColumnShiftAttr())) ||
      mlir::failed(CheckShift(op, id, "row_shift", op.getRowShiftAttr()))) {
    return mlir::failure();
  }
  const int64_t part = heads != 0 ? heads : Dim(op.getX(), 1);
  if (!op.getColumnShift().empty() && op.getWholeColumnsAttr().getInt() < part) {
    return op->emitOpError() << "[" << id << "] a column_shift needs whole_columns of at least " << part << ", got "
                             << op.getWholeColumnsAttr().getInt();
  }
  if (!op.getRowShift().empty() && sequence < 1) {
    return op->emitOpError() << "[" << id << "] a row_shift needs the sequence";
  }
  const double p = op.getDropout().convertToDouble();
  return Expect(op, p >= 0 && p < 1, id,
                "dropout must be at least 0 and below 1, got " + llvm::Twine(std::to_string(p)));
}

}  // namespace

mlir::LogicalResult AttentionScoresOp::verify() {
  if (mlir::failed(CheckQueryAndKey(*this, "attention_scores_c1"))) return mlir::failure();
  return CheckScores(*this, "attention_scores_c2", "result (rows x heads * sequence)", getResult(), Dim(getQkv(), 0),
                     getHeadsAttr().getInt(), getSequenceAttr().getInt());
}

int64_t AttentionScoresOp::flops() {
  return ProductFlops(1, getResult(), getHeads(), Dim(getQkv(), 1) / (getK() ? 1 : 3));
}

mlir::LogicalResult AttentionScoresBackwardOp::verify() {
  if (mlir::failed(CheckQueryAndKey(*this, "attention_scores_backward_c1")) ||
      mlir::failed(CheckScores(*this, "attention_scores_backward_c2", "ds (rows x heads * sequence)", getDs(),
                               Dim(getQkv(), 0), getHeadsAttr().getInt(), getSequenceAttr().getInt()))) {
    return mlir::failure();
  }
  if (!getK() != !getDk()) {
    return emitOpError() << "[attention_scores_backward_c3] must have a gradient of k if, and only if, there is a k";
  }
  if (mlir::failed(
          ExpectShape(*this, "attention_scores_backward_c4", "result (like qkv or q)", getDqkv(), ShapeOf(getQkv())))) {
    return mlir::failure();
  }
  if (!getK()) return mlir::success();
  return ExpectShape(*this, "attention_scores_backward_c4", "gradient of k (like k)", getDk(), ShapeOf(getK()));
}

int64_t AttentionScoresBackwardOp::flops() {
  return ProductFlops(2, getDs(), getHeads(), Dim(getQkv(), 1) / (getK() ? 1 : 3));
}

mlir::LogicalResult AttentionSoftmaxOp::verify() {
  if (mlir::failed(CheckScores(*this, "attention_softmax_c1", "s (rows x heads * sequence)", getS(), Dim(getS(), 0),
                               getHeadsAttr().getInt(), getSequenceAttr().getInt())) ||
      mlir::failed(ExpectType(*this, "attention_softmax_c2", "result (like s)", getResult(), getS().getType()))) {
    return mlir::failure();
  }
  if (getWindowAttr().getInt() < 0 || (getWindowAttr().getInt() > 0 && !getCausal())) {
    return emitOpError() << "[attention_softmax_c3] window = " << getWindowAttr().getInt()
                         << " must not be negative, and needs causal";
  }
  return mlir::success();
}

mlir::LogicalResult AttentionSoftmaxBackwardOp::verify() {
  if (mlir::failed(CheckScores(*this, "attention_softmax_backward_c1", "p (rows x heads * sequence)", getP(),
                               Dim(getP(), 0), getHeadsAttr().getInt(), getSequenceAttr().getInt())) ||
      mlir::failed(ExpectShape(*this, "attention_softmax_backward_c2", "dp (like p)", getDp(), ShapeOf(getP())))) {
    return mlir::failure();
  }
  return ExpectType(*this, "attention_softmax_backward_c2", "result (like dp)", getDs(), getDp().getType());
}

mlir::LogicalResult AttentionValuesOp::verify() {
  const int64_t rows = Dim(getQkv(), 0), heads = getHeadsAttr().getInt();
  mlir::FailureOr<int64_t> columns =
      QueryColumns(*this, "attention_values_c1", getQkv(), heads, getKvHeadsAttr().getInt(), getQkvByHead());
  if (mlir::failed(columns) || mlir::failed(CheckScores(*this, "attention_values_c2", "p (rows x heads * sequence)",
                                                        getP(), rows, heads, getSequenceAttr().getInt()))) {
    return mlir::failure();
  }
  return ExpectShape(*this, "attention_values_c3", "result (rows x columns of q)", getResult(), {rows, *columns});
}

int64_t AttentionValuesOp::flops() { return ProductFlops(1, getP(), getHeads(), Dim(getResult(), 1)); }

mlir::LogicalResult AttentionValuesBackwardOp::verify() {
  const int64_t rows = Dim(getQkv(), 0), heads = getHeadsAttr().getInt();
  mlir::FailureOr<int64_t> columns =
      QueryColumns(*this, "attention_values_backward_c1", getQkv(), heads, getKvHeadsAttr().getInt(), getQkvByHead());
  if (mlir::failed(columns) ||
      mlir::failed(CheckScores(*this, "attention_values_backward_c2", "p (rows x heads * sequence)", getP(), rows,
                               heads, getSequenceAttr().getInt())) ||
      mlir::failed(ExpectShape(*this, "attention_values_backward_c3", "dout (rows x columns of q)", getDout(),
                               {rows, *columns})) ||
      mlir::failed(ExpectShape(*this, "attention_values_backward_c4", "dp (like p)", getDp(), ShapeOf(getP())))) {
    return mlir::failure();
  }
  return ExpectShape(*this, "attention_values_backward_c4", "gradient of qkv or v (like qkv or v)", getDqkv(),
                     ShapeOf(getQkv()));
}

int64_t AttentionValuesBackwardOp::flops() { return ProductFlops(2, getP(), getHeads(), Dim(getDout(), 1)); }

mlir::LogicalResult DropoutOp::verify() { return CheckDropoutOf(*this, "dropout_c1"); }

mlir::LogicalResult DropoutMaskOp::verify() {
  if (mlir::failed(CheckDropoutOf(*this, "dropout_mask_c1"))) return mlir::failure();
  return ExpectShape(*this, "dropout_mask_c2", "mask (like x)", getMask(), ShapeOf(getX()));
}

mlir::LogicalResult DropoutByMaskOp::verify() {
  if (mlir::failed(ExpectShape(*this, "dropout_by_mask_c1", "mask (like dy)", getMask(), ShapeOf(getDy()))) ||
      mlir::failed(ExpectShape(*this, "dropout_by_mask_c2", "result (like dy)", getDx(), ShapeOf(getDy())))) {
    return mlir::failure();
  }
  const double p = getDropout().convertToDouble();
  return Expect(*this, p >= 0 && p < 1, "dropout_by_mask_c3",
                "dropout must be at least 0 and below 1, got " + llvm::Twine(std::to_string(p)));
}

}  // namespace weft::ir
