// The pass prefetch-all-gather: gathers weights while the op before their reader computes.
#include <vector>

#include "compiler/overlap/overlap_util.h"
#include "compiler/passes/passes.h"
#include "llvm/ADT/STLExtras.h"

namespace weft {

#define GEN_PASS_DEF_PREFETCHALLGATHER
#include "compiler/passes/passes.h.inc"

namespace {

struct Gather {
  ir::GroupAllGatherOp op;
  mlir::Operation* reader = nullptr;
};

// Finds the first op that computes with the outputs of `gather`, directly or through other gathers.
void FindReader(mlir::Operation* gather, mlir::Operation** reader) {
  for (mlir::Operation* user : gather->getUsers()) {
    if (GatherOfWeights(user)) {
      FindReader(user, reader);
    } else if (*reader == nullptr || user->isBeforeInBlock(*reader)) {
      *reader = user;
    }
  }
}

// The gathers of weights, in the order in which their outputs are read.
std::vector<Gather> GathersInOrder(mlir::Block& block) {
  std::vector<Gather> gathers;
  for (mlir::Operation& op : block) {
    ir::GroupAllGatherOp gather = GatherOfWeights(&op);
    if (!gather) continue;
    Gather found{gather, nullptr};
    FindReader(&op, &found.reader);
    if (found.reader != nullptr) gathers.push_back(found);
  }
  llvm::stable_sort(gathers, [](const Gather& a, const Gather& b) {
    return a.reader != b.reader && a.reader->isBeforeInBlock(b.reader);
  });
  return gathers;
}

struct PrefetchAllGatherPass : impl::PrefetchAllGatherBase<PrefetchAllGatherPass> {
  using PrefetchAllGatherBase::PrefetchAllGatherBase;

  void runOnOperation() override {
    for (ir::SegmentOp segment : getOperation().getOps<ir::SegmentOp>()) {
      mlir::Block& block = segment.getBody().front();
      const std::vector<Gather> gathers = GathersInOrder(block);
      if (ahead >= 0) PlaceByCount(block, gathers);
      mlir::Operation* last = nullptr;
      for (size_t i = 0; i < gathers.size(); ++i) {
        Gather gather = gathers[i];
        if (ahead >= 0 && IsOverReplicas(gather.op)) continue;
        // Issue the gather before the previous reader of gathered weights. Issue the gathers of the first reader at the
        // start of the segment.
        size_t before = i;
        while (before > 0 && gathers[before - 1].reader == gather.reader) --before;
        if (before > 0) {
          gather.op->moveBefore(gathers[before - 1].reader);
        } else if (i == 0) {
          gather.op->moveBefore(&block, block.begin());
        } else {
          gather.op->moveAfter(gathers[i - 1].op);
        }
        MoveAfterOperands(gather.op, last);
        last = gather.op;
        if (ComputesBetween(gather.op, gather.reader)) gather.op.setBlocking(false);
      }
    }
  }

  // Issues each gather over replicas early: before the op that reads the gather which is `ahead` gathers earlier. If
  // `ahead` is 0, gathers stay where they are needed.
  void PlaceByCount(mlir::Block& block, const std::vector<Gather>& gathers) {
    std::vector<Gather> over;
    for (const Gather& gather : gathers) {
      if (IsOverReplicas(gather.op)) over.push_back(gather);
    }
    for (size_t i = 0; ahead > 0 && i < over.size(); ++i) {
      if (i == 0) {
        over[i].op->moveBefore(&block, block.begin());
      } else if (i < static_cast<size_t>(ahead)) {
        over[i].op->moveAfter(over[i - 1].op);
      } else if (mlir::Operation* place = over[i - ahead].reader; place->isBeforeInBlock(over[i].op)) {
        over[i].op->moveBefore(place);
      }
      if (ComputesBetween(over[i].op, over[i].reader)) over[i].op.setBlocking(false);
    }
  }

  // If the gather was moved before an op whose output it reads, moves it after that op, or after `last` if `last` comes
  // later.
  static void MoveAfterOperands(ir::GroupAllGatherOp gather, mlir::Operation* last) {
    mlir::Operation* behind = nullptr;
    for (mlir::Value input : gather.getInputs()) {
      mlir::Operation* maker = input.getDefiningOp();
      if (maker == nullptr || maker->isBeforeInBlock(gather)) continue;
      if (behind == nullptr || behind->isBeforeInBlock(maker)) behind = maker;
    }
    if (behind == nullptr) return;
    if (last != nullptr && behind->isBeforeInBlock(last)) behind = last;
    gather->moveAfter(behind);
  }
};

}  // namespace
}  // namespace weft
