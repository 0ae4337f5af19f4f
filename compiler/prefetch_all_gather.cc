// The pass prefetch-all-gather: weights are gathered during the op before the one that reads them.
#include <vector>

#include "compiler/overlap_util.h"
#include "compiler/passes.h"
#include "llvm/ADT/STLExtras.h"

namespace weft {

#define GEN_PASS_DEF_PREFETCHALLGATHER
#include "compiler/passes.h.inc"

namespace {

struct Gather {
  ir::GroupAllGatherOp op;
  mlir::Operation* reader = nullptr;
};

// The first op that computes with what `gather` makes, be it through other gathers.
void FindReader(mlir::Operation* gather, mlir::Operation** reader) {
  for (mlir::Operation* user : gather->getUsers()) {
    if (GatherOfWeights(user)) {
      FindReader(user, reader);
    } else if (*reader == nullptr || user->isBeforeInBlock(*reader)) {
      *reader = user;
    }
  }
}

// Gathers of weights in the order in which they are read.
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
  void runOnOperation() override {
    for (ir::SegmentOp segment : getOperation().getOps<ir::SegmentOp>()) {
      mlir::Block& block = segment.getBody().front();
      const std::vector<Gather> gathers = GathersInOrder(block);
      for (size_t i = 0; i < gathers.size(); ++i) {
        Gather gather = gathers[i];
        // The reader before its own, at which it is issued; the first ones are issued at once.
        size_t before = i;
        while (before > 0 && gathers[before - 1].reader == gather.reader) --before;
        if (before > 0) {
          gather.op->moveBefore(gathers[before - 1].reader);
        } else if (i == 0) {
          gather.op->moveBefore(&block, block.begin());
        } else {
          gather.op->moveAfter(gathers[i - 1].op);
        }
        if (ComputesBetween(gather.op, gather.reader)) gather.op.setBlocking(false);
      }
    }
  }
};

}  // namespace
}  // namespace weft
