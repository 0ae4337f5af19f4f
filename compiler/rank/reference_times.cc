#include "compiler/rank/reference_times.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "compiler/rank/rank_util.h"
#include "llvm/ADT/TypeSwitch.h"

namespace weft {

void ReferenceTimes::MatchTransfers(ir::ProgramOp program) {
  // Key of a boundary tensor: (direction, lane, stage that makes the tensor, microbatch, skip). It is unique because in
  // each lane a stage is on one rank.
  using Key = std::tuple<ir::Direction, uint32_t, int, uint32_t, uint32_t>;
  std::map<Key, mlir::Operation*> sends;
  program.walk([&](ir::SendOp op) {
    sends[{op.getDirection(), op.getLane(), static_cast<int>(op.getStage()), op.getMicrobatch(), op.getSkip()}] = op;
  });
  program.walk([&](ir::RecvOp op) {
    const int maker = MakerStage(program, op.getDirection(), static_cast<int>(op.getStage()), op.getSkip());
    auto found = sends.find({op.getDirection(), op.getLane(), maker, op.getMicrobatch(), op.getSkip()});
    if (found == sends.end()) return;
    partners_[op] = found->second;
    partners_[found->second] = op;
  });
}

int64_t ReferenceTimes::Cost(ir::ProgramOp program, mlir::Operation* compute) const {
  const int64_t forward = static_cast<int64_t>(program.getForwardCost());
  const int64_t backward = static_cast<int64_t>(program.getBackwardCost());
  const int64_t weight = static_cast<int64_t>(program.getWeightCost());
  const int64_t pair = static_cast<int64_t>(program.getPairCost());
  const int64_t cost = llvm::TypeSwitch<mlir::Operation*, int64_t>(compute)
                           .Case([&](ir::ForwardOp op) { return forward * static_cast<int64_t>(op.getWidth()); })
                           .Case([&](ir::BackwardOp) { return backward; })
                           .Case([&](ir::BackwardInputOp) { return backward - weight; })
                           .Case([&](ir::BackwardWeightOp) { return weight; })
                           .Case([&](ir::ForwardBackwardOp) { return pair > 0 ? pair : forward + backward; })
                           .Default([](mlir::Operation*) { return 1; });
  // The cost is at least 1, so that an action starts and ends at different times: at one time, ends come before starts.
  return std::max<int64_t>(cost, 1);
}

ReferenceTimes::ReferenceTimes(ir::ProgramOp program) {
  MatchTransfers(program);
  struct List {
    std::vector<mlir::Operation*> computes;
    size_t next = 0;
    int64_t free = 0;
  };
  std::vector<List> lists;
  for (ir::TemplateOp t : Templates(program)) {
    List& list = lists.emplace_back();
    for (mlir::Operation& op : t.getBody().front()) {
      if (ir::IsCompute(&op)) list.computes.push_back(&op);
    }
  }
  // If `operand` is received, returns the action on the other rank that makes it; else null.
  auto maker_elsewhere = [&](mlir::Value operand) -> mlir::Operation* {
    auto recv = operand.getDefiningOp<ir::RecvOp>();
    auto send = recv ? mlir::cast_or_null<ir::SendOp>(Partner(recv)) : ir::SendOp();
    return send ? send.getSource().getDefiningOp() : nullptr;
  };
  llvm::DenseMap<mlir::Operation*, std::vector<size_t>> waiting;
  std::vector<size_t> awake;
  for (size_t i = lists.size(); i-- > 0;) awake.push_back(i);
  while (!awake.empty()) {
    List& list = lists[awake.back()];
    const size_t index = awake.back();
    awake.pop_back();
    while (list.next < list.computes.size()) {
      mlir::Operation* compute = list.computes[list.next];
      ReferenceTime time{list.free, 0};
      mlir::Operation* missing = nullptr;
      for (mlir::Value operand : compute->getOperands()) {
        mlir::Operation* maker = maker_elsewhere(operand);
        if (maker == nullptr) continue;
        auto found = times_.find(maker);
        if (found == times_.end()) {
          missing = maker;
          break;
        }
        time.start = std::max(time.start, found->second.end);
      }
      if (missing != nullptr) {
        waiting[missing].push_back(index);
        break;
      }
      list.free = time.end = time.start + Cost(program, compute);
      times_[compute] = time;
      ++list.next;
      auto woken = waiting.find(compute);
      if (woken == waiting.end()) continue;
      awake.insert(awake.end(), woken->second.begin(), woken->second.end());
      waiting.erase(woken);
    }
  }
}

}  // namespace weft
