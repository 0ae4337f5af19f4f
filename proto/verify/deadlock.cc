// Rule P13, deadlock: each rendezvous is contracted to one node; the lists are free of deadlock iff stream order and
// dependencies have no cycle. A transfer group has nodes of its own for being ready and for having ended, and so has a
// single transfer whose partner is in a group: it keeps all of that group waiting.
//
// One repetition is enough: members of a rendezvous are in the same list (P4), so no edge leads from a repetition to an
// earlier one, and within a repetition all repetitions are alike.
// Roles are enough: peers and groups keep or take in whole unpinned axes, so a cycle of roles lifts to one of ranks.
#include <algorithm>

#include "proto/verify/matching.h"

namespace weft::verify {
namespace {

class Graph {
 public:
  Graph(const Index& index, const Matching& matching, List list) : index_(index), matching_(matching), list_(list) {
    Number();
    Connect();
  }

  // Kahn; false if a cycle is left.
  bool Sort() {
    for (int n = 0; n < static_cast<int>(owner_.size()); ++n) {
      if (waits_[n] == 0) sorted_.push_back(n);
    }
    for (size_t head = 0; head < sorted_.size(); ++head) {
      for (int e = edge_begin_[sorted_[head]]; e < edge_begin_[sorted_[head] + 1]; ++e) {
        if (--waits_[edges_[e]] == 0) sorted_.push_back(edges_[e]);
      }
    }
    return sorted_.size() == owner_.size();
  }

  std::vector<RoleAction> Order() const {
    std::vector<RoleAction> order;
    for (int n : sorted_) {
      if (finish_[n]) order.push_back(owner_[n]);
    }
    return order;
  }

  // A cycle among the nodes that Sort left, in waiting order: each waits for the next.
  std::vector<RoleAction> Cycle() const {
    int start = 0;
    while (waits_[start] == 0) ++start;
    // Predecessors that are left, one each.
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
      if (cycle.empty() || cycle.back().role != a.role || cycle.back().action != a.action) cycle.push_back(a);
    }
    return cycle;
  }

 private:
  const TemplateIndex& TemplateOf(int role) const { return index_.templates[index_.role_template[role]]; }

  int Parts(const Action& action) const {
    return IsCompute(action.kind()) ? static_cast<int>(index_.segments[action.segment()].parts.size()) : 1;
  }

  // A transfer group, or a transfer by itself whose partner is in one.
  struct Unit {
    int ready = -1, ended = -1;
    int all_ready = -1;          // Its partners too.
    std::vector<int> transfers;  // Rendezvous.
    std::vector<int> partners;   // Units.
  };

  int NewNode(RoleAction owner, bool finish) {
    owner_.push_back(owner);
    finish_.push_back(finish);
    return static_cast<int>(owner_.size()) - 1;
  }

  bool InGroup(const RoleAction& at) const { return TemplateOf(at.role).actions[at.action].group >= 0; }

  // first_[role][action - list begin] = its first node; an action of several parts has a node for its finish after
  // them.
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
        const int parts = Parts(*t.actions[a].action);
        first.push_back(NewNode({role, a}, parts == 1));
        for (int p = 1; p < parts; ++p) NewNode({role, a}, false);
        if (parts > 1) NewNode({role, a}, true);
      }
    }
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
          for (int p = 0; p < parts; ++p) {
            streams.AddStep(action.kind(), all[p].stream, first + p, edge);
            for (int dep : all[p].deps) pairs.emplace_back(first + dep, first + p);
            if (parts > 1 && !all[p].detached) pairs.emplace_back(first + p, first + parts);
          }
        }
        for (const Dependency& dep : action.deps()) {
          const int on = t.by_id.at(dep.action());
          if (dep.distance() != 0 || t.actions[on].list != list_) continue;
          const int on_parts = Parts(*t.actions[on].action);
          const int finish = first_[role][on - base] + (on_parts > 1 ? on_parts : 0);
          for (int p = 0; p < parts; ++p) pairs.emplace_back(finish, first + p);
        }
      }
    }
    // Compressed rows.
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
    Graph graph(index, matching, list);
    if (graph.Sort()) {
      if (list != kEpilogue) (list == kBody ? orders.body : orders.prologue) = graph.Order();
      continue;
    }
    const std::vector<RoleAction> cycle = graph.Cycle();
    const auto name = [&](const RoleAction& a) -> std::string {
      const TemplateIndex& t = index.templates[index.role_template[a.role]];
      const int r = matching.of[a.role][a.action];
      std::string text = Describe(*t.t, *t.actions[a.action].action);
      if (r < 0 || !IsTransfer(t.actions[a.action].action->kind())) return text;
      // Both ends wait.
      for (const RoleAction& end : matching.rendezvous[r]) {
        if (end.role == a.role && end.action == a.action) continue;
        const TemplateIndex& other = index.templates[index.role_template[end.role]];
        absl::StrAppend(&text, " with ", Describe(*other.t, *other.actions[end.action].action));
      }
      return text;
    };
    // Long cycles are cut in the middle.
    std::string text = name(cycle[0]);
    for (size_t i = 1; i < cycle.size(); ++i) {
      if (i == 12 && cycle.size() > 16) {
        absl::StrAppend(&text, " -> ... ", cycle.size() - 16, " more");
        i += cycle.size() - 16;
      }
      absl::StrAppend(&text, " -> ", name(cycle[i]));
    }
    findings->Add("P13.deadlock", "these actions wait for one another (a -> b: a waits for b): ", text, " -> ",
                  name(cycle[0]));
    return {};
  }
  return orders;
}

}  // namespace weft::verify
