#include "schedules/pipeline/dependencies.h"

#include <algorithm>
#include <array>

namespace weft {

SlotGraph::SlotGraph(const PipelineSchedule& schedule, int microbatches)
    : stages_(schedule.stages), microbatches_(microbatches), ids_(int64_t{2} * schedule.stages * microbatches, -1) {
  for (int rank = 0; rank < static_cast<int>(schedule.order.size()); ++rank) {
    for (const Slot& slot : schedule.order[rank]) {
      const int64_t kind = slot.kind == SlotKind::kForward ? 0 : 1;
      ids_[(kind * stages_ + slot.stage) * microbatches_ + slot.microbatch] = size();
      slots_.push_back({&slot, rank});
    }
  }
}

int64_t SlotGraph::Find(SlotKind kind, int stage, int microbatch) const {
  if (stage < 0 || stage >= stages_) return -1;
  const int64_t row = kind == SlotKind::kForward ? 0 : stages_;
  return ids_[(row + stage) * microbatches_ + microbatch];
}

int64_t SlotGraph::Previous(int64_t id) const { return id > 0 && slots_[id - 1].rank == slots_[id].rank ? id - 1 : -1; }

SlotGraph::Inputs SlotGraph::DataInputs(int64_t id) const {
  const Slot& s = slot(id);
  if (s.kind == SlotKind::kForward) return {.forward = Find(SlotKind::kForward, s.stage - 1, s.microbatch)};
  return {.forward = Find(SlotKind::kForward, s.stage, s.microbatch),
          .backward = Find(SlotKind::kBackward, s.stage + 1, s.microbatch)};
}

SlotOrder OrderSlots(const SlotGraph& graph) {
  const int64_t n = graph.size();
  auto waits_for = [&](int64_t id) {
    const SlotGraph::Inputs inputs = graph.DataInputs(id);
    return std::array<int64_t, 3>{graph.Previous(id), inputs.forward, inputs.backward};
  };
  // Kahn's algorithm; users of a slot as one flat list.
  std::vector<int> missing(n);
  std::vector<int64_t> first_user(n + 1);
  for (int64_t id = 0; id < n; ++id) {
    for (int64_t input : waits_for(id)) {
      if (input < 0) continue;
      ++missing[id];
      ++first_user[input + 1];
    }
  }
  for (int64_t id = 0; id < n; ++id) first_user[id + 1] += first_user[id];
  std::vector<int64_t> users(first_user[n]);
  std::vector<int64_t> next = first_user;
  for (int64_t id = 0; id < n; ++id) {
    for (int64_t input : waits_for(id)) {
      if (input >= 0) users[next[input]++] = id;
    }
  }
  SlotOrder result;
  for (int64_t id = 0; id < n; ++id) {
    if (missing[id] == 0) result.done.push_back(id);
  }
  for (size_t head = 0; head < result.done.size(); ++head) {
    const int64_t id = result.done[head];
    for (int64_t i = first_user[id]; i < first_user[id + 1]; ++i) {
      if (--missing[users[i]] == 0) result.done.push_back(users[i]);
    }
  }
  if (static_cast<int64_t>(result.done.size()) == n) return result;

  // Every slot that is left waits for one that is left: following those must come round.
  int64_t at = 0;
  while (missing[at] == 0) ++at;
  std::vector<int64_t> seen_at(n, -1);
  std::vector<int64_t> path;
  while (seen_at[at] < 0) {
    seen_at[at] = static_cast<int64_t>(path.size());
    path.push_back(at);
    for (int64_t input : waits_for(at)) {
      if (input >= 0 && missing[input] > 0) {
        at = input;
        break;
      }
    }
  }
  result.cycle.assign(path.begin() + seen_at[at], path.end());
  return result;
}

}  // namespace weft
