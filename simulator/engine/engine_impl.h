// The engine's state and the interface between its parts:
//   engine.cc                runs heads of streams from ready to finished
//   engine_setup.cc          makes the state of all ranks
//   engine_choice.cc         chooses the order of compute (P6) and grants compute slots
//   engine_communication.cc  runs transfers and collectives (P4)
//   engine_flow.cc           runs transfers and collectives that share links (P12)
//   engine_load.cc           slows computation down while collectives run beside it (P3)
//   engine_stretch.cc        replays what a rank does alone, again and again
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
  // First of the rank's objects in Engine::counts_.
  int32_t objects = 0;
  // Communicator of a stream of collectives.
  int32_t communicator = -1;
  // The head: list, repetition, entry and run. List 3 means that the stream is done.
  int32_t list = 0;
  int32_t repetition = 0;
  int32_t entry = 0;
  int32_t run = 0;
  // Index of the first wait of the head that may still be open. The entry's waits come first, then the run's.
  int32_t wait = 0;
  // Next in the list of streams that wait for the same object, -1 = last.
  int32_t next_waiter = -1;
  StreamClass kind = StreamClass::kCompute;
  ComputeQueue queue = ComputeQueue::kNone;
  // For a queue: true if its head could start and waits to be chosen.
  bool candidate = false;
  // `waits_for` and `waits_since`: what the head waits for, and since when. `reason`: what it waited for before that.
  IdleReason waits_for = IdleReason::kEndOfRun;
  IdleReason reason = IdleReason::kEndOfRun;
  int64_t waits_since = 0;
  int64_t ready = 0;
};

// Transfers of one rank that start together (rule P4).
struct GroupState {
  const GroupView* view = nullptr;
  int32_t rank = 0;
  // Streams on which the group's part is at the head and waits for nothing but partners.
  int32_t streams_ready = 0;
  // Members whose partner is not ready, once all streams are ready.
  int32_t partners_missing = 0;
  // True if no partner is missing. A member may then start if its partner's group is open too.
  bool open = false;
  // Members that have not ended.
  int32_t running = 0;
};

// The computation that a rank runs, for programs whose compute costs depend on the load.
struct Computation {
  // Stream of the run; -1 = the rank computes nothing.
  int32_t stream = -1;
  // Index in TemplateView::steps of the step of the run that runs since `since`; `left` ps of it were left then.
  int32_t step = 0;
  int64_t since = 0;
  int64_t left = 0;
  int64_t end = 0;
  // Index in RankResult::events of the run's first step.
  size_t first_event = 0;
};

// One recorded call of a rank's meter in a stretch (engine_stretch.cc).
struct StretchNote {
  enum Kind : uint8_t { kStartCompute, kEndCompute, kStartCollective, kFinishCollective, kProlong };

  Kind kind = kEndCompute;
  // For kStartCompute: what the computation waited for.
  IdleReason reason = IdleReason::kEndOfRun;
  // For kStartCompute: number of steps.
  int32_t steps = 0;
  // Time since the stretch began.
  int64_t offset = 0;
  // For kStartCompute and kProlong.
  int64_t duration = 0;
  int64_t unloaded = 0;
};

// The record of what a rank did alone, from the start of one computation of an action to the end of a later one.
struct Stretch {
  // Heads of the two streams at the beginning, and the named step that the collective waits for.
  int32_t compute_run = 0;
  int32_t collective_run = 0;
  int32_t named = 0;
  // When the recorded pass began, and how long the stretch takes.
  int64_t begin = 0;
  int64_t duration = 0;
  std::vector<StretchNote> notes;
  // Steps that finished during the stretch and that other steps or actions wait for. Indices relative to
  // Entry::named_base, as in `named`.
  std::vector<int32_t> signals;
  // How many of the notes and signals belong to the stretch. More may follow while it is recorded.
  size_t notes_until_end = 0;
  size_t signals_until_end = 0;
  // Totals of the notes: times and steps.
  RankResult sum;
  int64_t steps = 0;
  StreamState compute_at_end;
  StreamState collective_at_end;
};

// Streams of a view on which an action has steps.
struct ActionPlace {
  int32_t streams = 0;
  // The last compute stream and the last collective stream on which the action has steps; -1 = none.
  int32_t compute = -1;
  int32_t collective = -1;
  // True if the action has steps on exactly these two streams and no other stream waits for its steps.
  bool alone = false;
};

struct RankState {
  const TemplateView* t = nullptr;
  // Number of the rank in the program. Everywhere else a rank is an index into RankLinks::ranks.
  int32_t number = 0;
  int64_t stands_for = 1;
  // Speed of the rank's device, in millionths of full speed.
  int64_t speed = kFullSpeed;
  // Expanded steps that the rank started.
  int64_t steps = 0;
  // First of the rank's objects in Engine::counts_ and waiters_.
  int32_t objects = 0;
  // First of the rank's elements in Engine::streams_, RankLinks::sides and Engine::groups_.
  int32_t streams = 0;
  int32_t sides = 0;
  int32_t groups = 0;
  // First of the rank's times in Engine::finish_times_.
  int64_t finish_times = 0;
  // For a dynamic order: the streams of the forward and the backward queue (-1 = none), whether an action of a queue is
  // running, and whether the rank is in Engine::choosing_.
  int32_t queues[2] = {-1, -1};
  bool computing = false;
  bool choosing = false;
  // Collectives in progress, the load at which computation is costed, and whether the rank is in Engine::load_changed_.
  int32_t collectives = 0;
  int32_t load = 0;
  bool load_changes = false;
  Computation computation;
  RankMeter meter;
  // Stretches by their first run in TemplateView::runs: indices in Engine::stretches_, kNotTried or kUseless. These
  // fields come last, away from the fields that every event needs.
  std::vector<int32_t> stretches;
  // The stretch that is being recorded and the one that is being replayed, as indices in Engine::stretches_ (-1 =
  // none), and when that stretch began.
  int32_t recording = -1;
  int32_t replaying = -1;
  int64_t stretch_begin = 0;
  // For the stretch that is being recorded: its action, and the stream of the action's collectives.
  int32_t stretch_action = -1;
  int32_t stretch_collective = -1;

  explicit RankState(const RankMeter& rank_meter) : meter(rank_meter) {}
};

// Latest time, in ps, at which anything may end.
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

  // Returns true if the time `duration` from now is within the limit. Otherwise the run ends with an error.
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

  // Checks what the head waits for. Registers the stream with the first thing that has not happened, or makes the head
  // ready.
  void TryReady(int32_t s);

  // ---- The order of compute if it is chosen at run time (rule P6).

  void BecomeCandidate(int32_t s);

  // Notes that the rank may have to choose at this instant.
  void NoteChoice(int32_t rank) {
    RankState& state = ranks_[rank];
    if (state.computing || state.choosing) return;
    state.choosing = true;
    choosing_.push_back(rank);
  }

  // Lets every free rank choose; returns true if one did. Called when nothing is left to end at this instant, so a rank
  // sees everything that could run, and no choice sees the effects of another one.
  bool Choose();

  int32_t Candidate(int32_t s) const { return s >= 0 && streams_[s].candidate ? s : -1; }

  bool ForwardFirst(int32_t forward, int32_t backward) const;

  // The key by which a head is chosen: whether it waited for a RECV, and when its last dependency finished (-1 if it
  // has none).
  std::pair<bool, int64_t> Arrival(const StreamState& stream) const;

  int64_t FinishTime(const RankState& rank, int32_t object, int64_t repetition) const {
    return rank.finish_times + int64_t{object} * options_.repetitions + repetition;
  }

  // ---- Waiting.

  void WaitFor(int32_t s, int32_t object, IdleReason reason);

  // Called when what the head waited for has happened. If several things happen at one instant, the first one that the
  // head waits for counts as the reason, so the order of events does not matter.
  void Resume(int32_t s) {
    StreamState& stream = streams_[s];
    if (now_ > stream.waits_since) stream.reason = stream.waits_for;
    TryReady(s);
  }

  // Counts one more completion of an object and checks all streams that wait for it again.
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

  // Starts steps that keep their slot or get a free one; returns true if there was one. A step that takes no time ends
  // at this instant, so no other step is granted a slot until ends have been processed again.
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

  // Costs, at a load, of step `i` of TemplateView::steps and of a whole run at the head of `stream`. They include the
  // speed of the device and jitter.
  int64_t StepCost(const StreamState& stream, int32_t i, int32_t load) const;
  int64_t RunCost(const StreamState& stream, const Run& run, int32_t load) const;

  // Notes that a run starts on stream `s` and takes `duration` at the load of its rank.
  void BeginComputation(int32_t s, int64_t duration);

  // Called when nothing more can happen at this instant: running computations continue at the new loads.
  void ApplyLoads();
  void Retime(RankState& state, int32_t load);

  // True if the event belongs to a run that has been retimed since.
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

  // Returns the object that the head of a stream waits for and how often the object must have been completed; {-1, 0}
  // if the head waits for none.
  std::pair<int32_t, int32_t> AwaitedBy(const StreamState& stream) const;

  // Returns the stream of collectives of the action at the head of compute stream `s` if from now on the rank goes
  // through the action alone; else -1.
  int32_t LoneCollective(int32_t s) const;

  // A computation has started on stream `s`. Returns the duration of the known stretch that begins with it, -1 if there
  // is none.
  int64_t BeginStretch(int32_t s);
  // Ends the stretch on compute stream `s`. Only the end of its last computation remains to be handled.
  void EndStretch(int32_t s);

  // Called when collective stream `s` of a rank starts; the rank may be in a stretch.
  void DisturbStretch(int32_t s);

  // Records in the current stretch that a computation of its action is about to end.
  void NoteComputeEnd(int32_t s);
  // Ends the recording.
  void EndNotes(RankState& rank);
  // Records any other note.
  void Note(const RankState& rank, StretchNote note) {
    note.offset = now_ - rank.stretch_begin;
    stretches_[rank.recording].notes.push_back(note);
  }

  // Repeats the notes up to `until` of a stretch that began at `begin` on the meter. If `stopped`, the run ends at that
  // instant. Returns the number of steps.
  static int64_t ReplayOnMeter(const Stretch& stretch, int64_t begin, int64_t until, bool stopped, RankMeter& meter);

  const ActionPlace& PlaceOf(const TemplateView& t, int32_t action) const {
    return places_[&t - view_.templates.data()][action];
  }

  // ---- Starts.

  // Called once per action and stream, when the first step there starts. Starts the action unless it has already
  // started on another stream.
  void StartAction(const StreamState& stream, int32_t index);
  void StartRun(int32_t s);

  // One side of a channel becomes ready.
  void SideReady(int32_t c, const ChannelEnd& end, bool send);

  // One more stream has its part of the group ready at its head. With the last such stream the group is ready.
  void GroupReady(int32_t g);

  // Called when all partners of the group are ready. Each member starts unless its partner's group is not open.
  void Open(int32_t g);
  bool MayStart(const ChannelEnd& end) const { return end.ready && (end.group < 0 || groups_[end.group].open); }

  void StartTransfer(int32_t c);
  void StartCollective(int32_t c);

  // For networks with shared links: the transfer or collective ends when its flow does. `streams` take part; for each
  // of them, the latest event in the trace of its rank belongs to this flow.
  void BeginFlow(const Flow& flow, bool collective, int32_t index, absl::Span<const int32_t> streams);
  // Handles the end of a phase of a flow.
  void AdvanceFlow();

  void StartCommunication(const StreamState& stream, int32_t action, int32_t step, TransferTime time);
  void TraceRun(const StreamState& stream, const Run& run);

  // Time of the next event or end of a flow's phase.
  int64_t NextTime() const { return std::min(queue_.empty() ? FlowClock::kNever : queue_.time(), flow_clock_.next()); }

  // ---- Ends.

  void EndRun(int32_t s);
  // Moves to the next run of the head, or to the next entry.
  void Advance(StreamState& stream) {
    stream.wait = 0;
    if (++stream.run == Head(stream).runs.end) NextEntry(stream, /*first=*/false);
  }
  // Lets everything that waits for the run, or for its action, continue.
  void FinishRun(int32_t rank, const Entry& entry, const Run& run);

  // An action of a queue has ended: the rank is free to choose.
  void EndOfQueued(const StreamState& stream, const Entry& entry);
  void EndTransfer(int32_t c);

  // One end of a transfer has ended. Its action finishes `latency` later.
  void EndSide(const ChannelEnd& end, Time latency);
  void EndCommunication(int32_t s, Time latency);
  // A transfer has ended and is finished `latency` later.
  void FinishCommunication(int32_t rank, int32_t action, Time latency);
  void EndCollective(int32_t c);
  // Finishes the first of the collectives of communicator `c` that have ended.
  void FinishCollective(int32_t c);
  void FinishTail(int32_t rank, int32_t action, int32_t tail_object);

  void FinishAction(int32_t rank, int32_t index);

  // A microbatch's backward is over: the microbatch is no longer in flight. The microbatches of a wide forward stay in
  // flight until the last of their backwards.
  void ReleaseInFlight(RankState& state, const ActionView& action);
  void EndRepetition();

  // Returns the result of all ranks. Each rank gets the result of the rank that was simulated for it.
  EngineResult Finish();

  // Returns Internal unless all streams have come to their end.
  absl::Status CheckDone() const;

  // Returns the channel that is the i-th of the rank's view.
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
  // For networks with shared links.
  bool shares_links_ = false;
  FlowClock flow_clock_;
  FlowTable flow_table_;
  struct FlowOwner {
    bool collective = false;
    // Index of the flow's channel or communicator.
    int32_t index = 0;
    // The flow's events in the trace: (rank, index).
    std::vector<std::pair<int32_t, size_t>> events;
  };
  // By number of the flow in flow_clock_.
  std::vector<FlowOwner> flow_owners_;
  ComputeSlots slots_;
  std::vector<StreamState> streams_;
  std::vector<RankState> ranks_;
  std::vector<GroupState> groups_;
  // Ranks that may have to choose at this instant.
  std::vector<int32_t> choosing_;
  // Ranks whose load may change at this instant.
  std::vector<int32_t> load_changed_;
  // For ARRIVAL: finish times by rank, object and repetition.
  bool keeps_times_ = false;
  std::vector<int64_t> finish_times_;
  // For each object of every rank: how often it was completed, and the first stream that waits for it.
  std::vector<int32_t> counts_;
  std::vector<int32_t> waiters_;
  // For runs that use stretches: places of actions by view and action, and the recorded stretches.
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
