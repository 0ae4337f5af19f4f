// Inserts a send and a recv for every boundary tensor that is made on one rank and read on another.
#include <map>
#include <tuple>

#include "compiler/rank/rank_passes.h"
#include "compiler/rank/rank_util.h"

namespace weft {

#define GEN_PASS_DEF_INSERTTRANSFERS
#include "compiler/rank/rank_passes.h.inc"

namespace {

using ir::Direction;

// Identifies a boundary tensor: (direction, lane, stage that makes the tensor, first microbatch, skip).
using TensorKey = std::tuple<Direction, int, int, int, int>;

struct Maker {
  mlir::Operation* action = nullptr;
  mlir::Value buffer;
};

// The boundary tensors that the actions of a program make, each with its action.
std::map<TensorKey, Maker> FindMakers(ir::ProgramOp program) {
  std::map<TensorKey, Maker> makers;
  program.walk([&](mlir::Operation* op) {
    if (!ir::IsMicrobatch(op)) return;
    ir::SignatureOp signature = SignatureOf(op);
    std::vector<mlir::Value> buffers = BoundBuffers(op, signature);
    for (unsigned i = 0; i < signature.size(); ++i) {
      ir::OperandAttr operand = signature.getOperand(i);
      const ir::Role role = operand.getRole().getRole();
      if (!ir::IsDefinedByAction(operand) || (role != ir::Role::Output && role != ir::Role::InputGrad)) continue;
      const Direction direction = role == ir::Role::Output ? Direction::TowardsLoss : Direction::FromLoss;
      const ActionPart part = PartOf(op, operand.getHalf());
      makers[{direction, part.lane, part.stage, part.microbatch, operand.getRole().getUse()}] = {op, buffers[i]};
    }
  });
  return makers;
}

class InsertTransfersPass : public impl::InsertTransfersBase<InsertTransfersPass> {
  void runOnOperation() override {
    ir::ProgramOp program = getOperation();
    std::map<TensorKey, Maker> makers = FindMakers(program);
    std::vector<ir::BoundaryOp> boundaries;
    program.walk([&](ir::BoundaryOp op) { boundaries.push_back(op); });
    for (ir::BoundaryOp boundary : boundaries) {
      const int stage =
          MakerStage(program, boundary.getDirection(), static_cast<int>(boundary.getStage()), boundary.getSkip());
      auto maker = makers.find({boundary.getDirection(), static_cast<int>(boundary.getLane()), stage,
                                static_cast<int>(boundary.getMicrobatch()), static_cast<int>(boundary.getSkip())});
      if (maker == makers.end()) {
        boundary.emitOpError() << "[transfers_c1] no rank runs the action of stage " << stage << ", microbatch "
                               << boundary.getMicrobatch() << " that makes this tensor";
        return signalPassFailure();
      }
      if (mlir::failed(Transfer(boundary, maker->second, stage))) return signalPassFailure();
    }
  }

  mlir::LogicalResult Transfer(ir::BoundaryOp boundary, const Maker& maker, int maker_stage) {
    auto reader_template = boundary->getParentOfType<ir::TemplateOp>();
    auto maker_template = maker.action->getParentOfType<ir::TemplateOp>();
    auto type = mlir::cast<ir::BufferType>(boundary.getBuffer().getType());
    if (maker.buffer.getType() != type) {
      mlir::InFlightDiagnostic error = boundary.emitOpError() << "[transfers_c2] is read as " << type << " but made as "
                                                              << maker.buffer.getType();
      error.attachNote(maker.action->getLoc()) << "the action that makes it";
      return error;
    }
    mlir::OpBuilder builder(boundary);
    auto recv = builder.create<ir::RecvOp>(
        boundary.getLoc(), type, ir::TokenType::get(builder.getContext()), maker_template.getPins(),
        boundary.getDirection(), boundary.getStage(), boundary.getMicrobatch(), boundary.getWidth(), boundary.getLane(),
        boundary.getSkip(), /*group=*/0, mlir::ValueRange(), mlir::DenseI64ArrayAttr());
    boundary.getBuffer().replaceAllUsesWith(recv.getDestination());
    // If an action has several sends, they keep the order of their readers.
    mlir::Operation* before = maker.action;
    while (before->getNextNode() != nullptr && mlir::isa<ir::SendOp>(before->getNextNode())) {
      before = before->getNextNode();
    }
    builder.setInsertionPointAfter(before);
    builder.create<ir::SendOp>(maker.action->getLoc(), ir::TokenType::get(builder.getContext()), maker.buffer,
                               reader_template.getPins(), recv.getDirection(), maker_stage, recv.getMicrobatch(),
                               recv.getWidth(), recv.getLane(), recv.getSkip(), /*group=*/0, mlir::ValueRange());
    boundary.erase();
    return mlir::success();
  }
};

}  // namespace
}  // namespace weft
