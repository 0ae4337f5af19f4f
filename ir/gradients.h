// Helpers that derivatives and sharding rules of ops share.
#ifndef WEFT_IR_GRADIENTS_H_
#define WEFT_IR_GRADIENTS_H_

#include "ir/interfaces.h"
#include "mlir/IR/Builders.h"

namespace weft::ir {

using Gradients = llvm::SmallVector<mlir::Value>;
using Requests = llvm::ArrayRef<GradientRequest>;

// Returns `gradient` in the form that `request` asks for: in its type, added to its init.
mlir::Value Deliver(mlir::OpBuilder& builder, mlir::Location loc, mlir::Value gradient, const GradientRequest& request);

// Returns the type of the gradient of `operand` from an op that does not accumulate. Deliver then casts it and adds it
// to the init.
mlir::Type PlainGradientType(mlir::Value operand, const GradientRequest& request);

// Builds the gradients of gamma and beta of a norm over rows of x. x may have only a part of the columns. A gradient
// that is not requested is null.
void BuildNormWeightGradients(mlir::OpBuilder& builder, mlir::Location loc, mlir::Value dy, mlir::Value x,
                              mlir::Value mean, mlir::Value rstd, const GradientRequest& gamma,
                              const GradientRequest& beta, mlir::Value* dgamma, mlir::Value* dbeta);

}  // namespace weft::ir

#endif  // WEFT_IR_GRADIENTS_H_
