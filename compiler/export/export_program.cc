#include "compiler/export/export_program.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/rank/rank_util.h"
#include "compiler/segments/group_of.h"
#include "compiler/segments/role_kinds.h"
#include "compiler/segments/saved_for_input.h"
#include "compiler/segments/training.h"
#include "llvm/ADT/TypeSwitch.h"
#include "proto/util/status.h"

namespace weft {
namespace {

absl::string_view View(llvm::StringRef text) { return absl::string_view(text.data(), text.size()); }

// Exports one template.
class TemplateExporter {
 public:
  TemplateExporter(ir::ProgramOp program, ir::TemplateOp t, const SegmentSet& segments,
                   const std::map<std::string, int>& segment_index)
      : mesh_(program.getMesh()),
        dynamic_(program.getComputeOrder() != ir::ComputeOrder::StaticOrder),
        op_(t),
        segments_(segments),
        segment_index_(segment_index) {}

  absl::StatusOr<Template> Export() {
    out_.set_name(op_.getSymName().str());
    for (mlir::StringAttr axis : mesh_.getNames()) AddCoordinate(op_.getPins(), axis, out_.mutable_pins());
    auto height = op_->getAttrOfType<mlir::IntegerAttr>("arena_bytes");
    if (!height) return absl::FailedPreconditionError(absl::StrCat("template ", out_.name(), " has no memory plan"));
    out_.set_device_arena_bytes(height.getInt());
    for (mlir::Operation& op : op_.getBody().front()) {
      if (auto persistent = mlir::dyn_cast<ir::PersistentOp>(op)) {
        AddPersistent(persistent);
      } else if (ir::IsAction(&op)) {
        WEFT_RETURN_IF_ERROR(AddAction(&op));
      } else if (auto release = mlir::dyn_cast<ir::ReleaseOp>(op)) {
        ActionOf(release.getWith())->add_releases(buffers_.at(release.getBuffer()));
      } else if (auto repeat = mlir::dyn_cast<ir::RepeatAfterOp>(op)) {
        const auto [late, detached] = WaitedFor(repeat.getLate());
        Dependency& dependency = *ActionOf(repeat.getEarly())->add_deps();
        dependency.set_action(out_.body(actions_.at(late)).id());
        dependency.set_distance(1);
        dependency.set_detached(detached);
      } else if (mlir::isa<ir::DetachedOp>(op)) {
        continue;
      } else {
        return absl::FailedPreconditionError(
            absl::StrCat("template ", out_.name(), " still holds ", View(op.getName().getStringRef())));
      }
    }
    return std::move(out_);
  }

 private:
  Action* ActionOf(mlir::Value token) { return out_.mutable_body(actions_.at(token.getDefiningOp())); }

  static void AddCoordinate(mlir::DictionaryAttr from, mlir::StringAttr axis,
                            google::protobuf::RepeatedPtrField<Coordinate>* to) {
    auto index = mlir::dyn_cast_or_null<mlir::IntegerAttr>(from.get(axis));
    if (!index) return;
    Coordinate& coordinate = *to->Add();
    coordinate.set_axis(axis.str());
    coordinate.set_index(index.getInt());
  }

  Buffer& AddBuffer(mlir::Value value, std::string name, int64_t offset) {
    auto type = mlir::cast<ir::BufferType>(value.getType());
    buffers_[value] = out_.buffers_size();
    Buffer& buffer = *out_.add_buffers();
    buffer.set_name(std::move(name));
    buffer.set_class_(static_cast<BufferClass>(type.getBufferClass()));
    buffer.set_bytes(type.getBytes());
    buffer.set_offset(offset);
    if (auto tensor = mlir::dyn_cast_or_null<mlir::RankedTensorType>(type.getContent())) {
      buffer.set_dtype(DTypeOfType(tensor.getElementType()));
      for (int64_t extent : tensor.getShape()) buffer.add_shape(extent);
    }
    return buffer;
  }

  // For example "wte.weight use 1", for use 1 of that tensor.
  std::string TensorName(ir::RoleAttr role) const {
    const bool known = role.getTensor() < static_cast<int>(segments_.tensors.size());
    std::string name = known ? segments_.tensors[role.getTensor()].name() : absl::StrCat(role.getTensor());
    if (role.getUse() > 0) absl::StrAppend(&name, " use ", role.getUse());
    return name;
  }

  void AddPersistent(ir::PersistentOp op) {
    ir::RoleAttr role = op.getRole();
    std::string name = ir::stringifyRole(role.getRole()).str();
    if (role.getTensor() >= 0) {
      absl::StrAppend(&name, " ", TensorName(role));
    } else if (role.getRole() == ir::Role::Deferred) {
      absl::StrAppend(&name, " ", role.getUse());
    }
    Buffer& buffer = AddBuffer(op.getBuffer(), std::move(name), op.getOffset().value_or(0));
    buffer.set_persistent(true);
    buffer.set_role(BufferRoleOf(role.getRole()));
    buffer.set_tensor(std::max(0, role.getTensor()));
    if (role.getTensor() >= 0 && role.getTensor() < static_cast<int>(segments_.shards.size())) {
      const Shard& shard = ShardOf(segments_.shards[role.getTensor()], role.getRole());
      if (shard.ByteSizeLong() > 0) *buffer.mutable_shard() = shard;
    }
    if (role.getRole() != ir::Role::Deferred) buffer.set_use(role.getUse());
  }

  // The op that `operand` waits for, and whether the wait includes the op's detached steps.
  static std::pair<mlir::Operation*, bool> WaitedFor(mlir::Value operand) {
    if (auto detached = operand.getDefiningOp<ir::DetachedOp>()) return {detached.getAction().getDefiningOp(), true};
    return {operand.getDefiningOp(), false};
  }

  // Compute actions share a stream, whose order needs no dependency. There are two exceptions. A program that chooses
  // its order compares the times when the last dependency of each action finished, even a dependency in the same queue
  // (rule P6). An action whose segment holds collectives waits where a token requires it (weft-plan-memory).
  bool AreOrdered(mlir::Operation* before, mlir::Operation* op, bool by_token) const {
    if (!ir::IsCompute(before) || !ir::IsCompute(op)) return false;
    if (by_token && (SignatureOf(before).getCollectives() || SignatureOf(op).getCollectives())) return false;
    return !dynamic_ || !ir::IsMicrobatch(before) || !ir::IsMicrobatch(op);
  }

  // True if `op` need not wait for `before`, because the forward has already waited for it. In a program that chooses
  // its order, a backward that reads what its forward received waits only for the forward. The dependency must be left
  // out, because the choice of the next action depends on the receives among an action's `deps` (rule P6).
  bool IsSeenByForward(mlir::Operation* before, mlir::Operation* op) const {
    auto recv = mlir::dyn_cast<ir::RecvOp>(before);
    return dynamic_ && recv && recv.getDirection() == ir::Direction::TowardsLoss && ir::IsMicrobatch(op) &&
           !mlir::isa<ir::ForwardOp>(op);
  }

  // Adds dependencies on the actions that make the op's tokens and buffers, except those that AreOrdered or
  // IsSeenByForward makes unnecessary. A dependency on detached steps is always added.
  void AddDependencies(mlir::Operation* op, Action& action) {
    // Maps the id of an action to wait for to true if the wait includes the action's detached steps.
    std::map<int, bool> ids;
    for (mlir::Value operand : op->getOperands()) {
      const auto [before, detached] = WaitedFor(operand);
      auto found = actions_.find(before);
      if (found == actions_.end()) continue;
      const bool by_token = mlir::isa<ir::TokenType>(operand.getType());
      if (!detached && (AreOrdered(before, op, by_token) || IsSeenByForward(before, op))) continue;
      ids[out_.body(found->second).id()] |= detached;
    }
    for (const auto& [id, detached] : ids) {
      Dependency& dependency = *action.add_deps();
      dependency.set_action(id);
      dependency.set_detached(detached);
    }
  }

  absl::Status AddAction(mlir::Operation* op) {
    actions_[op] = out_.body_size();
    Action& action = *out_.add_body();
    action.set_id(out_.body_size() - 1);
    if (auto stage = op->getAttrOfType<mlir::IntegerAttr>("stage")) action.set_stage(stage.getInt());
    if (auto microbatch = op->getAttrOfType<mlir::IntegerAttr>("microbatch")) {
      action.set_microbatch(microbatch.getInt());
    }
    if (auto lane = op->getAttrOfType<mlir::IntegerAttr>("lane")) action.set_lane(lane.getInt());
    if (auto width = op->getAttrOfType<mlir::IntegerAttr>("width"); width && width.getInt() > 1) {
      action.set_width(width.getInt());
    }
    if (auto skip = op->getAttrOfType<mlir::IntegerAttr>("skip")) action.set_skip(skip.getInt());
    if (auto group = op->getAttrOfType<mlir::IntegerAttr>("group")) action.set_transfer_group(group.getInt());
    AddDependencies(op, action);
    if (ir::IsCompute(op)) return AddCompute(op, action);
    return llvm::TypeSwitch<mlir::Operation*, absl::Status>(op)
        .Case([&](ir::SendOp send) {
          action.set_kind(SEND);
          action.set_direction(static_cast<Direction>(send.getDirection()));
          action.set_name(TransferName("send", action));
          for (mlir::StringAttr axis : mesh_.getNames()) {
            AddCoordinate(send.getPeer(), axis, action.mutable_peer()->mutable_at());
          }
          action.add_sources(buffers_.at(send.getSource()));
          return absl::OkStatus();
        })
        .Case([&](ir::RecvOp recv) {
          action.set_kind(RECV);
          action.set_direction(static_cast<Direction>(recv.getDirection()));
          action.set_name(TransferName("recv", action));
          for (mlir::StringAttr axis : mesh_.getNames()) {
            AddCoordinate(recv.getPeer(), axis, action.mutable_peer()->mutable_at());
          }
          if (!recv.getOffsets()) return NotPlanned(action);
          const char* role = action.direction() == TOWARDS_LOSS ? "input" : "output_grad";
          const ActionPart part{action.stage(), action.microbatch(), action.lane(), action.width()};
          AddBuffer(recv.getDestination(), BufferName(role, part, action.skip()), (*recv.getOffsets())[0]);
          action.add_destinations(buffers_.at(recv.getDestination()));
          return absl::OkStatus();
        })
        .Case([&](ir::AllReduceOp) { return AddCollective(op, ALL_REDUCE, action); })
        .Case([&](ir::AllGatherOp) { return AddCollective(op, ALL_GATHER, action); })
        .Case([&](ir::ReduceScatterOp) { return AddCollective(op, REDUCE_SCATTER, action); })
        .Default([](mlir::Operation*) { return absl::OkStatus(); });
  }

  absl::Status NotPlanned(const Action& action) {
    return absl::FailedPreconditionError(
        absl::StrCat("template ", out_.name(), ", action ", action.name(), " has no offsets"));
  }

  // Returns the part of an action's name that states its place: "s1 m3", or for a wide forward "s1 m2-3".
  static std::string Place(int stage, int microbatch, int width) {
    std::string text = absl::StrCat("s", stage, " m", microbatch);
    if (width > 1) absl::StrAppend(&text, "-", microbatch + width - 1);
    return text;
  }

  static std::string TransferName(absl::string_view what, const Action& action) {
    return absl::StrCat(what, action.direction() == TOWARDS_LOSS ? " F " : " B ",
                        Place(action.stage(), action.microbatch(), action.width()),
                        action.skip() > 0 ? absl::StrCat(" skip ", action.skip()) : "");
  }

  static std::string BufferName(absl::string_view role, const ActionPart& part, int use) {
    std::string name = absl::StrCat(role, " ", Place(part.stage, part.microbatch, part.width));
    if (use > 0) absl::StrAppend(&name, " skip ", use);
    return name;
  }

  absl::Status AddCompute(mlir::Operation* op, Action& action) {
    const std::pair<ActionKind, const char*> what =
        llvm::TypeSwitch<mlir::Operation*, std::pair<ActionKind, const char*>>(op)
            .Case([](ir::ForwardOp) { return std::pair(FORWARD, "F"); })
            .Case([](ir::BackwardOp) { return std::pair(BACKWARD, "B"); })
            .Case([](ir::BackwardInputOp) { return std::pair(BACKWARD_INPUT, "I"); })
            .Case([](ir::BackwardWeightOp) { return std::pair(BACKWARD_WEIGHT, "W"); })
            .Case([](ir::ForwardBackwardOp) { return std::pair(FORWARD_BACKWARD, "F"); })
            .Case([](ir::GradNormOp) { return std::pair(GRAD_NORM, "grad norm"); })
            .Case([](ir::ScaleGradientsOp) { return std::pair(SCALE_GRADIENTS, "clip"); })
            .Case([](ir::OptimizerStepOp) { return std::pair(OPTIMIZER_STEP, "optimizer"); });
    const auto [kind, name] = what;
    action.set_kind(kind);
    const bool per_microbatch = ir::IsMicrobatch(op);
    action.set_name(absl::StrCat(name, " s", action.stage()));
    if (per_microbatch) {
      action.set_name(absl::StrCat(name, " ", Place(action.stage(), action.microbatch(), action.width())));
    }
    if (kind == FORWARD_BACKWARD) {
      const ActionPart backward = PartOf(op, 1);
      action.mutable_backward()->set_stage(backward.stage);
      action.mutable_backward()->set_microbatch(backward.microbatch);
      action.mutable_backward()->set_lane(backward.lane);
      absl::StrAppend(action.mutable_name(), " & B ", Place(backward.stage, backward.microbatch, 1));
    }
    ir::SignatureOp signature = SignatureOf(op);
    action.set_segment(segment_index_.at(signature.getSymName().str()));
    auto offsets = op->getAttrOfType<mlir::DenseI64ArrayAttr>("offsets");
    std::vector<mlir::Value> bound = BoundBuffers(op, signature);
    int next = 0;
    for (unsigned i = 0; i < signature.size(); ++i) {
      if (ir::IsDefinedByAction(signature.getOperand(i))) {
        if (!offsets || next >= offsets.size()) return NotPlanned(action);
        ir::OperandAttr operand = signature.getOperand(i);
        llvm::StringRef role = ir::stringifyRole(operand.getRole().getRole());
        std::string buffer_name = absl::StrCat(View(role), " ", action.name());
        if (per_microbatch && role != "workspace") {
          const bool boundary = role == "output" || role == "input_grad";
          const bool for_input = role == "saved" && operand.getRole().getUse() == kSavedForInput;
          buffer_name = BufferName(for_input ? kSavedForInputName : View(role), PartOf(op, operand.getHalf()),
                                   boundary ? operand.getRole().getUse() : 0);
        } else if (operand.getRole().getTensor() >= 0) {
          buffer_name = absl::StrCat(View(role), " ", TensorName(operand.getRole()));
        }
        AddBuffer(bound[i], std::move(buffer_name), offsets[next++]);
      }
      action.add_operands(buffers_.at(bound[i]));
    }
    return absl::OkStatus();
  }

  absl::Status AddCollective(mlir::Operation* op, ActionKind kind, Action& action) {
    const ir::CollectiveView view = ir::ViewOf(op);
    action.set_kind(kind);
    action.set_purpose(static_cast<Purpose>(view.purpose));
    action.set_algorithm(view.algorithm.str());
    *action.mutable_group() = GroupOf(view.over, mesh_.getNames());
    for (mlir::Value source : view.sources) action.add_sources(buffers_.at(source));
    auto offsets = op->getAttrOfType<mlir::DenseI64ArrayAttr>("offsets");
    for (auto [i, destination] : llvm::enumerate(view.destinations)) {
      if (destination.getDefiningOp() == op) {
        if (!offsets || i >= static_cast<size_t>(offsets.size())) return NotPlanned(action);
        const std::string& source = out_.buffers(action.sources(static_cast<int>(i))).name();
        AddBuffer(destination, absl::StrCat(source, " part"), offsets[static_cast<int>(i)]);
      }
      action.add_destinations(buffers_.at(destination));
    }
    const std::string& first = out_.buffers(action.sources(0)).name();
    switch (view.purpose) {
      case ir::Purpose::GradientSync:
        action.set_name(absl::StrCat("gradient sync s", action.stage(), " bucket ", buckets_[action.stage()]++));
        break;
      case ir::Purpose::TiedSync:
        action.set_name(absl::StrCat("tied sync ", first));
        break;
      case ir::Purpose::NormSync:
        action.set_name("norm sync");
        break;
      case ir::Purpose::LossSync:
        action.set_name("loss sync");
        break;
      case ir::Purpose::Tensor:
        action.set_name(absl::StrCat("tensor sync ", first));
        break;
      case ir::Purpose::GatherWeights:
        action.set_name(absl::StrCat("gather ", first));
        break;
      case ir::Purpose::ScatterGradients:
        action.set_name(absl::StrCat("scatter ", first));
        break;
    }
    return absl::OkStatus();
  }

  ir::MeshAttr mesh_;
  const bool dynamic_;
  ir::TemplateOp op_;
  const SegmentSet& segments_;
  const std::map<std::string, int>& segment_index_;
  Template out_;
  llvm::DenseMap<mlir::Value, int> buffers_;
  llvm::DenseMap<mlir::Operation*, int> actions_;
  std::map<int, int> buckets_;
};

}  // namespace

absl::StatusOr<Program> ExportProgram(ir::ProgramOp program, const SegmentSet& segments) {
  Program out;
  for (auto [name, size] : llvm::zip_equal(program.getMesh().getNames(), program.getMesh().getSizes())) {
    MeshAxis& axis = *out.mutable_mesh()->add_axes();
    axis.set_name(name.str());
    axis.set_size(size);
  }
  out.set_schedule(program.getSchedule().str());
  out.set_compute_order(static_cast<ComputeOrder>(program.getComputeOrder()));
  out.set_transfer_streams(static_cast<TransferStreams>(program.getTransferStreams()));
  for (const SkipTensor& skip : segments.skips) {
    SkipEdge& edge = *out.add_skips();
    edge.set_name(skip.name);
    edge.set_from_stage(skip.from_stage);
    edge.set_to_stage(skip.to_stage);
  }
  out.set_stages(program.getStages());
  out.set_microbatches(program.getMicrobatches());
  for (const LogicalTensor& tensor : segments.tensors) *out.add_tensors() = tensor;
  std::map<std::string, int> segment_index;
  for (const StageSegment& segment : segments.segments) {
    segment_index[segment.segment.name()] = out.segments_size();
    *out.add_segments() = segment.segment;
  }
  for (ir::TemplateOp t : program.getOps<ir::TemplateOp>()) {
    WEFT_ASSIGN_OR_RETURN(*out.add_templates(), TemplateExporter(program, t, segments, segment_index).Export());
  }
  return out;
}

}  // namespace weft
