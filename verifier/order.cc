#include "verifier/order.h"

#include <algorithm>
#include <cstring>

namespace weft::verify {
namespace {

// MaxInto takes the maximum of this many clocks of two nodes at once.
constexpr int kClocksAtOnce = 4;

void MaxInto(const int32_t* from, int32_t* to) {
  using Clocks = int32_t __attribute__((vector_size(kClocksAtOnce * sizeof(int32_t))));
  Clocks a, b;
  std::memcpy(&a, from, sizeof(a));
  std::memcpy(&b, to, sizeof(b));
  b = a > b ? a : b;
  std::memcpy(to, &b, sizeof(b));
}

}  // namespace

bool Order::Build(const Index& index, const TemplateIndex& t, int repetitions, Ranks ranks) {
  // Round up to a multiple of kClocksAtOnce.
  clocks_ = (t.clocks + kClocksAtOnce - 1) / kClocksAtOnce * kClocksAtOnce;
  const bool message_driven = IsMessageDriven(*index.program);
  copies_ = repetitions + 2;
  for (int copy = 0; copy < copies_; ++copy) {
    const List list = copy == 0 ? kPrologue : copy == copies_ - 1 ? kEpilogue : kBody;
    copy_begin_.push_back(static_cast<int>(instances_.size()));
    action_base_.push_back(t.list_begin[list]);
    for (int a = t.list_begin[list]; a < t.list_begin[list + 1]; ++a) {
      Instance& instance = instances_.emplace_back();
      instance.action = a;
      instance.copy = copy;
      instance.first_member = static_cast<int>(instances_.size()) - 1;
      if (t.actions[a].group >= 0) {
        const TransferGroup& group = t.groups[t.actions[a].group];
        instance.first_member -= a - group.first;
        instance.members = group.size;
      }
      instance.first_node = static_cast<int>(nodes_.size());
      const ActionRef& ref = t.actions[a];
      const int id = static_cast<int>(instances_.size()) - 1;
      const auto add = [&](int clock, bool detached, bool latent, bool collective) {
        nodes_.push_back({clock, 0, id, -1, detached, latent, collective});
      };
      if (IsCompute(ref.action->kind())) {
        const int segment = ref.action->segment();
        instance.segment = &index.segments[segment];
        for (const Part& part : instance.segment->parts) {
          const bool collective = IsCollective(part);
          const int clock = collective ? t.channels[segment][part.stream - kStepStreams].clock
                                       : ClockOf(message_driven, ref.action->kind(), part.stream);
          add(clock, part.detached, collective, collective);
        }
      } else {
        add(ref.clock, false, ref.action->kind() != SEND, IsCollective(ref.action->kind()));
      }
      instance.nodes = static_cast<int>(nodes_.size()) - instance.first_node;
      instance.finish_node = instance.first_node;
      if (instance.nodes > 1) {
        instance.finish_node = static_cast<int>(nodes_.size());
        add(-1, false, false, false);
      }
      instance.all_node = instance.finish_node;
      if (instance.segment != nullptr && instance.segment->has_detached) {
        instance.all_node = static_cast<int>(nodes_.size());
        add(-1, false, false, false);
      }
      if (ref.group >= 0 && a == t.groups[ref.group].first) {
        group_node_[{ref.group, copy}] = static_cast<int>(nodes_.size());
        add(-1, false, false, false);  // All members may start.
        add(-1, false, false, false);  // All members have ended.
      }
    }
  }
  std::vector<int> count(clocks_, 0);
  for (Node& node : nodes_) {
    if (node.clock >= 0) node.position = count[node.clock]++;
  }
  return (ranks == kOfList && FollowList(index, t)) || FollowReadiness(index, t);
}

// Adds the edges of the instance's nodes by stream order and inside its segment. edge(a, b): b starts after the end of
// a.
template <typename Edge>
void Order::AddSteps(const TemplateIndex& t, const Instance& instance, StreamOrder* streams, Edge edge) const {
  const ActionRef& ref = t.actions[instance.action];
  if (instance.segment != nullptr) {
    const std::vector<Part>& parts = instance.segment->parts;
    auto last = instance.segment->last_parts.begin();  // Ascending.
    for (int p = 0; p < instance.nodes; ++p) {
      const int node = instance.first_node + p;
      streams->AddStep(ref.action->kind(), t.StreamOf(ref.action->segment(), parts[p]), node, edge);
      for (int dep : parts[p].deps) edge(instance.first_node + dep, node);
      // The finish waits only for the last parts, because all other parts that are not detached are finished before one
      // of these starts.
      if (last != instance.segment->last_parts.end() && *last == p) {
        if (instance.nodes > 1) edge(node, instance.finish_node);
        ++last;
      }
      if (instance.all_node != instance.finish_node) edge(node, instance.all_node);
    }
  } else if (ref.group < 0) {
    streams->Add(ref.stream, instance.first_node, instance.first_node, edge);
  } else {
    const int ready = group_node_.at({ref.group, instance.copy});
    edge(ready, instance.first_node);
    edge(instance.first_node, ready + 1);
    if (instance.action == t.groups[ref.group].first) {
      for (int stream : t.groups[ref.group].streams) streams->Add(stream, ready, ready + 1, edge);
    }
  }
}

// Records which instances this one waits for, and adds an edge for each wait.
template <typename Edge>
void Order::AddDependencies(const TemplateIndex& t, int id, Edge edge) {
  const Instance& instance = instances_[id];
  const ActionRef& ref = t.actions[instance.action];
  for (const Dependency& dep : ref.action->deps()) {
    const int on = t.by_id.at(dep.action());
    const List from = t.actions[on].list;
    int copy = instance.copy - dep.distance();
    if (from == kPrologue) copy = 0;
    if (from == kBody && instance.copy == copies_ - 1) copy = copies_ - 2;  // The last repetition.
    if (from == kBody && copy < 1) continue;                                // Before the first: no wait.
    const int target = from == kEpilogue ? InstanceOf(on, copies_ - 1) : InstanceOf(on, copy);
    const auto wait_for = [&](std::vector<int>& dependents, int node) {
      if (!dependents.empty() && dependents.back() == id) return;
      dependents.push_back(id);
      if (instance.segment != nullptr) {
        // Only the first parts need an edge, because they hold back the others.
        for (int p : instance.segment->first_parts) edge(node, instance.first_node + p);
      } else {
        edge(node, ref.group < 0 ? instance.first_node : group_node_.at({ref.group, instance.copy}));
      }
    };
    wait_for(instances_[target].dependents, instances_[target].finish_node);
    if (dep.detached()) wait_for(instances_[target].detached_dependents, instances_[target].all_node);
  }
}

// Records that node `b` starts after the end of node `a`.
void Order::StartAfter(int a, int b) {
  const int32_t* from = &clock_[int64_t{a} * clocks_];
  int32_t* to = &clock_[int64_t{b} * clocks_];
  for (int c = 0; c < clocks_; c += kClocksAtOnce) MaxInto(from + c, to + c);
  const Node& node = nodes_[a];
  if (node.clock >= 0) to[node.clock] = std::max(to[node.clock], node.position);
}

bool Order::FollowList(const Index& index, const TemplateIndex& t) {
  // With a transfer group, the order of the list is not topological: the node where a group's members may start comes
  // after its first member.
  if (!t.groups.empty()) return false;
  clock_.assign(static_cast<int64_t>(nodes_.size()) * clocks_, -1);
  bool forward = true;
  const auto edge = [&](int a, int b) {
    forward = forward && a < b;
    if (forward) StartAfter(a, b);
  };
  StreamOrder streams(IsMessageDriven(*index.program), t.streams);
  for (int id = 0; id < static_cast<int>(instances_.size()); ++id) {
    // Adds all edges into a node before the edges out of it, because StartAfter copies what is recorded for node `a` so
    // far.
    AddDependencies(t, id, edge);
    AddSteps(t, instances_[id], &streams, edge);
  }
  for (int node = 0; node < static_cast<int>(nodes_.size()); ++node) nodes_[node].rank = node;
  if (forward) return true;
  for (Instance& instance : instances_) {
    instance.dependents.clear();
    instance.detached_dependents.clear();
  }
  return false;
}

bool Order::FollowReadiness(const Index& index, const TemplateIndex& t) {
  const int n = static_cast<int>(nodes_.size());
  std::vector<std::pair<int, int>> edges;
  edges.reserve(int64_t{4} * n);
  const auto edge = [&](int a, int b) { edges.emplace_back(a, b); };
  StreamOrder streams(IsMessageDriven(*index.program), t.streams);
  for (int id = 0; id < static_cast<int>(instances_.size()); ++id) {
    AddSteps(t, instances_[id], &streams, edge);
    AddDependencies(t, id, edge);
  }

  // Sort the edges by their first node, and keep their order for each node.
  std::vector<int> waits(n, 0), next_begin(n + 1, 0), next(edges.size());
  for (const auto& [a, b] : edges) ++next_begin[a + 1], ++waits[b];
  for (int node = 0; node < n; ++node) next_begin[node + 1] += next_begin[node];
  std::vector<int> at(next_begin.begin(), next_begin.end() - 1);
  for (const auto& [a, b] : edges) next[at[a]++] = b;

  clock_.assign(int64_t{n} * clocks_, -1);
  std::vector<int> ready;
  ready.reserve(n);
  for (int node = 0; node < n; ++node) {
    if (waits[node] == 0) ready.push_back(node);
  }
  for (size_t head = 0; head < ready.size(); ++head) {
    const int a = ready[head];
    nodes_[a].rank = static_cast<int>(head);
    for (int e = next_begin[a]; e < next_begin[a + 1]; ++e) {
      const int b = next[e];
      StartAfter(a, b);
      if (--waits[b] == 0) ready.push_back(b);
    }
  }
  return static_cast<int>(ready.size()) == n;
}

// `dependents` are the instances that wait for the finish of some instance. If one of them has started before node `b`
// starts, that finish has happened.
bool Order::DependentStarted(const std::vector<int>& dependents, int b) const {
  for (int d : dependents) {
    const int first = instances_[d].first_member;
    for (int member = first; member < first + instances_[d].members; ++member) {
      const Instance& instance = instances_[member];
      const auto started = [&](int node) { return node == b || Ended(node, b); };
      if (instance.segment == nullptr) {
        if (started(instance.first_node)) return true;
        continue;
      }
      // All parts of a dependent wait for the finish, and one of its first parts starts before any other.
      if (nodes_[b].instance == member) return true;
      for (int part : instance.segment->first_parts) {
        if (started(instance.first_node + part)) return true;
      }
    }
  }
  return false;
}

bool Order::Before(int i, int a, int b) const {
  if (!nodes_[a].latent) return a != b && Ended(a, b);
  const Instance& instance = instances_[i];
  if (instance.segment != nullptr) {
    for (int w : instance.segment->parts[a - instance.first_node].waiters) {
      if (instance.first_node + w == b || Ended(instance.first_node + w, b)) return true;
    }
  }
  return nodes_[b].instance != i &&
         DependentStarted(nodes_[a].detached ? instance.detached_dependents : instance.dependents, b);
}

bool Order::FinishedBefore(int i, int b) const {
  const Instance& instance = instances_[i];
  if (instance.segment != nullptr) {
    return std::all_of(instance.segment->last_parts.begin(), instance.segment->last_parts.end(),
                       [&](int part) { return Before(i, instance.first_node + part, b); });
  }
  for (int a = instance.first_node; a < instance.first_node + instance.nodes; ++a) {
    if (!nodes_[a].detached && !Before(i, a, b)) return false;
  }
  return true;
}

bool Order::InstanceBefore(int i, int j) const {
  const Instance& later = instances_[j];
  if (later.segment != nullptr) {
    return std::all_of(later.segment->first_parts.begin(), later.segment->first_parts.end(),
                       [&](int part) { return FinishedBefore(i, later.first_node + part); });
  }
  for (int b = later.first_node; b < later.first_node + later.nodes; ++b) {
    if (!FinishedBefore(i, b)) return false;
  }
  return true;
}

}  // namespace weft::verify
