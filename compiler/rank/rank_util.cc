#include "compiler/rank/rank_util.h"

#include "llvm/ADT/TypeSwitch.h"

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

ActionPart PartOf(mlir::Operation* compute, int half) {
  if (half == 1) {
    auto pair = mlir::cast<ir::ForwardBackwardOp>(compute);
    return {static_cast<int>(pair.getBackwardStage()), static_cast<int>(pair.getBackwardMicrobatch()),
            static_cast<int>(pair.getBackwardLane()), 1};
  }
  return llvm::TypeSwitch<mlir::Operation*, ActionPart>(compute)
      .Case<ir::ForwardOp, ir::BackwardOp, ir::BackwardInputOp, ir::BackwardWeightOp>([](auto op) {
        return ActionPart{static_cast<int>(op.getStage()), static_cast<int>(op.getMicrobatch()),
                          static_cast<int>(op.getLane()), static_cast<int>(op.getWidth())};
      })
      .Case([](ir::ForwardBackwardOp op) {
        return ActionPart{static_cast<int>(op.getStage()), static_cast<int>(op.getMicrobatch()),
                          static_cast<int>(op.getLane()), 1};
      });
}

int StageOfWeightGradients(mlir::Operation* compute) {
  return llvm::TypeSwitch<mlir::Operation*, int>(compute)
      .Case<ir::BackwardOp, ir::BackwardWeightOp>([](auto op) { return static_cast<int>(op.getStage()); })
      .Case([](ir::ForwardBackwardOp op) { return static_cast<int>(op.getBackwardStage()); })
      .Default(-1);
}

int MakerStage(ir::ProgramOp program, ir::Direction direction, int reader, uint32_t skip) {
  const bool towards_loss = direction == ir::Direction::TowardsLoss;
  if (skip == 0) return towards_loss ? reader - 1 : reader + 1;
  llvm::ArrayRef<int64_t> skips = program.getSkips().value_or(llvm::ArrayRef<int64_t>());
  if (skip > skips.size() / 2) return -1;
  return static_cast<int>(skips[2 * (skip - 1) + (towards_loss ? 0 : 1)]);
}

int64_t PinnedCoordinate(ir::TemplateOp t, llvm::StringRef axis) {
  auto pin = mlir::dyn_cast_or_null<mlir::IntegerAttr>(t.getPins().get(axis));
  return pin ? pin.getInt() : 0;
}

}  // namespace weft
