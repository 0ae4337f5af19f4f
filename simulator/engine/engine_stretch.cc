// Stretches: parts of an action that a rank runs without waiting for other ranks. If only one simulated rank takes part
// in a collective, as in collectives over a tensor axis once ranks are folded, the collective waits for no other rank.
// Then everything that the rank does from the start of one computation to the end of a later one, and when, depends on
// this rank only. The engine simulates such a stretch step by step once and records it. The next time that the same
// computation starts in the same state, one event replaces all events up to the end of the later computation. The
// engine handles that end as always, and applies the record to the rank's meter.
//
// Only one thing disturbs a stretch: another collective of the rank, which slows its computations down. Then the engine
// simulates the stretch step by step from its beginning to the present instant and continues from there. Transfers
// beside a stretch change nothing in it. Only its own two streams wait for its steps, unless the segment has detached
// steps.
#include <algorithm>

#include "simulator/engine/engine_impl.h"

namespace weft::sim {
namespace {

// Each recorded stretch takes a few KiB.
constexpr size_t kMaxStretches = 1 << 12;

}  // namespace

void Engine::PrepareStretches() {
  // A trace needs every step. With dynamic orders, slots, jitter or shared links, a rank need not do the same again.
  stretches_on_ = options_.repeat_stretches && !options_.trace && !options_.jitter.any() && !slots_.limited() &&
                  !shares_links_ && view_.program->compute_order() == STATIC_ORDER;
  if (!stretches_on_) return;
  stretches_on_ = std::any_of(links_.communicators.begin(), links_.communicators.end(),
                              [](const Communicator& c) { return c.needed == 1 && c.streams.size() == 1; });
  if (!stretches_on_) return;
  std::vector<bool> detaches;
  for (const Segment& segment : view_.program->segments()) {
    detaches.push_back(
        std::any_of(segment.steps().begin(), segment.steps().end(), [](const Step& step) { return step.detached(); }));
  }
  for (const TemplateView& t : view_.templates) {
    std::vector<ActionPlace>& places = places_.emplace_back(t.actions.size());
    for (size_t s = 0; s < t.streams.size(); ++s) {
      for (const Range& entries : t.streams[s].entries) {
        for (int32_t e = entries.begin; e < entries.end; ++e) {
          if (t.entries[e].runs.empty()) continue;
          ActionPlace& place = places[t.entries[e].action];
          ++place.streams;
          if (t.streams[s].key.kind == StreamClass::kCompute) place.compute = static_cast<int32_t>(s);
          if (t.streams[s].key.kind == StreamClass::kCollective) place.collective = static_cast<int32_t>(s);
        }
      }
    }
    for (size_t a = 0; a < t.actions.size(); ++a) {
      ActionPlace& place = places[a];
      place.alone = place.streams == 2 && place.compute >= 0 && place.collective >= 0 &&
                    !detaches[t.actions[a].action->segment()];
    }
  }
  for (RankState& rank : ranks_) rank.stretches.assign(rank.t->runs.size(), kNotTried);
}

std::pair<int32_t, int32_t> Engine::AwaitedBy(const StreamState& stream) const {
  const Entry& entry = Head(stream);
  const int32_t entry_waits = entry.waits.end - entry.waits.begin;
  if (stream.wait < entry_waits) {
    const Wait& wait = stream.t->waits[entry.waits.begin + stream.wait];
    const int32_t count = (wait.body ? stream.repetition : 0) + 1 - wait.distance;
    if (counts_[stream.objects + wait.object] < count) return {wait.object, count};
    return {-1, 0};
  }
  if (entry.runs.empty()) return {-1, 0};
  const Run& run = stream.t->runs[stream.run];
  const int32_t of_run = run.waits.begin + stream.wait - entry_waits;
  if (of_run >= run.waits.end) return {-1, 0};
  const int32_t object = entry.named_base + stream.t->run_waits[of_run].named;
  const int32_t count = OwnRepetition(stream) + 1;
  if (counts_[stream.objects + object] < count) return {object, count};
  return {-1, 0};
}

int32_t Engine::LoneCollective(int32_t s) const {
  const StreamState& compute = streams_[s];
  const Entry& entry = Head(compute);
  const RankState& rank = ranks_[compute.rank];
  const ActionPlace& place = PlaceOf(*compute.t, entry.action);
  if (!place.alone) return -1;
  const int32_t other = rank.streams + place.collective;
  const StreamState& collective = streams_[other];
  const Communicator& communicator = links_.communicators[collective.communicator];
  if (communicator.needed != 1 || communicator.streams.size() != 1 || !communicator.ended.empty()) return -1;
  if (collective.list != compute.list || collective.repetition != compute.repetition) return -1;
  if (Head(collective).action != entry.action) return -1;
  const int32_t object = AwaitedBy(collective).first;
  // The collective must wait for a step of this action, and no other stream may wait for that step.
  if (object < static_cast<int32_t>(rank.t->actions.size())) return -1;
  if (waiters_[compute.objects + object] != other || collective.next_waiter >= 0) return -1;
  if (rank.collectives != 0 || rank.load != 0 || rank.load_changes) return -1;
  return other;
}

int64_t Engine::BeginStretch(int32_t s) {
  StreamState& compute = streams_[s];
  RankState& rank = ranks_[compute.rank];
  if (rank.recording >= 0) return -1;
  const int32_t known = rank.stretches[compute.run];
  if (known == kUseless) return -1;
  const int32_t other = LoneCollective(s);
  if (other < 0) return -1;
  const StreamState& collective = streams_[other];
  const Entry& entry = Head(compute);
  const int32_t named = AwaitedBy(collective).first - entry.named_base;
  if (known >= 0) {
    const Stretch& stretch = stretches_[known];
    if (stretch.collective_run != collective.run || stretch.named != named) return -1;
    rank.replaying = known;
    rank.stretch_begin = now_;
    ++result_.repeated_stretches;
    rank.computation.end = now_ + stretch.duration;
    return stretch.duration;
  }
  // The step that the collective waits for must not have run yet.
  bool comes = false;
  for (int32_t run = compute.run; run < entry.runs.end; ++run) comes |= compute.t->runs[run].signal == named;
  if (!comes || stretches_.size() >= kMaxStretches) return -1;
  rank.recording = static_cast<int32_t>(stretches_.size());
  rank.stretch_begin = now_;
  rank.stretch_action = entry.action;
  rank.stretch_collective = other;
  Stretch& stretch = stretches_.emplace_back();
  stretch.begin = now_;
  stretch.compute_run = compute.run;
  stretch.collective_run = collective.run;
  stretch.named = named;
  return -1;
}

void Engine::NoteComputeEnd(int32_t s) {
  StreamState& compute = streams_[s];
  RankState& rank = ranks_[compute.rank];
  Stretch& stretch = stretches_[rank.recording];
  const Entry& entry = Head(compute);
  const int32_t signal = compute.t->runs[compute.run].signal;
  const int32_t other = compute.run > stretch.compute_run && signal >= 0 ? LoneCollective(s) : -1;
  if (other >= 0 && AwaitedBy(streams_[other]).first == entry.named_base + signal) {
    stretch.duration = now_ - rank.stretch_begin;
    stretch.notes_until_end = stretch.notes.size();
    stretch.signals_until_end = stretch.signals.size();
    stretch.compute_at_end = compute;
    stretch.collective_at_end = streams_[other];
  }
  if (compute.run + 1 < entry.runs.end) {
    return Note(rank, {.kind = StretchNote::kEndCompute});
  }
  EndNotes(rank);
}

void Engine::EndNotes(RankState& rank) {
  Stretch& stretch = stretches_[rank.recording];
  const bool useful = stretch.notes_until_end > 0;
  rank.stretches[stretch.compute_run] = useful ? rank.recording : kUseless;
  stretch.notes.resize(stretch.notes_until_end);
  stretch.signals.resize(stretch.signals_until_end);
  rank.recording = -1;
  // When the stretch begins, the rank is already computing.
  RankMeter meter({}, &stretch.sum);
  meter.StartCompute(0, 0, IdleReason::kEndOfRun, 0, 0);
  stretch.steps = ReplayOnMeter(stretch, 0, stretch.duration, /*stopped=*/false, meter);
}

void Engine::DisturbStretch(int32_t s) {
  RankState& rank = ranks_[streams_[s].rank];
  if (rank.recording >= 0 && s != rank.stretch_collective) EndNotes(rank);
  if (rank.replaying < 0) return;
  ++result_.disturbed_stretches;
  // The replay has not changed anything yet that belongs to the stretch, so the engine can simulate it from its
  // beginning.
  const Stretch& stretch = stretches_[std::exchange(rank.replaying, -1)];
  const int64_t until = std::exchange(now_, rank.stretch_begin);
  EventQueue others = std::exchange(queue_, {});
  std::vector<int32_t> load_changed = std::exchange(load_changed_, {});
  stretches_on_ = false;
  const int32_t compute = rank.computation.stream;
  const int64_t first = RunCost(streams_[compute], streams_[compute].t->runs[stretch.compute_run], 0);
  rank.computation.end = now_ + first;
  Push(first, EventKind::kStreamEnd, compute);
  while (status_.ok() && !queue_.empty() && queue_.time() < until) {
    now_ = queue_.time();
    while (!queue_.empty() && queue_.time() == now_) Handle(queue_.Pop());
    ApplyLoads();
  }
  std::swap(queue_, others);
  while (!others.empty()) {
    const Event event = others.Pop();
    queue_.Push(event.time, event.kind(), event.index(), event.detail());
  }
  load_changed_ = std::move(load_changed);
  now_ = until;
  stretches_on_ = true;
}

int64_t Engine::ReplayOnMeter(const Stretch& stretch, int64_t begin, int64_t until, bool stopped, RankMeter& meter) {
  int64_t steps = 0;
  for (const StretchNote& note : stretch.notes) {
    const int64_t time = begin + note.offset;
    if (time > until) break;
    switch (note.kind) {
      case StretchNote::kStartCompute:
        meter.StartCompute(time, time, note.reason, note.duration, note.unloaded);
        steps += note.steps;
        break;
      case StretchNote::kEndCompute:
        meter.EndCompute(time);
        break;
      case StretchNote::kStartCollective:
        meter.ChangeCommunication(time, +1);
        ++steps;
        break;
      case StretchNote::kFinishCollective:
        meter.ChangeCommunication(time, -1);
        break;
      case StretchNote::kProlong:
        // A computation is prolonged at the end of an instant, which a stopped run does not reach.
        if (!stopped || time < until) meter.Prolong(note.duration);
        break;
    }
  }
  return steps;
}

void Engine::EndStretch(int32_t s) {
  StreamState& compute = streams_[s];
  RankState& rank = ranks_[compute.rank];
  const Stretch& stretch = stretches_[std::exchange(rank.replaying, -1)];
  const Entry& entry = Head(compute);
  rank.meter.AddStretch(stretch.sum);
  rank.steps += stretch.steps;
  const auto at_end = [&](StreamState& stream, const StreamState& noted) {
    stream.run = noted.run;
    stream.wait = noted.wait;
    stream.waits_for = noted.waits_for;
    stream.reason = noted.reason;
    stream.waits_since = noted.waits_since - stretch.begin + rank.stretch_begin;
    stream.ready = noted.ready - stretch.begin + rank.stretch_begin;
  };
  const int32_t other = rank.streams + PlaceOf(*compute.t, entry.action).collective;
  waiters_[compute.objects + entry.named_base + stretch.named] = -1;
  at_end(compute, stretch.compute_at_end);
  at_end(streams_[other], stretch.collective_at_end);
  for (const int32_t signal : stretch.signals) ++counts_[compute.objects + entry.named_base + signal];
  waiters_[compute.objects + entry.named_base + compute.t->runs[compute.run].signal] = other;
}

}  // namespace weft::sim
