// The engine's state and how its parts call each other: engine.cc runs heads of streams from ready to finished,
// engine_setup.cc makes the state of all ranks, engine_choice.cc is P6 and compute slots, engine_communication.cc is
// P4, engine_flow.cc what transfers and collectives share (P12), engine_load.cc what collectives take from computation
// beside them (P3), engine_stretch.cc what a rank does alone, again and again.
#ifndef WEFT_SIMULATOR_ENGINE_ENGINE_IMPL_H_
#define WEFT_SIMULATOR_ENGINE_ENGINE_IMPL_H_

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "simulator/engine/compute_slots.h"
#include "simulator/engine/engine.h"
#include "simulator/engine/event_queue.h"
#include "simulator/engine/flow_clock.h"
#include "simulator/engine/flow_table.h"
#include "simulator/engine/links.h"
#include "simulator/engine/rank_meter.h"
#include "simulator/network/placement.h"

namespace weft::sim {

struct StreamState {
  const TemplateView* t = nullptr;
  const StreamView* view = nullptr;
  int32_t rank = 0;
  // Of the rank, in Engine::counts_.
  int32_t objects = 0;
  // Of collectives.
  int32_t communicator = -1;
  // The head: list, repetition, entry, run; list 3 = done.
  int32_t list = 0;
  int32_t repetition = 0;
  int32_t entry = 0;
  int32_t run = 0;
  // The first wait of the head that may still be open; beyond the entry's waits come the run's.
  int32_t wait = 0;
  // Next in the list of streams that wait for the same object, -1 = last.
  int32_t next_waiter = -1;
  StreamClass kind = StreamClass::kCompute;
  ComputeQueue queue = ComputeQueue::kNone;
  // Of a queue: its head could start and waits to be chosen.
  bool candidate = false;
  // What the head waits for, since when; and what it waited for before that.
  IdleReason waits_for = IdleReason::kEndOfRun;
  IdleReason reason = IdleReason::kEndOfRun;
  int64_t waits_since = 0;
  int64_t ready = 0;
};

// Transfers of one rank that start together (rule P4).
struct GroupState {
  const GroupView* view = nullptr;
  int32_t rank = 0;
  // Streams whose part of the group heads them and waits for nothing but partners.
  int32_t streams_ready = 0;
  // Once all are: members whose partner is not ready.
  int32_t partners_missing = 0;
  // No partner is missing: members may start, if their partners' groups are open too.
  bool open = false;
  // Members that have not ended.
  int32_t running = 0;
};

// What a rank computes, where its cost depends on the load.
struct Computation {
  // -1 = nothing.
  int32_t stream = -1;
  // Of its run, in TemplateView::steps: the one that runs since `since`, of which `left` was left then.
  int32_t step = 0;
  int64_t since = 0;
  int64_t left = 0;
  int64_t end = 0;
  // Of RankResult::events: that of the run's first step.
  size_t first_event = 0;
};

// One call of a rank's meter in a stretch (engine_stretch.cc).
struct StretchNote {
  enum Kind : uint8_t { kStartCompute, kEndCompute, kStartCollective, kFinishCollective, kProlong };

  Kind kind = kEndCompute;
  // Of a start of computation: what it waited for.
  IdleReason reason = IdleReason::kEndOfRun;
  // Of a start of computation.
  int32_t steps = 0;
  // Since the stretch began.
  int64_t offset = 0;
  // Of a start of computation, and of kProlong.
  int64_t duration = 0;
  int64_t unloaded = 0;
};

// What a rank did alone, from the start of one computation of an action to the end of a later one.
struct Stretch {
  // Heads of its two streams at the beginning, and the named step that the collective waits for.
  int32_t compute_run = 0;
  int32_t collective_run = 0;
  int32_t named = 0;
  // When it was noted; and how long it takes.
  int64_t begin = 0;
  int64_t duration = 0;
  std::vector<StretchNote> notes;
  // Named steps that were finished.
  std::vector<int32_t> signals;
  // Of these what belongs to the stretch: while it is noted more may follow.
  size_t notes_until_end = 0;
  size_t signals_until_end = 0;
  // What the notes come to: times, and steps.
  RankResult sum;
  int64_t steps = 0;
  StreamState compute_at_end;
  StreamState collective_at_end;
};

// Where an action's steps are, in a view.
struct ActionPlace {
  int32_t streams = 0;
  // The streams of computation and of collectives that it has steps on, the last of such; -1 = none.
  int32_t compute = -1;
  int32_t collective = -1;
  // It has these two streams and no other, and nobody else waits for its steps.
  bool alone = false;
};

struct RankState {
  const TemplateView* t = nullptr;
  // As the program numbers it; everywhere else a rank is an index into RankLinks::ranks.
  int32_t number = 0;
  int64_t stands_for = 1;
  // Of its device, in millionths.
  int64_t speed = kFullSpeed;
  // Expanded steps that it started.
  int64_t steps = 0;
  // Of the rank's objects, in Engine::counts_ and waiters_.
  int32_t objects = 0;
  // First of the rank's in Engine::streams_, RankLinks::sides and Engine::groups_.
  int32_t streams = 0;
  int32_t sides = 0;
  int32_t groups = 0;
  // In Engine::finish_times_.
  int64_t finish_times = 0;
  // Dynamic order: the queues' streams, -1 = there is none; whether an action of theirs is under way; whether the rank
  // is in Engine::choosing_.
  int32_t queues[2] = {-1, -1};
  bool computing = false;
  bool choosing = false;
  // Collectives under way; what computation is costed with; whether the rank is in Engine::load_changed_.
  int32_t collectives = 0;
  int32_t load = 0;
  bool load_changes = false;
  Computation computation;
  RankMeter meter;
  // Last, away from what every event needs. Stretches by their first run in TemplateView::runs: in Engine::stretches_,
  // or kNotTried or kUseless.
  std::vector<int32_t> stretches;
  // In Engine::stretches_, -1 = none: the one that is noted, and the one that is under way; when it began.
  int32_t recording = -1;
  int32_t replaying = -1;
  int64_t stretch_begin = 0;
  // Of the one that is noted: its action, and the stream of its collectives.
  int32_t stretch_action = -1;
  int32_t stretch_collective = -1;

  explicit RankState(const RankMeter& rank_meter) : meter(rank_meter) {}
};

// Later than this nothing ends.
inline constexpr int64_t kTimeLimit = int64_t{1} << 61;

class Engine {
 public:
  Engine(const ProgramView& view, const RankLinks& rank_links, const NetworkModel& network,
         const EngineOptions& options)
      : view_(view),
        rank_links_(rank_links),
        network_(network),
        options_(options),
        links_(MakeLinks(rank_links)),
        shares_links_(!network.LinkCapacities().empty()),
        flow_clock_(rank_links.flows.capacities.empty() ? network.LinkCapacities()
                                                        : absl::MakeConstSpan(rank_links.flows.capacities)),
        flow_table_(rank_links),
        slots_(view.template_of_rank.size(), options.devices_per_node, options.compute_slots_per_node,
               options.compute_turn.ps, options.node_of_rank) {}

  absl::StatusOr<EngineResult> Simulate();

 private:
  // ---- Setting up.

  absl::Status Prepare();

  // Whether the time that lies `duration` ahead can be told; if not, the run ends.
  bool WithinLimit(int64_t duration) {
    if (duration <= kTimeLimit - now_) return true;
    status_ = absl::OutOfRangeError(
        "simulated time passes 2^61 picoseconds (26 days); the cluster's rates or the program's work are out of "
        "proportion");
    return false;
  }

  void Push(int64_t duration, EventKind kind, uint32_t index, uint32_t detail = 0) {
    if (WithinLimit(duration)) queue_.Push(now_ + duration, kind, index, detail);
  }

  void Handle(const Event& event);

  // ---- The head of a stream.

  const Entry& Head(const StreamState& stream) const { return stream.t->entries[stream.entry]; }

  // Repetition of the head within its own list.
  static int32_t OwnRepetition(const StreamState& stream) { return stream.list == 1 ? stream.repetition : 0; }

  // Moves to the next entry, or to the first one.
  void NextEntry(StreamState& stream, bool first);

  // Checks what the head waits for; registers with the first thing that has not happened, or makes it ready.
  void TryReady(int32_t s);

  // ---- The order of compute that is chosen at run time (rule P6).

  void BecomeCandidate(int32_t s);

  // The rank may have to choose at this instant.
  void NoteChoice(int32_t rank) {
    RankState& state = ranks_[rank];
    if (state.computing || state.choosing) return;
    state.choosing = true;
    choosing_.push_back(rank);
  }

  // All ranks that are free choose; whether there was one. Called when nothing is left to end at this instant, so a
  // rank sees all that could run, and no choice sees what another one brings about.
  bool Choose();

  int32_t Candidate(int32_t s) const { return s >= 0 && streams_[s].candidate ? s : -1; }

  bool ForwardFirst(int32_t forward, int32_t backward) const;

  // What a head is chosen by: whether it waited for a RECV, and when the last of its dependencies was finished (-1: it
  // has none).
  std::pair<bool, int64_t> Arrival(const StreamState& stream) const;

  int64_t FinishTime(const RankState& rank, int32_t object, int64_t repetition) const {
    return rank.finish_times + int64_t{object} * options_.repetitions + repetition;
  }

  // ---- Waiting.

  void WaitFor(int32_t s, int32_t object, IdleReason reason);

  // What the head waited for has happened. Of things that happen at one instant the first that it waits for counts, so
  // that their order among events does not matter.
  void Resume(int32_t s) {
    StreamState& stream = streams_[s];
    if (now_ > stream.waits_since) stream.reason = stream.waits_for;
    TryReady(s);
  }

  // Counts one more completion of an object and looks again at all who wait for it.
  void Complete(const RankState& rank, int32_t object) {
    const int32_t count = counts_[rank.objects + object]++;
    if (keeps_times_) finish_times_[FinishTime(rank, object, count)] = now_;
    int32_t waiter = std::exchange(waiters_[rank.objects + object], -1);
    while (waiter >= 0) {
      const int32_t next = std::exchange(streams_[waiter].next_waiter, -1);
      Resume(waiter);
      waiter = next;
    }
  }

  void Ready(int32_t s);

  // Starts steps that keep their slot or are given a free one; whether there was one. A step that takes no time ends at
  // this instant: it is the last to be granted before ends are looked at again.
  bool Grant();

  // ---- Load (rule P3).

  // A collective of the rank starts (+1) or ends (-1).
  void ChangeCollectives(int32_t rank, int32_t change) {
    if (!view_.slows) return;
    RankState& state = ranks_[rank];
    state.collectives += change;
    if (state.load_changes) return;
    state.load_changes = true;
    load_changed_.push_back(rank);
  }

  // What step `i` of TemplateView::steps and a whole run cost at a load where the stream's head runs them, at the speed
  // of its device and with jitter.
  int64_t StepCost(const StreamState& stream, int32_t i, int32_t load) const;
  int64_t RunCost(const StreamState& stream, const Run& run, int32_t load) const;

  // The run that starts on stream `s`, of `duration` at the load of its rank.
  void BeginComputation(int32_t s, int64_t duration);

  // Called when nothing more can happen at this instant: what is computed goes on at the new loads.
  void ApplyLoads();
  void Retime(RankState& state, int32_t load);

  // Whether the event was of a run that was retimed since.
  bool IsStale(const Event& event) const {
    if (!view_.slows || event.kind() != EventKind::kStreamEnd) return false;
    const StreamState& stream = streams_[event.index()];
    if (stream.kind != StreamClass::kCompute) return false;
    const Computation& own = ranks_[stream.rank].computation;
    return own.stream != static_cast<int32_t>(event.index()) || own.end != event.time;
  }

  // ---- Stretches (engine_stretch.cc).

  static constexpr int32_t kNotTried = -1;
  static constexpr int32_t kUseless = -2;

  void PrepareStretches();

  // The object that the head of a stream waits for and how often it must have been completed; {-1, 0} if it waits for
  // none.
  std::pair<int32_t, int32_t> AwaitedBy(const StreamState& stream) const;

  // Of the action at the head of compute stream `s`, the stream of its collectives, if from now on the rank goes
  // through the action alone; else -1.
  int32_t LoneCollective(int32_t s) const;

  // A computation has started on stream `s`: how long the stretch takes that it begins, -1 if none does that is known.
  int64_t BeginStretch(int32_t s);
  // The stretch that is under way on compute stream `s` is over but for the end of its last computation.
  void EndStretch(int32_t s);

  // Collective stream `s` of a rank, which may be in a stretch, starts.
  void DisturbStretch(int32_t s);

  // For the stretch that is noted: a computation of its action is about to end; anything else; no more will be.
  void NoteComputeEnd(int32_t s);
  void EndNotes(RankState& rank);
  void Note(const RankState& rank, StretchNote note) {
    note.offset = now_ - rank.stretch_begin;
    stretches_[rank.recording].notes.push_back(note);
  }

  // Of a stretch that began at `begin`, what was noted up to `until`; `stopped`: the run ends in that instant. Returns
  // steps.
  static int64_t TellMeter(const Stretch& stretch, int64_t begin, int64_t until, bool stopped, RankMeter& meter);

  const ActionPlace& PlaceOf(const TemplateView& t, int32_t action) const {
    return places_[&t - view_.templates.data()][action];
  }

  // ---- Starts.

  // Called once per action and stream when its first step there starts: the action's own start, if it has not started
  // on another stream.
  void StartAction(const StreamState& stream, int32_t index);
  void StartRun(int32_t s);

  // One side of a channel becomes ready.
  void SideReady(int32_t c, const ChannelEnd& end, bool send);

  // One more stream has its part of the group at its head, ready; with the last one the group is.
  void GroupReady(int32_t g);

  // All partners of the group are ready: each member starts unless its partner's own group is not open.
  void Open(int32_t g);
  bool MayStart(const ChannelEnd& end) const { return end.ready && (end.group < 0 || groups_[end.group].open); }

  void StartTransfer(int32_t c);
  void StartCollective(int32_t c);

  // On a network whose links are shared: what is under way ends when its flow does. `streams` take part; the latest
  // event in the trace of the rank of each is of this.
  void BeginFlow(const Flow& flow, bool collective, int32_t index, absl::Span<const int32_t> streams);
  // A phase is over.
  void AdvanceFlow();

  void StartCommunication(const StreamState& stream, int32_t action, int32_t step, TransferTime time);
  void TraceRun(const StreamState& stream, const Run& run);

  // Of what is under way, when the next thing happens.
  int64_t NextTime() const { return std::min(queue_.empty() ? FlowClock::kNever : queue_.time(), flow_clock_.next()); }

  // ---- Ends.

  void EndRun(int32_t s);
  // To the next run of the head, or of the entry behind it.
  void Advance(StreamState& stream) {
    stream.wait = 0;
    if (++stream.run == Head(stream).runs.end) NextEntry(stream, /*first=*/false);
  }
  // What waits for the run, or for its action, may go on.
  void FinishRun(int32_t rank, const Entry& entry, const Run& run);

  // The action of a queue has ended: the rank is free to choose.
  void EndOfQueued(const StreamState& stream, const Entry& entry);
  void EndTransfer(int32_t c);

  void EndSide(const ChannelEnd& end, Time latency);
  void EndCommunication(int32_t s, Time latency);
  // A transfer has ended and is finished `latency` later.
  void FinishCommunication(int32_t rank, int32_t action, Time latency);
  void EndCollective(int32_t c);
  // The first of those that have ended is finished.
  void FinishCollective(int32_t c);
  void FinishTail(int32_t rank, int32_t action, int32_t tail_object);

  void FinishAction(int32_t rank, int32_t index);

  // A microbatch comes back: what its forward held is released, of a wide one with its last.
  void Unhold(RankState& state, const ActionView& action);
  void EndRepetition();

  // Of all ranks, each as the one that was simulated for it.
  EngineResult Finish();

  // Internal unless all streams have come to their end.
  absl::Status CheckDone() const;

  // Of the i-th channel of a rank's view.
  int32_t ChannelOf(const RankState& rank, int32_t i) const { return rank_links_.sides[rank.sides + i].channel; }

  const ProgramView& view_;
  const RankLinks& rank_links_;
  const NetworkModel& network_;
  const EngineOptions& options_;

  absl::Status status_;
  bool steady_ = false;
  int64_t now_ = 0;
  EventQueue queue_;
  Links links_;
  // Of networks with shared links.
  bool shares_links_ = false;
  FlowClock flow_clock_;
  FlowTable flow_table_;
  struct FlowOwner {
    bool collective = false;
    // Of its channel or communicator.
    int32_t index = 0;
    // Its events in the trace: rank, index.
    std::vector<std::pair<int32_t, size_t>> events;
  };
  // By number in flow_clock_.
  std::vector<FlowOwner> flow_owners_;
  ComputeSlots slots_;
  std::vector<StreamState> streams_;
  std::vector<RankState> ranks_;
  std::vector<GroupState> groups_;
  // Ranks that may have to choose at this instant.
  std::vector<int32_t> choosing_;
  // Ranks whose load may change at this instant.
  std::vector<int32_t> load_changed_;
  // With ARRIVAL: by rank, object and repetition.
  bool keeps_times_ = false;
  std::vector<int64_t> finish_times_;
  // Per object of every rank: how often it was completed, and the first stream that waits for it.
  std::vector<int32_t> counts_;
  std::vector<int32_t> waiters_;
  // Of runs that have stretches: by view and action. And what was noted of each rank.
  bool stretches_on_ = false;
  std::vector<std::vector<ActionPlace>> places_;
  std::vector<Stretch> stretches_;
  // Per repetition, body actions that are not finished.
  std::vector<int64_t> remaining_;
  int32_t completed_ = 0;
  std::vector<int32_t> barrier_;
  EngineResult result_;
};

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_ENGINE_ENGINE_IMPL_H_
