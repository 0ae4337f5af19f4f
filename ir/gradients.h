// What derivatives and sharding rules of ops share.
#ifndef WEFT_IR_GRADIENTS_H_
#define WEFT_IR_GRADIENTS_H_

#include "ir/interfaces.h"
#include "mlir/IR/Builders.h"

namespace weft::ir {

using Gradients = llvm::SmallVector<mlir::Value>;
using Requests = llvm::ArrayRef<GradientRequest>;

// `gradient` as `request` wants it: of its type, added to its init.
mlir::Value Deliver(mlir::OpBuilder& builder, mlir::Location loc, mlir::Value gradient, const GradientRequest& request);

// The type that an op which does not accumulate gives the gradient of `operand`; Deliver does the rest.
mlir::Type PlainGradientType(mlir::Value operand, const GradientRequest& request);

// Rows over z, columns over y, of every operand and result.
ShardingRule ElementwiseRule(mlir::Operation* op);

}  // namespace weft::ir

#endif  // WEFT_IR_GRADIENTS_H_
