#include "simulator/naive/run.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "simulator/naive/coordinates.h"

namespace weft::naive {
namespace {

class Runner {
 public:
  Runner(Expansion& expansion, int64_t devices_per_node, int64_t slots_per_node, int64_t turn)
      : program_(*expansion.program),
        nodes_(expansion.nodes),
        steps_(expansion.steps),
        groups_(expansion.groups),
        items_(expansion.items),
        ranks_(Ranks(program_)),
        devices_per_node_(devices_per_node),
        slots_per_node_(slots_per_node),
        turn_(turn) {}

  void Run() {
    for (int64_t now = 0; now >= 0; now = NextInstant(now)) {
      while (MakeReady(now) || Start(now) || Choose(now) || Grant(now)) {
      }
    }
  }

 private:
  bool Happened(int64_t time, int64_t now) const { return time >= 0 && time <= now; }

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

  // Every rank whose compute stream is free starts one of the heads of its queues (P6).
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
      // Whether nothing of the one queue is left before an action that is in both.
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

  // Whether a transfer's group is ready, and all of its partners.
  bool GroupMayStart(int group) const {
    for (const int member : groups_[group]) {
      for (const int j : nodes_[member].together) {
        if (steps_[j].ready < 0) return false;
      }
    }
    return true;
  }

  void StartStep(int i, int64_t now) {
    NaiveStep& step = steps_[i];
    step.start = now;
    step.end = now + nodes_[i].occupancy;
    step.finish = step.end + nodes_[i].latency;
  }

  // Everything but compute under a slot limit starts when all that start with it are ready.
  bool Start(int64_t now) {
    bool changed = false;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (steps_[i].start >= 0 || (nodes_[i].kind == Node::kCompute && slots_per_node_ > 0)) continue;
      bool ready = true;
      for (const int j : nodes_[i].together) {
        ready = ready && steps_[j].ready >= 0 && (nodes_[j].group < 0 || GroupMayStart(nodes_[j].group));
      }
      if (!ready) continue;
      for (const int j : nodes_[i].together) StartStep(j, now);
      changed = true;
    }
    return changed;
  }

  // One slot to the first in line (P3).
  bool Grant(int64_t now) {
    if (slots_per_node_ == 0) return false;
    std::set<int64_t> running;
    std::map<int64_t, int> next;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      const NaiveStep& step = steps_[i];
      if (nodes_[i].kind != Node::kCompute) continue;
      if (step.start >= 0 && step.end > now) running.insert(step.rank);
      if (step.start < 0 && step.ready >= 0) next[step.rank] = i;
    }
    // Whoever holds a slot and is not running has ended a step just now.
    for (const auto& [rank, since] : holders_) {
      if (running.count(rank) > 0 || next.count(rank) == 0 || now - since >= turn_) continue;
      StartStep(next[rank], now);
      return true;
    }
    std::map<int64_t, int64_t> taken;
    for (auto holder = holders_.begin(); holder != holders_.end();) {
      const bool runs = running.count(holder->first) > 0;
      if (runs) ++taken[holder->first / devices_per_node_];
      holder = runs ? std::next(holder) : holders_.erase(holder);
    }
    int first = -1;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      const NaiveStep& step = steps_[i];
      if (nodes_[i].kind != Node::kCompute || step.ready < 0 || step.start >= 0) continue;
      if (taken[step.rank / devices_per_node_] >= slots_per_node_) continue;
      if (first < 0 ||
          std::make_pair(step.ready, step.rank) < std::make_pair(steps_[first].ready, steps_[first].rank)) {
        first = i;
      }
    }
    if (first < 0) return false;
    holders_[steps_[first].rank] = now;
    StartStep(first, now);
    return true;
  }

  int64_t NextInstant(int64_t now) const {
    int64_t next = -1;
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
  const int64_t devices_per_node_;
  const int64_t slots_per_node_;
  const int64_t turn_;
  // Ranks that hold a slot, and since when.
  std::map<int64_t, int64_t> holders_;
};

}  // namespace

void RunSteps(Expansion& expansion, int64_t devices_per_node, int64_t slots_per_node, int64_t turn) {
  Runner(expansion, devices_per_node, slots_per_node, turn).Run();
}

}  // namespace weft::naive
