#include "compiler/rank/replica_sums.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "compiler/rank/rank_collectives.h"
#include "compiler/rank/rank_util.h"
#include "compiler/rank/reference_times.h"

namespace weft {
namespace {

// Gradients of a stage that are summed together over its replicas.
struct StageSum {
  int stage = 0;
  // The gradients, in the order in which the stage's backward lists them.
  std::vector<ir::OperandAttr> gradients;
  // The pipe ranks that hold the gradients, ascending.
  std::vector<int64_t> holders;
  // The axes over which the gradients are summed, besides `pipe`.
  std::vector<llvm::StringRef> axes;
  // True if the gradients are first reduce-scattered over the ranks that share one copy of the states.
  bool scatters = false;
};

class ReplicaSums {
 public:
  ReplicaSums(ir::ProgramOp program, const GradientHolders& gradients)
      : program_(program), gradients_(gradients), templates_(Templates(program)) {}

  // Adds the sums, one for each bucket of whole tensors. All ranks of a group must run its sums in the same order. So
  // the sums are sorted by the time when the last rank is ready.
  std::map<mlir::Operation*, GradientParts> Sum() {
    const ReferenceTimes times(program_);
    struct Ready {
      int64_t time = 0;
      StageSum sum;
    };
    std::vector<Ready> ready;
    for (const auto& [stage, gradients] : gradients_.of_stage) {
      // One sum for each set of axes: the gradients that are summed over the same axes. The sums are in the order of
      // their first gradients.
      std::vector<StageSum> sums;
      for (ir::OperandAttr gradient : gradients) {
        const GradientUse use = UseOf(gradient);
        if (gradients_.every_use.contains(use)) continue;
        const std::vector<llvm::StringRef> axes = SyncAxes(program_, use.first);
        const bool scatters = gradients_.parts.contains(use);
        auto sum = llvm::find_if(
            sums, [&](const StageSum& other) { return other.axes == axes && other.scatters == scatters; });
        if (sum == sums.end()) sum = sums.insert(sums.end(), StageSum{stage, {}, {}, axes, scatters});
        sum->gradients.push_back(gradient);
        sum->holders = gradients_.HoldersOf(use);
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
    return std::move(parts_);
  }

 private:
  struct Last {
    mlir::Operation* backward = nullptr;
    ReferenceTime time;
  };

  static GradientUse UseOf(ir::OperandAttr gradient) {
    return {gradient.getRole().getTensor(), gradient.getRole().getUse()};
  }

  ir::TemplateOp TemplateAt(int64_t rank) {
    for (ir::TemplateOp t : templates_) {
      if (PinnedCoordinate(t, "pipe") == rank) return t;
    }
    return {};
  }

  // Returns the compute action of a rank after which the gradients of `stage` are summed; null if the rank computes
  // nothing.
  Last Launch(ir::TemplateOp t, int stage, const ReferenceTimes& times) {
    Last own, all;
    if (!t) return own;
    // True if the rank is idle at some time after the stage's last backward.
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
    mlir::OpBuilder builder(program_.getContext());
    PersistentBuffers persistent(t);
    const Last launch = Launch(t, sum.stage, times);
    mlir::DictionaryAttr over = GroupOver(program_, sum.axes, sum.scatters ? DataRanks::kSamePart : DataRanks::kAll);
    if (sum.holders.size() > 1) over = WithIndices(over, "pipe", sum.holders);
    mlir::DictionaryAttr sharers;
    if (sum.scatters) sharers = GroupOver(program_, {"data"}, DataRanks::kSharing);
    mlir::Operation* previous = nullptr;
    for (mlir::DictionaryAttr group : {over, sharers}) {
      if (!group) continue;
      mlir::Operation* last = last_sum_[{t.getOperation(), group.getAsOpaquePointer()}];
      if (previous == nullptr || (last != nullptr && previous->isBeforeInBlock(last))) previous = last;
    }
    mlir::Operation* place = launch.backward;
    // Place the sum after the sends of the action's results, because other ranks wait for those sends.
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
    // Without this token the sum would wait only for the backwards of its own stage.
    llvm::SmallVector<mlir::Value> after;
    if (launch.backward != nullptr && StageOfWeightGradients(launch.backward) != sum.stage) {
      after.push_back(ir::DoneToken(launch.backward));
    }
    const int64_t limit = static_cast<int64_t>(program_.getGradientBucketBytes());
    llvm::SmallVector<ir::OperandAttr> bucket;
    int64_t bytes = 0;
    auto close = [&] {
      llvm::SmallVector<mlir::Value> buffers;
      for (ir::OperandAttr gradient : bucket) buffers.push_back(persistent.Get(gradient.getRole(), gradient.getType()));
      if (sharers && !bucket.empty()) buffers = Scatter(t, builder, bucket, buffers, sharers, sum.stage, after);
      if (!over.empty() && !bucket.empty()) {
        last_sum_[{t.getOperation(), over.getAsOpaquePointer()}] = AllReduce(
            builder, buffers, buffers, over, ir::Purpose::GradientSync, program_.getCollective(), sum.stage, after);
      }
      bucket.clear();
      bytes = 0;
    };
    for (ir::OperandAttr gradient : sum.gradients) {
      bucket.push_back(gradient);
      bytes += gradient.getType().getBytes();
      if (limit > 0 && bytes >= limit) close();
    }
    close();
  }

  // Reduce-scatters the gradients of a bucket. Returns the rank's part of each gradient.
  llvm::SmallVector<mlir::Value> Scatter(ir::TemplateOp t, mlir::OpBuilder& builder,
                                         llvm::ArrayRef<ir::OperandAttr> bucket, mlir::ValueRange buffers,
                                         mlir::DictionaryAttr sharers, int stage, mlir::ValueRange after) {
    llvm::SmallVector<mlir::Type> types;
    for (ir::OperandAttr gradient : bucket) types.push_back(gradients_.parts.at(UseOf(gradient)).getType());
    auto scatter = ReduceScatter(builder, buffers, types, sharers, ir::Purpose::GradientSync, program_.getCollective(),
                                 stage, after);
    last_sum_[{t.getOperation(), sharers.getAsOpaquePointer()}] = scatter;
    GradientParts& parts = parts_[t];
    for (auto [gradient, part] : llvm::zip(bucket, scatter.getOutputs())) parts[UseOf(gradient)] = part;
    return scatter.getOutputs();
  }

  ir::ProgramOp program_;
  const GradientHolders& gradients_;
  std::vector<ir::TemplateOp> templates_;
  // The last sum of each rank and group.
  std::map<std::pair<mlir::Operation*, const void*>, mlir::Operation*> last_sum_;
  std::map<mlir::Operation*, GradientParts> parts_;
};

}  // namespace

std::map<mlir::Operation*, GradientParts> SumOverReplicas(ir::ProgramOp program, const GradientHolders& gradients) {
  return ReplicaSums(program, gradients).Sum();
}

}  // namespace weft
