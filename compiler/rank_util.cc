#include "compiler/rank_util.h"

namespace weft {

std::vector<ir::TemplateOp> Templates(ir::ProgramOp program) {
  std::vector<ir::TemplateOp> templates;
  for (ir::TemplateOp t : program.getOps<ir::TemplateOp>()) templates.push_back(t);
  return templates;
}

std::vector<mlir::Operation*> Actions(ir::TemplateOp t) {
  std::vector<mlir::Operation*> actions;
  for (mlir::Operation& op : t.getBody().front()) {
    if (ir::IsAction(&op)) actions.push_back(&op);
  }
  return actions;
}

ir::SignatureOp SignatureOf(mlir::Operation* compute) {
  auto segment = compute->getAttrOfType<mlir::FlatSymbolRefAttr>("segment");
  return compute->getParentOfType<ir::ProgramOp>().lookupSymbol<ir::SignatureOp>(segment.getAttr());
}

std::vector<mlir::Value> BoundBuffers(mlir::Operation* compute, ir::SignatureOp signature) {
  std::vector<mlir::Value> buffers;
  unsigned next_input = 0, next_output = 0;
  for (mlir::Attribute operand : signature.getOperands_()) {
    // Inputs are the first operands; tokens follow. Outputs are the first results; the token is the last.
    bool defined = ir::IsDefinedByAction(mlir::cast<ir::OperandAttr>(operand));
    buffers.push_back(defined ? mlir::Value(compute->getResult(next_output++)) : compute->getOperand(next_input++));
  }
  return buffers;
}

PersistentBuffers::PersistentBuffers(ir::TemplateOp t) : template_(t) {
  for (ir::PersistentOp op : t.getOps<ir::PersistentOp>()) {
    buffers_[op.getRole()] = op.getBuffer();
    last_ = op;
  }
}

mlir::Value PersistentBuffers::Get(ir::RoleAttr role, ir::BufferType type) {
  mlir::Value& buffer = buffers_[role];
  if (buffer) return buffer;
  mlir::OpBuilder builder = mlir::OpBuilder::atBlockBegin(&template_.getBody().front());
  if (last_ != nullptr) builder.setInsertionPointAfter(last_);
  auto op = builder.create<ir::PersistentOp>(template_.getLoc(), type, role, mlir::IntegerAttr());
  last_ = op;
  return buffer = op.getBuffer();
}

int64_t PinnedCoordinate(ir::TemplateOp t, llvm::StringRef axis) {
  auto pin = mlir::dyn_cast_or_null<mlir::IntegerAttr>(t.getPins().get(axis));
  return pin ? pin.getInt() : 0;
}

}  // namespace weft
