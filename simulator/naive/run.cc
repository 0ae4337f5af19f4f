#include "simulator/naive/run.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "simulator/naive/coordinates.h"
#include "simulator/naive/flights.h"

namespace weft::sim::naive {
namespace {

class Runner {
 public:
  Runner(Expansion& expansion, const std::vector<int64_t>& capacities, const NaiveOptions& options)
      : program_(*expansion.program),
        nodes_(expansion.nodes),
        steps_(expansion.steps),
        groups_(expansion.groups),
        items_(expansion.items),
        ranks_(Ranks(program_)),
        options_(options),
        flights_(capacities),
        loads_(ranks_, 0),
        cost_load_(nodes_.size(), 0) {}

  void Run() {
    for (int64_t now = 0; now >= 0; now = NextInstant(now)) {
      while (EndFlights(now) || MakeReady(now) || Start(now) || Choose(now) || Grant(now)) {
      }
      // No more step can end or start at this instant.
      ApplyLoads(now);
      flights_.ShareLinks(now);
    }
  }

 private:
  bool Happened(int64_t time, int64_t now) const { return time >= 0 && time <= now; }

  // Ends the transfers and collectives whose phases are over (P12); their end is known only when it happens.
  bool EndFlights(int64_t now) {
    const std::vector<int> ended = flights_.TakeEnded(now);
    for (const int first : ended) {
      for (const int i : nodes_[first].together) SetEnd(i, now);
    }
    return !ended.empty();
  }

  void SetEnd(int i, int64_t end) {
    steps_[i].end = end;
    steps_[i].finish = end + nodes_[i].time.latency;
  }

  bool MakeReady(int64_t now) {
    bool changed = false;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      NaiveStep& step = steps_[i];
      if (step.ready >= 0 || nodes_[i].item >= 0) continue;
      bool ready = true;
      for (const int member : nodes_[i].ready_with) {
        for (const int j : nodes_[member].previous) ready = ready && Happened(steps_[j].end, now);
        ready = ready && WaitsAreOver(member, now);
      }
      if (!ready) continue;
      step.ready = now;
      changed = true;
    }
    return changed;
  }

  bool WaitsAreOver(int i, int64_t now) const {
    for (const int j : nodes_[i].finished) {
      if (!Happened(steps_[j].finish, now)) return false;
    }
    return true;
  }

  // Lets every rank whose compute stream is free choose one of the first actions of its two queues (P6).
  bool Choose(int64_t now) {
    bool changed = false;
    for (int64_t rank = 0; rank < ranks_ && !items_.empty(); ++rank) {
      bool busy = false;
      int forward = -1;
      int backward = -1;
      for (size_t i = 0; i < items_.size(); ++i) {
        const Item& item = items_[i];
        if (item.rank != rank) continue;
        if (item.chosen) {
          for (const int j : item.steps) busy = busy || !Happened(steps_[j].end, now);
          continue;
        }
        if (forward < 0 && item.queue != Item::kBackward) forward = static_cast<int>(i);
        if (backward < 0 && item.queue != Item::kForward) backward = static_cast<int>(i);
      }
      if (busy) continue;
      const auto ready = [&](int head, int other) {
        return head >= 0 && (items_[head].queue != Item::kBoth || other == head || other < 0) &&
               WaitsAreOver(items_[head].steps.front(), now);
      };
      // An action that is in both queues can start only if it is the first in the other queue too.
      const bool can_forward = ready(forward, backward);
      const bool can_backward = ready(backward, forward);
      if (!can_forward && !can_backward) continue;
      int chosen = can_forward ? forward : backward;
      if (can_forward && can_backward) {
        const bool first = program_.compute_order() == ARRIVAL && Arrival(forward) <= Arrival(backward);
        chosen = first ? forward : backward;
      }
      items_[chosen].chosen = true;
      steps_[items_[chosen].steps.front()].ready = now;
      changed = true;
    }
    return changed;
  }

  std::pair<bool, int64_t> Arrival(int item) const {
    int64_t last = -1;
    for (const int j : nodes_[items_[item].steps.front()].named) last = std::max(last, steps_[j].finish);
    return {items_[item].awaits_recv, last};
  }

  // True if all transfers of a group, and all partners of these transfers, are ready.
  bool GroupMayStart(int group) const {
    for (const int member : groups_[group]) {
      for (const int j : nodes_[member].together) {
        if (steps_[j].ready < 0) return false;
      }
    }
    return true;
  }

  void StartCompute(int i, int64_t now) {
    cost_load_[i] = loads_[steps_[i].rank];
    steps_[i].start = now;
    SetEnd(i, now + nodes_[i].costs[cost_load_[i]]);
  }

  // Starts this step and all steps that start with it.
  void StartTogether(int i, int64_t now) {
    if (nodes_[i].kind == Node::kCompute) return StartCompute(i, now);
    for (const int j : nodes_[i].together) {
      steps_[j].start = now;
      if (nodes_[i].kind == Node::kCopy) SetEnd(j, now + nodes_[j].costs[0]);
      if (nodes_[i].kind != Node::kCopy && nodes_[i].time.phases.empty()) SetEnd(j, now + nodes_[j].time.occupancy);
    }
    if (!nodes_[i].time.phases.empty()) flights_.Begin(i, nodes_[i].time.phases, now);
  }

  // Starts every step whose partners are all ready, except compute steps under a slot limit.
  bool Start(int64_t now) {
    bool changed = false;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (steps_[i].start >= 0 || (nodes_[i].kind == Node::kCompute && options_.slots_per_node > 0)) continue;
      bool ready = true;
      for (const int j : nodes_[i].together) {
        ready = ready && steps_[j].ready >= 0 && (nodes_[j].group < 0 || GroupMayStart(nodes_[j].group));
      }
      if (!ready) continue;
      StartTogether(static_cast<int>(i), now);
      changed = true;
    }
    return changed;
  }

  // Grants one slot to the first step in line (P3). Returns false if none can be granted.
  bool Grant(int64_t now) {
    if (options_.slots_per_node == 0) return false;
    std::set<int64_t> running;
    std::map<int64_t, int> next;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      const NaiveStep& step = steps_[i];
      if (nodes_[i].kind != Node::kCompute) continue;
      if (step.start >= 0 && step.end > now) running.insert(step.rank);
      if (step.start < 0 && step.ready >= 0) next[step.rank] = i;
    }
    // A rank that holds a slot without running a step has just ended one. It keeps the slot if its next step is ready
    // and its turn is not over.
    for (const auto& [rank, since] : holders_) {
      if (running.count(rank) > 0 || next.count(rank) == 0 || now - since >= options_.turn) continue;
      StartCompute(next[rank], now);
      return true;
    }
    std::map<int64_t, int64_t> taken;
    for (auto holder = holders_.begin(); holder != holders_.end();) {
      const bool runs = running.count(holder->first) > 0;
      if (runs) ++taken[NodeOf(holder->first)];
      holder = runs ? std::next(holder) : holders_.erase(holder);
    }
    int first = -1;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      const NaiveStep& step = steps_[i];
      if (nodes_[i].kind != Node::kCompute || step.ready < 0 || step.start >= 0) continue;
      if (taken[NodeOf(step.rank)] >= options_.slots_per_node) continue;
      if (first < 0 ||
          std::make_pair(step.ready, step.rank) < std::make_pair(steps_[first].ready, steps_[first].rank)) {
        first = i;
      }
    }
    if (first < 0) return false;
    holders_[steps_[first].rank] = now;
    StartCompute(first, now);
    return true;
  }

  int64_t NodeOf(int64_t rank) const {
    return options_.nodes.empty() ? rank / options_.devices_per_node : options_.nodes[rank];
  }

  // P3: the collectives that a rank takes part in slow down its computation.
  void ApplyLoads(int64_t now) {
    loads_.assign(ranks_, 0);
    for (size_t i = 0; i < nodes_.size(); ++i) {
      const NaiveStep& step = steps_[i];
      const bool runs = step.start >= 0 && !Happened(step.end, now);
      if (nodes_[i].kind == Node::kCollective && runs) loads_[step.rank] = std::min(loads_[step.rank] + 1, 2);
    }
    for (size_t i = 0; i < nodes_.size(); ++i) {
      const NaiveStep& step = steps_[i];
      const int load = loads_[step.rank];
      if (nodes_[i].kind != Node::kCompute || step.start < 0 || step.end <= now || load == cost_load_[i]) continue;
      const __int128 left = step.end - now;
      const int64_t before = nodes_[i].costs[cost_load_[i]];
      const int64_t after = nodes_[i].costs[load];
      SetEnd(static_cast<int>(i), now + static_cast<int64_t>((left * after + before - 1) / before));
      cost_load_[i] = load;
    }
  }

  int64_t NextInstant(int64_t now) const {
    int64_t next = flights_.NextInstant();
    for (const NaiveStep& step : steps_) {
      for (const int64_t time : {step.end, step.finish}) {
        if (time > now && (next < 0 || time < next)) next = time;
      }
    }
    return next;
  }

  const Program& program_;
  const std::vector<Node>& nodes_;
  std::vector<NaiveStep>& steps_;
  const std::vector<std::vector<int>>& groups_;
  std::vector<Item>& items_;
  const int64_t ranks_;
  const NaiveOptions& options_;
  Flights flights_;
  // Load of each rank at the last instant, and the load at which each compute step is costed.
  std::vector<int> loads_;
  std::vector<int> cost_load_;
  // Ranks that hold a slot, and since when.
  std::map<int64_t, int64_t> holders_;
};

}  // namespace

void RunSteps(Expansion& expansion, const std::vector<int64_t>& capacities, const NaiveOptions& options) {
  Runner(expansion, capacities, options).Run();
}

}  // namespace weft::sim::naive
