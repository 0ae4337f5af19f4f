// The end of a step: gradients of replicas and of shared tensors are summed, the norm and the loss are made global, and
// the optimizer runs (rules P9, P11).
//
// Which rank holds which gradient is read off the signatures of the ranks' step segments (compiler/rank_content.h):
//   - a gradient of one holder is summed over `data`; of several holders (replicas of its stage), over them and `data`;
//   - a tensor whose uses are on several ranks, one each: then once more over those ranks, which adds the uses;
//   - a tensor whose ranks hold every use: each use over all those ranks and `data` instead, and grad_norm adds.
#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "compiler/rank_passes.h"
#include "compiler/rank_util.h"
#include "compiler/reference_times.h"

namespace weft {

#define GEN_PASS_DEF_SYNCHRONIZEGRADIENTS
#include "compiler/rank_passes.h.inc"

namespace {

using ir::Role;
using ir::SegmentKind;

// One round of messages, and sums in member order: for shared tensors, which are added in model order, and for the few
// elements that are summed over `pipe`.
constexpr llvm::StringLiteral kDirect = "direct";

// (tensor, use)
using Use = std::pair<int, int>;

// The gradients of a stage that are summed over its replicas.
struct StageSum {
  int stage = 0;
  // In the order in which the stage's backward has them.
  std::vector<ir::OperandAttr> gradients;
  // Pipe ranks, ascending.
  std::vector<int64_t> holders;
  // Over which they are summed, besides `pipe`.
  std::vector<llvm::StringRef> axes;
};

class SynchronizeGradientsPass : public impl::SynchronizeGradientsBase<SynchronizeGradientsPass> {
  void runOnOperation() override {
    program_ = getOperation();
    ReadSignatures();
    templates_ = Templates(program_);
    if (!program_.getEvaluation()) {
      SortUses();
      SumOverReplicas();
    }
    for (ir::TemplateOp t : templates_) EndOfStep(t);
  }

  void ReadSignatures() {
    for (ir::SignatureOp signature : program_.getOps<ir::SignatureOp>()) {
      if (signature.getRank() >= 0) step_signatures_[{signature.getKind(), signature.getRank()}] = signature;
      for (unsigned i = 0; i < signature.size(); ++i) {
        ir::OperandAttr operand = signature.getOperand(i);
        const Role role = operand.getRole().getRole();
        if (role == Role::LocalLosses) losses_type_ = operand.getType();
        if (role == Role::LocalNorms) norms_type_ = operand.getType();
        if (role == Role::GradAccumulator) held_role_ = role;
      }
    }
    for (ir::SignatureOp signature : program_.getOps<ir::SignatureOp>()) {
      for (unsigned i = 0; i < signature.size(); ++i) {
        ir::OperandAttr operand = signature.getOperand(i);
        if (operand.getRole().getRole() != held_role_) continue;
        const Use use = {operand.getRole().getTensor(), operand.getRole().getUse()};
        if (signature.getRank() >= 0) {
          holders_[use].insert(signature.getRank());
          continue;
        }
        const bool pair = signature.getKind() == SegmentKind::ForwardBackward;
        if (operand.getAccess() == ir::Access::Read) continue;
        const int stage = pair ? signature.getBackwardStage() : static_cast<int>(signature.getStage());
        if (stage_of_.try_emplace(use, stage).second) stage_gradients_[stage].push_back(operand);
      }
    }
  }

  // Decides for every use how its gradients come together.
  void SortUses() {
    // Tensor -> its uses, and the ranks that hold any.
    std::map<int, std::vector<Use>> uses;
    for (const auto& [use, ranks] : holders_) uses[use.first].push_back(use);
    for (const auto& [tensor, list] : uses) {
      std::set<int64_t> all;
      size_t held = 0;
      for (const Use& use : list) {
        all.insert(holders_[use].begin(), holders_[use].end());
        held += holders_[use].size();
      }
      if (list.size() == 1 || all.size() == 1) continue;
      SharedSum& sum = shared_[tensor];
      sum.uses = list;
      sum.ranks.assign(all.begin(), all.end());
      // Otherwise every rank holds every use.
      sum.over_ranks = held == all.size();
      if (sum.over_ranks) continue;
      for (const Use& use : list) every_use_.insert(use);
    }
  }

  // --- Replicas ---

  struct Last {
    mlir::Operation* backward = nullptr;
    ReferenceTime time;
  };

  // One all-reduce per bucket of whole tensors. All ranks of a group must run its sums in one order: that in which the
  // last of them is ready.
  void SumOverReplicas() {
    const ReferenceTimes times(program_);
    struct Ready {
      int64_t time = 0;
      StageSum sum;
    };
    std::vector<Ready> ready;
    for (const auto& [stage, gradients] : stage_gradients_) {
      // Groups of gradients that are summed over the same axes, in the order of their first.
      std::vector<StageSum> sums;
      for (ir::OperandAttr gradient : gradients) {
        const Use use = {gradient.getRole().getTensor(), gradient.getRole().getUse()};
        if (every_use_.contains(use)) continue;
        const std::vector<llvm::StringRef> axes = SyncAxes(use.first);
        auto sum = llvm::find_if(sums, [&](const StageSum& other) { return other.axes == axes; });
        if (sum == sums.end()) sum = sums.insert(sums.end(), StageSum{stage, {}, {}, axes});
        sum->gradients.push_back(gradient);
        sum->holders.assign(holders_[use].begin(), holders_[use].end());
      }
      for (StageSum& sum : sums) {
        if (sum.holders.size() < 2 && sum.axes.empty()) continue;
        int64_t time = 0;
        for (int64_t rank : sum.holders) time = std::max(time, Launch(TemplateAt(rank), stage, times).time.end);
        ready.push_back({time, std::move(sum)});
      }
    }
    std::stable_sort(ready.begin(), ready.end(), [](const Ready& a, const Ready& b) { return a.time < b.time; });
    for (const Ready& r : ready) {
      for (int64_t rank : r.sum.holders) {
        if (ir::TemplateOp t = TemplateAt(rank)) SumOnRank(t, r.sum, times);
      }
    }
  }

  ir::TemplateOp TemplateAt(int64_t rank) {
    for (ir::TemplateOp t : templates_) {
      if (PinnedCoordinate(t, "pipe") == rank) return t;
    }
    return {};
  }

  // The compute action of a rank behind which the gradients of `stage` are summed; null if it computes nothing.
  Last Launch(ir::TemplateOp t, int stage, const ReferenceTimes& times) {
    Last own, all;
    if (!t) return own;
    // Whether the rank waits for something behind the stage's last backward.
    bool gap = false;
    for (mlir::Operation& op : t.getBody().front()) {
      if (!ir::IsMicrobatch(&op)) continue;
      const ReferenceTime* time = times.Find(&op);
      if (time != nullptr && all.backward != nullptr && time->start > all.time.end) gap = true;
      all = {&op, time != nullptr ? *time : ReferenceTime()};
      if (StageOfWeightGradients(&op) == stage) {
        own = all;
        gap = false;
      }
    }
    switch (program_.getGradientSync()) {
      case ir::SyncMoment::Eager:
        return own;
      case ir::SyncMoment::Lazy:
        return all;
      case ir::SyncMoment::EagerOpt:
        return gap ? own : all;
    }
    return own;
  }

  void SumOnRank(ir::TemplateOp t, const StageSum& sum, const ReferenceTimes& times) {
    mlir::OpBuilder builder(&getContext());
    PersistentBuffers persistent(t);
    const Last launch = Launch(t, sum.stage, times);
    mlir::DictionaryAttr over = Over(sum.axes);
    if (sum.holders.size() > 1) over = With(over, "pipe", sum.holders);
    mlir::Operation*& previous = last_sum_[{t.getOperation(), over.getAsOpaquePointer()}];
    mlir::Operation* place = launch.backward;
    // The sends of what it made come first: other ranks wait for them.
    while (place != nullptr && place->getNextNode() != nullptr && mlir::isa<ir::SendOp>(place->getNextNode())) {
      place = place->getNextNode();
    }
    if (place == nullptr || (previous != nullptr && place->isBeforeInBlock(previous))) place = previous;
    // Sums that share a place keep their order.
    while (place != nullptr && place->getNextNode() != nullptr && ir::IsCollective(place->getNextNode())) {
      place = place->getNextNode();
    }
    if (place != nullptr) {
      builder.setInsertionPointAfter(place);
    } else {
      builder.setInsertionPointToEnd(&t.getBody().front());
    }
    // Otherwise it would wait for the backwards of its own stage only.
    llvm::SmallVector<mlir::Value> after;
    if (launch.backward != nullptr && StageOfWeightGradients(launch.backward) != sum.stage) {
      after.push_back(ir::DoneToken(launch.backward));
    }
    const int64_t limit = static_cast<int64_t>(program_.getGradientBucketBytes());
    llvm::SmallVector<mlir::Value> bucket;
    int64_t bytes = 0;
    auto close = [&] {
      if (bucket.empty()) return;
      previous =
          Reduce(builder, bucket, bucket, over, ir::Purpose::GradientSync, program_.getCollective(), sum.stage, after);
      bucket.clear();
      bytes = 0;
    };
    for (ir::OperandAttr gradient : sum.gradients) {
      bucket.push_back(persistent.Get(gradient.getRole(), gradient.getType()));
      bytes += gradient.getType().getBytes();
      if (limit > 0 && bytes >= limit) close();
    }
    close();
  }

  // --- The end of the list ---

  void EndOfStep(ir::TemplateOp t) {
    PersistentBuffers persistent(t);
    mlir::OpBuilder builder = mlir::OpBuilder::atBlockEnd(&t.getBody().front());
    SumShared(t, builder, persistent);
    RunSegment<ir::GradNormOp>(t, SegmentKind::GradNorm, builder, persistent);
    if (!program_.getEvaluation() && norms_type_) {
      mlir::Value norms = persistent.Get(RoleOf(Role::Norms), norms_type_);
      Reduce(builder, persistent.Get(RoleOf(Role::LocalNorms), norms_type_), norms, Over({"pipe"}),
             ir::Purpose::NormSync, kDirect, 0);
      for (mlir::StringAttr axis : program_.getNormAxes().getAsRange<mlir::StringAttr>()) {
        if (program_.getMesh().getSize(axis) == 1) continue;
        Reduce(builder, norms, norms, Over({axis}), ir::Purpose::NormSync, kDirect, 0);
      }
    }
    if (losses_type_) {
      // Axis by axis, because a round of messages or a ring over the whole mesh would grow with its size. Each element
      // has one contributor, so every algorithm gives the same bits.
      mlir::Value losses = persistent.Get(RoleOf(Role::Losses), losses_type_);
      Reduce(builder, persistent.Get(RoleOf(Role::LocalLosses), losses_type_), losses, Over({"pipe"}),
             ir::Purpose::LossSync, kDirect, 0);
      // Its ranks have other samples of each microbatch, so here an element has several contributors.
      if (program_.getMesh().getSize("z") > 1) {
        Reduce(builder, losses, losses, Over({"z"}), ir::Purpose::LossSync, kDirect, 0);
      }
      if (program_.getMesh().getSize("data") > 1) {
        Reduce(builder, losses, losses, Over({"data"}), ir::Purpose::LossSync, program_.getCollective(), 0);
      }
    }
    if (program_.getClip()) {
      RunSegment<ir::ScaleGradientsOp>(t, SegmentKind::ScaleGradients, builder, persistent);
    }
    RunSegment<ir::OptimizerStepOp>(t, SegmentKind::OptimizerStep, builder, persistent);
  }

  // Tensors whose uses are on several ranks.
  void SumShared(ir::TemplateOp t, mlir::OpBuilder& builder, PersistentBuffers& persistent) {
    const int64_t own = PinnedCoordinate(t, "pipe");
    for (const auto& [tensor, sum] : shared_) {
      if (!std::binary_search(sum.ranks.begin(), sum.ranks.end(), own)) continue;
      for (const Use& use : sum.uses) {
        auto stage = stage_of_.find(use);
        if (stage == stage_of_.end() || (sum.over_ranks && !holders_[use].contains(own))) continue;
        ir::OperandAttr gradient = Gradient(stage->second, use);
        mlir::Value buffer = persistent.Get(gradient.getRole(), gradient.getType());
        // One use per rank, ascending: then the sum over the group is in model order.
        mlir::DictionaryAttr over =
            With(sum.over_ranks ? builder.getDictionaryAttr({}) : Over(SyncAxes(tensor)), "pipe", sum.ranks);
        Reduce(builder, buffer, buffer, over, ir::Purpose::TiedSync,
               sum.over_ranks ? llvm::StringRef(kDirect) : program_.getCollective(), stage->second);
      }
    }
  }

  // Axes of more than one rank over which the gradients of a tensor's uses are summed.
  std::vector<llvm::StringRef> SyncAxes(int tensor) {
    std::vector<llvm::StringRef> axes;
    auto add = [&](llvm::StringRef axis) {
      if (program_.getMesh().getSize(axis) > 1) axes.push_back(axis);
    };
    mlir::ArrayAttr by_tensor = program_.getSyncAxesAttr();
    if (!by_tensor) {
      add("data");
    } else {
      for (auto axis : mlir::cast<mlir::ArrayAttr>(by_tensor[tensor]).getAsRange<mlir::StringAttr>()) add(axis);
    }
    return axes;
  }

  ir::OperandAttr Gradient(int stage, const Use& use) {
    return *llvm::find_if(stage_gradients_[stage], [&](ir::OperandAttr gradient) {
      return Use(gradient.getRole().getTensor(), gradient.getRole().getUse()) == use;
    });
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

  mlir::DictionaryAttr With(mlir::DictionaryAttr over, llvm::StringRef axis, llvm::ArrayRef<int64_t> indices) {
    mlir::Builder builder(&getContext());
    mlir::NamedAttrList list(over);
    list.set(axis, builder.getDenseI64ArrayAttr(indices));
    return list.getDictionary(&getContext());
  }

  mlir::Operation* Reduce(mlir::OpBuilder& builder, mlir::ValueRange sources, mlir::ValueRange destinations,
                          mlir::DictionaryAttr over, ir::Purpose purpose, llvm::StringRef algorithm, int stage,
                          mlir::ValueRange after = {}) {
    return builder.create<ir::AllReduceOp>(program_.getLoc(), ir::TokenType::get(&getContext()), sources, destinations,
                                           over, purpose, algorithm, stage, after);
  }

  template <typename Op>
  void RunSegment(ir::TemplateOp t, SegmentKind kind, mlir::OpBuilder& builder, PersistentBuffers& persistent) {
    auto found = step_signatures_.find({kind, static_cast<int>(PinnedCoordinate(t, "pipe"))});
    if (found == step_signatures_.end()) return;
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
    builder.create<Op>(program_.getLoc(), outputs, ir::TokenType::get(&getContext()), signature.getSymName(),
                       static_cast<int>(signature.getStage()), inputs, mlir::ValueRange(), mlir::DenseI64ArrayAttr());
  }

  struct SharedSum {
    // In model order.
    std::vector<Use> uses;
    std::vector<int64_t> ranks;
    // One use on each rank, and not every use on every rank.
    bool over_ranks = false;
  };

  ir::ProgramOp program_;
  std::vector<ir::TemplateOp> templates_;
  // By kind and pipe rank.
  std::map<std::pair<SegmentKind, int>, ir::SignatureOp> step_signatures_;
  ir::BufferType losses_type_, norms_type_;
  // What backwards add to: accumulators under exact accumulation.
  Role held_role_ = Role::Grad;
  std::map<Use, std::set<int64_t>> holders_;
  std::map<Use, int> stage_of_;
  std::map<int, std::vector<ir::OperandAttr>> stage_gradients_;
  // By tensor.
  std::map<int, SharedSum> shared_;
  std::set<Use> every_use_;
  // The last sum of each rank and group.
  std::map<std::pair<mlir::Operation*, const void*>, mlir::Operation*> last_sum_;
};

}  // namespace
}  // namespace weft
