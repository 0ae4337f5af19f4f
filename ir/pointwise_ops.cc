// Registration, the verifier and the derivative of the kernels in which no element depends on its neighbors.
#include "ir/checks.h"
#include "ir/gradients.h"
#include "ir/graph_ops.h"
#include "llvm/ADT/STLExtras.h"
#include "mlir/IR/Builders.h"

#define GET_OP_CLASSES
#include "ir/pointwise_ops.cc.inc"

namespace weft::ir {

void WeftDialect::registerPointwiseOps() {
  addOperations<
#define GET_OP_LIST
#include "ir/pointwise_ops.cc.inc"
      >();
}

mlir::LogicalResult VerifyPointwise(mlir::Operation* op) {
  const llvm::ArrayRef<int64_t> shape = ShapeOf(op->getOperand(0));
  const auto expect = [&](llvm::StringRef what, auto values) {
    for (auto [i, value] : llvm::enumerate(values)) {
      const std::string name = (what + " " + llvm::Twine(i) + " (like operand 0)").str();
      if (mlir::failed(ExpectShape(op, "pointwise_c1", name, value, shape))) return mlir::failure();
    }
    return mlir::success();
  };
  if (mlir::failed(expect("operand", op->getOperands()))) return mlir::failure();
  return expect("result", op->getResults());
}

Gradients BuildPointwiseBackward(mlir::Operation* op, mlir::OpBuilder& builder, mlir::Value dy, Requests requests) {
  Gradients gradients(requests.size());
  if (!dy || llvm::none_of(requests, [](const GradientRequest& request) { return request.type; })) return gradients;
  // One kernel makes all gradients, whether they are requested or not.
  mlir::OperationState state(op->getLoc(), (op->getName().getStringRef() + "_backward").str());
  state.addOperands(dy);
  state.addOperands(op->getOperands());
  state.propertiesAttr = op->getPropertiesAsAttribute();
  for (auto [operand, request] : llvm::zip(op->getOperands(), requests)) {
    state.addTypes(PlainGradientType(operand, request));
  }
  mlir::Operation* made = builder.create(state);
  for (auto [gradient, result, request] : llvm::zip(gradients, made->getResults(), requests)) {
    if (request.type) gradient = Deliver(builder, op->getLoc(), result, request);
  }
  return gradients;
}

}  // namespace weft::ir
