// Compute steps that take longer while their rank is in collectives (rule P3: load).
#include <algorithm>

#include "simulator/engine/device_speed.h"
#include "simulator/engine/engine_impl.h"

namespace weft::sim {

int64_t Engine::StepCost(const StreamState& stream, int32_t i, int32_t load) const {
  const StepRef& step = stream.t->steps[i];
  int64_t cost = step.cost_ps[load];
  if (stream.kind != StreamClass::kCompute) return cost;
  const RankState& rank = ranks_[stream.rank];
  if (rank.speed != kFullSpeed) cost = AtSpeed(cost, rank.speed);
  if (!options_.jitter.any()) return cost;
  const Action& action = *stream.t->actions[Head(stream).action].action;
  return Jitter::Scaled(cost, options_.jitter.Factor(rank.number, OwnRepetition(stream), action.id(), step.step));
}

int64_t Engine::RunCost(const StreamState& stream, const Run& run, int32_t load) const {
  if (!options_.jitter.any() && ranks_[stream.rank].speed == kFullSpeed) return run.cost_ps[load];
  int64_t sum = 0;
  for (int32_t i = run.steps.begin; i < run.steps.end; ++i) {
    sum += std::min(StepCost(stream, i, load), 2 * kTimeLimit - sum);
  }
  return sum;
}

void Engine::BeginComputation(int32_t s, int64_t duration) {
  const StreamState& stream = streams_[s];
  RankState& state = ranks_[stream.rank];
  const int32_t first = stream.t->runs[stream.run].steps.begin;
  state.computation = {.stream = s,
                       .step = first,
                       .since = now_,
                       .left = StepCost(stream, first, state.load),
                       .end = now_ + duration,
                       .first_event = result_.ranks[stream.rank].events.size()};
}

void Engine::ApplyLoads() {
  for (const int32_t rank : load_changed_) {
    RankState& state = ranks_[rank];
    state.load_changes = false;
    const int32_t load = std::min(state.collectives, kLoads - 1);
    if (load == state.load) continue;
    if (state.computation.stream >= 0) Retime(state, load);
    state.load = load;
  }
  load_changed_.clear();
}

// A run behaves like its steps one by one. Steps that have ended by now stay as they are, the rest of the current step
// is converted to the new load, and later steps have not begun.
void Engine::Retime(RankState& state, int32_t load) {
  Computation& own = state.computation;
  const StreamState& stream = streams_[own.stream];
  const Range steps = stream.t->runs[stream.run].steps;
  const auto cost = [&](int32_t step, int32_t at) { return StepCost(stream, step, at); };
  int64_t passed = now_ - own.since;
  while (passed >= own.left && own.step + 1 < steps.end) {
    passed -= own.left;
    own.left = cost(++own.step, state.load);
  }
  own.left -= passed;
  own.since = now_;
  constexpr __int128 kMax = __int128{2} * kTimeLimit;
  const int64_t before = cost(own.step, state.load), after = cost(own.step, load);
  __int128 left = own.left;
  if (before > 0) left = (left * after + before - 1) / before;
  own.left = static_cast<int64_t>(std::min(left, kMax));
  __int128 rest = left;
  for (int32_t i = own.step + 1; i < steps.end; ++i) rest += cost(i, load);
  const int64_t duration = static_cast<int64_t>(std::min(rest, kMax));
  if (!WithinLimit(duration)) return;
  const int64_t end = now_ + duration;
  if (end == own.end) return;
  state.meter.Prolong(end - own.end);
  if (state.recording >= 0) Note(state, {.kind = StretchNote::kProlong, .duration = end - own.end});
  own.end = end;
  Push(duration, EventKind::kStreamEnd, own.stream);
  if (!options_.trace) return;
  std::vector<EngineEvent>& events = result_.ranks[stream.rank].events;
  int64_t time = now_ + own.left;
  for (int32_t i = own.step; i < steps.end; ++i) {
    EngineEvent& event = events[own.first_event + (i - steps.begin)];
    if (i > own.step) {
      event.ready = event.start = {time};
      time += cost(i, load);
    }
    event.end = event.finish = {time};
  }
}

}  // namespace weft::sim
