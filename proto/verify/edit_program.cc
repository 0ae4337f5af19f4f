// How tests break a program: by the names of its parts.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "proto/verify/tiny_program.h"

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
