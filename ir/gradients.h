// What derivatives of ops share.
#ifndef WEFT_IR_GRADIENTS_H_
#define WEFT_IR_GRADIENTS_H_

#include "ir/interfaces.h"

namespace weft::ir {

// `gradient` as `request` wants it: of its type, added to its init.
mlir::Value Deliver(mlir::OpBuilder& builder, mlir::Location loc, mlir::Value gradient, const GradientRequest& request);

}  // namespace weft::ir

#endif  // WEFT_IR_GRADIENTS_H_
