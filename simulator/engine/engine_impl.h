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
  // Index of the rank's first object in Engine::counts_. An object is something that streams wait for, such as the end
  // of an action (program_view.h).
  int32_t objects = 0;
  // The communicator, if this is a stream of collectives; else -1.
  int32_t communicator = -1;
  // The head: its list (0 prologue, 1 body, 2 epilogue), repetition, entry and run. List 3 means that the stream is
  // done.
  int32_t list = 0;
  int32_t repetition = 0;
  int32_t entry = 0;
  int32_t run = 0;
  // Index of the first wait of the head that may not be satisfied yet. The waits of the entry come before those of the
  // run.
  int32_t wait = 0;
  // The next stream in the list of streams that wait for the same object; -1 = this is the last.
  int32_t next_waiter = -1;
  StreamClass kind = StreamClass::kCompute;
  ComputeQueue queue = ComputeQueue::kNone;
  // For a queue of forwards or backwards: true if its head could start and waits to be chosen.
  bool candidate = false;
  // `waits_for` and `waits_since`: the reason for which the head waits, and since when. `reason`: the reason of the
  // last wait that took time.
  IdleReason waits_for = IdleReason::kEndOfRun;
  IdleReason reason = IdleReason::kEndOfRun;
  int64_t waits_since = 0;
  int64_t ready = 0;
};

// Transfers of one rank that start together (rule P4).
struct GroupState {
  const GroupView* view = nullptr;
  int32_t rank = 0;
  // Streams that have reached their part of the group and wait only for partners.
  int32_t streams_ready = 0;
  // Number of members whose partner is not ready. Counted once all streams are ready.
  int32_t partners_missing = 0;
  // True if no partner is missing. A member may then start if its partner's group is open too.
  bool open = false;
  // Members that have not ended.
  int32_t running = 0;
};

// The computation that a rank runs, for programs whose compute costs depend on the load.
struct Computation {
  // Stream on which the computation runs; -1 = the rank computes nothing.
  int32_t stream = -1;
  // The current step of the run, as an index in TemplateView::steps. At the time `since`, `left` ps of it were left.
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
  // For kStartCompute: the reason for which the computation waited.
  IdleReason reason = IdleReason::kEndOfRun;
  // For kStartCompute: number of steps.
  int32_t steps = 0;
  // Time since the stretch began.
  int64_t offset = 0;
  // For kStartCompute: the time that the computation takes, and the time that it would take without load. For kProlong:
  // `duration` is the time that is added.
  int64_t duration = 0;
  int64_t unloaded = 0;
};

// The record of what a rank does without others, from the start of one computation of an action to the end of a later
// computation of the same action.
struct Stretch {
  // The runs at the heads of the compute stream and the collective stream at the beginning, and the step that the
  // collective waits for, as an index relative to Entry::named_base.
  int32_t compute_run = 0;
  int32_t collective_run = 0;
  int32_t named = 0;
  // The time at which the recorded stretch began, and its duration.
  int64_t begin = 0;
  int64_t duration = 0;
  std::vector<StretchNote> notes;
  // Steps that finished during the stretch and that other steps or actions wait for, as indices relative to
  // Entry::named_base, like `named`.
  std::vector<int32_t> signals;
  // Number of notes and signals that belong to the stretch. While the engine records, it may append more after them.
  size_t notes_until_end = 0;
  size_t signals_until_end = 0;
  // The sums over the notes: of their times, and of their steps.
  RankResult sum;
  int64_t steps = 0;
  StreamState compute_at_end;
  StreamState collective_at_end;
};

// The streams of a TemplateView on which an action has steps.
struct ActionPlace {
  int32_t streams = 0;
  // The last compute stream and the last collective stream on which the action has steps; -1 = none.
  int32_t compute = -1;
  int32_t collective = -1;
  // True if the action has steps on exactly `compute` and `collective`, and none of them is detached. Other streams can
  // then wait only for the whole action, not for a single step.
  bool alone = false;
};

struct RankState {
  const TemplateView* t = nullptr;
  // Number of the rank in the program. Everywhere else a rank is an index into RankLinks::ranks.
  int32_t number = 0;
  int64_t stands_for = 1;
  // Speed of the rank's device, in millionths of full speed.
  int64_t speed = kFullSpeed;
  // Steps that the rank started, in all repetitions.
  int64_t steps = 0;
  // Index of the rank's first object in Engine::counts_ and waiters_.
  int32_t objects = 0;
  // Indices of the rank's first elements in Engine::streams_, RankLinks::sides and Engine::groups_.
  int32_t streams = 0;
  int32_t sides = 0;
  int32_t groups = 0;
  // Index of the rank's first time in Engine::finish_times_.
  int64_t finish_times = 0;
  // For a compute order that is chosen at run time (P6): the streams of the forward and the backward queue (-1 = none),
  // whether an action of a queue is running, and whether the rank is in Engine::choosing_.
  int32_t queues[2] = {-1, -1};
  bool computing = false;
  bool choosing = false;
  // Collectives in progress, the load at which computation is costed, and whether the rank is in Engine::load_changed_.
  int32_t collectives = 0;
  int32_t load = 0;
  bool load_changes = false;
  Computation computation;
  RankMeter meter;
  // For each run in TemplateView::runs, the stretch that begins with it: an index in Engine::stretches_, kNotTried or
  // kUseless. The fields from here on come last, away from the fields that every event needs.
  std::vector<int32_t> stretches;
  // The stretches that are being recorded and replayed, as indices in Engine::stretches_ (-1 = none), and the time at
  // which the current one began.
  int32_t recording = -1;
  int32_t replaying = -1;
  int64_t stretch_begin = 0;
  // For the stretch that is being recorded: its action, and the stream of the action's collectives.
  int32_t stretch_action = -1;
  int32_t stretch_collective = -1;

  explicit RankState(const RankMeter& rank_meter) : meter(rank_meter) {}
};

// Latest simulated time, in ps.
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

  // Returns the repetition of the head, counted within its list; 0 in the prologue and the epilogue.
  static int32_t OwnRepetition(const StreamState& stream) { return stream.list == 1 ? stream.repetition : 0; }

  // Moves the stream to its next entry, or to its first entry if `first`.
  void NextEntry(StreamState& stream, bool first);

  // Checks what the head waits for. Registers the stream with the first thing that has not happened, or makes the head
  // ready.
  void TryReady(int32_t s);

  // ---- The order of compute if it is chosen at run time (rule P6).

  void BecomeCandidate(int32_t s);

  // Adds the rank to those that may have to choose at this instant, unless it computes.
  void NoteChoice(int32_t rank) {
    RankState& state = ranks_[rank];
    if (state.computing || state.choosing) return;
    state.choosing = true;
    choosing_.push_back(rank);
  }

  // Lets every free rank choose its next action; returns true if one did. Called when nothing is left to end at this
  // instant. So a rank considers everything that could run, and no choice depends on another rank's choice.
  bool Choose();

  int32_t Candidate(int32_t s) const { return s >= 0 && streams_[s].candidate ? s : -1; }

  bool ForwardFirst(int32_t forward, int32_t backward) const;

  // Returns the key by which rule ARRIVAL chooses a head: whether it waited for a RECV, and when its last dependency
  // finished (-1 if it has none).
  std::pair<bool, int64_t> Arrival(const StreamState& stream) const;

  int64_t FinishTime(const RankState& rank, int32_t object, int64_t repetition) const {
    return rank.finish_times + int64_t{object} * options_.repetitions + repetition;
  }

  // ---- Waiting.

  void WaitFor(int32_t s, int32_t object, IdleReason reason);

  // Called when the thing that the head waited for has happened. If several things happen at one instant, the head's
  // first wait among them counts as the reason, so the reason does not depend on the order of events.
  void Resume(int32_t s) {
    StreamState& stream = streams_[s];
    if (now_ > stream.waits_since) stream.reason = stream.waits_for;
    TryReady(s);
  }

  // Counts one more completion of an object, then checks again all streams that wait for the object.
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

  // Starts steps that keep their slot or get a free one; returns true if there was such a step. A step that takes no
  // time ends at this instant, so no other step gets a slot until ends have been processed again.
  bool Grant();

  // ---- Load (rule P3).

  // Registers that a collective of the rank starts (+1) or ends (-1).
  void ChangeCollectives(int32_t rank, int32_t change) {
    if (!view_.slows) return;
    RankState& state = ranks_[rank];
    state.collectives += change;
    if (state.load_changes) return;
    state.load_changes = true;
    load_changed_.push_back(rank);
  }

  // Return the cost, at a load, of a step (`i` in TemplateView::steps) or of a whole run at the head of `stream`. The
  // costs include the speed of the device and jitter.
  int64_t StepCost(const StreamState& stream, int32_t i, int32_t load) const;
  int64_t RunCost(const StreamState& stream, const Run& run, int32_t load) const;

  // Registers that a run starts on stream `s` and takes `duration` at the load of its rank.
  void BeginComputation(int32_t s, int64_t duration);

  // Called when nothing more can happen at this instant: gives running computations the costs of their rank's new load.
  void ApplyLoads();
  void Retime(RankState& state, int32_t load);

  // True if the event is the end of a run that was retimed after the event was pushed.
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

  // Returns the stream of collectives of the action at the head of compute stream `s`, if from now on nothing outside
  // the action affects the action on this rank: the action's collective waits for a step of this action and for no
  // other simulated rank, and no other load or collective runs on the rank. Otherwise returns -1.
  int32_t LoneCollective(int32_t s) const;

  // Called when a computation starts on stream `s`. Returns the duration of the recorded stretch that begins with it;
  // -1 if there is none. If no stretch was tried with this computation yet and one may begin here, starts to record it.
  int64_t BeginStretch(int32_t s);
  // Ends the stretch on compute stream `s`. Only the end of its last computation remains to be handled.
  void EndStretch(int32_t s);

  // Called when collective stream `s` of a rank starts. Ends the recording or the replay that this collective disturbs.
  void DisturbStretch(int32_t s);

  // Records in the current stretch that a computation of its action is about to end.
  void NoteComputeEnd(int32_t s);
  // Ends the recording of the current stretch.
  void EndNotes(RankState& rank);
  // Records a note in the current stretch, at the present time.
  void Note(const RankState& rank, StretchNote note) {
    note.offset = now_ - rank.stretch_begin;
    stretches_[rank.recording].notes.push_back(note);
  }

  // Repeats on `meter` the notes, up to the time `until`, of a stretch that began at `begin`. `stopped`: the run ends
  // at the time `until`. Returns the number of steps.
  static int64_t ReplayOnMeter(const Stretch& stretch, int64_t begin, int64_t until, bool stopped, RankMeter& meter);

  const ActionPlace& PlaceOf(const TemplateView& t, int32_t action) const {
    return places_[&t - view_.templates.data()][action];
  }

  // ---- Starts.

  // Called once per action and stream, when the first step there starts. Starts the action unless it has already
  // started on another stream.
  void StartAction(const StreamState& stream, int32_t index);
  void StartRun(int32_t s);

  // Called when one side of a channel becomes ready.
  void SideReady(int32_t c, const ChannelEnd& end, bool send);

  // Called when one more stream has reached its part of the group. With the last such stream the group is ready.
  void GroupReady(int32_t g);

  // Called when all partners of the group are ready. Starts each member, except those whose partner's group is not
  // open.
  void Open(int32_t g);
  bool MayStart(const ChannelEnd& end) const { return end.ready && (end.group < 0 || groups_[end.group].open); }

  void StartTransfer(int32_t c);
  void StartCollective(int32_t c);

  // For networks with shared links: begins the flow of the transfer on channel `index`, or of the collective on
  // communicator `index`. The transfer or collective ends when its flow ends. `streams` are the streams that take part;
  // the latest event in the trace of each stream's rank belongs to this flow.
  void BeginFlow(const Flow& flow, bool collective, int32_t index, absl::Span<const int32_t> streams);
  // Handles the end of a phase of a flow.
  void AdvanceFlow();

  void StartCommunication(const StreamState& stream, int32_t action, int32_t step, TransferTime time);
  void TraceRun(const StreamState& stream, const Run& run);

  // Time of the next event or end of a flow's phase.
  int64_t NextTime() const { return std::min(queue_.empty() ? FlowClock::kNever : queue_.time(), flow_clock_.next()); }

  // ---- Ends.

  void EndRun(int32_t s);
  // Moves the stream to the next run of its head, or to the next entry.
  void Advance(StreamState& stream) {
    stream.wait = 0;
    if (++stream.run == Head(stream).runs.end) NextEntry(stream, /*first=*/false);
  }
  // Marks the run as finished, and its action if that is then finished too. Streams that wait for them continue.
  void FinishRun(int32_t rank, const Entry& entry, const Run& run);

  // Called when an action of a queue has ended: the rank may choose again.
  void EndOfQueued(const StreamState& stream, const Entry& entry);
  void EndTransfer(int32_t c);

  // Called when a transfer has ended on one side. The side's action finishes `latency` later.
  void EndSide(const ChannelEnd& end, Time latency);
  void EndCommunication(int32_t s, Time latency);
  // Called when an action's communication has ended. The action finishes `latency` later.
  void FinishCommunication(int32_t rank, int32_t action, Time latency);
  void EndCollective(int32_t c);
  // Finishes the collective of communicator `c` that ended first among those that are not finished.
  void FinishCollective(int32_t c);
  void FinishTail(int32_t rank, int32_t action, int32_t tail_object);

  void FinishAction(int32_t rank, int32_t index);

  // Called when a microbatch's backward is over, so that the microbatch is no longer in flight. The microbatches of a
  // wide forward stay in flight until the last of their backwards.
  void ReleaseInFlight(RankState& state, const ActionView& action);
  void EndRepetition();

  // Returns the result of all ranks. Each rank gets the result of the rank that was simulated for it.
  EngineResult Finish();

  // Returns an Internal error unless all streams have reached their end.
  absl::Status CheckDone() const;

  // Returns the index of the channel that the rank's view lists as its i-th.
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
  // The fields from here to flow_owners_ are for networks with shared links.
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
  // The owner of each flow, by the flow's number in flow_clock_.
  std::vector<FlowOwner> flow_owners_;
  ComputeSlots slots_;
  std::vector<StreamState> streams_;
  std::vector<RankState> ranks_;
  std::vector<GroupState> groups_;
  // Ranks that may have to choose at this instant.
  std::vector<int32_t> choosing_;
  // Ranks whose load may change at this instant.
  std::vector<int32_t> load_changed_;
  // For rule ARRIVAL (P6): finish times by rank, object and repetition.
  bool keeps_times_ = false;
  std::vector<int64_t> finish_times_;
  // For each object of every rank: how often it was completed, and the first stream that waits for it.
  std::vector<int32_t> counts_;
  std::vector<int32_t> waiters_;
  // For runs that replay stretches: the streams of each action, by view and action, and the recorded stretches.
  bool stretches_on_ = false;
  std::vector<std::vector<ActionPlace>> places_;
  std::vector<Stretch> stretches_;
  // For each repetition, the number of body actions that are not finished.
  std::vector<int64_t> remaining_;
  int32_t completed_ = 0;
  std::vector<int32_t> barrier_;
  EngineResult result_;
};

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_ENGINE_ENGINE_IMPL_H_
