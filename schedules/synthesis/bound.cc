#include "schedules/synthesis/bound.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <queue>
#include <utility>

namespace weft {
namespace {

// Larger problems get heads and tails from single predecessors only.
constexpr int64_t kMaxCounts = int64_t{1} << 26;

// Returns the problem with backwards that take the shorter of their times whole and in halves, and whose input
// gradients come no later than in either case.
SynthesisProblem Relaxed(const SynthesisProblem& problem) {
  SynthesisProblem relaxed = problem;
  if (!problem.split) return relaxed;
  for (StageCosts& costs : relaxed.costs) {
    const int64_t work = std::min(costs.backward, costs.backward_input + costs.backward_weight);
    costs.backward_input = std::min(costs.backward_input, costs.backward);
    costs.backward_weight = work - costs.backward_input;
    costs.backward = work;
  }
  return relaxed;
}

// The slots of one graph as a partial order that every schedule respects. Reversed, it gives tails.
class PartialOrder {
 public:
  explicit PartialOrder(const SlotGraph& graph) : graph_(graph), before_(graph.time.size()) {
    const int n = graph.microbatches;
    std::vector<int> last(graph.placement.size(), -1);
    std::vector<std::vector<int>> microbatches(graph.placement.size());
    for (int m = 0; m < n; ++m) {
      std::vector<int>& lane = microbatches[graph.lane_of[m]];
      const int previous = lane.empty() ? -1 : lane.back();
      lane.push_back(m);
      for (int s = 0; s < graph.stages; ++s) {
        if (previous >= 0) {
          for (const GraphKind kind : {kForwardOp, kGradientOp, kWeightOp}) {
            Add(graph.id(kind, s, previous), graph.id(kind, s, m), 0);
          }
        }
        // The stage has room for `room` microbatches.
        const int64_t held = graph.activations[s];
        const int64_t room = held > 0 ? graph.memory_cap / held : n;
        const int64_t index = static_cast<int64_t>(lane.size()) - 1 - room;
        if (index >= 0) Add(Release(s, lane[index]), graph.id(kForwardOp, s, m), 0);
      }
    }
    for (int32_t id = 0; id < static_cast<int32_t>(before_.size()); ++id) {
      if (graph.exists(id) && graph.reads[id] >= 0) Add(graph.reads[id], id, graph.lag[id]);
    }
    // Going microbatch by microbatch is a topological order.
    for (int m = 0; m < n; ++m) {
      for (int s = 0; s < graph.stages; ++s) sequence_.push_back(graph.id(kForwardOp, s, m));
      for (int s = graph.stages - 1; s >= 0; --s) {
        sequence_.push_back(graph.id(kGradientOp, s, m));
        if (graph.exists(graph.id(kWeightOp, s, m))) sequence_.push_back(graph.id(kWeightOp, s, m));
      }
    }
  }

  void Reverse() {
    std::vector<std::vector<Arc>> after(before_.size());
    for (int32_t id = 0; id < static_cast<int32_t>(before_.size()); ++id) {
      for (const Arc& arc : before_[id]) after[arc.from].push_back({id, arc.lag});
    }
    before_ = std::move(after);
    std::reverse(sequence_.begin(), sequence_.end());
    reversed_ = !reversed_;
  }

  // Returns the earliest start of each slot.
  std::vector<int64_t> Heads() const {
    const int n = graph_.microbatches, groups = 3 * graph_.stages;
    // All arcs are within a lane, and each group is a chain. So a slot comes after the first `count` slots of each
    // group.
    const bool in_sets = static_cast<int64_t>(before_.size()) * groups <= kMaxCounts;
    std::vector<int32_t> count(in_sets ? before_.size() * groups : 0);
    std::vector<int64_t> head(before_.size());
    std::vector<std::pair<int64_t, int64_t>> earlier;  // (head, time)
    for (const int32_t id : sequence_) {
      for (const Arc& arc : before_[id]) {
        head[id] = std::max(head[id], head[arc.from] + graph_.time[arc.from] + arc.lag);
      }
      if (!in_sets) continue;
      int32_t* const counts = &count[static_cast<int64_t>(id) * groups];
      for (const Arc& arc : before_[id]) {
        const int32_t* const others = &count[static_cast<int64_t>(arc.from) * groups];
        for (int group = 0; group < groups; ++group) counts[group] = std::max(counts[group], others[group]);
        int32_t& own = counts[graph_.group(arc.from)];
        own = std::max(own, Position(arc.from) + 1);
      }
      earlier.clear();
      const int lane = graph_.lane_of[graph_.microbatch(id)];
      for (int group = 0; group < groups; ++group) {
        if (graph_.placement[lane][group % graph_.stages] != graph_.rank[id]) continue;
        for (int position = 0; position < counts[group]; ++position) {
          const int m = reversed_ ? n - 1 - position : position;
          const int32_t other = group * n + m;
          if (graph_.lane_of[m] == lane && graph_.exists(other)) earlier.push_back({head[other], graph_.time[other]});
        }
      }
      std::sort(earlier.begin(), earlier.end());
      int64_t busy_until = 0;
      for (const auto& [start, time] : earlier) busy_until = std::max(busy_until, start) + time;
      head[id] = std::max(head[id], busy_until);
    }
    return head;
  }

  const std::vector<int32_t>& sequence() const { return sequence_; }

 private:
  struct Arc {
    int32_t from;
    int64_t lag;
  };

  void Add(int32_t from, int32_t to, int64_t lag) {
    if (graph_.exists(from) && graph_.exists(to)) before_[to].push_back({from, lag});
  }
  // Returns the position of a slot in its group.
  int Position(int32_t id) const {
    return reversed_ ? graph_.microbatches - 1 - graph_.microbatch(id) : graph_.microbatch(id);
  }
  int32_t Release(int stage, int m) const {
    const int32_t weight = graph_.id(kWeightOp, stage, m);
    return graph_.exists(weight) ? weight : graph_.id(kGradientOp, stage, m);
  }

  const SlotGraph& graph_;
  std::vector<std::vector<Arc>> before_;
  std::vector<int32_t> sequence_;
  bool reversed_ = false;
};

// Returns the makespan of Jackson's preemptive schedule: it always runs, of the slots whose heads have passed, the one
// with the most time after it.
int64_t PreemptiveMakespan(const SlotGraph& graph, const SlotBounds& bounds, std::vector<int32_t> slots) {
  std::sort(slots.begin(), slots.end(),
            [&](int32_t a, int32_t b) { return std::pair(bounds.head[a], a) < std::pair(bounds.head[b], b); });
  std::priority_queue<std::pair<int64_t, int64_t>> waiting;  // (time after the slot, time that it still needs)
  int64_t now = 0, makespan = 0;
  size_t next = 0;
  while (next < slots.size() || !waiting.empty()) {
    if (waiting.empty()) now = std::max(now, bounds.head[slots[next]]);
    for (; next < slots.size() && bounds.head[slots[next]] <= now; ++next) {
      const int64_t time = graph.time[slots[next]];
      waiting.push({bounds.tail[slots[next]] - time, time});
    }
    const auto [after, left] = waiting.top();
    waiting.pop();
    const int64_t run = next < slots.size() ? std::min(left, bounds.head[slots[next]] - now) : left;
    now += run;
    if (run < left) {
      waiting.push({after, left - run});
    } else {
      makespan = std::max(makespan, now + after);
    }
  }
  return makespan;
}

// Returns the work of the rank that has the most.
int64_t BusiestRank(const SlotGraph& graph) {
  std::vector<int64_t> work(graph.ranks);
  for (size_t id = 0; id < graph.time.size(); ++id) work[graph.rank[id]] += graph.time[id];
  return *std::max_element(work.begin(), work.end());
}

}  // namespace

SlotBounds BoundSlots(const SlotGraph& graph) {
  PartialOrder order(graph);
  SlotBounds bounds;
  bounds.head = order.Heads();
  order.Reverse();
  bounds.tail = order.Heads();
  for (const int32_t id : order.sequence()) bounds.tail[id] += graph.time[id];
  return bounds;
}

int64_t BoundGraph(const SlotGraph& graph) {
  const SlotBounds bounds = BoundSlots(graph);
  std::vector<std::vector<int32_t>> slots(graph.ranks);
  int64_t bound = 0;
  for (int32_t id = 0; id < static_cast<int32_t>(graph.time.size()); ++id) {
    if (!graph.exists(id)) continue;
    slots[graph.rank[id]].push_back(id);
    bound = std::max(bound, bounds.head[id] + bounds.tail[id]);
  }
  for (std::vector<int32_t>& of_rank : slots) {
    bound = std::max(bound, PreemptiveMakespan(graph, bounds, std::move(of_rank)));
  }
  return bound;
}

int64_t LowerBound(const SynthesisProblem& problem) {
  const SynthesisProblem relaxed = Relaxed(problem);
  const int n = problem.microbatches;
  const std::vector<bool> halves(int64_t{problem.stages()} * n, problem.split);
  int64_t bound = std::numeric_limits<int64_t>::max();
  for (const Placement& placement : problem.placements) {
    // Which microbatches are in a lane does not matter, only how many. The smallest bound is near equal shares.
    std::vector<int> shares(placement.size() == 2 ? n + 1 : 1);
    std::iota(shares.begin(), shares.end(), 0);
    std::stable_sort(shares.begin(), shares.end(),
                     [n](int a, int b) { return std::abs(2 * a - n) < std::abs(2 * b - n); });
    for (const int second : shares) {
      std::vector<int> lane_of(n);
      std::fill(lane_of.end() - second, lane_of.end(), 1);
      const SlotGraph graph(relaxed, placement, std::move(lane_of), halves);
      if (BusiestRank(graph) < bound) bound = std::min(bound, BoundGraph(graph));
    }
  }
  return bound;
}

}  // namespace weft
