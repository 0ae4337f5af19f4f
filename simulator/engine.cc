#include "simulator/engine.h"

#include <algorithm>
#include <functional>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/mesh.h"
#include "proto/status.h"

namespace weft {
namespace {

constexpr int64_t kTimeLimit = int64_t{1} << 61;

enum class EventKind : uint32_t { kStreamEnd, kTransferEnd, kCollectiveEnd, kFinish };

// What happens at a time. `index` is a stream, a channel, a communicator or a rank; `detail` is the action of kFinish.
struct Event {
  int64_t time = 0;
  uint32_t index = 0;
  uint32_t kind : 2;
  uint32_t detail : 30;

  // Order among events of one instant changes no result; it is fixed so that runs are repeatable.
  friend bool operator>(const Event& a, const Event& b) {
    if (a.time != b.time) return a.time > b.time;
    if (a.index != b.index) return a.index > b.index;
    return std::tie(a.kind, a.detail) > std::tie(b.kind, b.detail);
  }
};

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

// Two streams that meet in rendezvous: the i-th send and the i-th recv are always the heads of both.
struct Channel {
  int32_t send = -1;
  int32_t recv = -1;
  bool send_ready = false;
  bool recv_ready = false;
  TransferTime time;
  // Times of the message sizes seen so far.
  std::vector<std::pair<int64_t, TransferTime>> known;
};

struct Communicator {
  std::vector<int64_t> members;
  // Streams of those members that have one, by rank.
  std::vector<int32_t> streams;
  size_t ready = 0;
  TransferTime time;
  // Times by action of the first member.
  std::vector<std::pair<int32_t, TransferTime>> known;
};

// Live bytes of a rank. Changes at one instant are taken together: the peak is looked at when time moves on.
struct RankMemory {
  int64_t time = 0;
  int64_t live = 0;
  int64_t peak = 0;
  ClassSizes by_class = {};
  ClassSizes at_peak = {};
};

struct RankState {
  const TemplateView* t = nullptr;
  int32_t objects = 0;
  int32_t compute_active = 0;
  int32_t communication_active = 0;
  // Up to when exposed communication is added up.
  int64_t mark = 0;
  int64_t compute_end = 0;
  RankMemory memory;
};

// (ready, rank, stream) of a compute stream that waits for a slot.
using Waiting = std::tuple<int64_t, int32_t, int32_t>;

struct Node {
  int64_t free_slots = 0;
  std::vector<Waiting> waiting;
  bool dirty = false;
};

class Engine {
 public:
  Engine(const ProgramView& view, const NetworkModel& network, const EngineOptions& options)
      : view_(view), network_(network), options_(options), mesh_(view.program->mesh()) {}

  absl::StatusOr<EngineResult> Simulate() {
    if (options_.repetitions < 1) {
      return absl::InvalidArgumentError(absl::StrCat("repetitions = ", options_.repetitions, "; nearest valid: 1"));
    }
    Prepare();
    for (size_t s = 0; s < streams_.size(); ++s) {
      NextEntry(streams_[s], /*first=*/true);
      TryReady(s);
    }
    while (status_.ok() && !steady_) {
      if (!heap_.empty() && heap_.front().time == now_) {
        Handle(Pop());
      } else if (!Grant()) {
        if (heap_.empty()) break;
        now_ = heap_.front().time;
      }
    }
    WEFT_RETURN_IF_ERROR(status_);
    if (!steady_) WEFT_RETURN_IF_ERROR(CheckDone());
    return Finish();
  }

 private:
  // ---- Setting up.

  void Prepare() {
    const int64_t ranks = view_.template_of_rank.size();
    ranks_.resize(ranks);
    result_.ranks.resize(ranks);
    remaining_.assign(options_.repetitions, 0);
    int32_t objects = 0;
    std::map<std::tuple<int64_t, int64_t, int32_t, int32_t>, int32_t> channels;
    std::map<std::tuple<int32_t, int64_t, std::vector<std::vector<int64_t>>>, int32_t> communicators;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      const TemplateView& t = view_.templates[view_.template_of_rank[rank]];
      RankState& state = ranks_[rank];
      state.t = &t;
      state.objects = objects;
      objects += t.objects;
      for (int64_t& remaining : remaining_) remaining += t.body_actions;
      state.memory.by_class = t.persistent;
      for (const int64_t bytes : t.persistent) state.memory.live += bytes;
      for (const StreamView& view : t.streams) {
        const int32_t s = streams_.size();
        StreamState& stream = streams_.emplace_back();
        stream.t = &t;
        stream.view = &view;
        stream.rank = rank;
        stream.objects = state.objects;
        stream.kind = view.kind;
        if (view.kind == StreamClass::kSend || view.kind == StreamClass::kRecv) {
          const int64_t peer = Resolve(rank, view.peer);
          const bool send = view.kind == StreamClass::kSend;
          const auto [at, inserted] = channels.try_emplace(
              {send ? rank : peer, send ? peer : rank, view.lane, view.direction}, channels_.size());
          if (inserted) channels_.emplace_back();
          (send ? channels_[at->second].send : channels_[at->second].recv) = s;
          stream.link = at->second;
        } else if (view.kind == StreamClass::kCollective) {
          // A group is known by its lowest member and the coordinates that it lists on each axis.
          std::vector<int64_t> first(view.group.size(), -1);
          for (size_t i = 0; i < first.size(); ++i) {
            if (!view.group[i].empty()) first[i] = std::max<int64_t>(view.group[i].front(), 0);
          }
          const auto [at, inserted] =
              communicators.try_emplace({view.purpose, Resolve(rank, first), view.group}, communicators_.size());
          if (inserted) communicators_.emplace_back().members = Members(rank, view.group);
          communicators_[at->second].streams.push_back(s);
          stream.link = at->second;
        }
      }
    }
    counts_.assign(objects, 0);
    waiters_.assign(objects, -1);
    const int64_t per_node = std::max<int64_t>(options_.devices_per_node, 1);
    limit_slots_ = options_.compute_slots_per_node > 0 && options_.compute_slots_per_node < per_node;
    if (limit_slots_) nodes_.assign((ranks + per_node - 1) / per_node, {options_.compute_slots_per_node, {}, false});
    per_node_ = per_node;
  }

  // The rank with the coordinates of `rank` where `coordinates` is negative.
  int64_t Resolve(int64_t rank, const std::vector<int64_t>& coordinates) const {
    std::vector<int64_t> own = RankCoordinates(mesh_, rank);
    for (size_t i = 0; i < own.size(); ++i) {
      if (coordinates[i] >= 0) own[i] = coordinates[i];
    }
    return CoordinatesRank(mesh_, own);
  }

  std::vector<int64_t> Members(int64_t rank, const std::vector<std::vector<int64_t>>& group) const {
    Group spelled;
    for (size_t i = 0; i < group.size(); ++i) {
      if (group[i].empty()) continue;
      AxisSubset* axis = spelled.add_axes();
      axis->set_axis(mesh_.axes(i).name());
      if (group[i].front() >= 0) axis->mutable_indices()->Add(group[i].begin(), group[i].end());
    }
    return GroupMembers(mesh_, rank, spelled);
  }

  // ---- The event queue.

  void Push(int64_t duration, EventKind kind, uint32_t index, uint32_t detail = 0) {
    if (duration > kTimeLimit - now_) {
      status_ = absl::OutOfRangeError(
          "simulated time passes 2^61 picoseconds (26 days); the cluster's rates or the "
          "program's work are out of proportion");
      return;
    }
    Event event;
    event.time = now_ + duration;
    event.index = index;
    event.kind = static_cast<uint32_t>(kind);
    event.detail = detail;
    heap_.push_back(event);
    std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
  }

  Event Pop() {
    std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
    const Event event = heap_.back();
    heap_.pop_back();
    return event;
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
        SetCommunication(event.index, -1);
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
        if (limit_slots_) {
          nodes_[stream.rank / per_node_].waiting.push_back({now_, stream.rank, s});
          MarkDirty(stream.rank / per_node_);
          return;
        }
        return StartRun(s);
      case StreamClass::kD2h:
      case StreamClass::kH2d:
        return StartRun(s);
      case StreamClass::kSend:
        channels_[stream.link].send_ready = true;
        return StartTransfer(stream.link);
      case StreamClass::kRecv:
        channels_[stream.link].recv_ready = true;
        return StartTransfer(stream.link);
      case StreamClass::kCollective:
        ++communicators_[stream.link].ready;
        return StartCollective(stream.link);
    }
  }

  // ---- Compute slots.

  void MarkDirty(int64_t node) {
    if (nodes_[node].dirty) return;
    nodes_[node].dirty = true;
    dirty_.push_back(node);
  }

  // Gives free slots to waiting steps; whether there was one. Called when nothing is left to end at this instant. A
  // step that takes no time ends at this instant, so it is the last to be granted before ends are looked at again.
  bool Grant() {
    bool granted = false;
    while (true) {
      Node* best_node = nullptr;
      std::vector<Waiting>::iterator best;
      for (const int64_t index : dirty_) {
        Node& node = nodes_[index];
        if (node.free_slots == 0 || node.waiting.empty()) continue;
        const auto first = std::min_element(node.waiting.begin(), node.waiting.end());
        if (best_node != nullptr && *best < *first) continue;
        best_node = &node;
        best = first;
      }
      if (best_node == nullptr) break;
      const int32_t s = std::get<2>(*best);
      *best = best_node->waiting.back();
      best_node->waiting.pop_back();
      --best_node->free_slots;
      granted = true;
      StartRun(s);
      if (streams_[s].t->runs[streams_[s].run].duration_ps == 0) return true;
    }
    for (const int64_t index : dirty_) nodes_[index].dirty = false;
    dirty_.clear();
    return granted;
  }

  // ---- Starts.

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
      ChangeLive(stream.rank, stream.t->memory[i].buffer_class, stream.t->memory[i].bytes);
    }
  }

  void StartRun(int32_t s) {
    StreamState& stream = streams_[s];
    const Entry& entry = Head(stream);
    const Run& run = stream.t->runs[stream.run];
    if (stream.run == entry.runs.begin) StartEntry(stream);
    if (stream.kind == StreamClass::kCompute) {
      RankState& rank = ranks_[stream.rank];
      RankResult& result = result_.ranks[stream.rank];
      if (now_ > rank.compute_end) {
        const int64_t slot = now_ - std::max(stream.ready, rank.compute_end);
        result.idle[static_cast<int>(IdleReason::kComputeSlot)].ps += slot;
        result.idle[static_cast<int>(stream.reason)].ps += now_ - rank.compute_end - slot;
      }
      AddExposed(stream.rank);
      rank.compute_active = 1;
      result.busy.ps += run.duration_ps;
    }
    result_.steps += run.steps.end - run.steps.begin;
    if (options_.trace) TraceRun(stream, run);
    Push(run.duration_ps, EventKind::kStreamEnd, s);
  }

  void StartTransfer(int32_t c) {
    Channel& channel = channels_[c];
    if (!channel.send_ready || !channel.recv_ready) return;
    channel.send_ready = channel.recv_ready = false;
    StreamState& send = streams_[channel.send];
    StreamState& recv = streams_[channel.recv];
    const Action& action = *send.t->actions[Head(send).action].action;
    const int64_t bytes = send.t->proto->buffers(action.sources(0)).bytes();
    const auto found = std::find_if(channel.known.begin(), channel.known.end(),
                                    [&](const auto& known) { return known.first == bytes; });
    if (found != channel.known.end()) {
      channel.time = found->second;
    } else {
      const absl::StatusOr<TransferTime> time = network_.Transfer(send.rank, recv.rank, bytes);
      if (!time.ok()) {
        status_ = time.status();
        return;
      }
      channel.time = *time;
      channel.known.push_back({bytes, *time});
    }
    StartCommunication(send, channel.time.occupancy, Time{});
    StartCommunication(recv, channel.time.occupancy, channel.time.latency);
    Push(channel.time.occupancy.ps, EventKind::kTransferEnd, c);
  }

  void StartCollective(int32_t c) {
    Communicator& communicator = communicators_[c];
    if (communicator.ready < communicator.members.size()) return;
    communicator.ready = 0;
    const StreamState& first = streams_[communicator.streams.front()];
    const int32_t action = Head(first).action;
    const auto found = std::find_if(communicator.known.begin(), communicator.known.end(),
                                    [&](const auto& known) { return known.first == action; });
    if (found != communicator.known.end()) {
      communicator.time = found->second;
    } else {
      const absl::StatusOr<TransferTime> time = CostCollective(communicator, first, *first.t->actions[action].action);
      if (!time.ok()) {
        status_ = time.status();
        return;
      }
      communicator.time = *time;
      communicator.known.push_back({action, *time});
    }
    for (const int32_t s : communicator.streams) {
      StartCommunication(streams_[s], communicator.time.occupancy, communicator.time.latency);
    }
    Push(communicator.time.occupancy.ps, EventKind::kCollectiveEnd, c);
  }

  absl::StatusOr<TransferTime> CostCollective(const Communicator& communicator, const StreamState& stream,
                                              const Action& action) const {
    WEFT_ASSIGN_OR_RETURN(const CollectiveEntry* algorithm, FindCollective(action.algorithm()));
    std::vector<CollectivePart> parts;
    for (const int32_t source : action.sources()) {
      const Buffer& buffer = stream.t->proto->buffers(source);
      const int64_t element_bytes = std::max<int64_t>(DTypeBytes(buffer.dtype()), 1);
      parts.push_back({.elements = buffer.bytes() / element_bytes, .element_bytes = element_bytes});
    }
    return network_.AllReduce(*algorithm, communicator.members, parts);
  }

  void StartCommunication(const StreamState& stream, Time occupancy, Time latency) {
    StartEntry(stream);
    SetCommunication(stream.rank, +1);
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
      RankState& rank = ranks_[stream.rank];
      AddExposed(stream.rank);
      rank.compute_active = 0;
      rank.compute_end = now_;
      if (limit_slots_) {
        ++nodes_[stream.rank / per_node_].free_slots;
        MarkDirty(stream.rank / per_node_);
      }
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
    const Channel& channel = channels_[c];
    EndCommunication(channel.send, Time{});
    EndCommunication(channel.recv, channel.time.latency);
  }

  void EndCollective(int32_t c) {
    const Communicator& communicator = communicators_[c];
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
      SetCommunication(stream.rank, -1);
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
    const RankState& state = ranks_[rank];
    const ActionView& action = state.t->actions[index];
    for (int32_t i = action.frees.begin; i < action.frees.end; ++i) {
      ChangeLive(rank, state.t->memory[i].buffer_class, -state.t->memory[i].bytes);
    }
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

  // ---- Figures.

  void AddExposed(int32_t rank) {
    RankState& state = ranks_[rank];
    if (state.communication_active > 0 && state.compute_active == 0) {
      result_.ranks[rank].exposed_communication.ps += now_ - state.mark;
    }
    state.mark = now_;
  }

  void SetCommunication(int32_t rank, int32_t change) {
    AddExposed(rank);
    ranks_[rank].communication_active += change;
  }

  void ChangeLive(int32_t rank, BufferClass buffer_class, int64_t bytes) {
    RankMemory& memory = ranks_[rank].memory;
    if (memory.time != now_) {
      NotePeak(memory);
      memory.time = now_;
    }
    memory.live += bytes;
    memory.by_class[buffer_class] += bytes;
  }

  static void NotePeak(RankMemory& memory) {
    if (memory.live <= memory.peak) return;
    memory.peak = memory.live;
    memory.at_peak = memory.by_class;
  }

  EngineResult Finish() {
    result_.makespan = {now_};
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      RankState& state = ranks_[rank];
      RankResult& result = result_.ranks[rank];
      AddExposed(rank);
      if (!steady_) result.idle[static_cast<int>(IdleReason::kEndOfRun)].ps += now_ - state.compute_end;
      NotePeak(state.memory);
      result.live_peak = state.memory.peak;
      result.live_at_peak = state.memory.at_peak;
    }
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
  const Mesh& mesh_;

  absl::Status status_;
  bool steady_ = false;
  int64_t now_ = 0;
  std::vector<Event> heap_;
  std::vector<StreamState> streams_;
  std::vector<RankState> ranks_;
  std::vector<Channel> channels_;
  std::vector<Communicator> communicators_;
  // Per object of every rank: how often it was completed, and the first stream that waits for it.
  std::vector<int32_t> counts_;
  std::vector<int32_t> waiters_;
  // Per repetition, body actions that are not finished.
  std::vector<int64_t> remaining_;
  int32_t completed_ = 0;
  std::vector<int32_t> barrier_;
  bool limit_slots_ = false;
  int64_t per_node_ = 1;
  std::vector<Node> nodes_;
  std::vector<int64_t> dirty_;
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

absl::StatusOr<EngineResult> RunEngine(const ProgramView& view, const NetworkModel& network,
                                       const EngineOptions& options) {
  return Engine(view, network, options).Simulate();
}

}  // namespace weft
