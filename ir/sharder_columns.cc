// The functions of the sharder that gather columns, take a rank's part of whole columns, and move columns from one axis
// to another (sharder.h).
#include "ir/checks.h"
#include "ir/sharder.h"

namespace weft::ir {

namespace {

mlir::RankedTensorType WithColumns(mlir::Value value, int64_t rows, int64_t columns) {
  return mlir::RankedTensorType::get({rows, columns},
                                     mlir::cast<mlir::RankedTensorType>(value.getType()).getElementType());
}

}  // namespace

mlir::FailureOr<mlir::Value> Sharder::WholeColumns(mlir::Value whole) {
  const PartLayout layout = LayoutOf(whole);
  mlir::Value part = Part(whole);
  if (!IsCut(layout)) return part;
  if (mlir::failed(ExpectRuns(layout, 1, "the gathered input"))) return mlir::failure();
  const int64_t members = size(layout.columns);
  // The gather puts the parts one below the other (in dimension 0); the slice puts them side by side.
  mlir::Value gathered = Gather(part, layout.columns, "gather_columns");
  auto columns = builder_.create<SliceColumnsOp>(
      loc(), WithColumns(part, Dim(part, 0), members * Dim(part, 1)), gathered, part, builder_.getI64IntegerAttr(0),
      builder_.getI64IntegerAttr(members), builder_.getDictionaryAttr({}), Over(layout.columns),
      builder_.getI64IntegerAttr(members), builder_.getStringAttr(algorithm()));
  return Named(columns, ".whole_columns").getResult();
}

mlir::FailureOr<mlir::Value> Sharder::TakeColumns(mlir::Value columns, ShardAxis axis) {
  if (size(axis) == 1) return columns;
  mlir::FailureOr<int64_t> own = Divide(Dim(columns, 1), axis, "columns");
  if (mlir::failed(own)) return mlir::failure();
  auto part = builder_.create<SliceColumnsOp>(
      loc(), WithColumns(columns, Dim(columns, 0), *own), columns, mlir::Value(), builder_.getI64IntegerAttr(0),
      builder_.getI64IntegerAttr(0), Shift(axis, *own), Over(axis), builder_.getI64IntegerAttr(size(axis)),
      builder_.getStringAttr(algorithm()));
  return Named(part, ".own_columns").getResult();
}

mlir::LogicalResult Sharder::MoveColumns(mlir::Value whole, ShardAxis axis) {
  PartLayout layout = LayoutOf(whole);
  if (!layout.whole_columns && layout.columns == axis) return mlir::success();
  mlir::FailureOr<mlir::Value> columns = WholeColumns(whole);
  if (mlir::failed(columns)) return mlir::failure();
  mlir::FailureOr<mlir::Value> part = TakeColumns(*columns, axis);
  if (mlir::failed(part)) return mlir::failure();
  layout.columns = axis;
  layout.runs = 1;
  layout.whole_columns = false;
  SetPart(whole, *part, layout);
  return mlir::success();
}

}  // namespace weft::ir
