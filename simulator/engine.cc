#include "simulator/engine.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/status.h"
#include "simulator/compute_slots.h"
#include "simulator/event_queue.h"
#include "simulator/links.h"
#include "simulator/rank_meter.h"

namespace weft {
namespace {

constexpr int64_t kTimeLimit = int64_t{1} << 61;
// Larger programs would end in the middle, when the machine has no more memory.
constexpr int64_t kMostStateBytes = int64_t{1} << 32;
// What a stream takes in Links, about.
constexpr int64_t kLinkBytes = 96;

struct StreamState {
  const TemplateView* t = nullptr;
  const StreamView* view = nullptr;
  int32_t rank = 0;
  // Of the rank, in Engine::counts_.
  int32_t objects = 0;
  // Channel or communicator.
  int32_t link = -1;
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
  IdleReason reason = IdleReason::kEndOfRun;
  int64_t ready = 0;
};

struct RankState {
  const TemplateView* t = nullptr;
  // Of the rank's objects, in Engine::counts_ and waiters_.
  int32_t objects = 0;
  RankMeter meter;
};

class Engine {
 public:
  Engine(const ProgramView& view, const NetworkModel& network, const EngineOptions& options)
      : view_(view),
        network_(network),
        options_(options),
        links_(view.program->mesh()),
        slots_(view.template_of_rank.size(), options.devices_per_node, options.compute_slots_per_node,
               options.compute_turn.ps) {}

  absl::StatusOr<EngineResult> Simulate() {
    if (options_.repetitions < 1) {
      return absl::InvalidArgumentError(absl::StrCat("repetitions = ", options_.repetitions, "; nearest valid: 1"));
    }
    WEFT_RETURN_IF_ERROR(Prepare());
    for (size_t s = 0; s < streams_.size(); ++s) {
      NextEntry(streams_[s], /*first=*/true);
      TryReady(s);
    }
    while (status_.ok() && !steady_) {
      if (!queue_.empty() && queue_.time() == now_) {
        Handle(queue_.Pop());
      } else if (!Grant()) {
        if (queue_.empty()) break;
        now_ = queue_.time();
      }
    }
    WEFT_RETURN_IF_ERROR(status_);
    if (!steady_) WEFT_RETURN_IF_ERROR(CheckDone());
    return Finish();
  }

 private:
  // ---- Setting up.

  absl::Status Prepare() {
    const int64_t ranks = view_.template_of_rank.size();
    int64_t total = 0, streams = 0;
    for (const int32_t t : view_.template_of_rank) {
      total += view_.templates[t].objects;
      streams += view_.templates[t].streams.size();
    }
    const int64_t bytes = total * (sizeof(counts_[0]) + sizeof(waiters_[0])) +
                          streams * (sizeof(StreamState) + kLinkBytes) +
                          ranks * (sizeof(RankState) + sizeof(RankResult));
    // Indices of objects are int32: so many bytes hold fewer.
    if (bytes > kMostStateBytes) {
      return absl::ResourceExhaustedError(absl::StrCat("the program has ", total, " actions over ", ranks,
                                                       " ranks; simulating them takes ", bytes >> 20,
                                                       " MiB of memory, allowed are ", kMostStateBytes >> 20));
    }
    if (options_.trace) WEFT_RETURN_IF_ERROR(CheckTraceSize(view_, options_.repetitions));
    ranks_.reserve(ranks);
    streams_.reserve(streams);
    result_.ranks.resize(ranks);
    remaining_.assign(options_.repetitions, 0);
    counts_.assign(total, 0);
    waiters_.assign(total, -1);
    int32_t objects = 0;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      const TemplateView& t = view_.templates[view_.template_of_rank[rank]];
      ranks_.push_back({.t = &t, .objects = objects, .meter = RankMeter(t.persistent, &result_.ranks[rank])});
      for (int64_t& remaining : remaining_) remaining += t.body_actions;
      for (const StreamView& view : t.streams) {
        const int32_t s = streams_.size();
        StreamState& stream = streams_.emplace_back();
        stream.t = &t;
        stream.view = &view;
        stream.rank = rank;
        stream.objects = objects;
        stream.kind = view.kind;
        if (view.kind == StreamClass::kSend || view.kind == StreamClass::kRecv) {
          stream.link = links_.AddTransfer(rank, view, s);
        } else if (view.kind == StreamClass::kCollective) {
          stream.link = links_.AddCollective(rank, view, s);
        }
      }
      objects += t.objects;
    }
    return absl::OkStatus();
  }

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

  void Handle(const Event& event) {
    switch (static_cast<EventKind>(event.kind)) {
      case EventKind::kStreamEnd:
        return EndRun(event.index);
      case EventKind::kTransferEnd:
        return EndTransfer(event.index);
      case EventKind::kCollectiveEnd:
        return EndCollective(event.index);
      case EventKind::kFinish:
        ranks_[event.index].meter.ChangeCommunication(now_, -1);
        return FinishAction(event.index, event.detail);
    }
  }

  // ---- The head of a stream.

  const Entry& Head(const StreamState& stream) const { return stream.t->entries[stream.entry]; }

  // Repetition of the head within its own list.
  static int32_t OwnRepetition(const StreamState& stream) { return stream.list == 1 ? stream.repetition : 0; }

  // Moves to the next entry, or to the first one.
  void NextEntry(StreamState& stream, bool first) {
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

  // Checks what the head waits for; registers with the first thing that has not happened, or makes it ready.
  void TryReady(int32_t s) {
    StreamState& stream = streams_[s];
    if (stream.list == 3) return;
    const Entry& entry = Head(stream);
    const int32_t entry_waits = entry.waits.end - entry.waits.begin;
    if (stream.run == entry.runs.begin) {
      if (view_.program->step_barrier() && stream.list == 1 && completed_ < stream.repetition) {
        stream.reason = IdleReason::kStepBarrier;
        barrier_.push_back(s);
        return;
      }
      for (; stream.wait < entry_waits; ++stream.wait) {
        const Wait& wait = stream.t->waits[entry.waits.begin + stream.wait];
        const int32_t count = (wait.body ? stream.repetition : 0) + 1 - wait.distance;
        if (counts_[stream.objects + wait.object] < count) return WaitFor(s, wait.object);
      }
    }
    if (static_cast<int>(stream.kind) <= static_cast<int>(StreamClass::kH2d)) {
      const Run& run = stream.t->runs[stream.run];
      stream.wait = std::max(stream.wait, entry_waits);
      for (; stream.wait - entry_waits < run.waits.end - run.waits.begin; ++stream.wait) {
        const int32_t object = entry.named_base + stream.t->run_waits[run.waits.begin + stream.wait - entry_waits];
        if (counts_[stream.objects + object] <= OwnRepetition(stream)) return WaitFor(s, object);
      }
    }
    stream.ready = now_;
    Ready(s);
  }

  void WaitFor(int32_t s, int32_t object) {
    StreamState& stream = streams_[s];
    stream.reason = Reason(*stream.t, object);
    stream.next_waiter = waiters_[stream.objects + object];
    waiters_[stream.objects + object] = s;
  }

  static IdleReason Reason(const TemplateView& t, int32_t object) {
    if (object >= static_cast<int32_t>(t.actions.size())) return IdleReason::kHostCopy;
    const Action& action = *t.actions[object].action;
    switch (action.kind()) {
      case RECV:
        return action.direction() == FROM_LOSS ? IdleReason::kGradientInput : IdleReason::kForwardInput;
      case SEND:
        return IdleReason::kBufferReuse;
      case ALL_REDUCE:
        return action.purpose() == GRADIENT_SYNC || action.purpose() == TIED_SYNC ? IdleReason::kGradientSync
                                                                                  : IdleReason::kOtherSync;
      default:
        return IdleReason::kHostCopy;
    }
  }

  // Counts one more completion of an object and looks again at all who wait for it.
  void Complete(int32_t object) {
    ++counts_[object];
    int32_t waiter = std::exchange(waiters_[object], -1);
    while (waiter >= 0) {
      const int32_t next = std::exchange(streams_[waiter].next_waiter, -1);
      TryReady(waiter);
      waiter = next;
    }
  }

  void Ready(int32_t s) {
    StreamState& stream = streams_[s];
    switch (stream.kind) {
      case StreamClass::kCompute:
        if (slots_.limited()) return slots_.Wait(now_, stream.rank, s);
        return StartRun(s);
      case StreamClass::kD2h:
      case StreamClass::kH2d:
        return StartRun(s);
      case StreamClass::kSend:
        links_.channels[stream.link].send_ready = true;
        return StartTransfer(stream.link);
      case StreamClass::kRecv:
        links_.channels[stream.link].recv_ready = true;
        return StartTransfer(stream.link);
      case StreamClass::kCollective:
        ++links_.communicators[stream.link].ready;
        return StartCollective(stream.link);
    }
  }

  // Starts steps that keep their slot or are given a free one; whether there was one. A step that takes no time ends at
  // this instant: it is the last to be granted before ends are looked at again.
  bool Grant() {
    if (!slots_.limited()) return false;
    bool granted = false;
    for (int32_t s = slots_.Grant(now_); s >= 0; s = slots_.Grant(now_)) {
      granted = true;
      StartRun(s);
      if (streams_[s].t->runs[streams_[s].run].duration_ps == 0) break;
    }
    return granted;
  }

  // ---- Starts.

  static ActionKind KindOf(const ActionView& action) { return action.action->kind(); }

  // Called once per entry when its first step starts: the action's own start, if it has not started on another stream.
  void StartEntry(const StreamState& stream) {
    const ActionView& action = stream.t->actions[Head(stream).action];
    if (action.allocates.empty()) return;
    // Of the streams that the action has steps on, only the first to start counts.
    if (action.start_object >= 0) {
      int32_t& started = counts_[stream.objects + action.start_object];
      if (started > OwnRepetition(stream)) return;
      ++started;
    }
    for (int32_t i = action.allocates.begin; i < action.allocates.end; ++i) {
      ranks_[stream.rank].meter.ChangeLive(now_, stream.t->memory[i].buffer_class, stream.t->memory[i].bytes);
    }
  }

  void StartRun(int32_t s) {
    StreamState& stream = streams_[s];
    const Entry& entry = Head(stream);
    const Run& run = stream.t->runs[stream.run];
    if (stream.run == entry.runs.begin) StartEntry(stream);
    if (stream.kind == StreamClass::kCompute) {
      if (stream.run == entry.runs.begin && KindOf(stream.t->actions[entry.action]) == FORWARD) {
        ranks_[stream.rank].meter.ChangeForwards(+1);
      }
      ranks_[stream.rank].meter.StartCompute(now_, stream.ready, stream.reason, run.duration_ps);
    }
    result_.steps += run.steps.end - run.steps.begin;
    if (options_.trace) TraceRun(stream, run);
    Push(run.duration_ps, EventKind::kStreamEnd, s);
  }

  void StartTransfer(int32_t c) {
    Channel& channel = links_.channels[c];
    if (!channel.send_ready || !channel.recv_ready) return;
    channel.send_ready = channel.recv_ready = false;
    StreamState& send = streams_[channel.send];
    StreamState& recv = streams_[channel.recv];
    const Action& action = *send.t->actions[Head(send).action].action;
    const int64_t bytes = send.t->proto->buffers(action.sources(0)).bytes();
    status_.Update(SetTransferTime(network_, send.rank, recv.rank, bytes, &channel));
    const TransferTime time = channel.time;
    if (!status_.ok() || !WithinLimit(time.occupancy.ps) || !WithinLimit(time.latency.ps)) return;
    StartCommunication(send, time.occupancy, Time{});
    StartCommunication(recv, time.occupancy, time.latency);
    Push(time.occupancy.ps, EventKind::kTransferEnd, c);
  }

  void StartCollective(int32_t c) {
    Communicator& communicator = links_.communicators[c];
    if (communicator.ready < communicator.members.size()) return;
    communicator.ready = 0;
    const StreamState& first = streams_[communicator.streams.front()];
    const int32_t action = Head(first).action;
    status_.Update(
        SetCollectiveTime(network_, *first.t->proto, *first.t->actions[action].action, action, &communicator));
    const TransferTime time = communicator.time;
    if (!status_.ok() || !WithinLimit(time.occupancy.ps) || !WithinLimit(time.latency.ps)) return;
    for (const int32_t s : communicator.streams) {
      StartCommunication(streams_[s], time.occupancy, time.latency);
    }
    Push(time.occupancy.ps, EventKind::kCollectiveEnd, c);
  }

  void StartCommunication(const StreamState& stream, Time occupancy, Time latency) {
    StartEntry(stream);
    ranks_[stream.rank].meter.ChangeCommunication(now_, +1);
    ++result_.steps;
    if (!options_.trace) return;
    const Time end = {now_ + occupancy.ps};
    result_.ranks[stream.rank].events.push_back({.repetition = OwnRepetition(stream),
                                                 .action = Head(stream).action,
                                                 .step = 0,
                                                 .stream = static_cast<int32_t>(stream.view - stream.t->streams.data()),
                                                 .ready = {stream.ready},
                                                 .start = {now_},
                                                 .end = end,
                                                 .finish = end + latency});
  }

  void TraceRun(const StreamState& stream, const Run& run) {
    Time time = {now_};
    Time ready = {stream.ready};
    for (int32_t i = run.steps.begin; i < run.steps.end; ++i) {
      const Time end = {time.ps + stream.t->steps[i].duration_ps};
      result_.ranks[stream.rank].events.push_back(
          {.repetition = OwnRepetition(stream),
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

  // ---- Ends.

  void EndRun(int32_t s) {
    StreamState& stream = streams_[s];
    const Entry& entry = Head(stream);
    const Run& run = stream.t->runs[stream.run];
    if (stream.kind == StreamClass::kCompute) {
      ranks_[stream.rank].meter.EndCompute(now_);
      if (slots_.limited()) slots_.End(stream.rank);
    }
    const int32_t rank = stream.rank;
    const int32_t action = entry.action;
    const bool tail = run.is_tail;
    if (++stream.run == entry.runs.end) {
      NextEntry(stream, /*first=*/false);
    } else {
      stream.wait = 0;
    }
    if (run.signal >= 0) Complete(stream.objects + entry.named_base + run.signal);
    if (tail) {
      if (entry.tail_object < 0) {
        FinishAction(rank, action);
      } else {
        FinishTail(rank, action, entry.tail_object);
      }
    }
    TryReady(s);
  }

  void EndTransfer(int32_t c) {
    const Channel& channel = links_.channels[c];
    EndCommunication(channel.send, Time{});
    EndCommunication(channel.recv, channel.time.latency);
  }

  void EndCollective(int32_t c) {
    const Communicator& communicator = links_.communicators[c];
    const Time latency = communicator.time.latency;
    for (const int32_t s : communicator.streams) EndCommunication(s, latency);
  }

  void EndCommunication(int32_t s, Time latency) {
    StreamState& stream = streams_[s];
    const int32_t action = Head(stream).action;
    NextEntry(stream, /*first=*/false);
    if (latency.ps > 0) {
      Push(latency.ps, EventKind::kFinish, stream.rank, action);
    } else {
      ranks_[stream.rank].meter.ChangeCommunication(now_, -1);
      FinishAction(stream.rank, action);
    }
    TryReady(s);
  }

  void FinishTail(int32_t rank, int32_t action, int32_t tail_object) {
    const RankState& state = ranks_[rank];
    ++counts_[state.objects + tail_object];
    const Range tails = state.t->actions[action].tail_objects;
    int32_t finished = counts_[state.objects + tails.begin];
    for (int32_t i = tails.begin + 1; i < tails.end; ++i) finished = std::min(finished, counts_[state.objects + i]);
    if (finished > counts_[state.objects + action]) FinishAction(rank, action);
  }

  void FinishAction(int32_t rank, int32_t index) {
    RankState& state = ranks_[rank];
    const ActionView& action = state.t->actions[index];
    for (int32_t i = action.frees.begin; i < action.frees.end; ++i) {
      state.meter.ChangeLive(now_, state.t->memory[i].buffer_class, -state.t->memory[i].bytes);
    }
    if (KindOf(action) == BACKWARD) state.meter.ChangeForwards(-1);
    if (action.list == ListKind::kBody) {
      const int32_t repetition = counts_[state.objects + index];
      if (--remaining_[repetition] == 0) EndRepetition();
    }
    Complete(state.objects + index);
  }

  void EndRepetition() {
    ++completed_;
    result_.repetition_finish.push_back({now_});
    const std::vector<Time>& t = result_.repetition_finish;
    const size_t n = t.size();
    if (options_.stop_when_steady && n >= 3 && t[n - 1] - t[n - 2] == t[n - 2] - t[n - 3]) steady_ = true;
    for (const int32_t s : std::exchange(barrier_, {})) TryReady(s);
  }

  EngineResult Finish() {
    result_.makespan = {now_};
    for (RankState& rank : ranks_) rank.meter.Finish(now_, /*complete=*/!steady_);
    return std::move(result_);
  }

  // Internal unless all streams have come to their end.
  absl::Status CheckDone() const {
    constexpr size_t kShown = 6;
    std::vector<std::string> waiting;
    size_t count = 0;
    for (const StreamState& stream : streams_) {
      if (stream.list == 3) continue;
      if (++count > kShown) continue;
      const Action& action = *stream.t->actions[Head(stream).action].action;
      waiting.push_back(absl::StrCat("rank ", stream.rank, " stream '", stream.view->name, "' at action ", action.id(),
                                     " '", action.name(), "' of repetition ", OwnRepetition(stream)));
    }
    if (count == 0) return absl::OkStatus();
    return absl::InternalError(absl::StrCat("the program comes to a standstill at ", now_, " ps; ", count,
                                            " streams wait, among them: ", absl::StrJoin(waiting, "; ")));
  }

  const ProgramView& view_;
  const NetworkModel& network_;
  const EngineOptions& options_;

  absl::Status status_;
  bool steady_ = false;
  int64_t now_ = 0;
  EventQueue queue_;
  Links links_;
  ComputeSlots slots_;
  std::vector<StreamState> streams_;
  std::vector<RankState> ranks_;
  // Per object of every rank: how often it was completed, and the first stream that waits for it.
  std::vector<int32_t> counts_;
  std::vector<int32_t> waiters_;
  // Per repetition, body actions that are not finished.
  std::vector<int64_t> remaining_;
  int32_t completed_ = 0;
  std::vector<int32_t> barrier_;
  EngineResult result_;
};

}  // namespace

absl::string_view IdleReasonName(IdleReason reason) {
  switch (reason) {
    case IdleReason::kForwardInput:
      return "waiting for forward input";
    case IdleReason::kGradientInput:
      return "waiting for gradient input";
    case IdleReason::kGradientSync:
      return "waiting for gradient synchronisation";
    case IdleReason::kOtherSync:
      return "waiting for norm and loss synchronisation";
    case IdleReason::kBufferReuse:
      return "waiting for a buffer to be free";
    case IdleReason::kHostCopy:
      return "waiting for a copy between host and device";
    case IdleReason::kComputeSlot:
      return "waiting for a compute slot";
    case IdleReason::kStepBarrier:
      return "waiting for the other ranks at the step barrier";
    case IdleReason::kEndOfRun:
      return "end of step";
  }
  return "";
}

absl::Status CheckTraceSize(const ProgramView& view, int64_t repetitions) {
  int64_t once = 0, each = 0;
  for (const int32_t t : view.template_of_rank) {
    const std::array<int64_t, 3>& count = view.templates[t].step_count;
    once += count[0] + count[2];
    each += count[1];
  }
  const int64_t most = each == 0 ? 0 : std::max<int64_t>(0, kMostTraceSteps - once) / each;
  if (once <= kMostTraceSteps && (each == 0 || repetitions <= most)) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("a trace of ", repetitions, repetitions == 1 ? " repetition" : " repetitions", " over ",
                   view.template_of_rank.size(), " ranks has more than ", kMostTraceSteps, " steps; ",
                   most < 1 ? std::string("this program cannot be traced") : absl::StrCat("nearest valid: ", most)));
}

absl::StatusOr<EngineResult> RunEngine(const ProgramView& view, const NetworkModel& network,
                                       const EngineOptions& options) {
  return Engine(view, network, options).Simulate();
}

}  // namespace weft
