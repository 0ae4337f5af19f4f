#include "simulator/program/queue_order.h"

#include <algorithm>
#include <array>

#include "simulator/program/view_actions.h"

namespace weft::sim {
namespace {

// True if an action of this kind is in both queues, so that no other action passes it.
bool IsInBothQueues(ActionKind kind) { return kind != FORWARD && !IsBackward(kind); }

bool OnCompute(const Program& program, const Action& action) {
  for (const Step& step : program.segments(action.segment()).steps()) {
    if (step.stream() == COMPUTE) return true;
  }
  return false;
}

}  // namespace

// An action in both queues waits for all backwards before it. Backwards run in order, so it waits for the last one. A
// backward waits for the last action in both queues before it. If its list has none, earlier lists count: for the body,
// the last one of the previous repetition and the last one of the prologue; for the epilogue, the last one of the body
// or, if the body has none, of the prologue.
QueueOrder OrderQueues(const Program& program, TemplateView& view) {
  QueueOrder order;
  order.waits.resize(view.actions.size());
  order.end_object.assign(view.actions.size(), -1);
  // Compute actions by list: backwards, and actions in both queues.
  std::array<std::array<std::vector<int32_t>, 2>, 3> actions;
  for (int32_t i = 0; i < static_cast<int32_t>(view.actions.size()); ++i) {
    const ActionView& action = view.actions[i];
    const ActionKind kind = action.action->kind();
    if (!IsCompute(kind) || kind == FORWARD || !OnCompute(program, *action.action)) continue;
    actions[static_cast<int>(action.list)][IsInBothQueues(kind)].push_back(i);
  }
  for (int list = 0; list < 3; ++list) {
    for (const bool both : {false, true}) {
      for (const int32_t action : actions[list][both]) {
        // Makes a backward wait for the last action in both queues before index `before` of a list, or an action in
        // both queues for the last backward. Returns false if there is none.
        const auto wait_for_last = [&](int other_list, int32_t before, int32_t distance) {
          const std::vector<int32_t>& others = actions[other_list][!both];
          const auto end = std::lower_bound(others.begin(), others.end(), before);
          if (end == others.begin()) return false;
          const int32_t target = *(end - 1);
          if (order.end_object[target] < 0) order.end_object[target] = view.objects++;
          order.waits[action].push_back({.object = order.end_object[target],
                                         .distance = distance,
                                         .body = other_list == static_cast<int>(ListKind::kBody),
                                         .ordering = true,
                                         .reason = IdleReason::kHostCopy});
          return true;
        };
        const int32_t all = static_cast<int32_t>(view.actions.size());
        if (wait_for_last(list, action, 0)) continue;
        if (list == 1) wait_for_last(1, all, 1);
        if (list == 2 && wait_for_last(1, all, 0)) continue;
        if (list > 0) wait_for_last(0, all, 0);
      }
    }
  }
  return order;
}

}  // namespace weft::sim
