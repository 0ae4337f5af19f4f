// The interfaces of graph-level ops, and the data that they exchange.
#ifndef WEFT_IR_INTERFACES_H_
#define WEFT_IR_INTERFACES_H_

#include <cstdint>

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/OpDefinition.h"

namespace weft::ir {

// A request for the gradient of one operand.
struct GradientRequest {
  // Type of the gradient; null = no gradient is requested.
  mlir::RankedTensorType type;
  // If set, a value of type `type` to which the gradient is added.
  mlir::Value init;
};

// Defined in ir/sharder.h.
class Sharder;
mlir::LogicalResult ShardElementByElement(mlir::Operation* op, Sharder& sharder);

// Two functions that the ops of pointwise_ops.td share. VerifyPointwise checks that all tensors have the shape of
// operand 0. BuildPointwiseBackward builds the op <name>_backward, whose operands are dy and the op's operands.
mlir::LogicalResult VerifyPointwise(mlir::Operation* op);
llvm::SmallVector<mlir::Value> BuildPointwiseBackward(mlir::Operation* op, mlir::OpBuilder& builder, mlir::Value dy,
                                                      llvm::ArrayRef<GradientRequest> requests);
template <typename Op>
class Pointwise : public mlir::OpTrait::TraitBase<Op, Pointwise> {
 public:
  static mlir::LogicalResult verifyTrait(mlir::Operation* op) { return VerifyPointwise(op); }
};

// Costs saturate at this value, so that sums of a few of them do not overflow.
inline constexpr int64_t kCostLimit = int64_t{1} << 62;

// a * b and a + b for non-negative numbers, capped at kCostLimit.
int64_t SaturatingMultiply(int64_t a, int64_t b);
int64_t SaturatingAdd(int64_t a, int64_t b);

// Bytes of one element of a tensor of the dialect; 0 for a type that the dialect does not store.
int64_t BytesOfElement(mlir::Type element);
// Bytes of a statically shaped tensor; saturates.
int64_t BytesOfTensor(mlir::RankedTensorType type);
int64_t BytesOfOperandsAndResults(mlir::Operation* op);

}  // namespace weft::ir

#include "ir/interfaces.h.inc"

#endif  // WEFT_IR_INTERFACES_H_
