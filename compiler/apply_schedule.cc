// From a schedule to lists of forwards and backwards. Knows no schedule by name: a new one needs no change here.
#include <algorithm>
#include <map>
#include <tuple>

#include "compiler/rank_passes.h"
#include "compiler/rank_util.h"
#include "schedules/pipeline/schedule.h"

namespace weft {

#define GEN_PASS_DEF_APPLYSCHEDULE
#include "compiler/rank_passes.h.inc"

namespace {

using ir::Role;

// Writes the list of one pipe rank.
class ListWriter {
 public:
  ListWriter(ir::ProgramOp program, ir::TemplateOp t,
             const std::map<std::pair<ir::SegmentKind, int>, ir::SignatureOp>& signatures)
      : program_(program),
        persistent_(t),
        signatures_(signatures),
        builder_(mlir::OpBuilder::atBlockEnd(&t.getBody().front())) {}

  mlir::LogicalResult Write(const Slot& slot) {
    const bool forward = slot.kind == SlotKind::kForward;
    const ir::SegmentKind kind = !forward                   ? ir::SegmentKind::Backward
                                 : program_.getEvaluation() ? ir::SegmentKind::Evaluate
                                                            : ir::SegmentKind::Forward;
    auto found = signatures_.find({kind, slot.stage});
    if (found == signatures_.end()) {
      return program_.emitOpError() << "[schedule_c1] has no signature of kind " << ir::stringifySegmentKind(kind)
                                    << " for stage " << slot.stage;
    }
    ir::SignatureOp signature = found->second;
    llvm::SmallVector<mlir::Value> inputs;
    llvm::SmallVector<mlir::Type> outputs;
    for (unsigned i = 0; i < signature.size(); ++i) {
      ir::OperandAttr operand = signature.getOperand(i);
      if (ir::IsDefinedByAction(operand)) {
        outputs.push_back(operand.getType());
        continue;
      }
      mlir::Value input = Input(operand, slot);
      if (!input) return mlir::failure();
      inputs.push_back(input);
    }
    mlir::Operation* op = forward ? Create<ir::ForwardOp>(signature, slot, inputs, outputs)
                                  : Create<ir::BackwardOp>(signature, slot, inputs, outputs);
    unsigned next = 0;
    for (unsigned i = 0; i < signature.size(); ++i) {
      ir::OperandAttr operand = signature.getOperand(i);
      if (ir::IsDefinedByAction(operand)) Value(operand.getRole().getRole(), slot, slot.stage) = op->getResult(next++);
    }
    return mlir::success();
  }

 private:
  mlir::Value& Value(Role role, const Slot& slot, int stage) {
    return values_[{role, slot.lane, stage, slot.microbatch}];
  }

  template <typename Op>
  mlir::Operation* Create(ir::SignatureOp signature, const Slot& slot, mlir::ValueRange inputs,
                          mlir::TypeRange outputs) {
    return builder_.create<Op>(program_.getLoc(), outputs, ir::TokenType::get(builder_.getContext()),
                               signature.getSymName(), slot.stage, slot.microbatch, slot.lane, inputs,
                               mlir::ValueRange(), mlir::DenseI64ArrayAttr());
  }

  // The buffer for an operand that the action does not define itself; null after an error.
  mlir::Value Input(ir::OperandAttr operand, const Slot& slot) {
    const Role role = operand.getRole().getRole();
    switch (role) {
      case Role::Input:
      case Role::OutputGrad: {
        mlir::Value& value = Value(role, slot, slot.stage);
        if (value) return value;
        value = role == Role::Input ? Value(Role::Output, slot, slot.stage - 1)
                                    : Value(Role::InputGrad, slot, slot.stage + 1);
        if (value) return value;
        auto direction = role == Role::Input ? ir::Direction::TowardsLoss : ir::Direction::FromLoss;
        return value = builder_.create<ir::BoundaryOp>(program_.getLoc(), operand.getType(), direction, slot.stage,
                                                       slot.microbatch, slot.lane);
      }
      case Role::Output:
      case Role::InputGrad:
      case Role::Saved: {
        mlir::Value value = Value(role, slot, slot.stage);
        if (!value) {
          program_.emitOpError() << "[schedule_c2] schedule " << program_.getScheduleAttr()
                                 << " runs the backward of stage " << slot.stage << ", microbatch " << slot.microbatch
                                 << " without its forward before it on the same rank";
        }
        return value;
      }
      default:
        return persistent_.Get(operand.getRole(), operand.getType());
    }
  }

  ir::ProgramOp program_;
  PersistentBuffers persistent_;
  const std::map<std::pair<ir::SegmentKind, int>, ir::SignatureOp>& signatures_;
  mlir::OpBuilder builder_;
  std::map<std::tuple<Role, int, int, int>, mlir::Value> values_;
};

class ApplySchedulePass : public impl::ApplyScheduleBase<ApplySchedulePass> {
  void runOnOperation() override {
    ir::ProgramOp program = getOperation();
    auto entry = FindSchedule(absl::string_view(program.getSchedule().data(), program.getSchedule().size()));
    if (!entry.ok()) return Fail(entry.status());
    const int ranks = static_cast<int>(program.getMesh().getSize("pipe"));
    auto schedule = (*entry)->build({.ranks = ranks,
                                     .microbatches = static_cast<int>(program.getMicrobatches()),
                                     .costs = {.forward = static_cast<int64_t>(program.getForwardCost()),
                                               .backward = static_cast<int64_t>(program.getBackwardCost())}});
    if (!schedule.ok()) return Fail(schedule.status());
    if (schedule->stages != static_cast<int>(program.getStages())) {
      program.emitOpError() << "[schedule_c3] schedule " << program.getScheduleAttr() << " has " << schedule->stages
                            << " stages on " << ranks << " ranks, the program has " << program.getStages();
      return signalPassFailure();
    }
    std::map<std::pair<ir::SegmentKind, int>, ir::SignatureOp> signatures;
    for (ir::SignatureOp signature : program.getOps<ir::SignatureOp>()) {
      signatures[{signature.getKind(), static_cast<int>(signature.getStage())}] = signature;
    }
    for (int rank = 0; rank < ranks; ++rank) {
      ListWriter writer(program, TemplateOf(program, rank), signatures);
      for (const Slot& slot : schedule->order[rank]) {
        if (program.getEvaluation() && slot.kind != SlotKind::kForward) continue;
        if (mlir::failed(writer.Write(slot))) return signalPassFailure();
      }
    }
  }

  void Fail(const absl::Status& status) {
    getOperation().emitOpError() << "[schedule_c4] "
                                 << llvm::StringRef(status.message().data(), status.message().size());
    signalPassFailure();
  }

  // The template of a pipe coordinate, made if it is not there. A mesh without a pipe axis has one template.
  static ir::TemplateOp TemplateOf(ir::ProgramOp program, int rank) {
    mlir::OpBuilder builder = mlir::OpBuilder::atBlockEnd(&program.getBody().front());
    llvm::SmallVector<mlir::NamedAttribute> pins;
    for (mlir::StringAttr axis : program.getMesh().getNames()) {
      if (axis == "pipe") pins.push_back(builder.getNamedAttr("pipe", builder.getI64IntegerAttr(rank)));
    }
    mlir::DictionaryAttr at = builder.getDictionaryAttr(pins);
    for (ir::TemplateOp t : program.getOps<ir::TemplateOp>()) {
      if (t.getPins() == at) return t;
    }
    std::string name = pins.empty() ? "all" : "pipe" + std::to_string(rank);
    auto t = builder.create<ir::TemplateOp>(program.getLoc(), name, at);
    t.getBody().emplaceBlock();
    return t;
  }
};

}  // namespace
}  // namespace weft
