#include "compiler/replica_sums.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "compiler/rank_collectives.h"
#include "compiler/rank_util.h"
#include "compiler/reference_times.h"

namespace weft {
namespace {

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

class ReplicaSums {
 public:
  ReplicaSums(ir::ProgramOp program, const GradientHolders& gradients)
      : program_(program), gradients_(gradients), templates_(Templates(program)) {}

  // One all-reduce per bucket of whole tensors. All ranks of a group must run its sums in one order: that in which the
  // last of them is ready.
  void Sum() {
    const ReferenceTimes times(program_);
    struct Ready {
      int64_t time = 0;
      StageSum sum;
    };
    std::vector<Ready> ready;
    for (const auto& [stage, gradients] : gradients_.of_stage) {
      // Groups of gradients that are summed over the same axes, in the order of their first.
      std::vector<StageSum> sums;
      for (ir::OperandAttr gradient : gradients) {
        const GradientUse use = {gradient.getRole().getTensor(), gradient.getRole().getUse()};
        if (gradients_.every_use.contains(use)) continue;
        const std::vector<llvm::StringRef> axes = SyncAxes(program_, use.first);
        auto sum = llvm::find_if(sums, [&](const StageSum& other) { return other.axes == axes; });
        if (sum == sums.end()) sum = sums.insert(sums.end(), StageSum{stage, {}, {}, axes});
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
  }

 private:
  struct Last {
    mlir::Operation* backward = nullptr;
    ReferenceTime time;
  };

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
    mlir::OpBuilder builder(program_.getContext());
    PersistentBuffers persistent(t);
    const Last launch = Launch(t, sum.stage, times);
    mlir::DictionaryAttr over = GroupOver(program_, sum.axes);
    if (sum.holders.size() > 1) over = WithIndices(over, "pipe", sum.holders);
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
      previous = AllReduce(builder, bucket, bucket, over, ir::Purpose::GradientSync, program_.getCollective(),
                           sum.stage, after);
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

  ir::ProgramOp program_;
  const GradientHolders& gradients_;
  std::vector<ir::TemplateOp> templates_;
  // The last sum of each rank and group.
  std::map<std::pair<mlir::Operation*, const void*>, mlir::Operation*> last_sum_;
};

}  // namespace

void SumOverReplicas(ir::ProgramOp program, const GradientHolders& gradients) { ReplicaSums(program, gradients).Sum(); }

}  // namespace weft
