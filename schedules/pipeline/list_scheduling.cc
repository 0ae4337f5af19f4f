#include "schedules/pipeline/list_scheduling.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <tuple>
#include <utility>

namespace weft {
namespace {

using Time = int64_t;

// All slots of one lane as numbers: forwards first, by stage, then microbatch.
struct Numbering {
  const std::vector<int>& lane;
  int64_t microbatches;

  int64_t stages() const { return static_cast<int64_t>(lane.size()); }
  int64_t forward(int64_t stage, int64_t m) const { return stage * microbatches + m; }
  int64_t backward(int64_t stage, int64_t m) const { return (stages() + stage) * microbatches + m; }
  bool is_backward(int64_t id) const { return id >= stages() * microbatches; }
  int64_t stage(int64_t id) const { return id / microbatches % stages(); }
  int64_t microbatch(int64_t id) const { return id % microbatches; }
  int rank(int64_t id) const { return lane[stage(id)]; }

  // The only slot that reads this slot's output, -1 if none.
  int64_t Next(int64_t id) const {
    const int64_t s = stage(id), m = microbatch(id);
    if (is_backward(id)) return s > 0 ? backward(s - 1, m) : -1;
    return s + 1 < stages() ? forward(s + 1, m) : backward(s, m);
  }
};

template <typename T>
using MinQueue = std::priority_queue<T, std::vector<T>, std::greater<T>>;

// An event: a rank becomes free, or (slot >= 0) the inputs of a slot become available.
struct Event {
  Time time;
  int64_t slot;
  int rank;
  friend bool operator>(const Event& a, const Event& b) {
    return std::tie(a.time, a.slot, a.rank) > std::tie(b.time, b.slot, b.rank);
  }
};

}  // namespace

ListedOrder ScheduleByRule(const std::vector<int>& lane, int ranks, int microbatches, int limit, const ListCosts& costs,
                           const ListRule& rule) {
  const Numbering slots{lane, microbatches};
  const int64_t stages = slots.stages();
  auto urgency = [&](int64_t id) {
    const int64_t s = slots.stage(id), m = rule.per_microbatch * slots.microbatch(id);
    if (slots.is_backward(id)) return m + rule.backward + rule.per_backward_stage * (stages - 1 - s);
    return m + rule.forward + rule.per_forward_stage * s;
  };
  struct Rank {
    MinQueue<std::pair<int64_t, int64_t>> ready;  // (urgency, slot)
    bool busy = false;
  };
  std::vector<Rank> state(ranks);
  MinQueue<Event> events;
  for (int64_t m = 0; m < std::min<int64_t>(limit, microbatches); ++m) {
    events.push({0, slots.forward(0, m), slots.rank(slots.forward(0, m))});
  }

  ListedOrder result;
  result.order.resize(ranks);
  std::vector<int64_t> per_rank(ranks, 0);
  for (int rank : lane) per_rank[rank] += int64_t{2} * microbatches;
  for (int rank = 0; rank < ranks; ++rank) result.order[rank].reserve(per_rank[rank]);
  auto start = [&](int rank, Time now) {
    const int64_t id = state[rank].ready.top().second;
    state[rank].ready.pop();
    state[rank].busy = true;
    const bool backward = slots.is_backward(id);
    const Time end = now + (backward ? costs.backward : costs.forward);
    const int stage = static_cast<int>(slots.stage(id)), m = static_cast<int>(slots.microbatch(id));
    result.order[rank].push_back(
        {.kind = backward ? SlotKind::kBackward : SlotKind::kForward, .lane = 0, .stage = stage, .microbatch = m});
    result.makespan = std::max(result.makespan, end);
    events.push({end, -1, rank});
    if (const int64_t next = slots.Next(id); next >= 0) {
      events.push({end + (slots.rank(next) == rank ? 0 : costs.p2p), next, slots.rank(next)});
    } else if (int64_t{m} + limit < microbatches) {
      events.push({end, slots.forward(0, int64_t{m} + limit), rank});
    }
  };
  std::vector<int> touched;
  while (!events.empty()) {
    const Time now = events.top().time;
    touched.clear();
    // Handle all events of this time first, so that the choice considers every ready slot.
    for (; !events.empty() && events.top().time == now; events.pop()) {
      const Event& event = events.top();
      if (event.slot >= 0) {
        state[event.rank].ready.emplace(urgency(event.slot), event.slot);
      } else {
        state[event.rank].busy = false;
      }
      touched.push_back(event.rank);
    }
    for (int rank : touched) {
      if (!state[rank].busy && !state[rank].ready.empty()) start(rank, now);
    }
  }
  return result;
}

int64_t MakespanInOrder(const std::vector<int>& lane, const std::vector<std::vector<Slot>>& order, int microbatches,
                        const ListCosts& costs) {
  const Numbering slots{lane, microbatches};
  const int ranks = static_cast<int>(order.size());
  // The time when a slot's inputs are available; -1 if it is not known yet.
  std::vector<Time> ready(2 * slots.stages() * microbatches, -1);
  for (int m = 0; m < microbatches; ++m) ready[slots.forward(0, m)] = 0;
  std::vector<size_t> next(ranks, 0);
  std::vector<Time> free(ranks, 0);
  // Ranks whose head may have become ready.
  std::vector<int> work(ranks);
  for (int rank = 0; rank < ranks; ++rank) work[rank] = ranks - 1 - rank;
  while (!work.empty()) {
    const int rank = work.back();
    work.pop_back();
    for (; next[rank] < order[rank].size(); ++next[rank]) {
      const Slot& slot = order[rank][next[rank]];
      const bool backward = slot.kind == SlotKind::kBackward;
      const int64_t id =
          backward ? slots.backward(slot.stage, slot.microbatch) : slots.forward(slot.stage, slot.microbatch);
      if (ready[id] < 0) break;
      free[rank] = std::max(free[rank], ready[id]) + (backward ? costs.backward : costs.forward);
      if (const int64_t reader = slots.Next(id); reader >= 0) {
        const int other = slots.rank(reader);
        ready[reader] = free[rank] + (other == rank ? 0 : costs.p2p);
        if (other != rank) work.push_back(other);
      }
    }
  }
  return *std::max_element(free.begin(), free.end());
}

}  // namespace weft
