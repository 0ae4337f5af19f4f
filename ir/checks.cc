#include "ir/checks.h"

#include "ir/interfaces.h"
#include "llvm/ADT/StringExtras.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Diagnostics.h"

namespace weft::ir {

namespace {

mlir::Type ElementOf(mlir::Value value) { return mlir::cast<mlir::RankedTensorType>(value.getType()).getElementType(); }

}  // namespace

std::string ShapeText(llvm::ArrayRef<int64_t> shape) {
  if (shape.empty()) return "a scalar";
  return llvm::join(llvm::map_range(shape, [](int64_t extent) { return std::to_string(extent); }), "x");
}

mlir::LogicalResult Expect(mlir::Operation* op, bool allowed, llvm::StringRef id, const llvm::Twine& message) {
  if (allowed) return mlir::success();
  return op->emitOpError() << "[" << id << "] " << message;
}

mlir::LogicalResult ExpectShape(mlir::Operation* op, llvm::StringRef id, llvm::StringRef what, mlir::Value value,
                                llvm::ArrayRef<int64_t> shape) {
  if (!value) return mlir::success();
  return Expect(op, ShapeOf(value) == shape, id,
                what + " must be " + ShapeText(shape) + ", got " + ShapeText(ShapeOf(value)));
}

mlir::LogicalResult ExpectType(mlir::Operation* op, llvm::StringRef id, llvm::StringRef what, mlir::Value value,
                               mlir::Type type) {
  if (!value || value.getType() == type) return mlir::success();
  return op->emitOpError() << "[" << id << "] " << what << " must be of type " << type << ", got " << value.getType();
}

mlir::Type StatisticsType(mlir::Value value) {
  mlir::Type element = ElementOf(value);
  return element.isF64() ? element : mlir::Float32Type::get(value.getContext());
}

mlir::LogicalResult ExpectStatistics(mlir::Operation* op, llvm::StringRef id, llvm::StringRef what,
                                     mlir::Value statistics, mlir::Value value) {
  mlir::Type element = ElementOf(statistics);
  if (element == StatisticsType(value)) return mlir::success();
  return op->emitOpError() << "[" << id << "] " << what << " must hold " << StatisticsType(value) << ", got "
                           << element;
}

int64_t AttentionVolume(mlir::Value out, int64_t sequence) {
  return SaturatingMultiply(SaturatingMultiply(Dim(out, 0), Dim(out, 1)), sequence);
}

}  // namespace weft::ir
