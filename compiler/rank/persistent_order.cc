#include "compiler/rank/persistent_order.h"

#include <utility>

#include "compiler/rank/rank_util.h"
#include "llvm/ADT/DenseMap.h"

namespace weft {

namespace {

// True if other actions may change the buffer in place after its maker: it is persistent, or made by a collective.
bool OutlivesItsMaker(mlir::Value buffer) {
  mlir::Operation* maker = buffer.getDefiningOp();
  return mlir::isa<ir::PersistentOp>(maker) || ir::IsCollective(maker);
}

// Returns the buffers that outlive their maker and how an action uses them. If the action has detached steps, `tail` =
// true selects the uses by those steps, and false the uses by all other steps.
std::vector<std::pair<mlir::Value, ir::Access>> PersistentAccesses(mlir::Operation* op, bool tail) {
  std::vector<std::pair<mlir::Value, ir::Access>> accesses;
  if (ir::IsCompute(op)) {
    ir::SignatureOp signature = SignatureOf(op);
    std::vector<mlir::Value> buffers = BoundBuffers(op, signature);
    for (unsigned i = 0; i < signature.size(); ++i) {
      const int detached = signature.getOperand(i).getDetached();
      const bool touched = tail ? detached > 0 : detached != 1;
      if (touched && OutlivesItsMaker(buffers[i])) {
        accesses.emplace_back(buffers[i], signature.getOperand(i).getAccess());
      }
    }
  } else if (ir::IsCollective(op)) {
    const ir::CollectiveView view = ir::ViewOf(op);
    for (mlir::Value source : view.sources) accesses.emplace_back(source, ir::Access::Read);
    for (mlir::Value destination : view.destinations) accesses.emplace_back(destination, ir::Access::Write);
  }
  return accesses;
}

}  // namespace

void RequirePersistentOrder(llvm::ArrayRef<mlir::Operation*> actions, const std::vector<bool>& is_tail,
                            RepetitionOrder* order) {
  struct Uses {
    // The last write and the uses since then. If several compute actions of one stream only read, the list keeps the
    // last of them.
    std::vector<std::pair<int, bool>> recent;  // (action, true if it writes)
  };
  llvm::DenseMap<mlir::Value, Uses> uses;
  for (int repetition = 0; repetition < 2; ++repetition) {
    for (int i = 0; i < static_cast<int>(actions.size()); ++i) {
      // Tails never wait: the action itself waits for whatever its detached steps need.
      const int waiter = is_tail[i] ? i - 1 : i;
      for (auto [buffer, access] : PersistentAccesses(actions[i], is_tail[i])) {
        const bool writes = access != ir::Access::Read;
        auto& recent = uses[buffer].recent;
        for (auto [other, other_writes] : recent) {
          // In the second round, entries of `recent` with an index of i or more belong to the previous repetition.
          const bool before = other >= i;
          if ((!writes && !other_writes) || (other == i && repetition == 0)) continue;
          if (before && repetition == 0) continue;
          if (!before && repetition == 1) continue;
          if (is_tail[i] && (is_tail[other] || other == waiter)) continue;
          order->Require(other, waiter, before ? 1 : 0);
        }
        if (writes) {
          std::erase_if(recent,
                        [&, i = i](const auto& use) { return use.first != i && !(is_tail[i] && is_tail[use.first]); });
        }
        if (!writes && ir::IsCompute(actions[i])) {
          std::erase_if(recent, [&, i = i](const auto& use) {
            return !use.second && order->Stream(use.first) == order->Stream(i);
          });
        }
        recent.emplace_back(i, writes);
      }
    }
  }
}

}  // namespace weft
