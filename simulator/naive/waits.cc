// Finds the steps that every step waits for: rules P1 and P2, and P15 for dependencies on actions that are left out.
#include "simulator/naive/expansion.h"

namespace weft::sim::naive {
namespace {

// P15: an action that depends on an action that is left out depends on the VALIDATE of that list instead.
int StandIn(const google::protobuf::RepeatedPtrField<Action>& list, const Action& action, bool exceeded) {
  if (!IsLeftOut(action, exceeded)) return action.id();
  for (const Action& other : list) {
    if (other.kind() == VALIDATE) return other.id();
  }
  return -1;
}

void ResolveStep(Expansion& expansion, int i) {
  Node& node = expansion.nodes[i];
  const NaiveStep& step = expansion.steps[i];
  for (int j = i - 1; j >= 0 && expansion.steps[j].rank == step.rank && node.item < 0; --j) {
    const Node& other = expansion.nodes[j];
    if (other.stream != node.stream || (node.group >= 0 && other.group == node.group)) continue;
    node.previous = other.group >= 0 ? expansion.groups[other.group] : std::vector<int>{j};
    break;
  }
  node.ready_with = node.group >= 0 ? expansion.groups[node.group] : std::vector<int>{i};
  bool named = false;
  // Adds a wait for the step `step_index` of an action. If `step_index` is negative, adds a wait for all attached steps
  // of the action and, with `detached`, for its detached steps too.
  const auto wait_for = [&](int list, int repetition, int action_id, int step_index, bool detached) {
    for (size_t j = 0; j < expansion.nodes.size(); ++j) {
      const NaiveStep& other = expansion.steps[j];
      if (other.rank != step.rank || other.list != list || other.repetition != repetition ||
          other.action_id != action_id) {
        continue;
      }
      if (step_index >= 0 ? other.step != step_index : expansion.nodes[j].detached && !detached) continue;
      node.finished.push_back(static_cast<int>(j));
      if (named) node.named.push_back(static_cast<int>(j));
    }
  };
  if (node.of_segment) {
    for (const int dep : expansion.program->segments(node.action->segment()).steps(step.step).deps()) {
      wait_for(step.list, step.repetition, step.action_id, dep, false);
    }
  }
  named = true;
  for (const Dependency& dep : node.action->deps()) {
    for (const Action& action : node.t->prologue()) {
      // Prologue actions run once, so only repetition 0 exists.
      if (action.id() == dep.action() && dep.distance() == 0) {
        wait_for(kPrologue, 0, dep.action(), -1, dep.detached());
      }
    }
    for (const Action& action : node.t->body()) {
      if (action.id() != dep.action()) continue;
      const int from = step.list == kEpilogue ? expansion.repetitions - 1 : step.repetition;
      wait_for(kBody, from - dep.distance(), StandIn(node.t->body(), action, expansion.exceeded), -1, dep.detached());
    }
    for (const Action& action : node.t->epilogue()) {
      if (action.id() != dep.action() || dep.distance() != 0) continue;
      wait_for(kEpilogue, 0, StandIn(node.t->epilogue(), action, expansion.exceeded), -1, dep.detached());
    }
  }
  if (expansion.program->step_barrier() && step.list == kBody && step.repetition > 0) {
    for (size_t j = 0; j < expansion.nodes.size(); ++j) {
      const NaiveStep& other = expansion.steps[j];
      if (other.list == kBody && other.repetition == step.repetition - 1 && !expansion.nodes[j].detached) {
        node.finished.push_back(static_cast<int>(j));
      }
    }
  }
}

}  // namespace

void ResolveWaits(Expansion& expansion) {
  for (size_t i = 0; i < expansion.nodes.size(); ++i) ResolveStep(expansion, static_cast<int>(i));
}

}  // namespace weft::sim::naive
