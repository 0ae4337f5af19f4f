#include "compiler/rank_program.h"

#include "compiler/training.h"
#include "mlir/IR/Builders.h"

namespace weft {
namespace {

ir::BufferClass ClassOf(ir::Role role) {
  switch (role) {
    case ir::Role::Input:
    case ir::Role::Output:
    case ir::Role::OutputGrad:
    case ir::Role::InputGrad:
      return ir::BufferClass::InFlightActivation;
    case ir::Role::Saved:
      return ir::BufferClass::SavedActivation;
    case ir::Role::SavedGrad:
      return ir::BufferClass::SavedGradient;
    case ir::Role::Param:
      return ir::BufferClass::Parameter;
    case ir::Role::Grad:
    case ir::Role::GradAccumulator:
      return ir::BufferClass::Gradient;
    case ir::Role::Master:
    case ir::Role::Moment1:
    case ir::Role::Moment2:
      return ir::BufferClass::Optimizer;
    case ir::Role::LocalLosses:
    case ir::Role::Losses:
    case ir::Role::LocalNorms:
    case ir::Role::Norms:
    case ir::Role::Norm:
      return ir::BufferClass::Communication;
    case ir::Role::Workspace:
      return ir::BufferClass::Workspace;
  }
  return ir::BufferClass::Workspace;
}

ir::OperandAttr MakeOperand(const SegmentOperand& operand, mlir::MLIRContext* context) {
  mlir::Type content;
  if (mlir::Type element = TypeOfDType(context, operand.dtype)) {
    content = mlir::RankedTensorType::get(operand.shape, element);
  }
  auto type = ir::BufferType::get(context, ClassOf(operand.role), operand.bytes, content);
  auto role = ir::RoleAttr::get(context, operand.role, operand.tensor, operand.use);
  return ir::OperandAttr::get(context, role, static_cast<ir::Access>(operand.access), type);
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
  auto program = builder.create<ir::ProgramOp>(
      location, options.name, ir::MeshAttr::get(context, axes, sizes), static_cast<uint32_t>(segments.stages.size()),
      options.microbatches, options.plan.schedule().name(), options.evaluation, options.clip,
      options.plan.receive_buffers(), options.plan.send_buffers(), options.plan.gradient_bucket_bytes(),
      options.plan.collective(), options.forward_cost, options.backward_cost);
  program.getBody().emplaceBlock();
  builder.setInsertionPointToEnd(&program.getBody().front());
  for (const StageSegment& segment : segments.segments) {
    llvm::SmallVector<mlir::Attribute> operands;
    for (const SegmentOperand& operand : segment.operands) operands.push_back(MakeOperand(operand, context));
    builder.create<ir::SignatureOp>(location, segment.segment.name(), segment.kind, segment.stage,
                                    builder.getArrayAttr(operands));
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
