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

// Gradients of gamma and beta of a norm over rows of x, of which it may be a part of the columns; null where none is
// asked for.
void BuildNormWeightGradients(mlir::OpBuilder& builder, mlir::Location loc, mlir::Value dy, mlir::Value x,
                              mlir::Value mean, mlir::Value rstd, const GradientRequest& gamma,
                              const GradientRequest& beta, mlir::Value* dgamma, mlir::Value* dbeta);

}  // namespace weft::ir

#endif  // WEFT_IR_GRADIENTS_H_
