#include "proto/edit/program_edit.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace weft {
namespace {

template <typename Use>
void ForEachAction(Template* t, Use use) {
  for (auto* list : {t->mutable_prologue(), t->mutable_body(), t->mutable_epilogue()}) {
    for (Action& action : *list) use(&action);
  }
}

}  // namespace

int NextActionId(const Template& t) {
  int next = 0;
  for (const auto* list : {&t.prologue(), &t.body(), &t.epilogue()}) {
    for (const Action& action : *list) next = std::max(next, action.id() + 1);
  }
  return next;
}

void AddDependency(int on, int distance, bool detached, Action* action) {
  for (Dependency& dep : *action->mutable_deps()) {
    if (dep.action() != on || dep.distance() != distance) continue;
    return dep.set_detached(dep.detached() || detached);
  }
  Dependency& dep = *action->add_deps();
  dep.set_action(on);
  dep.set_distance(distance);
  dep.set_detached(detached);
}

void RedirectDependencies(const std::map<int, int>& becomes, Template* t) {
  ForEachAction(t, [&](Action* action) {
    google::protobuf::RepeatedPtrField<Dependency> old;
    old.Swap(action->mutable_deps());
    for (const Dependency& dep : old) {
      const auto found = becomes.find(dep.action());
      const bool itself = found != becomes.end() && found->second == action->id() && dep.distance() == 0;
      const int on = found == becomes.end() || itself ? dep.action() : found->second;
      AddDependency(on, dep.distance(), dep.detached(), action);
    }
  });
}

void NumberActions(Template* t) {
  std::map<int, int> position;
  ForEachAction(t, [&](Action* action) { position.emplace(action->id(), static_cast<int>(position.size())); });
  ForEachAction(t, [&](Action* action) {
    action->set_id(position.at(action->id()));
    for (Dependency& dep : *action->mutable_deps()) dep.set_action(position.at(dep.action()));
    std::sort(action->mutable_deps()->begin(), action->mutable_deps()->end(),
              [](const Dependency& a, const Dependency& b) {
                return std::pair(a.distance(), a.action()) < std::pair(b.distance(), b.action());
              });
  });
}

// Returns ~index, a negative number, which stands for step `index` of the new list in `deps`. Finish() resolves old and
// new indices.
int StepEditor::Append(Step step, int stands_for) {
  const int index = steps_.size();
  if (stands_for >= 0) new_index_[stands_for] = index;
  *steps_.Add() = std::move(step);
  return ~index;
}

void StepEditor::Finish() {
  for (Step& step : steps_) {
    for (int& dep : *step.mutable_deps()) {
      dep = dep < 0 ? ~dep : new_index_[dep];
      assert(dep >= 0 && "a step waits for a step that nothing stands for");
    }
  }
  segment_.mutable_steps()->Swap(&steps_);
}

void Join(const std::vector<JoiningStep>& joining, Segment* segment) {
  std::vector<std::vector<int>> behind(segment->steps_size() + 1), awaits(segment->steps_size());
  for (size_t j = 0; j < joining.size(); ++j) {
    behind[joining[j].after_step + 1].push_back(static_cast<int>(j));
    for (const int step : joining[j].awaited_by) {
      if (joining[j].after_step < step) awaits[step].push_back(static_cast<int>(j));
    }
  }
  StepEditor editor(segment);
  std::vector<int> placed(joining.size());
  for (int i = -1; i < segment->steps_size(); ++i) {
    if (i >= 0) {
      Step step = segment->steps(i);
      for (const int j : awaits[i]) step.add_deps(placed[j]);
      editor.Append(std::move(step), i);
    }
    for (const int j : behind[i + 1]) {
      Step step = joining[j].step;
      for (const int other : joining[j].after) step.add_deps(placed[other]);
      placed[j] = editor.Append(std::move(step));
    }
  }
  editor.Finish();
}

}  // namespace weft
