#include "executor/interpreter/stream_heads.h"

#include <algorithm>

namespace weft::exec {

void StreamHeads::Begin(ActionList list, int64_t first, int64_t body_repetitions) {
  list_ = list;
  body_repetitions_ = body_repetitions;
  for (StreamState& state : states_) state = {.repetition = first};
}

void StreamHeads::Next(size_t stream) {
  StreamState& state = states_[stream];
  if (++state.position < Steps(stream).size()) return;
  state.position = 0;
  ++state.repetition;
}

bool StreamHeads::Ready(size_t stream) const {
  const StreamState& state = states_[stream];
  if (state.repetition >= allowed_ || Steps(stream).empty()) return false;
  const StreamStep& head = Head(stream);
  const PreparedAction& action = program_.actions[head.action];
  if (head.first && !DependenciesSatisfied(action, state.repetition)) return false;
  for (const int dep : action.steps[head.step].deps) {
    if (action.steps[dep].done <= state.repetition) return false;
  }
  return true;
}

bool StreamHeads::DependenciesSatisfied(const PreparedAction& action, int64_t repetition) const {
  for (const PreparedDependency& dep : action.deps) {
    if (!Satisfied(action, dep, repetition)) return false;
  }
  return true;
}

bool StreamHeads::Satisfied(const PreparedAction& action, const PreparedDependency& dep, int64_t repetition) const {
  const PreparedAction& target = program_.actions[dep.action];
  int64_t wanted = repetition - dep.distance;
  if (target.list != action.list) {
    // The prologue and the epilogue are repetition 0 of their own lists. For the body, the last repetition counts.
    wanted = target.list == kBodyList ? body_repetitions_ - 1 - dep.distance : 0;
  }
  if (target.finished <= wanted) return false;
  return !dep.detached || std::all_of(target.last_detached.begin(), target.last_detached.end(),
                                      [&](int step) { return target.steps[step].done > wanted; });
}

int StreamHeads::GroupAtHead(size_t stream) const {
  if (program_.streams[stream].type != StreamType::kTransfers || Steps(stream).empty() ||
      states_[stream].repetition >= allowed_) {
    return -1;
  }
  return program_.actions[Head(stream).action].group;
}

int StreamHeads::ChooseQueue(ComputeOrder order, const QueueHead& forward, const QueueHead& backward) const {
  const int backwards = program_.backward_queue;
  if (!forward.ready || !backward.ready) return forward.ready ? 0 : backward.ready ? backwards : -1;
  if (order != ARRIVAL) return backwards;
  return forward.arrival <= backward.arrival ? 0 : backwards;
}

bool StreamHeads::QueueReady(int queue, int other) const {
  if (!Ready(queue)) return false;
  const StreamStep& head = Head(queue);
  if (head.other_position < 0) return true;
  const StreamState& at = states_[other];
  return std::make_pair(at.repetition, static_cast<int64_t>(at.position)) >=
         std::make_pair(states_[queue].repetition + head.other_repetition, static_cast<int64_t>(head.other_position));
}

StreamHeads::QueueHead StreamHeads::HeadOf(int queue) const {
  QueueHead head;
  head.ready = QueueReady(queue, queue == 0 ? program_.backward_queue : 0);
  if (!head.ready) return head;
  const PreparedAction& action = program_.actions[Head(queue).action];
  head.arrival.first = action.awaits_recv;
  for (const PreparedDependency& dep : action.deps) {
    const PreparedAction& target = program_.actions[dep.action];
    if (target.list == action.list && states_[queue].repetition < dep.distance) continue;
    head.arrival.second = std::max(head.arrival.second, target.finished_ns);
  }
  return head;
}

}  // namespace weft::exec
