#include "schedules/synthesis/list_policy.h"

#include <algorithm>
#include <limits>
#include <tuple>

namespace weft {
namespace {

// The activations that one rank holds while an order is built.
class RankMemory {
 public:
  RankMemory(const SlotGraph& graph, int rank) : graph_(graph), held_(graph.microbatches), left_(graph.microbatches) {
    for (int m = 0; m < graph.microbatches; ++m) {
      const std::vector<int>& lane = graph.placement[graph.lane_of[m]];
      for (int stage = 0; stage < graph.stages; ++stage) {
        if (lane[stage] == rank) left_[m] += graph.activations[stage];
      }
    }
  }

  // True if all microbatches can still finish on this rank after the forward, the oldest first. A microbatch can finish
  // if everything that it needs for its stages here fits beside what the younger microbatches hold.
  bool Admits(int32_t forward) const {
    const int own = graph_.microbatch(forward);
    int64_t younger = 0;
    for (int m = std::max(newest_, own); m >= oldest_; --m) {
      if (younger + left_[m] > graph_.memory_cap) return false;
      younger += held_[m] + (m == own ? graph_.activations[graph_.stage(forward)] : 0);
    }
    return true;
  }

  void Run(int32_t id) {
    const int m = graph_.microbatch(id);
    const int64_t activations = graph_.activations[graph_.stage(id)];
    if (graph_.kind(id) == kForwardOp) {
      held_[m] += activations;
      newest_ = std::max(newest_, m);
    }
    if (!graph_.releases(id)) return;
    held_[m] -= activations;
    left_[m] -= activations;
    while (oldest_ < graph_.microbatches && left_[oldest_] == 0) ++oldest_;
  }

 private:
  const SlotGraph& graph_;
  // By microbatch: what it holds here, and the activations of its stages here that are not done.
  std::vector<int64_t> held_, left_;
  int oldest_ = 0, newest_ = -1;
};

// The slots of a group that are in one lane, and the next one to schedule.
struct Chain {
  std::vector<int32_t> slots;
  size_t next = 0;
};

}  // namespace

SlotOrder ListOrder(const SlotGraph& graph, const SlotBounds& bounds, const ListPolicy& policy) {
  std::vector<std::vector<Chain>> chains(graph.ranks);
  for (int group = 0; group < 3 * graph.stages; ++group) {
    for (size_t lane = 0; lane < graph.placement.size(); ++lane) {
      Chain chain;
      for (int m = 0; m < graph.microbatches; ++m) {
        const int32_t id = group * graph.microbatches + m;
        if (graph.lane_of[m] == static_cast<int>(lane) && graph.exists(id)) chain.slots.push_back(id);
      }
      if (!chain.slots.empty()) chains[graph.placement[lane][group % graph.stages]].push_back(std::move(chain));
    }
  }
  std::vector<RankMemory> memory;
  for (int rank = 0; rank < graph.ranks; ++rank) memory.emplace_back(graph, rank);
  std::vector<int64_t> free(graph.ranks), end(graph.time.size(), -1);
  std::vector<int> in_flight(graph.placement.size() * graph.stages);
  // Returns the index in `in_flight` for a slot's stage and lane.
  const auto place = [&](int32_t id) { return graph.lane_of[graph.microbatch(id)] * graph.stages + graph.stage(id); };
  const auto priority = [&](int32_t id) {
    return policy.tail * bounds.tail[id] + policy.kind[graph.kind(id)] - policy.microbatch * graph.microbatch(id);
  };
  // The earliest start, or -1 if the slot must not be next.
  const auto start_of = [&](int rank, int32_t id) -> int64_t {
    const int32_t from = graph.reads[id];
    if (from >= 0 && end[from] < 0) return -1;
    if (graph.kind(id) == kForwardOp) {
      const int stage = graph.stage(id);
      if (!policy.in_flight.empty() && in_flight[place(id)] >= policy.in_flight[stage]) return -1;
      if (graph.activations[stage] > 0 && !memory[rank].Admits(id)) return -1;
    }
    return from < 0 ? free[rank] : std::max(free[rank], end[from] + graph.lag[id]);
  };

  SlotOrder order(graph.ranks);
  for (int64_t scheduled = 0; scheduled < graph.slots; ++scheduled) {
    int chosen_rank = -1;
    int64_t first_end = std::numeric_limits<int64_t>::max();
    for (int rank = 0; rank < graph.ranks; ++rank) {
      // No slot of the rank can end earlier.
      if (free[rank] >= first_end) continue;
      for (const Chain& chain : chains[rank]) {
        if (chain.next == chain.slots.size()) continue;
        const int32_t id = chain.slots[chain.next];
        const int64_t start = start_of(rank, id);
        if (start < 0 || start + graph.time[id] >= first_end) continue;
        first_end = start + graph.time[id];
        chosen_rank = rank;
      }
    }
    Chain* best = nullptr;
    int64_t first_start = std::numeric_limits<int64_t>::max(), best_start = 0;
    for (const Chain& chain : chains[chosen_rank]) {
      if (chain.next == chain.slots.size()) continue;
      const int64_t start = start_of(chosen_rank, chain.slots[chain.next]);
      if (start >= 0) first_start = std::min(first_start, start);
    }
    const int64_t window = static_cast<int64_t>(__int128{first_end - first_start} * policy.look_ahead / 100);
    for (Chain& chain : chains[chosen_rank]) {
      if (chain.next == chain.slots.size()) continue;
      const int32_t id = chain.slots[chain.next];
      const int64_t start = start_of(chosen_rank, id);
      if (start < 0 || start > first_start + window) continue;
      const auto key = [&](int64_t at, int32_t slot) { return std::tuple(-priority(slot), at, slot); };
      if (best != nullptr && key(best_start, best->slots[best->next]) <= key(start, id)) continue;
      best = &chain;
      best_start = start;
    }
    const int32_t id = best->slots[best->next++];
    end[id] = free[chosen_rank] = best_start + graph.time[id];
    order[chosen_rank].push_back(id);
    memory[chosen_rank].Run(id);
    if (graph.kind(id) == kForwardOp) ++in_flight[place(id)];
    if (graph.releases(id)) --in_flight[place(id)];
  }
  return order;
}

}  // namespace weft
