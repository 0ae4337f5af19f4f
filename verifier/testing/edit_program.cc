// Helpers with which tests break a program, by the names of its parts.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "verifier/testing/tiny_program.h"

namespace weft {
namespace {

template <typename List>
auto* Named(List* list, const std::string& name) {
  for (auto& item : *list) {
    if (item.name() == name) return &item;
  }
  std::fprintf(stderr, "no '%s'\n", name.c_str());
  std::abort();
}

}  // namespace

Action* FindAction(Program* program, int t, const std::string& name) {
  return Named(program->mutable_templates(t)->mutable_body(), name);
}

int FindBuffer(const Program& program, int t, const std::string& name) {
  for (int b = 0; b < program.templates(t).buffers_size(); ++b) {
    if (program.templates(t).buffers(b).name() == name) return b;
  }
  std::fprintf(stderr, "no buffer '%s'\n", name.c_str());
  std::abort();
}

Buffer* MutableBuffer(Program* program, int t, const std::string& name) {
  return Named(program->mutable_templates(t)->mutable_buffers(), name);
}

Segment* FindSegment(Program* program, const std::string& name) { return Named(program->mutable_segments(), name); }

Step* FindStep(Program* program, const std::string& segment, const std::string& step) {
  return Named(FindSegment(program, segment)->mutable_steps(), step);
}

namespace {

int StepIndex(const Segment& segment, const std::string& step) {
  for (int i = 0; i < segment.steps_size(); ++i) {
    if (segment.steps(i).name() == step) return i;
  }
  std::fprintf(stderr, "no step '%s'\n", step.c_str());
  std::abort();
}

}  // namespace

void InsertStep(Program* program, const std::string& segment, const std::string& before, Step step) {
  Segment& s = *FindSegment(program, segment);
  const int at = StepIndex(s, before);
  step.clear_deps();
  *s.add_steps() = std::move(step);
  for (int i = s.steps_size() - 1; i > at; --i) {
    s.mutable_steps()->SwapElements(i, i - 1);
    for (int& dep : *s.mutable_steps(i)->mutable_deps()) dep += dep >= at;
  }
}

void StepAfter(Program* program, const std::string& segment, const std::string& step, const std::string& on) {
  Step& waits = *FindStep(program, segment, step);
  waits.clear_deps();
  waits.add_deps(StepIndex(*FindSegment(program, segment), on));
}

void RemoveAction(Program* program, int t, const std::string& name) {
  const int id = FindAction(program, t, name)->id();
  auto& body = *program->mutable_templates(t)->mutable_body();
  body.erase(std::find_if(body.begin(), body.end(), [&](const Action& a) { return a.id() == id; }));
  for (Action& a : body) {
    auto& deps = *a.mutable_deps();
    deps.erase(std::remove_if(deps.begin(), deps.end(), [&](const Dependency& d) { return d.action() == id; }),
               deps.end());
  }
}

void RemoveDep(Program* program, int t, const std::string& from, const std::string& on) {
  const int id = FindAction(program, t, on)->id();
  auto& deps = *FindAction(program, t, from)->mutable_deps();
  deps.erase(std::remove_if(deps.begin(), deps.end(), [&](const Dependency& d) { return d.action() == id; }),
             deps.end());
}

void AddDep(Program* program, int t, const std::string& from, const std::string& on, int distance) {
  Dependency& dep = *FindAction(program, t, from)->add_deps();
  dep.set_action(FindAction(program, t, on)->id());
  dep.set_distance(distance);
}

void SwapActions(Program* program, int t, const std::string& a, const std::string& b) {
  Action* first = FindAction(program, t, a);
  Action* second = FindAction(program, t, b);
  const int i = first->id(), j = second->id();
  first->Swap(second);
  first->set_id(i);
  second->set_id(j);
  for (Action& action : *program->mutable_templates(t)->mutable_body()) {
    for (Dependency& dep : *action.mutable_deps()) {
      if (dep.action() == i) {
        dep.set_action(j);
      } else if (dep.action() == j) {
        dep.set_action(i);
      }
    }
  }
}

}  // namespace weft
