// Splits attention (as a single op or as several ops) and dropout over x, y and z (docs/tensor_parallelism.md).
#include "ir/checks.h"
#include "ir/sharder.h"
#include "mlir/IR/IRMapping.h"

namespace weft::ir {

namespace {

// The result of cutting an op over heads: `made` is a clone of the op that takes the rank's parts of the operands and
// computes the rank's heads.
struct HeadParts {
  PartLayout in;
  // The layout of the result. It has one run of columns, even if the operands have several.
  PartLayout out;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  mlir::Operation* made = nullptr;
};

// Cuts `op` over heads. `runs[i]` is the number of runs that the columns of operand i must have.
mlir::FailureOr<HeadParts> CutHeads(Sharder& sharder, mlir::Operation* op, llvm::ArrayRef<int64_t> runs, int64_t heads,
                                    int64_t kv_heads) {
  HeadParts parts;
  parts.in = sharder.LayoutOf(op->getOperand(0));
  parts.out = parts.in;
  parts.out.runs = 1;
  mlir::IRMapping map;
  for (auto [operand, of_operand] : llvm::zip(op->getOperands(), runs)) {
    PartLayout layout = sharder.LayoutOf(operand);
    if (mlir::failed(sharder.ExpectRuns(layout, of_operand, "q, k and v"))) return mlir::failure();
    layout.runs = parts.in.runs;
    if (!sharder.SameLayout(parts.in, layout)) {
      return sharder.Error("shard_c14") << "q, k and v are cut differently over x and y";
    }
    map.map(operand, sharder.Part(operand));
  }
  if (parts.in.rows_over_x) {
    return sharder.Error("shard_c11") << "attention needs whole sequences, but its rows are split over x";
  }
  // Divide one after the other, so that only the first error is reported.
  auto own = sharder.Divide(heads, parts.in.columns, "heads");
  if (mlir::failed(own)) return mlir::failure();
  auto own_kv = sharder.Divide(kv_heads, parts.in.columns, "heads of k and v");
  if (mlir::failed(own_kv)) return mlir::failure();
  parts.heads = *own;
  parts.kv_heads = *own_kv;
  parts.made = sharder.builder().clone(*op, map);
  for (auto [whole, result] : llvm::zip(op->getResults(), parts.made->getResults())) {
    auto type = sharder.PartType(mlir::cast<mlir::RankedTensorType>(whole.getType()), parts.out);
    if (mlir::failed(type)) return mlir::failure();
    result.setType(*type);
    sharder.SetPart(whole, result, parts.out);
  }
  return parts;
}

// Number of runs of columns: 3 in a matrix with q, k and v side by side (`kv_heads` = 0), 1 if q, k and v each have
// their own matrix.
int64_t RunsOf(int64_t kv_heads) { return kv_heads == 0 ? 3 : 1; }

template <typename Op>
mlir::LogicalResult ShardDropout(Op op, Sharder& sharder) {
  const int64_t heads = op.getHeadsAttr().getInt();
  if (heads != 0) {
    mlir::FailureOr<HeadParts> parts = CutHeads(sharder, op, {1}, heads, 0);
    if (mlir::failed(parts)) return mlir::failure();
    auto part = mlir::cast<Op>(parts->made);
    part.setHeads(parts->heads);
    if (mlir::DictionaryAttr shift = sharder.Shift(parts->in.columns, parts->heads)) {
      part.setColumnShiftAttr(shift);
      part.setWholeColumns(heads);
    }
    return mlir::success();
  }
  if (mlir::failed(ShardElementByElement(op, sharder))) return mlir::failure();
  const PartLayout layout = sharder.LayoutOf(op.getX());
  if (mlir::failed(sharder.ExpectRuns(layout, 1, "the input of dropout"))) return mlir::failure();
  auto part = sharder.Part(op.getResult()).template getDefiningOp<Op>();
  if (mlir::DictionaryAttr shift = sharder.Shift(layout.columns, Dim(part.getX(), 1))) {
    part.setColumnShiftAttr(shift);
    part.setWholeColumns(Dim(op.getX(), 1));
  }
  if (layout.rows_over_x) {
    part.setRowShiftAttr(sharder.Shift(ShardAxis::kX, Dim(part.getX(), 0)));
    part.setSequence(sharder.sequence());
  }
  return mlir::success();
}

}  // namespace

int64_t AttentionOp::runsOfOperand(unsigned, int64_t) { return getQkvByHead() ? 1 : RunsOf(getKvHeads()); }

mlir::LogicalResult AttentionOp::shard(Sharder& sharder) {
  const int64_t heads = getHeads(), runs = runsOfOperand(0, 1);
  mlir::FailureOr<HeadParts> parts = CutHeads(sharder, *this, {runs, runs, runs}, heads, getKvHeads());
  if (mlir::failed(parts)) return mlir::failure();
  auto part = mlir::cast<AttentionOp>(parts->made);
  part.setHeads(parts->heads);
  part.setKvHeads(parts->kv_heads);
  if (mlir::DictionaryAttr shift = sharder.Shift(parts->in.columns, parts->heads)) {
    part.setColumnShiftAttr(shift);
    part.setWholeColumns(heads);
  }
  return mlir::success();
}

int64_t AttentionScoresOp::runsOfOperand(unsigned, int64_t) { return RunsOf(getKvHeads()); }

mlir::LogicalResult AttentionScoresOp::shard(Sharder& sharder) {
  const int64_t runs = RunsOf(getKvHeads());
  mlir::FailureOr<HeadParts> parts = CutHeads(sharder, *this, {runs, runs}, getHeads(), getKvHeads());
  if (mlir::failed(parts)) return mlir::failure();
  auto part = mlir::cast<AttentionScoresOp>(parts->made);
  part.setHeads(parts->heads);
  part.setKvHeads(parts->kv_heads);
  return mlir::success();
}

mlir::LogicalResult AttentionSoftmaxOp::shard(Sharder& sharder) {
  mlir::FailureOr<HeadParts> parts = CutHeads(sharder, *this, {1}, getHeads(), 0);
  if (mlir::failed(parts)) return mlir::failure();
  mlir::cast<AttentionSoftmaxOp>(parts->made).setHeads(parts->heads);
  return mlir::success();
}

int64_t AttentionValuesOp::runsOfOperand(unsigned index, int64_t) { return index == 0 ? 1 : RunsOf(getKvHeads()); }

mlir::LogicalResult AttentionValuesOp::shard(Sharder& sharder) {
  mlir::FailureOr<HeadParts> parts = CutHeads(sharder, *this, {1, RunsOf(getKvHeads())}, getHeads(), getKvHeads());
  if (mlir::failed(parts)) return mlir::failure();
  auto part = mlir::cast<AttentionValuesOp>(parts->made);
  part.setHeads(parts->heads);
  part.setKvHeads(parts->kv_heads);
  return mlir::success();
}

mlir::LogicalResult DropoutOp::shard(Sharder& sharder) { return ShardDropout(*this, sharder); }
mlir::LogicalResult DropoutMaskOp::shard(Sharder& sharder) { return ShardDropout(*this, sharder); }

}  // namespace weft::ir
