#include "compiler/rank/rank_program.h"

#include "compiler/segments/role_kinds.h"
#include "compiler/segments/state_shards.h"
#include "compiler/segments/training.h"
#include "mlir/IR/Builders.h"

namespace weft {
namespace {

ir::OperandAttr MakeOperand(const SegmentOperand& operand, mlir::MLIRContext* context) {
  mlir::Type content;
  if (mlir::Type element = TypeOfDType(context, operand.dtype)) {
    content = mlir::RankedTensorType::get(operand.shape, element);
  }
  auto type = ir::BufferType::get(context, BufferClassOf(operand.role), operand.bytes, content);
  auto role = ir::RoleAttr::get(context, operand.role, operand.tensor, operand.use);
  return ir::OperandAttr::get(context, role, static_cast<ir::Access>(operand.access), type, operand.half,
                              operand.detached);
}

// Returns those parameters of the schedule that are set.
mlir::DictionaryAttr ParametersOf(mlir::OpBuilder& builder, const PlanSchedule& schedule) {
  llvm::SmallVector<mlir::NamedAttribute> parameters;
  for (auto [name, value] : {std::pair<const char*, int>{"group", schedule.group()},
                             {"lanes", schedule.lanes()},
                             {"limit", schedule.limit()},
                             {"scaling", static_cast<int>(schedule.scaling())},
                             {"virtual_stages", schedule.virtual_stages()},
                             {"waves", schedule.waves()}}) {
    if (value != 0) parameters.push_back(builder.getNamedAttr(name, builder.getI64IntegerAttr(value)));
  }
  return parameters.empty() ? mlir::DictionaryAttr() : builder.getDictionaryAttr(parameters);
}

mlir::ArrayAttr Strings(mlir::OpBuilder& builder, const std::vector<std::string>& strings) {
  llvm::SmallVector<llvm::StringRef> views(strings.begin(), strings.end());
  return builder.getStrArrayAttr(views);
}

// Copies into the program the parts of the plan that passes read.
void SetPlan(mlir::OpBuilder& builder, ir::ProgramOp program, const RankProgramOptions& options) {
  const Plan& plan = options.plan;
  program.setEvaluation(options.evaluation);
  program.setClip(options.clip);
  program.setReceiveBuffers(plan.receive_buffers());
  program.setSendBuffers(plan.send_buffers());
  program.setGradientBucketBytes(plan.gradient_bucket_bytes());
  program.setCollective(plan.collective());
  program.setForwardCost(options.costs.forward);
  program.setBackwardCost(options.costs.backward);
  program.setWeightCost(options.costs.weight);
  if (options.costs.pair != 0) program.setPairCost(options.costs.pair);
  if (options.costs.p2p != 0) program.setP2pCost(options.costs.p2p);
  if (mlir::DictionaryAttr parameters = ParametersOf(builder, plan.schedule())) program.setParametersAttr(parameters);
  if (!plan.schedule().definition().empty()) program.setDefinition(plan.schedule().definition());
  if (const StateShards zero = StateShardsOf(plan); zero.members > 1) program.setZeroGroup(zero.members);
  if (plan.transfer_order() != BY_EDGE) {
    program.setTransferStreams(static_cast<ir::TransferStreams>(plan.transfer_order()));
  }
  if (plan.transfer_placement() == DEFERRED) program.setTransferPlacement(ir::TransferPlacement::Deferred);
  program.setGroupTransfers(plan.group_transfers());
  if (plan.gradient_sync() != EAGER) program.setGradientSync(static_cast<ir::SyncMoment>(plan.gradient_sync()));
}

}  // namespace

mlir::OwningOpRef<mlir::ModuleOp> BuildRankProgram(mlir::MLIRContext* context, const SegmentSet& segments,
                                                   const RankProgramOptions& options) {
  mlir::OpBuilder builder(context);
  mlir::Location location = builder.getUnknownLoc();
  mlir::OwningOpRef<mlir::ModuleOp> module = mlir::ModuleOp::create(location);
  builder.setInsertionPointToEnd(module->getBody());
  llvm::SmallVector<mlir::StringAttr> axes;
  llvm::SmallVector<int64_t> sizes;
  for (const MeshAxis& axis : options.plan.mesh().axes()) {
    axes.push_back(builder.getStringAttr(axis.name()));
    sizes.push_back(axis.size());
  }
  auto program = builder.create<ir::ProgramOp>(location, options.name, ir::MeshAttr::get(context, axes, sizes),
                                               static_cast<int32_t>(segments.stages.size()), options.microbatches,
                                               options.plan.schedule().name());
  SetPlan(builder, program, options);
  llvm::SmallVector<int64_t> skips;
  for (const SkipTensor& skip : segments.skips) skips.append({skip.from_stage, skip.to_stage});
  if (!skips.empty()) program.setSkips(skips);
  const bool beside_data = llvm::any_of(
      segments.shards, [](const TensorShards& s) { return s.sync_axes != std::vector<std::string>{"data"}; });
  if (beside_data) {
    llvm::SmallVector<mlir::Attribute> by_tensor;
    for (const TensorShards& shards : segments.shards) by_tensor.push_back(Strings(builder, shards.sync_axes));
    program.setSyncAxesAttr(builder.getArrayAttr(by_tensor));
  }
  if (!segments.norm_axes.empty()) program.setNormAxesAttr(Strings(builder, segments.norm_axes));
  program.getBody().emplaceBlock();
  builder.setInsertionPointToEnd(&program.getBody().front());
  for (const StageSegment& segment : segments.segments) {
    llvm::SmallVector<mlir::Attribute> operands;
    for (const SegmentOperand& operand : segment.operands) operands.push_back(MakeOperand(operand, context));
    auto signature = builder.create<ir::SignatureOp>(location, segment.segment.name(), segment.kind, segment.stage,
                                                     builder.getArrayAttr(operands), segment.width, segment.part,
                                                     segment.rank, segment.backward_stage);
    signature.setCollectives(
        llvm::any_of(segment.segment.steps(), [](const Step& s) { return s.stream() != COMPUTE; }));
  }
  return module;
}

void SharePersistentBuffers(ir::ProgramOp planned, ir::ProgramOp program) {
  mlir::OpBuilder builder = mlir::OpBuilder::atBlockEnd(&program.getBody().front());
  for (ir::TemplateOp from : planned.getOps<ir::TemplateOp>()) {
    auto to = builder.create<ir::TemplateOp>(program.getLoc(), from.getSymName(), from.getPins());
    to->setAttr("persistent_bytes", from->getAttr("persistent_bytes"));
    mlir::OpBuilder inside = mlir::OpBuilder::atBlockEnd(&to.getBody().emplaceBlock());
    for (ir::PersistentOp op : from.getOps<ir::PersistentOp>()) {
      const ir::Role role = op.getRole().getRole();
      if (role == ir::Role::Param || role == ir::Role::LocalLosses || role == ir::Role::Losses) inside.clone(*op);
    }
  }
}

}  // namespace weft
