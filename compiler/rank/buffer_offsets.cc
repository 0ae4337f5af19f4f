#include "compiler/rank/buffer_offsets.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "compiler/memory/arena.h"
#include "mlir/IR/Builders.h"
#include "proto/util/units.h"

namespace weft {
namespace {

ArenaItem Lifetime(const TemplateOrder& known, const Transient& transient) {
  const RepetitionOrder& order = known.order;
  const std::vector<int>& computes = known.computes;
  ArenaItem item;
  item.bytes = mlir::cast<ir::BufferType>(transient.buffer.getType()).getBytes();
  const int writer = transient.writer, last = transient.last;
  item.first = order.Stream(writer) == kComputeStream ? 2 * int64_t{order.Index(writer)}
                                                      : 2 * int64_t{order.Finished(writer, kComputeStream)} - 1;
  if (order.Stream(last) == kComputeStream) {
    item.last = 2 * int64_t{order.Index(last)};
  } else {
    // The number of actions that are certainly finished only grows along the compute stream. So a binary search finds
    // the first compute action that certainly starts after `last` is finished.
    auto knows = std::partition_point(computes.begin(), computes.end(), [&](int compute) {
      return order.Finished(compute, order.Stream(last)) <= order.Index(last);
    });
    item.last = 2 * int64_t{knows - computes.begin()} - 1;
  }
  item.last = std::max(item.last, item.first);
  return item;
}

// Returns the lifetime of a transient if there is no static order. Actions that are in both queues have moments 1, 2, …
// of their own; all other actions count as moment 0. A buffer that an action of both queues writes lives until its last
// action, if that is in both queues too, else to the end. Any other buffer lives at moment 0 only if its last action is
// a microbatch's, else from moment 0 to the end.
ArenaItem DynamicLifetime(const TemplateOrder& known, const Transient& transient) {
  const RepetitionOrder& order = known.order;
  ArenaItem item;
  item.bytes = mlir::cast<ir::BufferType>(transient.buffer.getType()).getBytes();
  if (order.Stream(transient.writer) == kStepStream) {
    item.first = 1 + order.Index(transient.writer);
    item.last =
        order.Stream(transient.last) == kStepStream ? 1 + order.Index(transient.last) : std::numeric_limits<int>::max();
  } else if (!ir::IsMicrobatch(known.actions[transient.last])) {
    item.last = std::numeric_limits<int>::max();
  }
  return item;
}

}  // namespace

mlir::LogicalResult AssignOffsets(ir::TemplateOp t, const TemplateOrder& known,
                                  const std::vector<Transient>& transients, bool quick) {
  mlir::Builder builder(t.getContext());
  const std::vector<mlir::Operation*>& actions = known.actions;
  // This attribute is set if the persistent buffers of another program share the arena.
  auto shared = t->getAttrOfType<mlir::IntegerAttr>("persistent_bytes");
  int64_t base = shared ? shared.getInt() : 0;
  for (ir::PersistentOp op : t.getOps<ir::PersistentOp>()) {
    const int64_t bytes = mlir::cast<ir::BufferType>(op.getBuffer().getType()).getBytes();
    if (!op.getOffset()) op.setOffset(base);
    if (base > (int64_t{1} << 61) || bytes > (int64_t{1} << 61)) {
      return t.emitOpError("[memory_c1] persistent buffers exceed 2^61 bytes");
    }
    base = std::max(base, static_cast<int64_t>(*op.getOffset()) + RoundUp(bytes, kArenaAlignment));
  }
  t->setAttr("persistent_bytes", builder.getI64IntegerAttr(base));
  std::vector<ArenaItem> items;
  // The arena item of each transient.
  std::vector<int> item_of;
  for (const Transient& transient : transients) {
    if (transient.reuses >= 0) {
      const int item = item_of[transient.reuses];
      items[item].last = std::max(items[item].last, DynamicLifetime(known, transient).last);
      item_of.push_back(item);
      continue;
    }
    item_of.push_back(static_cast<int>(items.size()));
    items.push_back(known.dynamic ? DynamicLifetime(known, transient) : Lifetime(known, transient));
  }
  auto arena = quick ? PlanArena(items) : PlanArenaOfRank(items, base);
  if (!arena.ok()) {
    return t.emitOpError() << "[memory_c2] "
                           << llvm::StringRef(arena.status().message().data(), arena.status().message().size());
  }
  std::vector<std::vector<int64_t>> offsets(actions.size());
  for (size_t i = 0; i < transients.size(); ++i) {
    offsets[transients[i].writer].push_back(base + arena->offsets[item_of[i]]);
  }
  for (size_t i = 0; i < actions.size(); ++i) {
    if (!offsets[i].empty()) actions[i]->setAttr("offsets", builder.getDenseI64ArrayAttr(offsets[i]));
  }
  t->setAttr("arena_bytes", builder.getI64IntegerAttr(base + arena->height));
  return mlir::success();
}

}  // namespace weft
