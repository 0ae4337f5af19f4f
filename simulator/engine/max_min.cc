#include "simulator/engine/max_min.h"

#include <algorithm>
#include <functional>

namespace weft::sim {

MaxMin::MaxMin(absl::Span<const int64_t> capacities) : links_(capacities.size()) {
  for (size_t i = 0; i < capacities.size(); ++i) links_[i].capacity = capacities[i];
}

void MaxMin::MarkDirty(int32_t link) {
  if (links_[link].dirty) return;
  links_[link].dirty = true;
  dirty_.push_back(link);
}

int32_t MaxMin::Begin(Loads loads) {
  int32_t number = static_cast<int32_t>(flows_.size());
  if (unused_flows_.empty()) {
    flows_.emplace_back();
  } else {
    number = unused_flows_.back();
    unused_flows_.pop_back();
  }
  FlowState& flow = flows_[number];
  flow.loads = loads;
  flow.rate = 0;
  flow.positions.resize(loads.size());
  for (size_t i = 0; i < loads.size(); ++i) {
    std::vector<Use>& uses = links_[loads[i].first].uses;
    flow.positions[i] = static_cast<int32_t>(uses.size());
    uses.push_back({number, loads[i].second, static_cast<int32_t>(i)});
    MarkDirty(loads[i].first);
  }
  return number;
}

void MaxMin::End(int32_t number) {
  const FlowState& flow = flows_[number];
  for (size_t i = 0; i < flow.loads.size(); ++i) {
    std::vector<Use>& uses = links_[flow.loads[i].first].uses;
    const Use moved = uses.back();
    uses[flow.positions[i]] = moved;
    flows_[moved.flow].positions[moved.index] = flow.positions[i];
    uses.pop_back();
    MarkDirty(flow.loads[i].first);
  }
  unused_flows_.push_back(number);
}

absl::Span<const int32_t> MaxMin::Solve() {
  ++solve_;
  changed_flows_.clear();
  for (const int32_t link : dirty_) {
    links_[link].dirty = false;
    if (links_[link].solve == solve_) continue;
    Reach(link);
    if (reached_flows_.size() == 1) {
      SolveAlone(reached_flows_[0]);
    } else {
      SolveReached();
    }
  }
  dirty_.clear();
  return changed_flows_;
}

void MaxMin::Reach(int32_t link) {
  reached_links_.assign(1, link);
  reached_flows_.clear();
  links_[link].solve = solve_;
  for (size_t next = 0; next < reached_links_.size(); ++next) {
    for (const Use& use : links_[reached_links_[next]].uses) {
      FlowState& flow = flows_[use.flow];
      if (flow.solve == solve_) continue;
      flow.solve = solve_;
      flow.settled = false;
      reached_flows_.push_back(use.flow);
      for (const auto& [other, load] : flow.loads) {
        if (links_[other].solve == solve_) continue;
        links_[other].solve = solve_;
        reached_links_.push_back(other);
      }
    }
  }
}

void MaxMin::SetRate(int32_t number, int64_t rate) {
  FlowState& flow = flows_[number];
  flow.settled = true;
  if (flow.rate == rate) return;
  flow.rate = rate;
  changed_flows_.push_back(number);
}

void MaxMin::SolveAlone(int32_t number) {
  int64_t rate = INT64_MAX;
  for (const auto& [link, load] : flows_[number].loads) rate = std::min(rate, links_[link].capacity / load);
  SetRate(number, std::max<int64_t>(rate, 1));
}

void MaxMin::SolveReached() {
  // A heap of (level, link) with the least level on top. An element may be out of date: the values in links_ are
  // current.
  levels_.clear();
  for (const int32_t l : reached_links_) {
    LinkState& link = links_[l];
    if (link.uses.empty()) continue;
    link.free = link.capacity;
    link.load = 0;
    for (const Use& use : link.uses) link.load += use.load;
    levels_.push_back({link.free / link.load, l});
  }
  std::make_heap(levels_.begin(), levels_.end(), std::greater<>());
  const auto push = [this](int64_t level, int32_t link) {
    levels_.push_back({level, link});
    std::push_heap(levels_.begin(), levels_.end(), std::greater<>());
  };
  while (!levels_.empty()) {
    // All links at the least level give it at once, so flows that are alike get the same rate.
    const int64_t level = levels_.front().first;
    bottlenecks_.clear();
    while (!levels_.empty() && levels_.front().first == level) {
      std::pop_heap(levels_.begin(), levels_.end(), std::greater<>());
      const int32_t l = levels_.back().second;
      levels_.pop_back();
      const LinkState& link = links_[l];
      if (link.load == 0) continue;
      // Levels rise as other flows are settled; a link that has risen is pushed again here. A link that has fallen was
      // already pushed again below.
      const int64_t now = link.free / link.load;
      if (now == level) bottlenecks_.push_back(l);
      if (now > level) push(now, l);
    }
    const int64_t rate = std::max<int64_t>(level, 1);
    for (const int32_t l : bottlenecks_) {
      for (const Use& use : links_[l].uses) {
        if (flows_[use.flow].settled) continue;
        SetRate(use.flow, rate);
        for (const auto& [other, load] : flows_[use.flow].loads) {
          LinkState& shared = links_[other];
          const int64_t before = shared.free / shared.load;
          shared.free = std::max<int64_t>(shared.free - load * rate, 0);
          shared.load -= load;
          // A level falls only if a link gives a flow the rate 1 although its level is 0.
          if (shared.load > 0 && shared.free / shared.load < before) push(shared.free / shared.load, other);
        }
      }
    }
  }
}

}  // namespace weft::sim
