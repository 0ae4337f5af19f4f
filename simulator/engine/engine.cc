#include "simulator/engine/engine.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/util/status.h"
#include "simulator/engine/engine_impl.h"

namespace weft::sim {

absl::StatusOr<EngineResult> Engine::Simulate() {
  if (options_.repetitions < 1) {
    return absl::InvalidArgumentError(absl::StrCat("repetitions = ", options_.repetitions, "; nearest valid: 1"));
  }
  WEFT_RETURN_IF_ERROR(Prepare());
  PrepareStretches();
  for (size_t s = 0; s < streams_.size(); ++s) {
    NextEntry(streams_[s], /*first=*/true);
    TryReady(s);
  }
  while (status_.ok()) {
    if (!queue_.empty() && queue_.time() == now_) {
      Handle(queue_.Pop());
    } else if (flow_clock_.next() == now_) {
      AdvanceFlow();
    } else if (!Choose() && !Grant()) {
      // Stops only after everything has happened at the instant at which the run becomes steady: the result includes
      // it.
      if (steady_) break;
      ApplyLoads();
      while (!queue_.empty() && IsStale(queue_.top())) queue_.Pop();
      if (flow_clock_.changed()) flow_clock_.Solve(now_);
      if (queue_.empty() && flow_clock_.empty()) break;
      const int64_t next = NextTime();
      if (WithinLimit(next - now_)) now_ = next;
    }
  }
  WEFT_RETURN_IF_ERROR(status_);
  if (!steady_) WEFT_RETURN_IF_ERROR(CheckDone());
  return Finish();
}

void Engine::Handle(const Event& event) {
  switch (event.kind()) {
    case EventKind::kStreamEnd:
      return IsStale(event) ? void() : EndRun(event.index());
    case EventKind::kTransferEnd:
      return EndTransfer(event.index());
    case EventKind::kCollectiveEnd:
      return EndCollective(event.index());
    case EventKind::kCollectiveFinish:
      return FinishCollective(event.index());
    case EventKind::kTransferFinish:
      ranks_[event.index()].meter.ChangeCommunication(now_, -1);
      return FinishAction(event.index(), event.detail());
  }
}

void Engine::NextEntry(StreamState& stream, bool first) {
  const auto& lists = stream.view->entries;
  if (first) {
    stream.entry = lists[0].begin;
  } else {
    ++stream.entry;
    if (stream.list == 1 && stream.entry == lists[1].end && stream.repetition + 1 < options_.repetitions) {
      ++stream.repetition;
      stream.entry = lists[1].begin;
    }
  }
  while (stream.list < 3 && stream.entry == lists[stream.list].end) {
    if (++stream.list < 3) stream.entry = lists[stream.list].begin;
  }
  if (stream.list == 2) stream.repetition = options_.repetitions - 1;
  stream.wait = 0;
  if (stream.list < 3) stream.run = Head(stream).runs.begin;
}

void Engine::TryReady(int32_t s) {
  StreamState& stream = streams_[s];
  if (stream.list == 3) return;
  const Entry& entry = Head(stream);
  const int32_t entry_waits = entry.waits.end - entry.waits.begin;
  if (stream.run == entry.runs.begin) {
    if (view_.program->step_barrier() && stream.list == 1 && completed_ < stream.repetition) {
      stream.waits_for = IdleReason::kStepBarrier;
      stream.waits_since = now_;
      barrier_.push_back(s);
      return;
    }
    for (; stream.wait < entry_waits; ++stream.wait) {
      const Wait& wait = stream.t->waits[entry.waits.begin + stream.wait];
      const int32_t count = (wait.body ? stream.repetition : 0) + 1 - wait.distance;
      if (counts_[stream.objects + wait.object] < count) return WaitFor(s, wait.object, wait.reason);
    }
  }
  if (!entry.runs.empty()) {
    const Run& run = stream.t->runs[stream.run];
    stream.wait = std::max(stream.wait, entry_waits);
    for (; stream.wait - entry_waits < run.waits.end - run.waits.begin; ++stream.wait) {
      const RunWait& wait = stream.t->run_waits[run.waits.begin + stream.wait - entry_waits];
      const int32_t object = entry.named_base + wait.named;
      if (counts_[stream.objects + object] <= OwnRepetition(stream)) return WaitFor(s, object, wait.reason);
    }
  }
  if (stream.queue != ComputeQueue::kNone && stream.run == entry.runs.begin) return BecomeCandidate(s);
  stream.ready = now_;
  Ready(s);
}

void Engine::WaitFor(int32_t s, int32_t object, IdleReason reason) {
  StreamState& stream = streams_[s];
  stream.waits_for = reason;
  stream.waits_since = now_;
  stream.next_waiter = waiters_[stream.objects + object];
  waiters_[stream.objects + object] = s;
}

void Engine::Ready(int32_t s) {
  StreamState& stream = streams_[s];
  switch (stream.kind) {
    case StreamClass::kCompute:
      if (slots_.limited()) return slots_.Wait(now_, stream.rank, s);
      return StartRun(s);
    case StreamClass::kD2h:
    case StreamClass::kH2d:
      return StartRun(s);
    case StreamClass::kSend:
    case StreamClass::kRecv:
    case StreamClass::kTransfers: {
      const Entry& entry = Head(stream);
      const RankState& rank = ranks_[stream.rank];
      if (entry.group >= 0) return GroupReady(rank.groups + entry.group);
      SideReady(ChannelOf(rank, entry.channel), {true, s, entry.action, -1}, stream.t->channels[entry.channel].send);
      return;
    }
    case StreamClass::kCollective:
      ++links_.communicators[stream.communicator].ready;
      return StartCollective(stream.communicator);
  }
}

void Engine::StartAction(const StreamState& stream, int32_t index) {
  const ActionView& action = stream.t->actions[index];
  if (action.allocates.empty() && action.holds == 0) return;
  // If the action has steps on several streams, only the first stream to start counts.
  if (action.start_object >= 0) {
    int32_t& started = counts_[stream.objects + action.start_object];
    if (started > OwnRepetition(stream)) return;
    ++started;
  }
  if (action.holds > 0) ranks_[stream.rank].meter.ChangeForwards(now_, action.holds);
  for (int32_t i = action.allocates.begin; i < action.allocates.end; ++i) {
    ranks_[stream.rank].meter.ChangeLive(now_, stream.t->memory[i].buffer_class, stream.t->memory[i].bytes);
  }
}

void Engine::StartRun(int32_t s) {
  StreamState& stream = streams_[s];
  const Entry& entry = Head(stream);
  const Run& run = stream.t->runs[stream.run];
  if (stream.run == entry.runs.begin) StartAction(stream, entry.action);
  int64_t duration = run.cost_ps[0];
  if (stream.kind == StreamClass::kCompute) {
    RankState& state = ranks_[stream.rank];
    duration = RunCost(stream, run, state.load);
    const int64_t unloaded = state.load == 0 ? duration : RunCost(stream, run, 0);
    state.meter.StartCompute(now_, stream.ready, stream.reason, duration, unloaded);
    if (view_.slows) BeginComputation(s, duration);
    if (stretches_on_ && state.recording >= 0) {
      Note(state, {.kind = StretchNote::kStartCompute,
                   .reason = stream.reason,
                   .steps = run.steps.end - run.steps.begin,
                   .duration = duration,
                   .unloaded = unloaded});
    }
    if (stretches_on_) duration = std::max(duration, BeginStretch(s));
  }
  if (!WithinLimit(duration)) return;
  ranks_[stream.rank].steps += run.steps.end - run.steps.begin;
  if (options_.trace) TraceRun(stream, run);
  Push(duration, EventKind::kStreamEnd, s);
}

void Engine::TraceRun(const StreamState& stream, const Run& run) {
  const int32_t load = stream.kind == StreamClass::kCompute ? ranks_[stream.rank].load : 0;
  Time time = {now_};
  Time ready = {stream.ready};
  for (int32_t i = run.steps.begin; i < run.steps.end; ++i) {
    const Time end = {time.ps + StepCost(stream, i, load)};
    result_.ranks[stream.rank].events.push_back({.repetition = OwnRepetition(stream),
                                                 .action = Head(stream).action,
                                                 .step = stream.t->steps[i].step,
                                                 .stream = static_cast<int32_t>(stream.view - stream.t->streams.data()),
                                                 .ready = ready,
                                                 .start = time,
                                                 .end = end,
                                                 .finish = end});
    ready = time = end;
  }
}

void Engine::EndRun(int32_t s) {
  StreamState& stream = streams_[s];
  if (stretches_on_ && stream.kind == StreamClass::kCompute) {
    if (ranks_[stream.rank].replaying >= 0) EndStretch(s);
    if (ranks_[stream.rank].recording >= 0) NoteComputeEnd(s);
  }
  const Entry& entry = Head(stream);
  const Run& run = stream.t->runs[stream.run];
  if (stream.kind == StreamClass::kCompute) {
    ranks_[stream.rank].meter.EndCompute(now_);
    ranks_[stream.rank].computation.stream = -1;
    if (slots_.limited()) slots_.End(stream.rank);
  }
  const bool last = stream.run + 1 == entry.runs.end;
  Advance(stream);
  if (last && stream.queue != ComputeQueue::kNone) EndOfQueued(stream, entry);
  FinishRun(stream.rank, entry, run);
  TryReady(s);
}

void Engine::FinishRun(int32_t rank, const Entry& entry, const Run& run) {
  if (run.signal >= 0) {
    const RankState& state = ranks_[rank];
    if (stretches_on_ && state.recording >= 0 && entry.action == state.stretch_action) {
      stretches_[state.recording].signals.push_back(run.signal);
    }
    Complete(state, entry.named_base + run.signal);
  }
  if (!run.is_tail) return;
  if (entry.tail_object < 0) {
    FinishAction(rank, entry.action);
  } else {
    FinishTail(rank, entry.action, entry.tail_object);
  }
}

void Engine::FinishTail(int32_t rank, int32_t action, int32_t tail_object) {
  const RankState& state = ranks_[rank];
  ++counts_[state.objects + tail_object];
  const Range tails = state.t->actions[action].tail_objects;
  int32_t finished = counts_[state.objects + tails.begin];
  for (int32_t i = tails.begin + 1; i < tails.end; ++i) finished = std::min(finished, counts_[state.objects + i]);
  if (finished > counts_[state.objects + action]) FinishAction(rank, action);
}

void Engine::FinishAction(int32_t rank, int32_t index) {
  RankState& state = ranks_[rank];
  const ActionView& action = state.t->actions[index];
  for (int32_t i = action.frees.begin; i < action.frees.end; ++i) {
    state.meter.ChangeLive(now_, state.t->memory[i].buffer_class, -state.t->memory[i].bytes);
  }
  if (action.unholds > 0) ReleaseInFlight(state, action);
  if (action.list == ListKind::kBody) {
    const int32_t repetition = counts_[state.objects + index];
    if (--remaining_[repetition] == 0) EndRepetition();
  }
  Complete(state, index);
}

void Engine::ReleaseInFlight(RankState& state, const ActionView& action) {
  if (action.held_object < 0) return state.meter.ChangeForwards(now_, -action.unholds);
  if (++counts_[state.objects + action.held_object] % action.unholds == 0) {
    state.meter.ChangeForwards(now_, -action.unholds);
  }
}

void Engine::EndRepetition() {
  ++completed_;
  if (!steady_) result_.repetition_finish.push_back({now_});
  const std::vector<Time>& t = result_.repetition_finish;
  const size_t n = t.size();
  if (options_.stop_when_steady && n >= 3 && t[n - 1] - t[n - 2] == t[n - 2] - t[n - 3]) steady_ = true;
  for (const int32_t s : std::exchange(barrier_, {})) Resume(s);
}

EngineResult Engine::Finish() {
  result_.makespan = {now_};
  for (RankState& rank : ranks_) {
    if (rank.replaying >= 0) {
      rank.steps += ReplayOnMeter(stretches_[rank.replaying], rank.stretch_begin, now_, /*stopped=*/true, rank.meter);
    }
    rank.meter.Finish(now_, /*complete=*/!steady_);
    result_.steps += rank.steps * rank.stands_for;
  }
  if (rank_links_.simulated_as.empty()) return std::move(result_);
  const std::vector<RankResult> simulated = std::exchange(result_.ranks, {});
  result_.ranks.reserve(rank_links_.simulated_as.size());
  for (const int32_t rank : rank_links_.simulated_as) result_.ranks.push_back(simulated[rank]);
  return std::move(result_);
}

absl::Status Engine::CheckDone() const {
  constexpr size_t kShown = 6;
  std::vector<std::string> waiting;
  size_t count = 0;
  for (const StreamState& stream : streams_) {
    if (stream.list == 3) continue;
    if (++count > kShown) continue;
    const Action& action = *stream.t->actions[Head(stream).action].action;
    waiting.push_back(absl::StrCat("rank ", ranks_[stream.rank].number, " stream '", stream.view->name, "' at action ",
                                   action.id(), " '", action.name(), "' of repetition ", OwnRepetition(stream)));
  }
  if (count == 0) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("the program comes to a standstill at ", now_, " ps; ", count,
                                          " streams wait, among them: ", absl::StrJoin(waiting, "; ")));
}

absl::StatusOr<EngineResult> RunEngine(const ProgramView& view, const RankLinks& links, const NetworkModel& network,
                                       const EngineOptions& options) {
  return Engine(view, links, network, options).Simulate();
}

absl::StatusOr<EngineResult> RunEngine(const ProgramView& view, const NetworkModel& network,
                                       const EngineOptions& options) {
  WEFT_ASSIGN_OR_RETURN(const RankLinks links, LinkRanks(view));
  return RunEngine(view, links, network, options);
}

}  // namespace weft::sim
