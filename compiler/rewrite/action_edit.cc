#include "compiler/rewrite/action_edit.h"

#include <utility>

namespace weft {

void AddDep(int on, int distance, bool detached, Action* action) {
  for (Dependency& dep : *action->mutable_deps()) {
    if (dep.action() != on || dep.distance() != distance) continue;
    return dep.set_detached(dep.detached() || detached);
  }
  Dependency& dep = *action->add_deps();
  dep.set_action(on);
  dep.set_distance(distance);
  dep.set_detached(detached);
}

void ReplaceBody(std::vector<Action> body, const std::map<int, int>& becomes, Template* t) {
  std::map<int, int> id_of;
  for (const Action& action : body) id_of.emplace(action.id(), static_cast<int>(id_of.size()));
  t->clear_body();
  for (Action& action : body) {
    Action& out = *t->add_body();
    out = std::move(action);
    out.set_id(id_of.at(out.id()));
    // (distance, id) -> with detached steps.
    std::map<std::pair<int, int>, bool> deps;
    for (const Dependency& dep : out.deps()) {
      const auto moved = becomes.find(dep.action());
      const int on = id_of.at(moved == becomes.end() ? dep.action() : moved->second);
      if (on == out.id() && dep.distance() == 0) continue;
      deps[{dep.distance(), on}] |= dep.detached();
    }
    out.clear_deps();
    for (const auto& [on, detached] : deps) AddDep(on.second, on.first, detached, &out);
  }
}

}  // namespace weft
