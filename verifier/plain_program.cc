#include "verifier/plain_program.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "verifier/post_validation_lists.h"

namespace weft::verify {
namespace {

void MakePlain(const PostValidationLists& lists, bool again, Template* t) {
  std::vector<Action> list;
  for (size_t i = 0; i < lists.guess.size(); ++i) {
    list.push_back(again ? *lists.again[i] : *lists.guess[i]);
    list.back().set_if_exceeded(false);
    *list.back().mutable_releases() = lists.guess[i]->releases();
  }
  std::map<int, int> later;
  for (const Action* action : lists.rest) {
    if (action->kind() == KEEP_STATE) continue;
    if (action != lists.optimizer) {
      list.push_back(*action);
      continue;
    }
    for (const Action* end : {lists.body.validate, lists.body.scale, lists.optimizer, lists.body.clear}) {
      if (end == nullptr) continue;
      list.push_back(*end);
      if (end == lists.optimizer) continue;
      list.back().set_kind(SCALE_GRADIENTS);
      list.back().set_if_exceeded(false);
      list.back().clear_deps();
      later[end->id()] = 1;
      if (end != lists.body.validate) continue;
      *list.back().mutable_deps() = lists.optimizer->deps();
      for (const Dependency& dep : end->deps()) {
        const bool gather = std::any_of(lists.gathers.begin(), lists.gathers.end(),
                                        [&](const Action* action) { return action->id() == dep.action(); });
        // Leave out VALIDATE's dependencies on the gathers of the previous update: in the plain program, an action that
        // changes the sources of the gathers waits for them itself.
        if (dep.distance() == 0 || gather) continue;
        *list.back().add_deps() = dep;
        list.back().mutable_deps()->rbegin()->set_distance(dep.distance() - 1);
      }
    }
  }
  std::map<int, int> id_of;
  for (const Action& action : list) id_of.emplace(action.id(), static_cast<int>(id_of.size()));
  t->clear_body();
  t->clear_epilogue();
  for (const Action& action : list) {
    Action& plain = *t->add_body();
    plain = action;
    plain.set_id(id_of.at(action.id()));
    plain.clear_deps();
    std::set<std::pair<int, int>> seen;
    for (const Dependency& dep : action.deps()) {
      const auto found = id_of.find(dep.action());
      if (found == id_of.end()) continue;
      const auto moved = later.find(dep.action());
      const int distance = dep.distance() + (moved == later.end() ? 0 : moved->second);
      if (!seen.insert({found->second, distance}).second) continue;
      Dependency& copy = *plain.add_deps();
      copy = dep;
      copy.set_action(found->second);
      copy.set_distance(distance);
    }
  }
}

// Replaces the scale that is kept for the verdict by LOSS_SCALE itself: in the plain program both belong to the same
// step.
void UseLiveScale(Template* t) {
  int live = -1, kept = -1;
  for (int b = 0; b < t->buffers_size(); ++b) {
    if (t->buffers(b).role() == LOSS_SCALE) (t->buffers(b).version() == 0 ? live : kept) = b;
  }
  if (live < 0 || kept < 0) return;
  t->mutable_buffers(kept)->set_role(NO_ROLE);
  t->mutable_buffers(kept)->set_version(0);
  for (Action& action : *t->mutable_body()) {
    for (int& b : *action.mutable_operands()) b = b == kept ? live : b;
  }
}

}  // namespace

Program PlainProgram(const Program& program, bool again) {
  Program plain = program;
  plain.set_post_validation(false);
  plain.clear_evaluation();
  for (int i = 0; i < program.templates_size(); ++i) {
    PostValidationLists lists;
    SplitLists(program, program.templates(i), &lists);
    MakePlain(lists, again, plain.mutable_templates(i));
    UseLiveScale(plain.mutable_templates(i));
  }
  return plain;
}

bool HasAgain(const Program& program) {
  return std::any_of(program.templates().begin(), program.templates().end(), [](const Template& t) {
    return std::any_of(t.body().begin(), t.body().end(), [](const Action& a) { return a.if_exceeded(); });
  });
}

}  // namespace weft::verify
