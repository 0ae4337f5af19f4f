#include "ir/rank_ops.h"

#include <optional>

#include "ir/checks.h"
#include "ir/groups.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/TypeSwitch.h"
#include "mlir/IR/Builders.h"

#define GET_OP_CLASSES
#include "ir/rank_ops.cc.inc"

namespace weft::ir {

void WeftDialect::registerRankOps() {
  addOperations<
#define GET_OP_LIST
#include "ir/rank_ops.cc.inc"
      >();
}

bool IsDefinedByAction(OperandAttr operand) {
  switch (operand.getRole().getRole()) {
    case Role::Input:
    case Role::Output:
    case Role::OutputGrad:
    case Role::InputGrad:
    case Role::Saved:
    case Role::SavedGrad:
    case Role::Workspace:
    case Role::GradPart:
    case Role::ParamPart:
      return operand.getAccess() == Access::Write;
    default:
      return false;
  }
}

bool IsCompute(mlir::Operation* op) {
  return IsMicrobatch(op) || mlir::isa<GradNormOp, ScaleGradientsOp, OptimizerStepOp>(op);
}

bool IsMicrobatch(mlir::Operation* op) {
  return mlir::isa<ForwardOp, BackwardOp, BackwardInputOp, BackwardWeightOp, ForwardBackwardOp>(op);
}

bool IsCollective(mlir::Operation* op) { return mlir::isa<AllReduceOp, AllGatherOp, ReduceScatterOp>(op); }

bool IsAction(mlir::Operation* op) { return IsCompute(op) || IsCollective(op) || mlir::isa<SendOp, RecvOp>(op); }

mlir::Value DoneToken(mlir::Operation* action) { return action->getResult(action->getNumResults() - 1); }

mlir::MutableOperandRange AfterTokens(mlir::Operation* action) {
  return llvm::TypeSwitch<mlir::Operation*, mlir::MutableOperandRange>(action)
      .Case<ForwardOp, BackwardOp, BackwardInputOp, BackwardWeightOp, ForwardBackwardOp, GradNormOp, ScaleGradientsOp,
            OptimizerStepOp, SendOp, RecvOp, AllReduceOp, AllGatherOp, ReduceScatterOp>(
          [](auto op) { return op.getAfterMutable(); });
}

CollectiveView ViewOf(mlir::Operation* collective) {
  return llvm::TypeSwitch<mlir::Operation*, CollectiveView>(collective)
      .Case<AllReduceOp, AllGatherOp, ReduceScatterOp>([](auto op) {
        mlir::ValueRange destinations = op.getDestinations();
        if (!op.getOutputs().empty()) destinations = op.getOutputs();
        return CollectiveView{op.getSources(), destinations, op.getOver(), op.getPurpose(), op.getAlgorithm()};
      });
}

namespace {

ProgramOp ProgramOf(mlir::Operation* op) { return op->getParentOfType<ProgramOp>(); }

// Checks that coordinates {axis = index} lie within the mesh.
mlir::LogicalResult CheckCoordinates(mlir::Operation* op, llvm::StringRef id, mlir::DictionaryAttr coordinates) {
  MeshAttr mesh = ProgramOf(op).getMesh();
  for (mlir::NamedAttribute entry : coordinates) {
    auto index = mlir::dyn_cast<mlir::IntegerAttr>(entry.getValue());
    int64_t size = mesh.getSize(entry.getName());
    if (!index || index.getInt() < 0 || index.getInt() >= size) {
      return op->emitOpError() << "[" << id << "] axis " << entry.getName() << " has coordinates 0 to " << size - 1
                               << ", got " << entry.getValue();
    }
  }
  return mlir::success();
}

mlir::LogicalResult CheckStageAndMicrobatch(mlir::Operation* op, llvm::StringRef id, int32_t stage, int32_t microbatch,
                                            int32_t width = 1) {
  ProgramOp program = ProgramOf(op);
  if (stage < 0 || stage >= static_cast<int32_t>(program.getStages())) {
    return op->emitOpError() << "[" << id << "] stage must be 0 to " << program.getStages() - 1 << ", got " << stage;
  }
  const int32_t microbatches = static_cast<int32_t>(program.getMicrobatches());
  if (microbatch < 0 || width < 1 || width > microbatches || microbatch > microbatches - width) {
    mlir::InFlightDiagnostic error = op->emitOpError() << "[" << id << "] microbatch must be 0 to " << microbatches - 1
                                                       << ", got " << microbatch;
    if (width != 1) error << " and " << width - 1 << " more";
    return error;
  }
  return mlir::success();
}

// Checks that the action runs a segment of one of `kinds` and binds buffers of the right types to all its operands.
mlir::LogicalResult CheckCompute(mlir::Operation* op, mlir::FlatSymbolRefAttr segment, int32_t stage,
                                 llvm::ArrayRef<SegmentKind> kinds, mlir::ValueRange inputs, mlir::ResultRange outputs,
                                 std::optional<llvm::ArrayRef<int64_t>> offsets) {
  ProgramOp program = ProgramOf(op);
  auto signature = program.lookupSymbol<SignatureOp>(segment.getAttr());
  if (!signature) return op->emitOpError() << "[compute_c1] the program has no signature " << segment;
  if (!llvm::is_contained(kinds, signature.getKind()) || static_cast<int32_t>(signature.getStage()) != stage) {
    mlir::InFlightDiagnostic error = op->emitOpError() << "[compute_c2] runs " << segment << ", which is of kind "
                                                       << stringifySegmentKind(signature.getKind()) << " for stage "
                                                       << signature.getStage() << ", in an action of stage " << stage
                                                       << "; kind and stage must match the action";
    error.attachNote(signature.getLoc()) << "the signature";
    return error;
  }
  unsigned next_input = 0, next_output = 0;
  for (auto [i, attribute] : llvm::enumerate(signature.getOperands_())) {
    OperandAttr operand = mlir::cast<OperandAttr>(attribute);
    bool defined = IsDefinedByAction(operand);
    unsigned& next = defined ? next_output : next_input;
    unsigned given = defined ? outputs.size() : inputs.size();
    mlir::Type type = next < given ? (defined ? mlir::Value(outputs[next]) : inputs[next]).getType() : mlir::Type();
    if (type != operand.getType()) {
      mlir::InFlightDiagnostic error = op->emitOpError() << "[compute_c3] " << (defined ? "output " : "input ") << next
                                                         << " must be " << operand.getType() << " for operand " << i;
      if (type) error << ", got " << type;
      error.attachNote(signature.getLoc()) << "the signature";
      return error;
    }
    ++next;
  }
  if (next_input != inputs.size() || next_output != outputs.size()) {
    return op->emitOpError() << "[compute_c4] the signature has " << next_input << " inputs and " << next_output
                             << " outputs, got " << inputs.size() << " and " << outputs.size();
  }
  if (offsets && offsets->size() != outputs.size()) {
    return op->emitOpError() << "[compute_c5] " << outputs.size() << " outputs have " << offsets->size() << " offsets";
  }
  return mlir::success();
}

mlir::LogicalResult CheckTransfer(mlir::Operation* op, mlir::DictionaryAttr peer, int32_t stage, int32_t microbatch,
                                  int32_t width) {
  if (mlir::failed(CheckStageAndMicrobatch(op, "transfer_c1", stage, microbatch, width)) ||
      mlir::failed(CheckCoordinates(op, "transfer_c2", peer))) {
    return mlir::failure();
  }
  mlir::DictionaryAttr own = op->getParentOfType<TemplateOp>().getPins();
  bool other = false;
  for (mlir::NamedAttribute entry : peer) {
    mlir::Attribute pin = own.get(entry.getName());
    if (!pin) {
      return op->emitOpError() << "[transfer_c3] names the peer's coordinate on axis " << entry.getName()
                               << ", which its template does not pin";
    }
    other |= pin != entry.getValue();
  }
  if (!other) return op->emitOpError() << "[transfer_c4] the peer " << peer << " is the rank itself";
  return mlir::success();
}

template <typename Op>
mlir::LogicalResult CheckBackward(Op op, SegmentKind kind) {
  if (op.getWidth() != 1) return op.emitOpError("[compute_c7] only a forward can have several microbatches");
  if (mlir::failed(CheckStageAndMicrobatch(op, "compute_c6", op.getStage(), op.getMicrobatch()))) {
    return mlir::failure();
  }
  return CheckCompute(op, op.getSegmentAttr(), op.getStage(), {kind}, op.getInputs(), op.getOutputs(), op.getOffsets());
}

}  // namespace

mlir::LogicalResult ForwardOp::verify() {
  if (mlir::failed(CheckStageAndMicrobatch(*this, "compute_c6", getStage(), getMicrobatch(), getWidth()))) {
    return mlir::failure();
  }
  return CheckCompute(*this, getSegmentAttr(), getStage(), {SegmentKind::Forward, SegmentKind::Evaluate}, getInputs(),
                      getOutputs(), getOffsets());
}

mlir::LogicalResult BackwardOp::verify() { return CheckBackward(*this, SegmentKind::Backward); }

mlir::LogicalResult BackwardInputOp::verify() { return CheckBackward(*this, SegmentKind::BackwardInput); }

mlir::LogicalResult BackwardWeightOp::verify() { return CheckBackward(*this, SegmentKind::BackwardWeight); }

mlir::LogicalResult ForwardBackwardOp::verify() {
  if (mlir::failed(CheckStageAndMicrobatch(*this, "compute_c6", getStage(), getMicrobatch())) ||
      mlir::failed(CheckStageAndMicrobatch(*this, "compute_c6", getBackwardStage(), getBackwardMicrobatch()))) {
    return mlir::failure();
  }
  return CheckCompute(*this, getSegmentAttr(), getStage(), {SegmentKind::ForwardBackward}, getInputs(), getOutputs(),
                      getOffsets());
}

mlir::LogicalResult GradNormOp::verify() {
  return CheckCompute(*this, getSegmentAttr(), getStage(), {SegmentKind::GradNorm}, getInputs(), getOutputs(),
                      getOffsets());
}

mlir::LogicalResult ScaleGradientsOp::verify() {
  return CheckCompute(*this, getSegmentAttr(), getStage(), {SegmentKind::ScaleGradients}, getInputs(), getOutputs(),
                      getOffsets());
}

mlir::LogicalResult OptimizerStepOp::verify() {
  return CheckCompute(*this, getSegmentAttr(), getStage(), {SegmentKind::OptimizerStep}, getInputs(), getOutputs(),
                      getOffsets());
}

mlir::LogicalResult BoundaryOp::verify() {
  return CheckStageAndMicrobatch(*this, "transfer_c1", getStage(), getMicrobatch(), getWidth());
}

mlir::LogicalResult SendOp::verify() {
  return CheckTransfer(*this, getPeer(), getStage(), getMicrobatch(), getWidth());
}

mlir::LogicalResult RecvOp::verify() {
  if (getOffsets() && getOffsets()->size() != 1) {
    return emitOpError() << "[recv_c1] its one buffer needs one offset, got " << getOffsets()->size() << " offsets";
  }
  return CheckTransfer(*this, getPeer(), getStage(), getMicrobatch(), getWidth());
}

namespace {

// Checks `over` of a collective against the mesh. The ids of the checks are `prefix`_c2, `prefix`_c3 and `prefix`_c4.
mlir::LogicalResult CheckGroup(mlir::Operation* op, llvm::StringRef prefix, mlir::DictionaryAttr over) {
  mlir::DictionaryAttr pins = op->getParentOfType<TemplateOp>().getPins();
  MeshAttr mesh = ProgramOf(op).getMesh();
  for (mlir::NamedAttribute entry : over) {
    AxisGroup group;
    const int64_t size = mesh.getSize(entry.getName());
    int64_t previous = -1;
    bool valid = ReadAxisGroup(entry.getValue(), &group);
    for (int64_t index : group.indices) {
      valid &= index > previous && index < size;
      previous = index;
    }
    if (!valid) {
      return op->emitOpError() << "[" << prefix << "_c2] coordinates on axis " << entry.getName()
                               << " must ascend from 0 to at most " << size - 1 << ", got " << entry.getValue();
    }
    for (int64_t divisor : {group.block, group.stride}) {
      if (divisor > 0 && size % divisor != 0) {
        return op->emitOpError() << "[" << prefix << "_c4] block and stride on axis " << entry.getName()
                                 << " must divide its size " << size << ", got " << divisor;
      }
    }
    auto pin = mlir::dyn_cast_or_null<mlir::IntegerAttr>(pins.get(entry.getName()));
    if (pin && !group.indices.empty() && !llvm::is_contained(group.indices, pin.getInt())) {
      return op->emitOpError() << "[" << prefix << "_c3] its own coordinate " << pin.getInt() << " on axis "
                               << entry.getName() << " is not in the group";
    }
  }
  return mlir::success();
}

template <typename Op>
mlir::LogicalResult CheckPairs(Op op, llvm::StringRef id) {
  const size_t made = op.getOutputs().size(), given = op.getDestinations().size();
  if (!op.getSources().empty() && op.getSources().size() == made + given && (made == 0 || given == 0)) {
    return mlir::success();
  }
  return op.emitOpError() << "[" << id << "] needs sources, each with a destination, given or made, got "
                          << op.getSources().size() << ", " << given << " and " << made;
}

}  // namespace

mlir::LogicalResult AllReduceOp::verify() {
  if (getSources().empty() || !getOutputs().empty() || getSources().getTypes() != getDestinations().getTypes()) {
    return emitOpError() << "[all_reduce_c1] needs sources, each with a destination of its type";
  }
  return CheckGroup(*this, "all_reduce", getOver());
}

mlir::LogicalResult AllGatherOp::verify() {
  if (mlir::failed(CheckPairs(*this, "all_gather_c1"))) return mlir::failure();
  return CheckGroup(*this, "all_gather", getOver());
}

mlir::LogicalResult ReduceScatterOp::verify() {
  if (mlir::failed(CheckPairs(*this, "reduce_scatter_c1"))) return mlir::failure();
  return CheckGroup(*this, "reduce_scatter", getOver());
}

mlir::LogicalResult ReleaseOp::verify() {
  if (getBuffer().getDefiningOp<PersistentOp>()) {
    mlir::InFlightDiagnostic error = emitOpError("[release_c1] a persistent buffer must not be released");
    error.attachNote(getBuffer().getLoc()) << "the buffer";
    return error;
  }
  for (mlir::Operation* user : getBuffer().getUsers()) {
    if (user != *this && mlir::isa<ReleaseOp>(user)) {
      mlir::InFlightDiagnostic error = emitOpError("[release_c2] the buffer is released twice");
      error.attachNote(user->getLoc()) << "the other release";
      return error;
    }
  }
  return mlir::success();
}

mlir::LogicalResult SignatureOp::verify() {
  if (getStage() >= ProgramOf(*this).getStages()) {
    return emitOpError() << "[signature_c1] stage must be below " << ProgramOf(*this).getStages() << ", got "
                         << getStage();
  }
  llvm::DenseMap<std::pair<mlir::Attribute, int32_t>, unsigned> seen;
  for (unsigned i = 0; i < size(); ++i) {
    auto [other, added] = seen.try_emplace({getOperand(i).getRole(), getOperand(i).getHalf()}, i);
    if (!added) {
      return emitOpError() << "[signature_c2] operands " << other->second << " and " << i << " have the same role "
                           << getOperand(i).getRole();
    }
  }
  return mlir::success();
}

void ProgramOp::build(mlir::OpBuilder& builder, mlir::OperationState& state, llvm::StringRef name, MeshAttr mesh,
                      int32_t stages, int32_t microbatches, llvm::StringRef schedule) {
  Properties& properties = state.getOrAddProperties<Properties>();
  properties.sym_name = builder.getStringAttr(name);
  properties.mesh = mesh;
  properties.stages = builder.getI32IntegerAttr(stages);
  properties.microbatches = builder.getI32IntegerAttr(microbatches);
  properties.schedule = builder.getStringAttr(schedule);
  state.addRegion();
}

mlir::LogicalResult TemplateOp::verify() { return CheckCoordinates(*this, "template_c1", getPins()); }

mlir::LogicalResult ProgramOp::verifyRegions() {
  for (auto [name, value] :
       {std::pair("stages", getStages()), std::pair("microbatches", getMicrobatches()),
        std::pair("receive_buffers", getReceiveBuffers()), std::pair("send_buffers", getSendBuffers())}) {
    if (static_cast<int32_t>(value) < 1) {
      return emitOpError() << "[program_c1] " << name << " must be at least 1, got " << static_cast<int32_t>(value);
    }
  }
  llvm::DenseMap<mlir::Attribute, TemplateOp> roles;
  for (mlir::Operation& op : getBody().front()) {
    auto t = mlir::dyn_cast<TemplateOp>(op);
    if (!t) {
      if (mlir::isa<SignatureOp>(op)) continue;
      return op.emitOpError("[program_c2] only weft.signature and weft.template may stand in a program");
    }
    auto [other, added] = roles.try_emplace(t.getPins(), t);
    if (!added) {
      mlir::InFlightDiagnostic error = t.emitOpError() << "[program_c3] two templates are at " << t.getPins();
      error.attachNote(other->second.getLoc()) << "the other template";
      return error;
    }
  }
  return mlir::success();
}

}  // namespace weft::ir
