// The end of a step: gradients of replicas and of shared tensors are summed, the norm and the loss are made global, and
// the optimizer runs (rules P9, P11).
#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "compiler/rank_passes.h"
#include "compiler/rank_util.h"

namespace weft {

#define GEN_PASS_DEF_SYNCHRONIZEGRADIENTS
#include "compiler/rank_passes.h.inc"

namespace {

using ir::Role;
using ir::SegmentKind;

// One round of messages, and sums in member order: for shared tensors, which are added in model order, and for the few
// elements that are summed over `pipe`.
constexpr llvm::StringLiteral kDirect = "direct";

class SynchronizeGradientsPass : public impl::SynchronizeGradientsBase<SynchronizeGradientsPass> {
  void runOnOperation() override {
    program_ = getOperation();
    for (ir::SignatureOp signature : program_.getOps<ir::SignatureOp>()) {
      signatures_[{signature.getKind(), static_cast<int>(signature.getStage())}] = signature;
      for (unsigned i = 0; i < signature.size(); ++i) {
        ir::OperandAttr operand = signature.getOperand(i);
        if (operand.getRole().getRole() == Role::LocalLosses) losses_type_ = operand.getType();
        if (operand.getRole().getRole() == Role::LocalNorms) norms_type_ = operand.getType();
      }
    }
    std::vector<ir::TemplateOp> templates = Templates(program_);
    for (ir::TemplateOp t : templates) NoteUses(t);
    for (ir::TemplateOp t : templates) {
      if (mlir::failed(EndOfStep(t))) return signalPassFailure();
    }
  }

  // The gradients that a stage's backward adds to: accumulators if it has those (exact accumulation), in its order.
  std::vector<ir::OperandAttr> Gradients(int stage) {
    std::vector<ir::OperandAttr> plain, exact;
    auto found = signatures_.find({SegmentKind::Backward, stage});
    if (found == signatures_.end()) return plain;
    for (unsigned i = 0; i < found->second.size(); ++i) {
      ir::OperandAttr operand = found->second.getOperand(i);
      if (operand.getAccess() == ir::Access::Read) continue;
      if (operand.getRole().getRole() == Role::Grad) plain.push_back(operand);
      if (operand.getRole().getRole() == Role::GradAccumulator) exact.push_back(operand);
    }
    return exact.empty() ? plain : exact;
  }

  // Last backward of every stage of a template, in list order.
  static std::vector<ir::BackwardOp> LastBackwards(ir::TemplateOp t) {
    std::map<int, ir::BackwardOp> last;
    for (ir::BackwardOp op : t.getOps<ir::BackwardOp>()) last[static_cast<int>(op.getStage())] = op;
    std::vector<ir::BackwardOp> list;
    for (ir::BackwardOp op : t.getOps<ir::BackwardOp>()) {
      if (last[static_cast<int>(op.getStage())] == op) list.push_back(op);
    }
    return list;
  }

  void NoteUses(ir::TemplateOp t) {
    for (ir::BackwardOp op : LastBackwards(t)) {
      for (ir::OperandAttr gradient : Gradients(static_cast<int>(op.getStage()))) {
        uses_[gradient.getRole().getTensor()].insert(
            {gradient.getRole().getUse(), static_cast<int>(op.getStage()), PinnedCoordinate(t, "pipe")});
      }
    }
  }

  mlir::LogicalResult EndOfStep(ir::TemplateOp t) {
    PersistentBuffers persistent(t);
    std::vector<int> stages;
    for (ir::BackwardOp op : LastBackwards(t)) {
      ReduceOverData(op, persistent);
      stages.push_back(static_cast<int>(op.getStage()));
    }
    std::sort(stages.begin(), stages.end());
    mlir::OpBuilder builder = mlir::OpBuilder::atBlockEnd(&t.getBody().front());
    if (mlir::failed(ReduceShared(t, builder, persistent))) return mlir::failure();
    for (int stage : stages) RunSegment<ir::GradNormOp>(SegmentKind::GradNorm, stage, builder, persistent);
    if (!program_.getEvaluation() && norms_type_) {
      Reduce(builder, persistent.Get(RoleOf(Role::LocalNorms), norms_type_),
             persistent.Get(RoleOf(Role::Norms), norms_type_), Over({"pipe"}), ir::Purpose::NormSync, kDirect, 0);
    }
    if (losses_type_) {
      // Axis by axis, because a round of messages or a ring over the whole mesh would grow with its size. Each element
      // has one contributor, so every algorithm gives the same bits.
      mlir::Value losses = persistent.Get(RoleOf(Role::Losses), losses_type_);
      Reduce(builder, persistent.Get(RoleOf(Role::LocalLosses), losses_type_), losses, Over({"pipe"}),
             ir::Purpose::LossSync, kDirect, 0);
      if (program_.getMesh().getSize("data") > 1) {
        Reduce(builder, losses, losses, Over({"data"}), ir::Purpose::LossSync, program_.getCollective(), 0);
      }
    }
    if (program_.getClip()) {
      for (int stage : stages) {
        RunSegment<ir::ScaleGradientsOp>(SegmentKind::ScaleGradients, stage, builder, persistent);
      }
    }
    for (int stage : stages) RunSegment<ir::OptimizerStepOp>(SegmentKind::OptimizerStep, stage, builder, persistent);
    return mlir::success();
  }

  ir::RoleAttr RoleOf(Role role) { return ir::RoleAttr::get(&getContext(), role, -1, 0); }

  // The group of all ranks along the axes that the mesh has.
  mlir::DictionaryAttr Over(llvm::ArrayRef<llvm::StringRef> axes) {
    mlir::Builder builder(&getContext());
    llvm::SmallVector<mlir::NamedAttribute> over;
    for (llvm::StringRef axis : axes) {
      bool listed = llvm::any_of(program_.getMesh().getNames(), [&](mlir::StringAttr name) { return name == axis; });
      if (listed) over.push_back(builder.getNamedAttr(axis, builder.getDenseI64ArrayAttr({})));
    }
    return builder.getDictionaryAttr(over);
  }

  void Reduce(mlir::OpBuilder& builder, mlir::ValueRange sources, mlir::ValueRange destinations,
              mlir::DictionaryAttr over, ir::Purpose purpose, llvm::StringRef algorithm, int stage) {
    builder.create<ir::AllReduceOp>(program_.getLoc(), ir::TokenType::get(&getContext()), sources, destinations, over,
                                    purpose, algorithm, stage, mlir::ValueRange());
  }

  // One all-reduce per bucket of whole tensors, behind the last backward of their stage.
  void ReduceOverData(ir::BackwardOp last, PersistentBuffers& persistent) {
    if (program_.getMesh().getSize("data") == 1) return;
    mlir::OpBuilder builder(&getContext());
    builder.setInsertionPointAfter(last);
    // The send of the last input gradient comes first: other ranks wait for it.
    while (builder.getInsertionPoint() != last->getBlock()->end() &&
           mlir::isa<ir::SendOp>(*builder.getInsertionPoint())) {
      builder.setInsertionPointAfter(&*builder.getInsertionPoint());
    }
    const int64_t limit = static_cast<int64_t>(program_.getGradientBucketBytes());
    llvm::SmallVector<mlir::Value> bucket;
    int64_t bytes = 0;
    auto close = [&] {
      if (bucket.empty()) return;
      Reduce(builder, bucket, bucket, Over({"data"}), ir::Purpose::GradientSync, program_.getCollective(),
             static_cast<int>(last.getStage()));
      bucket.clear();
      bytes = 0;
    };
    for (ir::OperandAttr gradient : Gradients(static_cast<int>(last.getStage()))) {
      bucket.push_back(persistent.Get(gradient.getRole(), gradient.getType()));
      bytes += gradient.getType().getBytes();
      if (limit > 0 && bytes >= limit) close();
    }
    close();
  }

  // A tensor that stages of several ranks use: the gradients of its uses are added in model order, which is the order
  // of the ranks.
  mlir::LogicalResult ReduceShared(ir::TemplateOp t, mlir::OpBuilder& builder, PersistentBuffers& persistent) {
    for (const auto& [tensor, places] : uses_) {
      std::set<int> stages;
      std::vector<int64_t> ranks;
      for (const auto& [use, stage, rank] : places) {
        stages.insert(stage);
        ranks.push_back(rank);
      }
      if (stages.size() < 2) continue;
      // One use per rank, ascending: then the sum over the group is in model order.
      if (std::adjacent_find(ranks.begin(), ranks.end(), std::greater_equal<>()) != ranks.end()) {
        return program_.emitOpError() << "[sync_c1] tensor " << tensor
                                      << " is used by several stages of one rank, or by ranks that are not in model "
                                         "order; such placements are not supported for a shared tensor";
      }
      const int64_t own = PinnedCoordinate(t, "pipe");
      auto mine = llvm::find_if(places, [&](const auto& place) { return std::get<2>(place) == own; });
      if (mine == places.end()) continue;
      for (ir::OperandAttr gradient : Gradients(std::get<1>(*mine))) {
        if (gradient.getRole().getTensor() != tensor) continue;
        mlir::Value buffer = persistent.Get(gradient.getRole(), gradient.getType());
        mlir::DictionaryAttr over =
            builder.getDictionaryAttr({builder.getNamedAttr("pipe", builder.getDenseI64ArrayAttr(ranks))});
        Reduce(builder, buffer, buffer, over, ir::Purpose::TiedSync, kDirect, std::get<1>(*mine));
      }
    }
    return mlir::success();
  }

  template <typename Op>
  void RunSegment(SegmentKind kind, int stage, mlir::OpBuilder& builder, PersistentBuffers& persistent) {
    auto found = signatures_.find({kind, stage});
    if (found == signatures_.end()) return;
    ir::SignatureOp signature = found->second;
    llvm::SmallVector<mlir::Value> inputs;
    llvm::SmallVector<mlir::Type> outputs;
    for (unsigned i = 0; i < signature.size(); ++i) {
      ir::OperandAttr operand = signature.getOperand(i);
      if (ir::IsDefinedByAction(operand)) {
        outputs.push_back(operand.getType());
      } else {
        inputs.push_back(persistent.Get(operand.getRole(), operand.getType()));
      }
    }
    builder.create<Op>(program_.getLoc(), outputs, ir::TokenType::get(&getContext()), signature.getSymName(), stage,
                       inputs, mlir::ValueRange(), mlir::DenseI64ArrayAttr());
  }

  ir::ProgramOp program_;
  std::map<std::pair<SegmentKind, int>, ir::SignatureOp> signatures_;
  ir::BufferType losses_type_, norms_type_;
  // Per tensor: (use, stage, pipe coordinate), in model order.
  std::map<int, std::set<std::tuple<int, int, int64_t>>> uses_;
};

}  // namespace
}  // namespace weft
