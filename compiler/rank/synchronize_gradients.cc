// Writes the end of an iteration: sums the gradients of replicas and of shared tensors, makes the norm and the loss
// global, and runs the optimizer (rules P9, P11).
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "compiler/rank/gradient_holders.h"
#include "compiler/rank/rank_collectives.h"
#include "compiler/rank/rank_passes.h"
#include "compiler/rank/rank_util.h"
#include "compiler/rank/replica_sums.h"

namespace weft {

#define GEN_PASS_DEF_SYNCHRONIZEGRADIENTS
#include "compiler/rank/rank_passes.h.inc"

namespace {

using ir::Role;
using ir::SegmentKind;

// With ZeRO stages 1 and 2, adds the all-gathers of purpose gather_weights after the optimizer. They collect the parts
// of parameters that the data replicas have updated, in buckets, in the order in which the template's microbatch
// actions first read the parameters. `optimizer` is the signature of the template's optimizer step. `buffers` contains
// the parts, unless they are the parts of MASTER.
void GatherWeights(ir::ProgramOp program, ir::TemplateOp t, ir::SignatureOp optimizer, mlir::OpBuilder& builder,
                   PersistentBuffers& buffers) {
  // Maps a tensor to the part of the tensor that the rank sends.
  std::map<int, ir::OperandAttr> parts;
  std::set<int> whole;
  for (unsigned i = 0; i < optimizer.size(); ++i) {
    ir::OperandAttr operand = optimizer.getOperand(i);
    const int tensor = operand.getRole().getTensor();
    if (operand.getRole().getRole() == ir::Role::Param) whole.insert(tensor);
    if (operand.getRole().getRole() == ir::Role::Master) parts.try_emplace(tensor, operand);
    if (operand.getRole().getRole() == ir::Role::ParamPart) parts[tensor] = operand;
  }
  for (int tensor : whole) parts.erase(tensor);
  if (parts.empty()) return;
  const mlir::DictionaryAttr over = GroupOver(program, {"data"}, DataRanks::kSharing);
  const int64_t limit = static_cast<int64_t>(program.getGradientBucketBytes());
  llvm::SmallVector<mlir::Value> sources, destinations;
  int64_t bytes = 0;
  int stage = 0;
  auto close = [&] {
    if (sources.empty()) return;
    builder.create<ir::AllGatherOp>(program.getLoc(), mlir::TypeRange(), ir::TokenType::get(program.getContext()),
                                    sources, destinations, over, ir::Purpose::GatherWeights, program.getCollective(),
                                    stage, mlir::ValueRange(), mlir::DenseI64ArrayAttr());
    sources.clear();
    destinations.clear();
    bytes = 0;
  };
  std::set<mlir::Operation*> seen;
  for (mlir::Operation& op : t.getBody().front()) {
    if (!ir::IsMicrobatch(&op)) continue;
    ir::SignatureOp signature = SignatureOf(&op);
    if (!seen.insert(signature).second) continue;
    for (unsigned i = 0; i < signature.size(); ++i) {
      ir::OperandAttr operand = signature.getOperand(i);
      if (operand.getRole().getRole() != ir::Role::Param) continue;
      auto part = parts.find(operand.getRole().getTensor());
      if (part == parts.end()) continue;
      stage = PartOf(&op, operand.getHalf()).stage;
      sources.push_back(buffers.Get(part->second.getRole(), part->second.getType()));
      destinations.push_back(buffers.Get(operand.getRole(), operand.getType()));
      bytes += operand.getType().getBytes();
      parts.erase(part);
      if (limit > 0 && bytes >= limit) close();
    }
    close();
  }
}

class SynchronizeGradientsPass : public impl::SynchronizeGradientsBase<SynchronizeGradientsPass> {
  void runOnOperation() override {
    program_ = getOperation();
    ReadSignatures();
    const GradientHolders gradients(program_);
    std::map<mlir::Operation*, GradientParts> parts;
    if (!program_.getEvaluation()) parts = SumOverReplicas(program_, gradients);
    for (ir::TemplateOp t : Templates(program_)) EndOfStep(gradients, parts[t], t);
  }

  void ReadSignatures() {
    for (ir::SignatureOp signature : program_.getOps<ir::SignatureOp>()) {
      if (signature.getRank() >= 0) step_signatures_[{signature.getKind(), signature.getRank()}] = signature;
      for (unsigned i = 0; i < signature.size(); ++i) {
        ir::OperandAttr operand = signature.getOperand(i);
        const Role role = operand.getRole().getRole();
        if (role == Role::LocalLosses) losses_type_ = operand.getType();
        if (role == Role::LocalNorms) norms_type_ = operand.getType();
      }
    }
  }

  void EndOfStep(const GradientHolders& gradients, const GradientParts& parts, ir::TemplateOp t) {
    PersistentBuffers persistent(t);
    for (const auto& [use, part] : parts) persistent.Bind(gradients.parts.at(use).getRole(), part);
    mlir::OpBuilder builder = mlir::OpBuilder::atBlockEnd(&t.getBody().front());
    SumShared(gradients, t, builder, persistent);
    RunSegment<ir::GradNormOp>(t, SegmentKind::GradNorm, builder, persistent);
    if (!program_.getEvaluation() && norms_type_) {
      mlir::Value norms = persistent.Get(RoleOf(Role::Norms), norms_type_);
      AllReduce(builder, persistent.Get(RoleOf(Role::LocalNorms), norms_type_), norms, Over({"pipe"}),
                ir::Purpose::NormSync, kDirectSum, 0);
      for (mlir::StringAttr axis : program_.getNormAxes().getAsRange<mlir::StringAttr>()) {
        if (program_.getMesh().getSize(axis) == 1) continue;
        mlir::DictionaryAttr over = GroupOver(program_, {axis.getValue()}, DataRanks::kSharing);
        AllReduce(builder, norms, norms, over, ir::Purpose::NormSync, kDirectSum, 0);
      }
    }
    if (losses_type_) {
      // The losses are summed axis by axis, because a round of messages or a ring over the whole mesh would grow with
      // its size. Each element has one contributor, so every algorithm gives the same bits.
      mlir::Value losses = persistent.Get(RoleOf(Role::Losses), losses_type_);
      AllReduce(builder, persistent.Get(RoleOf(Role::LocalLosses), losses_type_), losses, Over({"pipe"}),
                ir::Purpose::LossSync, kDirectSum, 0);
      // Ranks along z have different samples of each microbatch, so along z an element has several contributors.
      if (program_.getMesh().getSize("z") > 1) {
        AllReduce(builder, losses, losses, Over({"z"}), ir::Purpose::LossSync, kDirectSum, 0);
      }
      if (program_.getMesh().getSize("data") > 1) {
        AllReduce(builder, losses, losses, Over({"data"}), ir::Purpose::LossSync, program_.getCollective(), 0);
      }
    }
    if (program_.getClip()) {
      RunSegment<ir::ScaleGradientsOp>(t, SegmentKind::ScaleGradients, builder, persistent);
    }
    RunSegment<ir::OptimizerStepOp>(t, SegmentKind::OptimizerStep, builder, persistent);
    if (auto optimizer = SignatureAt(t, SegmentKind::OptimizerStep)) {
      GatherWeights(program_, t, optimizer, builder, persistent);
    }
  }

  // Sums the gradients of tensors whose uses are on several ranks.
  void SumShared(const GradientHolders& gradients, ir::TemplateOp t, mlir::OpBuilder& builder,
                 PersistentBuffers& persistent) {
    const int64_t own = PinnedCoordinate(t, "pipe");
    for (const auto& [tensor, sum] : gradients.shared) {
      if (!std::binary_search(sum.ranks.begin(), sum.ranks.end(), own)) continue;
      for (const GradientUse& use : sum.uses) {
        auto stage = gradients.stage_of.find(use);
        if (stage == gradients.stage_of.end() || (sum.over_ranks && !llvm::is_contained(gradients.HoldersOf(use), own)))
          continue;
        ir::OperandAttr gradient = gradients.Gradient(stage->second, use);
        const llvm::StringRef algorithm = sum.over_ranks ? llvm::StringRef(kDirectSum) : program_.getCollective();
        const auto part = gradients.parts.find(use);
        const bool scatters = part != gradients.parts.end();
        // If each rank holds one use (`over_ranks`), the gradient of that use is already scattered. Otherwise it is
        // scattered here.
        if (scatters && !sum.over_ranks) {
          mlir::Value whole = persistent.Get(gradient.getRole(), gradient.getType());
          auto scatter =
              ReduceScatter(builder, whole, part->second.getType(), GroupOver(program_, {"data"}, DataRanks::kSharing),
                            ir::Purpose::TiedSync, algorithm, stage->second);
          persistent.Bind(part->second.getRole(), scatter.getOutputs()[0]);
        }
        if (scatters) gradient = part->second;
        mlir::Value buffer = persistent.Get(gradient.getRole(), gradient.getType());
        // If each rank holds one use, the ranks in ascending order hold the uses in model order, so a sum over
        // `sum.ranks` alone adds the uses in that order.
        mlir::DictionaryAttr over = builder.getDictionaryAttr({});
        if (!sum.over_ranks) {
          over = GroupOver(program_, SyncAxes(program_, tensor), scatters ? DataRanks::kSamePart : DataRanks::kAll);
        }
        AllReduce(builder, buffer, buffer, WithIndices(over, "pipe", sum.ranks), ir::Purpose::TiedSync, algorithm,
                  stage->second);
      }
    }
  }

  ir::RoleAttr RoleOf(Role role) { return ir::RoleAttr::get(&getContext(), role, -1, 0); }
  mlir::DictionaryAttr Over(llvm::ArrayRef<llvm::StringRef> axes) { return GroupOver(program_, axes); }

  // Returns the signature of the rank's step segment of this kind, or null.
  ir::SignatureOp SignatureAt(ir::TemplateOp t, SegmentKind kind) {
    auto found = step_signatures_.find({kind, static_cast<int>(PinnedCoordinate(t, "pipe"))});
    return found == step_signatures_.end() ? ir::SignatureOp() : found->second;
  }

  template <typename Op>
  void RunSegment(ir::TemplateOp t, SegmentKind kind, mlir::OpBuilder& builder, PersistentBuffers& persistent) {
    ir::SignatureOp signature = SignatureAt(t, kind);
    if (!signature) return;
    llvm::SmallVector<mlir::Value> inputs;
    llvm::SmallVector<mlir::Type> outputs;
    llvm::SmallVector<ir::RoleAttr> made;
    for (unsigned i = 0; i < signature.size(); ++i) {
      ir::OperandAttr operand = signature.getOperand(i);
      if (ir::IsDefinedByAction(operand)) {
        outputs.push_back(operand.getType());
        made.push_back(operand.getRole());
      } else {
        inputs.push_back(persistent.Get(operand.getRole(), operand.getType()));
      }
    }
    auto op = builder.create<Op>(program_.getLoc(), outputs, ir::TokenType::get(&getContext()), signature.getSymName(),
                                 static_cast<int>(signature.getStage()), inputs, mlir::ValueRange(),
                                 mlir::DenseI64ArrayAttr());
    // Binds the buffers that this action makes to their roles, so that later actions find them by role.
    for (auto [role, buffer] : llvm::zip(made, op.getOutputs())) persistent.Bind(role, buffer);
  }

  ir::ProgramOp program_;
  // Signatures of step segments, by segment kind and pipe rank.
  std::map<std::pair<SegmentKind, int>, ir::SignatureOp> step_signatures_;
  ir::BufferType losses_type_, norms_type_;
};

}  // namespace
}  // namespace weft
