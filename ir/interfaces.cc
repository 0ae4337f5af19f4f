#include "ir/interfaces.h"

#include <algorithm>

#include "ir/dialect.h"
#include "ir/interfaces.cc.inc"

namespace weft::ir {

int64_t SaturatingMultiply(int64_t a, int64_t b) {
  int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return kCostLimit;
  return std::min(product, kCostLimit);
}

int64_t SaturatingAdd(int64_t a, int64_t b) {
  int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) return kCostLimit;
  return std::min(sum, kCostLimit);
}

int64_t BytesOfElement(mlir::Type element) {
  if (mlir::isa<Exact192Type>(element)) return 24;
  if (element.isIntOrFloat()) return element.getIntOrFloatBitWidth() / 8;
  return 0;
}

int64_t BytesOfTensor(mlir::RankedTensorType type) {
  int64_t bytes = BytesOfElement(type.getElementType());
  for (int64_t extent : type.getShape()) bytes = SaturatingMultiply(bytes, extent);
  return bytes;
}

int64_t BytesOfOperandsAndResults(mlir::Operation* op) {
  int64_t bytes = 0;
  auto add = [&](mlir::Value value) {
    if (auto type = mlir::dyn_cast<mlir::RankedTensorType>(value.getType())) {
      bytes = SaturatingAdd(bytes, BytesOfTensor(type));
    }
  };
  for (mlir::Value operand : op->getOperands()) add(operand);
  for (mlir::Value result : op->getResults()) add(result);
  return bytes;
}

}  // namespace weft::ir
