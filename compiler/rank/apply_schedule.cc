// Turns a schedule into lists of forwards and backwards. The pass does not depend on the names of schedules, so a new
// schedule needs no change here.
#include <algorithm>
#include <map>
#include <tuple>

#include "compiler/inputs/plan_schedule.h"
#include "compiler/rank/rank_passes.h"
#include "compiler/rank/rank_util.h"
#include "compiler/segments/slot_segments.h"

namespace weft {

#define GEN_PASS_DEF_APPLYSCHEDULE
#include "compiler/rank/rank_passes.h.inc"

namespace {

using ir::Role;
using ir::SegmentKind;

llvm::StringRef Text(absl::string_view text) { return llvm::StringRef(text.data(), text.size()); }

// Identifies a segment of a stage: kind, stage, width, part, and for a pair the stage of its backward.
using SegmentKey = std::tuple<SegmentKind, int, int, int, int>;

std::map<SegmentKey, ir::SignatureOp> Signatures(ir::ProgramOp program) {
  std::map<SegmentKey, ir::SignatureOp> signatures;
  for (ir::SignatureOp signature : program.getOps<ir::SignatureOp>()) {
    const SegmentKind kind = signature.getKind();
    // `part` of a pair is the part of its backward. A forward's width and a backward's part never occur in the same
    // pair, because a schedule gives a microbatch one width.
    signatures[{kind, static_cast<int>(signature.getStage()), static_cast<int>(signature.getWidth()),
                signature.getPart(), signature.getBackwardStage()}] = signature;
  }
  return signatures;
}

// For each microbatch: the first microbatch of the wide forward that contains it, and the width of that forward.
struct Forwards {
  std::vector<int> first;
  std::vector<int> width;

  Forwards(const PipelineSchedule& schedule, int microbatches) : first(microbatches), width(microbatches, 1) {
    for (int m = 0; m < microbatches; ++m) first[m] = m;
    for (const std::vector<Slot>& order : schedule.order) {
      for (const Slot& slot : order) {
        if (slot.kind != SlotKind::kForward) continue;
        for (int m = slot.microbatch; m < slot.microbatch + slot.width; ++m) {
          first[m] = slot.microbatch;
          width[m] = slot.width;
        }
      }
    }
  }
};

// Writes the list of actions of one pipe rank.
class ListWriter {
 public:
  ListWriter(ir::ProgramOp program, ir::TemplateOp t, const std::map<SegmentKey, ir::SignatureOp>& signatures,
             const Forwards& forwards)
      : program_(program),
        persistent_(t),
        signatures_(signatures),
        forwards_(forwards),
        builder_(mlir::OpBuilder::atBlockEnd(&t.getBody().front())) {}

  // Writes the action of `slot`. `backward` is the second slot of an overlapped pair, else null.
  mlir::LogicalResult Write(const Slot& slot, const Slot* backward = nullptr) {
    ir::SignatureOp signature = Signature(slot, backward);
    if (!signature) return mlir::failure();
    llvm::SmallVector<mlir::Value> inputs;
    llvm::SmallVector<mlir::Type> outputs;
    for (unsigned i = 0; i < signature.size(); ++i) {
      ir::OperandAttr operand = signature.getOperand(i);
      if (ir::IsDefinedByAction(operand)) {
        outputs.push_back(operand.getType());
        continue;
      }
      mlir::Value input = Input(operand, operand.getHalf() == 1 && backward != nullptr ? *backward : slot);
      if (!input) return mlir::failure();
      inputs.push_back(input);
    }
    mlir::Operation* op = Create(signature, slot, backward, inputs, outputs);
    unsigned next = 0;
    for (unsigned i = 0; i < signature.size(); ++i) {
      ir::OperandAttr operand = signature.getOperand(i);
      if (!ir::IsDefinedByAction(operand)) continue;
      const Slot& of = operand.getHalf() == 1 && backward != nullptr ? *backward : slot;
      Value(operand.getRole().getRole(), operand.getRole().getUse(), of, of.stage) = op->getResult(next++);
    }
    for (int m = slot.microbatch; m < slot.microbatch + slot.width; ++m) {
      auto& done = slot.kind == SlotKind::kForward ? forwards_done_ : backwards_done_;
      done[{slot.stage, m}] = ir::DoneToken(op);
    }
    return mlir::success();
  }

 private:
  ir::SignatureOp Signature(const Slot& slot, const Slot* backward) {
    SegmentKind kind = SegmentKindOf(slot.kind);
    if (kind == SegmentKind::Forward && program_.getEvaluation()) kind = SegmentKind::Evaluate;
    if (backward != nullptr) kind = SegmentKind::ForwardBackward;
    const Slot& last = backward != nullptr ? *backward : slot;
    const bool wide = last.kind != SlotKind::kForward && forwards_.width[last.microbatch] > 1;
    const int part = wide ? last.microbatch - forwards_.first[last.microbatch] : -1;
    auto found = signatures_.find({kind, slot.stage, slot.width, part, backward != nullptr ? backward->stage : -1});
    if (found != signatures_.end()) return found->second;
    mlir::InFlightDiagnostic error = program_.emitOpError()
                                     << "[schedule_c1] has no signature of kind " << ir::stringifySegmentKind(kind)
                                     << " for stage " << slot.stage;
    if (backward != nullptr) error << " with a backward of stage " << backward->stage;
    if (slot.width > 1) error << ", width " << static_cast<int>(slot.width);
    if (part >= 0) error << ", part " << part << " of a wide forward";
    return {};
  }

  // True for roles of values that forwards make or read. A wide forward has one such value for all its microbatches;
  // values of other roles belong to one microbatch.
  static bool IsOfForward(Role role) { return role == Role::Input || role == Role::Output || role == Role::Saved; }

  mlir::Value& Value(Role role, int use, const Slot& slot, int stage) {
    const int microbatch = IsOfForward(role) ? forwards_.first[slot.microbatch] : slot.microbatch;
    return values_[{role, use, slot.lane, stage, microbatch}];
  }

  mlir::Operation* Create(ir::SignatureOp signature, const Slot& slot, const Slot* backward, mlir::ValueRange inputs,
                          mlir::TypeRange outputs) {
    if (backward != nullptr) {
      return builder_.create<ir::ForwardBackwardOp>(
          program_.getLoc(), outputs, ir::TokenType::get(builder_.getContext()), signature.getSymName(), slot.stage,
          slot.microbatch, slot.lane, backward->stage, backward->microbatch, backward->lane, inputs, mlir::ValueRange(),
          mlir::DenseI64ArrayAttr());
    }
    switch (slot.kind) {
      case SlotKind::kForward:
        return CreateOne<ir::ForwardOp>(signature, slot, inputs, outputs);
      case SlotKind::kBackward:
        return CreateOne<ir::BackwardOp>(signature, slot, inputs, outputs);
      case SlotKind::kBackwardInput:
        return CreateOne<ir::BackwardInputOp>(signature, slot, inputs, outputs);
      case SlotKind::kBackwardWeight:
        return CreateOne<ir::BackwardWeightOp>(signature, slot, inputs, outputs);
    }
    return nullptr;
  }

  template <typename Op>
  mlir::Operation* CreateOne(ir::SignatureOp signature, const Slot& slot, mlir::ValueRange inputs,
                             mlir::TypeRange outputs) {
    llvm::SmallVector<mlir::Value> after;
    // If the program has a limit on microbatches in flight, ranks choose their order while they run. A backward then
    // always waits for its forward, whether or not it reads what the forward made. A forward waits for the backward
    // that brings the number of microbatches in flight below the limit.
    const int limit = static_cast<int>(program_.getLimit());
    if (limit > 0) {
      const bool forward = slot.kind == SlotKind::kForward;
      const auto& done = forward ? backwards_done_ : forwards_done_;
      int on = slot.microbatch;
      if (forward) {
        std::vector<int>& order = forwards_of_[slot.stage];
        on = static_cast<int>(order.size()) < limit ? -1 : order[order.size() - limit];
        order.push_back(slot.microbatch);
      }
      auto token = done.find({slot.stage, on});
      if (token != done.end()) after.push_back(token->second);
    }
    return builder_.create<Op>(program_.getLoc(), outputs, ir::TokenType::get(builder_.getContext()),
                               signature.getSymName(), slot.stage, slot.microbatch, slot.width, slot.lane, inputs,
                               after, mlir::DenseI64ArrayAttr());
  }

  // Returns the buffer for an operand that the action does not make itself; null after an error.
  mlir::Value Input(ir::OperandAttr operand, const Slot& slot) {
    const Role role = operand.getRole().getRole();
    const int use = operand.getRole().getUse();
    switch (role) {
      case Role::Input:
      case Role::OutputGrad: {
        mlir::Value& value = Value(role, use, slot, slot.stage);
        if (value) return value;
        const auto direction = role == Role::Input ? ir::Direction::TowardsLoss : ir::Direction::FromLoss;
        const int maker = MakerStage(program_, direction, slot.stage, static_cast<uint32_t>(use));
        value = Value(role == Role::Input ? Role::Output : Role::InputGrad, use, slot, maker);
        if (value) return value;
        const bool of_forward = role == Role::Input;
        return value =
                   builder_.create<ir::BoundaryOp>(program_.getLoc(), operand.getType(), direction, slot.stage,
                                                   of_forward ? forwards_.first[slot.microbatch] : slot.microbatch,
                                                   of_forward ? forwards_.width[slot.microbatch] : 1, slot.lane, use);
      }
      case Role::Output:
      case Role::InputGrad:
      case Role::Saved:
      case Role::SavedGrad: {
        mlir::Value value = Value(role, use, slot, slot.stage);
        if (!value) {
          program_.emitOpError() << "[schedule_c2] schedule " << program_.getScheduleAttr()
                                 << " runs the backward of stage " << slot.stage << ", microbatch " << slot.microbatch
                                 << " without " << (role == Role::SavedGrad ? "its first half" : "its forward")
                                 << " before it on the same rank";
        }
        return value;
      }
      case Role::Deferred: {
        // Two buffers take turns, so an action waits for the detached steps of the last action that used the same
        // buffer.
        auto [turn, added] = deferred_.try_emplace(operand.getType(), 2 * static_cast<int>(deferred_.size()), 0);
        auto& [first, actions] = turn->second;
        auto own = ir::RoleAttr::get(builder_.getContext(), role, -1, first + actions++ % 2);
        return persistent_.Get(own, operand.getType());
      }
      default:
        return persistent_.Get(operand.getRole(), operand.getType());
    }
  }

  ir::ProgramOp program_;
  PersistentBuffers persistent_;
  const std::map<SegmentKey, ir::SignatureOp>& signatures_;
  const Forwards& forwards_;
  mlir::OpBuilder builder_;
  // For each type of `deferred` operand: the `use` of the first of its two buffers, and how many actions have used one
  // of the two.
  llvm::DenseMap<mlir::Type, std::pair<int, int>> deferred_;
  // Key: (role, use, lane, stage, microbatch). For the values of a wide forward, the microbatch is the forward's first.
  std::map<std::tuple<Role, int, int, int, int>, mlir::Value> values_;
  // Key: (stage, microbatch). The token of the microbatch's forward, and the token of the latest part of its backward.
  std::map<std::pair<int, int>, mlir::Value> forwards_done_, backwards_done_;
  // If the program has a limit: the microbatches of each stage's forwards so far.
  std::map<int, std::vector<int>> forwards_of_;
};

// The forwards of `order`, split into one microbatch each.
std::vector<Slot> ForwardsOf(const std::vector<Slot>& order) {
  std::vector<Slot> forwards;
  for (Slot slot : order) {
    if (slot.kind != SlotKind::kForward) continue;
    const int width = slot.width;
    slot.width = 1;
    slot.paired = false;
    for (int i = 0; i < width; ++i, ++slot.microbatch) forwards.push_back(slot);
  }
  return forwards;
}

// Returns one possible order of a message-driven rank: forwards run as far ahead as the limit allows. The program lists
// actions in this order, so that every action comes after the actions that it waits for.
std::vector<Slot> OneOrder(const std::vector<Slot>& order, int limit) {
  std::vector<Slot> forwards, backwards, list;
  for (const Slot& slot : order) (slot.kind == SlotKind::kForward ? forwards : backwards).push_back(slot);
  // For each stage, forwards minus finished backwards. A split backward is finished with its second half.
  std::map<int, int> under_way;
  size_t f = 0, b = 0;
  while (f < forwards.size() || b < backwards.size()) {
    const bool forward = f < forwards.size() && (b == backwards.size() || under_way[forwards[f].stage] < limit);
    const Slot& slot = forward ? forwards[f++] : backwards[b++];
    if (forward) ++under_way[slot.stage];
    if (slot.kind == SlotKind::kBackward || slot.kind == SlotKind::kBackwardWeight) --under_way[slot.stage];
    list.push_back(slot);
  }
  return list;
}

class ApplySchedulePass : public impl::ApplyScheduleBase<ApplySchedulePass> {
  void runOnOperation() override {
    ir::ProgramOp program = getOperation();
    const ScheduleChoice choice = ChoiceOf(program);
    auto schedule = ScheduleOf(choice);
    if (!schedule.ok()) return Fail(schedule.status());
    if (schedule->stages != static_cast<int>(program.getStages())) {
      program.emitOpError() << "[schedule_c3] schedule " << program.getScheduleAttr() << " has " << schedule->stages
                            << " stages on " << choice.params.ranks << " ranks, the program has "
                            << program.getStages();
      return signalPassFailure();
    }
    const bool dynamic = schedule->message_driven && !program.getEvaluation();
    if (dynamic) {
      const bool arrival = schedule->message_driven->rule == MessageDriven::Rule::kArrival;
      program.setComputeOrder(arrival ? ir::ComputeOrder::Arrival : ir::ComputeOrder::BackwardFirst);
      program.setLimit(static_cast<uint32_t>(schedule->message_driven->limit));
    }
    for (std::vector<Slot>& order : schedule->order) {
      if (program.getEvaluation()) {
        order = ForwardsOf(order);
      } else if (dynamic) {
        order = OneOrder(order, schedule->message_driven->limit);
      }
    }
    const std::map<SegmentKey, ir::SignatureOp> signatures = Signatures(program);
    const Forwards forwards(*schedule, choice.params.microbatches);
    for (int rank = 0; rank < choice.params.ranks; ++rank) {
      ListWriter writer(program, TemplateOf(program, rank), signatures, forwards);
      const std::vector<Slot>& order = schedule->order[rank];
      for (size_t i = 0; i < order.size(); ++i) {
        const bool paired = order[i].paired;
        if (mlir::failed(writer.Write(order[i], paired ? &order[i + 1] : nullptr))) return signalPassFailure();
        if (paired) ++i;
      }
    }
  }

  static ScheduleChoice ChoiceOf(ir::ProgramOp program) {
    ScheduleChoice choice;
    choice.name = program.getSchedule().str();
    choice.definition = program.getDefinition().value_or("").str();
    choice.params.ranks = static_cast<int>(program.getMesh().getSize("pipe"));
    choice.params.microbatches = static_cast<int>(program.getMicrobatches());
    choice.params.costs = {.forward = static_cast<int64_t>(program.getForwardCost()),
                           .backward = static_cast<int64_t>(program.getBackwardCost()),
                           .weight = static_cast<int64_t>(program.getWeightCost()),
                           .pair = static_cast<int64_t>(program.getPairCost()),
                           .p2p = static_cast<int64_t>(program.getP2pCost())};
    auto parameter = [&](llvm::StringRef name) {
      auto value =
          program.getParameters() ? program.getParameters()->getAs<mlir::IntegerAttr>(name) : mlir::IntegerAttr();
      return value ? static_cast<int>(value.getInt()) : 0;
    };
    choice.params.virtual_stages = parameter("virtual_stages");
    choice.params.waves = parameter("waves");
    choice.params.lanes = parameter("lanes");
    choice.params.limit = parameter("limit");
    choice.params.group = parameter("group");
    choice.params.scaling = static_cast<Scaling>(parameter("scaling"));
    return choice;
  }

  void Fail(const absl::Status& status) {
    getOperation().emitOpError() << "[schedule_c4] " << Text(status.message());
    signalPassFailure();
  }

  // Returns the template of a pipe coordinate; creates it if it does not exist. A mesh without a pipe axis has one
  // template.
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
