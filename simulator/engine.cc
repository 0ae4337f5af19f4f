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
  IdleReason reason = IdleReason::kEndOfRun;
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

struct RankState {
  const TemplateView* t = nullptr;
  // Of the rank's objects, in Engine::counts_ and waiters_.
  int32_t objects = 0;
  // First of the rank's in Engine::streams_, channels_ and groups_.
  int32_t streams = 0;
  int32_t channels = 0;
  int32_t groups = 0;
  // In Engine::finish_times_.
  int64_t finish_times = 0;
  // Dynamic order: the queues' streams, -1 = there is none; whether an action of theirs is under way; whether the rank
  // is in Engine::choosing_.
  int32_t queues[2] = {-1, -1};
  bool computing = false;
  bool choosing = false;
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
      } else if (!Choose() && !Grant()) {
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
    int64_t total = 0, streams = 0, channels = 0, groups = 0, actions = 0;
    for (const int32_t t : view_.template_of_rank) {
      total += view_.templates[t].objects;
      streams += view_.templates[t].streams.size();
      channels += view_.templates[t].channels.size();
      groups += view_.templates[t].groups.size();
      actions += view_.templates[t].actions.size();
    }
    dynamic_ = view_.program->compute_order() != STATIC_ORDER;
    keeps_times_ = view_.program->compute_order() == ARRIVAL;
    const int64_t times = keeps_times_ ? actions * int64_t{options_.repetitions} : 0;
    const int64_t bytes = total * (sizeof(counts_[0]) + sizeof(waiters_[0])) +
                          streams * (sizeof(StreamState) + kLinkBytes) + channels * (sizeof(Channel) + kLinkBytes) +
                          groups * sizeof(GroupState) + times * sizeof(finish_times_[0]) +
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
    channels_.reserve(channels);
    groups_.reserve(groups);
    finish_times_.assign(times, 0);
    result_.ranks.resize(ranks);
    remaining_.assign(options_.repetitions, 0);
    counts_.assign(total, 0);
    waiters_.assign(total, -1);
    int32_t objects = 0;
    int64_t finish_times = 0;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      const TemplateView& t = view_.templates[view_.template_of_rank[rank]];
      ranks_.push_back({.t = &t,
                        .objects = objects,
                        .streams = static_cast<int32_t>(streams_.size()),
                        .channels = static_cast<int32_t>(channels_.size()),
                        .groups = static_cast<int32_t>(groups_.size()),
                        .finish_times = finish_times,
                        .meter = RankMeter(t.persistent, &result_.ranks[rank])});
      if (keeps_times_) finish_times += static_cast<int64_t>(t.actions.size()) * options_.repetitions;
      for (const ChannelView& channel : t.channels) channels_.push_back(links_.AddTransfer(rank, channel));
      for (const GroupView& group : t.groups) {
        groups_.emplace_back();
        groups_.back().view = &group;
        groups_.back().rank = static_cast<int32_t>(rank);
      }
      for (int64_t& remaining : remaining_) remaining += t.body_actions;
      for (const StreamView& view : t.streams) {
        const int32_t s = streams_.size();
        StreamState& stream = streams_.emplace_back();
        stream.t = &t;
        stream.view = &view;
        stream.rank = rank;
        stream.objects = objects;
        stream.kind = view.kind;
        stream.queue = view.queue;
        if (view.queue != ComputeQueue::kNone) ranks_[rank].queues[view.queue == ComputeQueue::kBackwards] = s;
        if (view.kind == StreamClass::kCollective) stream.communicator = links_.AddCollective(rank, view, s);
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
    if (stream.queue != ComputeQueue::kNone && stream.run == entry.runs.begin) return BecomeCandidate(s);
    stream.ready = now_;
    Ready(s);
  }

  // ---- The order of compute that is chosen at run time (rule P6).

  void BecomeCandidate(int32_t s) {
    streams_[s].candidate = true;
    NoteChoice(streams_[s].rank);
  }

  // The rank may have to choose at this instant.
  void NoteChoice(int32_t rank) {
    RankState& state = ranks_[rank];
    if (state.computing || state.choosing) return;
    state.choosing = true;
    choosing_.push_back(rank);
  }

  // All ranks that are free choose; whether there was one. Called when nothing is left to end at this instant, so a
  // rank sees all that could run, and no choice sees what another one brings about.
  bool Choose() {
    if (choosing_.empty()) return false;
    bool chosen = false;
    // Starting a step calls nothing that adds to the list.
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

  int32_t Candidate(int32_t s) const { return s >= 0 && streams_[s].candidate ? s : -1; }

  bool ForwardFirst(int32_t forward, int32_t backward) const {
    if (!keeps_times_) return false;
    return Arrival(streams_[forward]) <= Arrival(streams_[backward]);
  }

  // What a head is chosen by: whether it waited for a RECV, and when the last of its dependencies was finished (-1: it
  // has none).
  std::pair<bool, int64_t> Arrival(const StreamState& stream) const {
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

  int64_t FinishTime(const RankState& rank, int32_t action, int64_t repetition) const {
    return rank.finish_times + int64_t{action} * options_.repetitions + repetition;
  }

  // ---- Waiting.

  void WaitFor(int32_t s, int32_t object) {
    StreamState& stream = streams_[s];
    stream.reason = Reason(*stream.t, object);
    stream.next_waiter = waiters_[stream.objects + object];
    waiters_[stream.objects + object] = s;
  }

  IdleReason Reason(const TemplateView& t, int32_t object) const {
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
        return dynamic_ && t.actions[object].start_object < 0 ? IdleReason::kInFlightLimit : IdleReason::kHostCopy;
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
      case StreamClass::kRecv:
      case StreamClass::kTransfers: {
        const Entry& entry = Head(stream);
        const RankState& rank = ranks_[stream.rank];
        if (entry.group >= 0) return GroupReady(rank.groups + entry.group);
        SideReady(channels_[rank.channels + entry.channel], {true, s, entry.action, -1},
                  stream.t->channels[entry.channel].send);
        return;
      }
      case StreamClass::kCollective:
        ++links_.communicators[stream.communicator].ready;
        return StartCollective(stream.communicator);
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

  static bool IsCommunication(ActionKind kind) { return kind == SEND || kind == RECV || kind == ALL_REDUCE; }

  // Called once per action and stream when its first step there starts: the action's own start, if it has not started
  // on another stream.
  void StartAction(const StreamState& stream, int32_t index) {
    const ActionView& action = stream.t->actions[index];
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
    if (stream.run == entry.runs.begin) StartAction(stream, entry.action);
    if (stream.kind == StreamClass::kCompute) {
      if (stream.run == entry.runs.begin) {
        const int32_t holds = stream.t->actions[entry.action].holds;
        if (holds > 0) ranks_[stream.rank].meter.ChangeForwards(holds);
      }
      ranks_[stream.rank].meter.StartCompute(now_, stream.ready, stream.reason, run.duration_ps);
    }
    result_.steps += run.steps.end - run.steps.begin;
    if (options_.trace) TraceRun(stream, run);
    Push(run.duration_ps, EventKind::kStreamEnd, s);
  }

  // One side of a channel becomes ready.
  void SideReady(int32_t c, const ChannelEnd& end, bool send) {
    Channel& channel = links_.channels[c];
    (send ? channel.send : channel.recv) = end;
    const ChannelEnd& partner = send ? channel.recv : channel.send;
    if (!partner.ready) return;
    if (partner.group >= 0 && --groups_[partner.group].partners_missing == 0) Open(partner.group);
    StartTransfer(c);
  }

  // One more stream has its part of the group at its head, ready; with the last one the group is.
  void GroupReady(int32_t g) {
    GroupState& group = groups_[g];
    const TemplateView& t = *ranks_[group.rank].t;
    if (++group.streams_ready < group.view->streams.end - group.view->streams.begin) return;
    group.running = group.view->members.end - group.view->members.begin;
    group.partners_missing = 0;
    for (int32_t i = group.view->streams.begin; i < group.view->streams.end; ++i) {
      streams_[ranks_[group.rank].streams + t.group_streams[i]].ready = now_;
    }
    const auto channel_of = [&](const GroupMember& member) {
      return channels_[ranks_[group.rank].channels + member.channel];
    };
    for (int32_t i = group.view->members.begin; i < group.view->members.end; ++i) {
      const GroupMember& member = t.group_members[i];
      const Channel& channel = links_.channels[channel_of(member)];
      group.partners_missing += !(t.channels[member.channel].send ? channel.recv : channel.send).ready;
    }
    if (group.partners_missing == 0) group.open = true;
    for (int32_t i = group.view->members.begin; i < group.view->members.end; ++i) {
      const GroupMember& member = t.group_members[i];
      SideReady(channel_of(member), {true, ranks_[group.rank].streams + member.stream, member.action, g},
                t.channels[member.channel].send);
    }
  }

  // All partners of the group are ready: each member starts unless its partner's own group is not open.
  void Open(int32_t g) {
    GroupState& group = groups_[g];
    group.open = true;
    for (int32_t i = group.view->members.begin; i < group.view->members.end; ++i) {
      StartTransfer(channels_[ranks_[group.rank].channels + ranks_[group.rank].t->group_members[i].channel]);
    }
  }

  bool MayStart(const ChannelEnd& end) const { return end.ready && (end.group < 0 || groups_[end.group].open); }

  void StartTransfer(int32_t c) {
    Channel& channel = links_.channels[c];
    if (!MayStart(channel.send) || !MayStart(channel.recv)) return;
    channel.send.ready = channel.recv.ready = false;
    const StreamState& send = streams_[channel.send.stream];
    const StreamState& recv = streams_[channel.recv.stream];
    const Action& action = *send.t->actions[channel.send.action].action;
    const int64_t bytes = send.t->proto->buffers(action.sources(0)).bytes();
    status_.Update(SetTransferTime(network_, send.rank, recv.rank, bytes, &channel));
    const TransferTime time = channel.time;
    if (!status_.ok() || !WithinLimit(time.occupancy.ps) || !WithinLimit(time.latency.ps)) return;
    StartCommunication(send, channel.send.action, time.occupancy, Time{});
    StartCommunication(recv, channel.recv.action, time.occupancy, time.latency);
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
      StartCommunication(streams_[s], Head(streams_[s]).action, time.occupancy, time.latency);
    }
    Push(time.occupancy.ps, EventKind::kCollectiveEnd, c);
  }

  void StartCommunication(const StreamState& stream, int32_t action, Time occupancy, Time latency) {
    StartAction(stream, action);
    ranks_[stream.rank].meter.ChangeCommunication(now_, +1);
    ++result_.steps;
    if (!options_.trace) return;
    const Time end = {now_ + occupancy.ps};
    result_.ranks[stream.rank].events.push_back({.repetition = OwnRepetition(stream),
                                                 .action = action,
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
      if (stream.queue != ComputeQueue::kNone) EndOfQueued(stream, entry);
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

  // The action of a queue has ended: the rank is free to choose.
  void EndOfQueued(const StreamState& stream, const Entry& entry) {
    ranks_[stream.rank].computing = false;
    NoteChoice(stream.rank);
    if (entry.end_object >= 0) Complete(stream.objects + entry.end_object);
  }

  void EndTransfer(int32_t c) {
    // What ends here lets the next transfer of the channel become ready.
    const ChannelEnd send = links_.channels[c].send;
    const ChannelEnd recv = links_.channels[c].recv;
    const Time latency = links_.channels[c].time.latency;
    EndSide(send, Time{});
    EndSide(recv, latency);
  }

  void EndSide(const ChannelEnd& end, Time latency) {
    if (end.group < 0) return EndCommunication(end.stream, latency);
    GroupState& group = groups_[end.group];
    FinishCommunication(group.rank, end.action, latency);
    if (--group.running > 0) return;
    group.open = false;
    group.streams_ready = 0;
    const RankState& rank = ranks_[group.rank];
    const Range streams = group.view->streams;
    for (int32_t i = streams.begin; i < streams.end; ++i) {
      NextEntry(streams_[rank.streams + rank.t->group_streams[i]], /*first=*/false);
    }
    for (int32_t i = streams.begin; i < streams.end; ++i) TryReady(rank.streams + rank.t->group_streams[i]);
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
    FinishCommunication(stream.rank, action, latency);
    TryReady(s);
  }

  // A transfer or collective has ended and is finished `latency` later.
  void FinishCommunication(int32_t rank, int32_t action, Time latency) {
    if (latency.ps > 0) return Push(latency.ps, EventKind::kFinish, rank, action);
    ranks_[rank].meter.ChangeCommunication(now_, -1);
    FinishAction(rank, action);
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
    if (action.unholds > 0) Unhold(state, action);
    if (keeps_times_) finish_times_[FinishTime(state, index, counts_[state.objects + index])] = now_;
    if (action.list == ListKind::kBody) {
      const int32_t repetition = counts_[state.objects + index];
      if (--remaining_[repetition] == 0) EndRepetition();
    }
    Complete(state.objects + index);
  }

  // A microbatch comes back: what its forward held is released, of a wide one with its last.
  void Unhold(RankState& state, const ActionView& action) {
    if (action.held_object < 0) return state.meter.ChangeForwards(-action.unholds);
    if (++counts_[state.objects + action.held_object] % action.unholds == 0) {
      state.meter.ChangeForwards(-action.unholds);
    }
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
  // Channel of every side, by rank.
  std::vector<int32_t> channels_;
  std::vector<GroupState> groups_;
  // Ranks that may have to choose at this instant.
  std::vector<int32_t> choosing_;
  bool dynamic_ = false;
  // With ARRIVAL: by rank, action and repetition.
  bool keeps_times_ = false;
  std::vector<int64_t> finish_times_;
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
    case IdleReason::kInFlightLimit:
      return "waiting for a microbatch to come back";
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
