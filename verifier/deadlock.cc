// Rule P13, deadlock. Each rendezvous becomes one node. The lists are free of deadlock iff stream order and
// dependencies have no cycle. A transfer group has its own nodes for "ready" and "ended". So has a single transfer
// whose partner is in a group, because it keeps the whole group waiting.
//
// One repetition is enough: members of a rendezvous are in the same list (P4), so no edge leads from a repetition to an
// earlier one, and all repetitions have the same edges within them. Roles are enough: peers keep unpinned axes, and
// groups take them as a whole or in equal parts. So ranks of one role are at the same place at the same time. A cycle
// of roles corresponds to a cycle of ranks, and the other way round. If all members of a collective step are of one
// role, the step waits for no other role and counts as an ordinary step.
//
// Segments may have thousands of steps, so a coarse graph comes first. It has one node for all steps of an action, and
// one for all actions that meet in collective steps of several roles. It has every edge from one such node to another.
// So if the coarse graph has no cycle, a cycle of the full graph must stay within a node. That is impossible: those
// actions run one segment, one on each role, and meet in the same step each time (P4.collective). So every edge among
// them leads to a later step, or in the same step from a member of a collective to the others. The full graph is needed
// only if the coarse graph has a cycle or one role meets itself.
#include <algorithm>
#include <map>

#include "absl/container/flat_hash_set.h"
#include "verifier/matching.h"

namespace weft::verify {
namespace {

class Graph {
 public:
  Graph(const Index& index, const Matching& matching, List list, bool coarse)
      : index_(index), matching_(matching), list_(list), coarse_(coarse) {
    Number();
    MeetInSteps();
    Connect();
  }

  // True if the coarse graph cannot decide.
  bool Undecided() const { return undecided_; }

  // Sorts by Kahn's algorithm. Returns false if there is a cycle.
  bool Sort() {
    size_t nodes = 0;
    for (int n = 0; n < static_cast<int>(owner_.size()); ++n) {
      nodes += RepresentativeOf(n) == n;
      if (waits_[n] == 0 && RepresentativeOf(n) == n) sorted_.push_back(n);
    }
    for (size_t head = 0; head < sorted_.size(); ++head) {
      for (int e = edge_begin_[sorted_[head]]; e < edge_begin_[sorted_[head] + 1]; ++e) {
        if (--waits_[edges_[e]] == 0) sorted_.push_back(edges_[e]);
      }
    }
    return sorted_.size() == nodes;
  }

  std::vector<RoleAction> Order() const {
    std::vector<RoleAction> order;
    for (int n : sorted_) {
      if (finish_[n]) order.push_back(owner_[n]);
      const auto joined = joined_.find(n);
      if (joined == joined_.end()) continue;
      for (int m : joined->second) {
        if (finish_[m]) order.push_back(owner_[m]);
      }
    }
    return order;
  }

  // A cycle among the nodes that Sort could not sort. Each waits for the next.
  std::vector<RoleAction> Cycle() const {
    int start = 0;
    while (waits_[start] == 0 || RepresentativeOf(start) != start) ++start;
    // For each remaining node, one of its remaining predecessors.
    std::vector<int> pred(owner_.size(), -1);
    for (int n = static_cast<int>(owner_.size()) - 1; n >= 0; --n) {
      if (waits_[n] == 0) continue;
      for (int e = edge_begin_[n]; e < edge_begin_[n + 1]; ++e) {
        if (waits_[edges_[e]] > 0) pred[edges_[e]] = n;
      }
    }
    std::vector<int> seen(owner_.size(), -1), path;
    for (int n = start; seen[n] < 0; n = pred[n]) {
      seen[n] = static_cast<int>(path.size());
      path.push_back(n);
      start = pred[n];
    }
    std::vector<RoleAction> cycle;
    for (size_t i = seen[start]; i < path.size(); ++i) {
      const RoleAction& a = owner_[path[i]];
      if (cycle.empty() || cycle.back().role != a.role || cycle.back().action != a.action ||
          (a.part >= 0 && cycle.back().part != a.part)) {
        cycle.push_back(a);
      }
    }
    return cycle;
  }

 private:
  const TemplateIndex& TemplateOf(int role) const { return index_.templates[index_.role_template[role]]; }

  int Parts(const Action& action) const {
    if (coarse_) return 1;
    return IsCompute(action.kind()) ? static_cast<int>(index_.segments[action.segment()].parts.size()) : 1;
  }

  // A transfer group, or a single transfer whose partner is in a group.
  struct Unit {
    int ready = -1, ended = -1;
    int all_ready = -1;          // Its partners are ready too.
    std::vector<int> transfers;  // Indices of rendezvous.
    std::vector<int> partners;   // Indices of units.
  };

  int NewNode(RoleAction owner, bool finish) {
    owner_.push_back(owner);
    finish_.push_back(finish);
    return static_cast<int>(owner_.size()) - 1;
  }

  bool InGroup(const RoleAction& at) const { return TemplateOf(at.role).actions[at.action].group >= 0; }

  // Sets first_[role][action - list begin] to the action's first node. An action with several parts has a node for its
  // finish after them.
  void Number() {
    node_of_rendezvous_.resize(matching_.rendezvous.size(), -1);
    for (int role = 0; role < static_cast<int>(index_.role_template.size()); ++role) {
      const TemplateIndex& t = TemplateOf(role);
      std::vector<int>& first = first_.emplace_back();
      std::vector<int>& unit = unit_.emplace_back();
      for (int a = t.list_begin[list_]; a < t.list_begin[list_ + 1]; ++a) {
        const int r = matching_.of[role][a];
        unit.push_back(-1);
        if (r >= 0) {
          if (node_of_rendezvous_[r] < 0) node_of_rendezvous_[r] = NewNode({role, a}, true);
          first.push_back(node_of_rendezvous_[r]);
          const Rendezvous& members = matching_.rendezvous[r];
          if (std::any_of(members.begin(), members.end(), [&](const RoleAction& m) { return InGroup(m); })) {
            unit.back() = AddToUnit({role, a}, r, unit);
          }
          continue;
        }
        const Action& action = *t.actions[a].action;
        const int parts = Parts(action);
        const std::vector<Part>& all = index_.segments[action.segment()].parts;
        for (int p = 0; p < parts; ++p) {
          const int node = NewNode({role, a, !coarse_ && IsCollective(all[p]) ? p : -1}, parts == 1);
          if (p == 0) first.push_back(node);
        }
        if (parts > 1) NewNode({role, a}, true);
      }
    }
  }

  // Joins the nodes of the members of each collective step into one.
  void MeetInSteps() {
    representative_.resize(owner_.size());
    for (size_t n = 0; n < owner_.size(); ++n) representative_[n] = static_cast<int>(n);
    for (const Rendezvous& members : matching_.steps) {
      if (TemplateOf(members[0].role).actions[members[0].action].list != list_) continue;
      const auto node = [&](const RoleAction& at) {
        const int first = first_[at.role][at.action - TemplateOf(at.role).list_begin[list_]];
        return first + (coarse_ ? 0 : at.part);
      };
      for (const RoleAction& member : members) {
        const int a = RepresentativeOf(node(members[0])), b = RepresentativeOf(node(member));
        representative_[std::max(a, b)] = std::min(a, b);
      }
    }
    for (int n = 0; n < static_cast<int>(owner_.size()); ++n) {
      const int r = representative_[n] = RepresentativeOf(n);
      if (r != n) joined_[r].push_back(n);
    }
    for (const auto& [r, nodes] : joined_) {
      absl::flat_hash_set<int> roles = {owner_[r].role};
      for (int n : nodes) undecided_ = undecided_ || (coarse_ && !roles.insert(owner_[n].role).second);
    }
  }
  int RepresentativeOf(int n) const {
    while (representative_[n] != n) n = representative_[n];
    return n;
  }

  int AddToUnit(const RoleAction& at, int rendezvous, const std::vector<int>& units_of_role) {
    const TemplateIndex& t = TemplateOf(at.role);
    const int group = t.actions[at.action].group;
    int unit = static_cast<int>(units_.size());
    if (group >= 0 && t.groups[group].first < at.action) unit = units_of_role[units_of_role.size() - 2];
    if (unit == static_cast<int>(units_.size())) {
      Unit& fresh = units_.emplace_back();
      fresh.ready = NewNode(at, false);
      fresh.all_ready = NewNode(at, false);
      fresh.ended = group >= 0 ? NewNode(at, false) : node_of_rendezvous_[rendezvous];
    }
    units_[unit].transfers.push_back(rendezvous);
    return unit;
  }

  void ConnectUnits(std::vector<std::pair<int, int>>* pairs) {
    const auto unit_of = [&](const RoleAction& at) {
      return unit_[at.role][at.action - TemplateOf(at.role).list_begin[list_]];
    };
    for (int u = 0; u < static_cast<int>(units_.size()); ++u) {
      for (int r : units_[u].transfers) {
        for (const RoleAction& member : matching_.rendezvous[r]) {
          if (unit_of(member) != u) units_[u].partners.push_back(unit_of(member));
        }
      }
      std::sort(units_[u].partners.begin(), units_[u].partners.end());
      units_[u].partners.erase(std::unique(units_[u].partners.begin(), units_[u].partners.end()),
                               units_[u].partners.end());
    }
    for (const Unit& unit : units_) {
      pairs->emplace_back(unit.ready, unit.all_ready);
      for (int partner : unit.partners) pairs->emplace_back(units_[partner].ready, unit.all_ready);
      for (int r : unit.transfers) {
        const int node = node_of_rendezvous_[r];
        pairs->emplace_back(unit.all_ready, node);
        if (unit.ended != node) pairs->emplace_back(node, unit.ended);
      }
    }
  }

  void Connect() {
    std::vector<std::pair<int, int>> pairs;
    ConnectUnits(&pairs);
    const bool message_driven = IsMessageDriven(*index_.program);
    for (int role = 0; role < static_cast<int>(index_.role_template.size()); ++role) {
      const TemplateIndex& t = TemplateOf(role);
      const int base = t.list_begin[list_];
      StreamOrder streams(message_driven, t.streams);
      const auto edge = [&](int before, int after) { pairs.emplace_back(before, after); };
      for (int a = base; a < t.list_begin[list_ + 1]; ++a) {
        const Action& action = *t.actions[a].action;
        const int unit = unit_[role][a - base];
        const int first = unit >= 0 ? units_[unit].ready : first_[role][a - base];
        const int parts = Parts(action);
        if (!IsCompute(action.kind())) {
          const int group = t.actions[a].group;
          if (group < 0) {
            streams.Add(t.actions[a].stream, first, first_[role][a - base], edge);
          } else if (a == t.groups[group].first) {
            for (int stream : t.groups[group].streams) streams.Add(stream, first, units_[unit].ended, edge);
          }
        } else {
          const std::vector<Part>& all = index_.segments[action.segment()].parts;
          if (coarse_) {
            std::vector<int> used;
            for (const Part& part : all) used.push_back(t.StreamOf(action.segment(), part));
            std::sort(used.begin(), used.end());
            used.erase(std::unique(used.begin(), used.end()), used.end());
            for (int stream : used) streams.AddStep(action.kind(), stream, first, edge);
          }
          for (int p = 0; p < parts && !coarse_; ++p) {
            streams.AddStep(action.kind(), t.StreamOf(action.segment(), all[p]), first + p, edge);
            for (int dep : all[p].deps) pairs.emplace_back(first + dep, first + p);
            if (parts > 1 && !all[p].detached) pairs.emplace_back(first + p, first + parts);
          }
        }
        for (const Dependency& dep : action.deps()) {
          const int on = t.by_id.at(dep.action());
          if (dep.distance() != 0 || t.actions[on].list != list_) continue;
          const int on_parts = Parts(*t.actions[on].action), on_first = first_[role][on - base];
          const int finish = on_first + (on_parts > 1 ? on_parts : 0);
          // Only the first parts need an edge, because they hold back the others.
          std::vector<int> starts = {0};
          if (parts > 1) starts = index_.segments[action.segment()].first_parts;
          for (int p : starts) {
            pairs.emplace_back(finish, first + p);
            if (!dep.detached() || on_parts == 1) continue;
            const std::vector<Part>& all = index_.segments[t.actions[on].action->segment()].parts;
            for (int d = 0; d < on_parts; ++d) {
              if (all[d].detached) pairs.emplace_back(on_first + d, first + p);
            }
          }
        }
      }
    }
    for (auto& [a, b] : pairs) a = RepresentativeOf(a), b = RepresentativeOf(b);
    // Stores the edges as compressed rows.
    waits_.assign(owner_.size(), 0);
    edge_begin_.assign(owner_.size() + 1, 0);
    for (const auto& [a, b] : pairs) ++edge_begin_[a + 1], ++waits_[b];
    for (size_t n = 0; n < owner_.size(); ++n) edge_begin_[n + 1] += edge_begin_[n];
    std::vector<int> at(edge_begin_.begin(), edge_begin_.end() - 1);
    edges_.resize(pairs.size());
    for (const auto& [a, b] : pairs) edges_[at[a]++] = b;
  }

  const Index& index_;
  const Matching& matching_;
  const List list_;
  const bool coarse_;
  bool undecided_ = false;
  std::vector<int> representative_;
  std::map<int, std::vector<int>> joined_;  // Representative -> other nodes.
  std::vector<RoleAction> owner_;
  std::vector<bool> finish_;
  std::vector<std::vector<int>> first_;
  std::vector<int> node_of_rendezvous_;
  std::vector<Unit> units_;
  std::vector<std::vector<int>> unit_;  // Like first_: index into units_, or -1.
  std::vector<int> edge_begin_, edges_, waits_, sorted_;
};

}  // namespace

ListOrders CheckDeadlock(const Index& index, const Matching& matching, Findings* findings) {
  ListOrders orders;
  for (List list : {kPrologue, kBody, kEpilogue}) {
    const auto sorted = [&](Graph& graph) {
      if (!graph.Sort()) return false;
      if (list != kEpilogue) (list == kBody ? orders.body : orders.prologue) = graph.Order();
      return true;
    };
    Graph coarse(index, matching, list, true);
    if (!coarse.Undecided() && sorted(coarse)) continue;
    Graph graph(index, matching, list, false);
    if (sorted(graph)) continue;
    const std::vector<RoleAction> cycle = graph.Cycle();
    const auto name = [&](const RoleAction& a) -> std::string {
      const TemplateIndex& t = index.templates[index.role_template[a.role]];
      const int r = matching.of[a.role][a.action];
      const Action& action = *t.actions[a.action].action;
      std::string text = Describe(*t.t, action);
      if (a.part >= 0) {
        const int step = index.segments[action.segment()].parts[a.part].first_step;
        absl::StrAppend(&text, ", step '", index.program->segments(action.segment()).steps(step).name(), "'");
      }
      if (r < 0 || !IsTransfer(t.actions[a.action].action->kind())) return text;
      // Names both ends, because both wait.
      for (const RoleAction& end : matching.rendezvous[r]) {
        if (end.role == a.role && end.action == a.action) continue;
        const TemplateIndex& other = index.templates[index.role_template[end.role]];
        absl::StrAppend(&text, " with ", Describe(*other.t, *other.actions[end.action].action));
      }
      return text;
    };
    // Shortens long cycles in the middle.
    constexpr size_t kShown = 6, kAtTheEnd = 2;
    std::string text = name(cycle[0]);
    for (size_t i = 1; i < cycle.size(); ++i) {
      if (i == kShown - kAtTheEnd && cycle.size() > kShown) {
        absl::StrAppend(&text, " -> ... ", cycle.size() - kShown, " more");
        i += cycle.size() - kShown;
      }
      absl::StrAppend(&text, " -> ", name(cycle[i]));
    }
    findings->Add(kDeadlockRule, "these actions wait for one another (a -> b: a waits for b): ", text, " -> ",
                  name(cycle[0]));
    return {};
  }
  return orders;
}

}  // namespace weft::verify
