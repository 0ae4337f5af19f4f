#include "proto/verify/order.h"

#include <algorithm>

namespace weft::verify {

bool Order::Build(const Index& index, const TemplateIndex& t, int repetitions) {
  streams_ = t.streams;
  copies_ = repetitions + 2;
  for (int copy = 0; copy < copies_; ++copy) {
    const List list = copy == 0 ? kPrologue : copy == copies_ - 1 ? kEpilogue : kBody;
    copy_begin_.push_back(static_cast<int>(instances_.size()));
    action_base_.push_back(t.list_begin[list]);
    for (int a = t.list_begin[list]; a < t.list_begin[list + 1]; ++a) {
      Instance& instance = instances_.emplace_back();
      instance.action = a;
      instance.copy = copy;
      instance.first_node = static_cast<int>(stream_.size());
      const ActionRef& ref = t.actions[a];
      const int id = static_cast<int>(instances_.size()) - 1;
      const auto add = [&](int stream, bool detached, bool latent) {
        stream_.push_back(stream);
        detached_.push_back(detached);
        latent_.push_back(latent);
        instance_.push_back(id);
      };
      if (IsCompute(ref.action->kind())) {
        for (const Part& part : index.segments[ref.action->segment()].parts) add(part.stream, part.detached, false);
      } else {
        add(ref.stream, false, ref.action->kind() != SEND);
      }
      instance.nodes = static_cast<int>(stream_.size()) - instance.first_node;
      instance.finish_node = instance.first_node;
      if (instance.nodes > 1) {
        instance.finish_node = static_cast<int>(stream_.size());
        add(-1, false, false);
      }
    }
  }
  const int n = static_cast<int>(stream_.size());

  // Edges: `ended` = the end of a node before the start of another, by stream order or inside a segment.
  std::vector<std::vector<int>> next(n);
  std::vector<int> waits(n, 0);
  const auto edge = [&](int a, int b) {
    next[a].push_back(b);
    ++waits[b];
  };
  std::vector<int> last(streams_, -1), count(streams_, 0);
  position_.resize(n);
  for (int node = 0; node < n; ++node) {
    const int s = stream_[node];
    if (s < 0) continue;
    position_[node] = count[s]++;
    if (last[s] >= 0) edge(last[s], node);
    last[s] = node;
  }
  for (int id = 0; id < static_cast<int>(instances_.size()); ++id) {
    const Instance& instance = instances_[id];
    const Action& action = *t.actions[instance.action].action;
    if (IsCompute(action.kind())) {
      const std::vector<Part>& parts = index.segments[action.segment()].parts;
      for (int p = 0; p < instance.nodes; ++p) {
        for (int dep : parts[p].deps) edge(instance.first_node + dep, instance.first_node + p);
        if (instance.nodes > 1 && !parts[p].detached) edge(instance.first_node + p, instance.finish_node);
      }
    }
    for (const Dependency& dep : action.deps()) {
      const int on = t.by_id.at(dep.action());
      const List from = t.actions[on].list;
      int copy = instance.copy - dep.distance();
      if (from == kPrologue) copy = 0;
      if (from == kBody && instance.copy == copies_ - 1) copy = copies_ - 2;  // The last repetition.
      if (from == kBody && copy < 1) continue;                                // Before the first: void.
      const int target = from == kEpilogue ? InstanceOf(on, copies_ - 1) : InstanceOf(on, copy);
      std::vector<int>& dependents = instances_[target].dependents;
      if (!dependents.empty() && dependents.back() == id) continue;
      dependents.push_back(id);
      for (int b = 0; b < instance.nodes; ++b) edge(instances_[target].finish_node, instance.first_node + b);
    }
  }

  clock_.assign(int64_t{n} * streams_, -1);
  rank_.assign(n, -1);
  std::vector<int> ready;
  for (int node = 0; node < n; ++node) {
    if (waits[node] == 0) ready.push_back(node);
  }
  for (size_t head = 0; head < ready.size(); ++head) {
    const int a = ready[head];
    rank_[a] = static_cast<int>(head);
    const int32_t* from = &clock_[int64_t{a} * streams_];
    for (int b : next[a]) {
      int32_t* to = &clock_[int64_t{b} * streams_];
      for (int s = 0; s < streams_; ++s) to[s] = std::max(to[s], from[s]);
      if (stream_[a] >= 0) to[stream_[a]] = std::max(to[stream_[a]], static_cast<int32_t>(position_[a]));
      if (--waits[b] == 0) ready.push_back(b);
    }
  }
  return static_cast<int>(ready.size()) == n;
}

// The finish of instance i is waited for by its dependents: it has happened once one of them has started.
bool Order::DependentStarted(int i, int b) const {
  for (int d : instances_[i].dependents) {
    for (int node = instances_[d].first_node; node < instances_[d].first_node + instances_[d].nodes; ++node) {
      if (node == b || Ended(node, b)) return true;
    }
  }
  return false;
}

bool Order::Before(int i, int a, int b) const {
  if (latent_[a]) return instance_[b] != i && DependentStarted(i, b);
  return a != b && Ended(a, b);
}

bool Order::FinishedBefore(int i, int b) const {
  const Instance& instance = instances_[i];
  for (int a = instance.first_node; a < instance.first_node + instance.nodes; ++a) {
    if (!detached_[a] && !Before(i, a, b)) return false;
  }
  return true;
}

bool Order::InstanceBefore(int i, int j) const {
  const Instance& later = instances_[j];
  for (int b = later.first_node; b < later.first_node + later.nodes; ++b) {
    if (!FinishedBefore(i, b)) return false;
  }
  return true;
}

}  // namespace weft::verify
