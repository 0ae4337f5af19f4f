// Chooses the order of compute at run time (rule P6) and grants compute slots (rule P3).
#include <algorithm>

#include "simulator/engine/engine_impl.h"

namespace weft::sim {

void Engine::BecomeCandidate(int32_t s) {
  streams_[s].candidate = true;
  NoteChoice(streams_[s].rank);
}

bool Engine::Choose() {
  if (choosing_.empty()) return false;
  bool chosen = false;
  // This loop may iterate over `choosing_`, because starting a step adds nothing to it.
  for (const int32_t rank : choosing_) {
    RankState& state = ranks_[rank];
    state.choosing = false;
    if (state.computing) continue;
    const int32_t forward = Candidate(state.queues[0]);
    const int32_t backward = Candidate(state.queues[1]);
    if (forward < 0 && backward < 0) continue;
    const int32_t s = forward >= 0 && (backward < 0 || ForwardFirst(forward, backward)) ? forward : backward;
    StreamState& stream = streams_[s];
    stream.candidate = false;
    stream.ready = now_;
    state.computing = true;
    Ready(s);
    chosen = true;
  }
  choosing_.clear();
  return chosen;
}

bool Engine::ForwardFirst(int32_t forward, int32_t backward) const {
  if (!keeps_times_) return false;
  return Arrival(streams_[forward]) <= Arrival(streams_[backward]);
}

std::pair<bool, int64_t> Engine::Arrival(const StreamState& stream) const {
  const Entry& entry = Head(stream);
  int64_t latest = -1;
  for (int32_t i = entry.waits.begin; i < entry.waits.end; ++i) {
    const Wait& wait = stream.t->waits[i];
    const int64_t repetition = (wait.body ? stream.repetition : 0) - int64_t{wait.distance};
    if (wait.ordering || repetition < 0) continue;
    latest = std::max(latest, finish_times_[FinishTime(ranks_[stream.rank], wait.object, repetition)]);
  }
  return {stream.t->actions[entry.action].awaits_recv, latest};
}

void Engine::EndOfQueued(const StreamState& stream, const Entry& entry) {
  ranks_[stream.rank].computing = false;
  NoteChoice(stream.rank);
  if (entry.end_object >= 0) Complete(ranks_[stream.rank], entry.end_object);
}

bool Engine::Grant() {
  if (!slots_.limited()) return false;
  bool granted = false;
  for (int32_t s = slots_.Grant(now_); s >= 0; s = slots_.Grant(now_)) {
    granted = true;
    StartRun(s);
    if (streams_[s].t->runs[streams_[s].run].cost_ps[0] == 0) break;
  }
  return granted;
}

}  // namespace weft::sim
