#include "schedules/pipeline/period.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "schedules/pipeline/timing.h"

namespace weft {
namespace {

// Returns the difference between the elements of `to` and `from` if it is the same for all elements.
std::optional<int64_t> Shift(const std::vector<int64_t>& from, const std::vector<int64_t>& to) {
  const int64_t shift = to.empty() ? 0 : to[0] - from[0];
  for (size_t i = 0; i < to.size(); ++i) {
    if (to[i] - from[i] != shift) return std::nullopt;
  }
  return shift;
}

}  // namespace

Period FindPeriod(const PipelineSchedule& schedule, int microbatches, const UnitCosts& costs) {
  std::vector<std::vector<Slot>> warm_up;
  std::vector<Result> ahead;
  int64_t slots = 0;
  for (const std::vector<Slot>& order : schedule.order) {
    slots += static_cast<int64_t>(order.size());
    std::vector<Slot>& list = warm_up.emplace_back();
    for (const Slot& slot : order) {
      if (slot.ahead == 0) continue;
      list.push_back(slot);
      if (slot.kind == SlotKind::kBackwardWeight) continue;
      for (int m = slot.microbatch; m < slot.microbatch + slot.width; ++m) {
        ahead.push_back({slot.kind != SlotKind::kForward, slot.stage, m});
      }
    }
  }
  // The limit keeps very large lists from running for minutes, and keeps times below 2^62.
  const int64_t most = std::min({int64_t{kPeriodSearch}, (int64_t{1} << 28) / std::max<int64_t>(slots, 1) + 2,
                                 (int64_t{1} << 62) / std::max<int64_t>(costs.longest, 1) - 1});
  ListTimer timer(schedule, microbatches, costs);
  const auto ignore = [](int, int64_t, int, const SlotRun&) {};
  timer.Run(warm_up, -1, ignore);
  // `state` is everything that later repetitions depend on. It is compared with the state after repetition `mark`: 1,
  // 2, 4, ... So the search finds a pattern within three times its length.
  std::vector<int64_t> state, marked;
  int64_t mark = 0;
  for (int64_t repetition = 1; repetition <= most; ++repetition) {
    timer.Run(schedule.order, static_cast<int>(repetition - 1), ignore);
    state.clear();
    for (size_t rank = 0; rank < schedule.order.size(); ++rank) {
      if (!schedule.order[rank].empty()) state.push_back(timer.free(static_cast<int>(rank)));
    }
    for (const Result& result : ahead) state.push_back(timer.end(result, static_cast<int>(repetition)));
    if (mark > 0) {
      if (const std::optional<int64_t> shift = Shift(marked, state)) return {*shift, repetition - mark};
    }
    if (mark == 0 || repetition == 2 * mark) {
      marked = state;
      mark = repetition;
    }
  }
  return {};
}

}  // namespace weft
