// Data that the interfaces of graph-level ops exchange, and the interfaces.
#ifndef WEFT_IR_INTERFACES_H_
#define WEFT_IR_INTERFACES_H_

#include <cstdint>

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/OpDefinition.h"

namespace weft::ir {

// What is wanted of one operand's gradient.
struct GradientRequest {
  // Type of the gradient; null = it is not wanted.
  mlir::RankedTensorType type;
  // Where given, of type `type`: the gradient is added to it.
  mlir::Value init;
};

// Of ir/sharder.h.
class Sharder;
mlir::LogicalResult ShardElementByElement(mlir::Operation* op, Sharder& sharder);

// Figures of costs saturate here, so that sums of a few of them do not overflow.
inline constexpr int64_t kCostLimit = int64_t{1} << 62;

// a * b and a + b of non-negative numbers, at most kCostLimit.
int64_t SaturatingMultiply(int64_t a, int64_t b);
int64_t SaturatingAdd(int64_t a, int64_t b);

// Of one element of a tensor of the dialect; 0 for a type that the dialect does not store.
int64_t BytesOfElement(mlir::Type element);
// Of a statically shaped tensor; saturates.
int64_t BytesOfTensor(mlir::RankedTensorType type);
int64_t BytesOfOperandsAndResults(mlir::Operation* op);

}  // namespace weft::ir

#include "ir/interfaces.h.inc"

#endif  // WEFT_IR_INTERFACES_H_
