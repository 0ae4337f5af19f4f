#include "compiler/memory/repetition_order.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace weft {

int RepetitionOrder::AddStream(bool finish_is_end) {
  streams_.push_back({finish_is_end, 0, -1});
  return static_cast<int>(streams_.size()) - 1;
}

int RepetitionOrder::AddAction(int stream) {
  Stream_& owner = streams_[stream];
  Action action;
  action.stream = stream;
  action.index = owner.actions++;
  action.previous = owner.last;
  actions_.push_back(std::move(action));
  owner.last = size() - 1;
  return owner.last;
}

void RepetitionOrder::Require(int before, int after, int distance) {
  assert(distance == 1 || (distance == 0 && before < after));
  actions_[after].required.push_back({before, distance});
}

void RepetitionOrder::Given(int before, int after, int distance) {
  assert(distance == 1 || (distance == 0 && before < after));
  actions_[after].given.push_back({before, distance});
}

bool RepetitionOrder::Knows(const std::vector<int>& known, int action, int repetition) const {
  const Action& a = actions_[action];
  return known[a.stream] > a.index + repetition * streams_[a.stream].actions;
}

void RepetitionOrder::Learn(std::vector<int>& known, const std::vector<int>& other, int action, int repetition,
                            bool finished) const {
  for (size_t s = 0; s < known.size(); ++s) known[s] = std::max(known[s], other[s]);
  const Action& a = actions_[action];
  const int index = a.index + repetition * streams_[a.stream].actions;
  int& count = known[a.stream];
  // If actions of the stream may finish after they end, the finish of one action proves nothing about the actions
  // before it.
  if (finished && (streams_[a.stream].finish_is_end || count == index)) count = std::max(count, index + 1);
}

void RepetitionOrder::Resolve() {
  // `known` of each action in the first repetition, for waits of the second repetition on the first.
  std::vector<std::vector<int>> first(actions_.size());
  for (int repetition = 0; repetition < 2; ++repetition) {
    for (int i = 0; i < size(); ++i) {
      Action& action = actions_[i];
      std::vector<int> known(streams_.size(), 0);
      const int before = action.previous >= 0 ? action.previous : streams_[action.stream].last;
      const int before_repetition = action.previous >= 0 ? repetition : repetition - 1;
      if (before_repetition >= 0) {
        const std::vector<int>& other = before_repetition == repetition ? actions_[before].known : first[before];
        Learn(known, other, before, before_repetition, streams_[action.stream].finish_is_end);
      }
      auto learn_wait = [&](const Wait& wait) {
        if (wait.distance > repetition) return;
        const std::vector<int>& other = wait.distance == 0 ? actions_[wait.on].known : first[wait.on];
        Learn(known, other, wait.on, repetition - wait.distance, true);
      };
      for (const Wait& wait : action.given) learn_wait(wait);
      std::sort(action.waits.begin(), action.waits.end());
      for (const Wait& wait : action.waits) learn_wait(wait);
      // Handles requirements on later actions first, because they often imply those on earlier actions.
      std::sort(action.required.begin(), action.required.end(), [](const Wait& a, const Wait& b) {
        return a.distance != b.distance ? a.distance < b.distance : a.on > b.on;
      });
      for (const Wait& wait : action.required) {
        const int at = repetition - wait.distance;
        if (at < 0 || Knows(known, wait.on, at)) continue;
        if (std::find(action.waits.begin(), action.waits.end(), wait) != action.waits.end()) continue;
        action.waits.push_back(wait);
        learn_wait(wait);
      }
      std::sort(action.waits.begin(), action.waits.end());
      action.known = std::move(known);
    }
    if (repetition == 0) {
      for (int i = 0; i < size(); ++i) first[i] = actions_[i].known;
    }
  }
}

int RepetitionOrder::Finished(int action, int stream) const {
  return actions_[action].known[stream] - streams_[stream].actions;
}

}  // namespace weft
