#include "simulator/naive_simulator.h"

#include <algorithm>
#include <map>
#include <set>

namespace weft {
namespace {

constexpr int kPrologue = 0;
constexpr int kBody = 1;
constexpr int kEpilogue = 2;

// A step with all that the rules say about it, as indices of other steps.
struct Node {
  // What kind of stream it is on, and the stream itself as text (P3).
  enum { kCompute, kCopy, kTransfer, kCollective } kind = kCompute;
  std::string stream;
  bool detached = false;
  // A step of a segment, not an action that is one step.
  bool of_segment = false;
  NaiveCollective collective;
  const Template* t = nullptr;
  const Action* action = nullptr;
  // Rule P2: the step before on the stream must have ended (of a group: all of it); these must be finished.
  std::vector<int> previous;
  std::vector<int> finished;
  // Those of them that the action's own deps name.
  std::vector<int> named;
  // All steps that start together with this one, itself among them (P4).
  std::vector<int> together;
  // Index in groups_ of a transfer (P4), in items_ of the first compute step of an action whose turn is chosen (P6).
  int group = -1;
  int item = -1;
  // The steps that become ready with this one, itself among them: its group, if it has one.
  std::vector<int> ready_with;
  int64_t occupancy = 0;
  int64_t latency = 0;
};

// An action in the queues of its rank (P6).
struct Item {
  int64_t rank = 0;
  enum { kForward, kBackward, kBoth } queue = kBoth;
  // Its steps on the compute stream.
  std::vector<int> steps;
  bool awaits_recv = false;
  bool chosen = false;
};

class Naive {
 public:
  Naive(const Program& program, const NaiveDurations& durations, int repetitions, int64_t devices_per_node,
        int64_t slots_per_node, int64_t turn, bool exceeded)
      : program_(program),
        durations_(durations),
        repetitions_(repetitions),
        devices_per_node_(devices_per_node),
        slots_per_node_(slots_per_node),
        turn_(turn),
        exceeded_(exceeded) {}

  NaiveResult Run() {
    ranks_ = 1;
    for (const MeshAxis& axis : program_.mesh().axes()) ranks_ *= axis.size();
    for (int64_t rank = 0; rank < ranks_; ++rank) Expand(rank);
    for (size_t i = 0; i < nodes_.size(); ++i) Resolve(i);
    Match();
    for (int64_t now = 0; now >= 0; now = NextInstant(now)) {
      while (MakeReady(now) || Start(now) || Choose(now) || Grant(now)) {
      }
    }
    return Conclude();
  }

 private:
  using Coordinates = std::map<std::string, int64_t>;

  Coordinates CoordinatesOf(int64_t rank) const {
    Coordinates c;
    for (const MeshAxis& axis : program_.mesh().axes()) {
      c[axis.name()] = rank % axis.size();
      rank /= axis.size();
    }
    return c;
  }

  int64_t RankOf(const Coordinates& c) const {
    int64_t rank = 0;
    int64_t stride = 1;
    for (const MeshAxis& axis : program_.mesh().axes()) {
      rank += stride * c.at(axis.name());
      stride *= axis.size();
    }
    return rank;
  }

  const Template& TemplateOf(int64_t rank) const {
    const Coordinates c = CoordinatesOf(rank);
    for (const Template& t : program_.templates()) {
      bool match = true;
      for (const Coordinate& pin : t.pins()) match = match && c.at(pin.axis()) == pin.index();
      if (match) return t;
    }
    return program_.templates(0);
  }

  int64_t PeerOf(int64_t rank, const Action& action) const {
    Coordinates c = CoordinatesOf(rank);
    for (const Coordinate& at : action.peer().at()) c[at.axis()] = at.index();
    return RankOf(c);
  }

  // P8: the ranks that agree with the caller on the axes that are not named, and on those that are named are listed, in
  // the caller's block, at its place in their blocks, or any.
  std::vector<int64_t> MembersOf(int64_t rank, const Group& group) const {
    const Coordinates own = CoordinatesOf(rank);
    std::vector<int64_t> members;
    for (int64_t other = 0; other < ranks_; ++other) {
      const Coordinates c = CoordinatesOf(other);
      bool member = true;
      for (const MeshAxis& axis : program_.mesh().axes()) {
        const AxisSubset* named = nullptr;
        for (const AxisSubset& subset : group.axes()) {
          if (subset.axis() == axis.name()) named = &subset;
        }
        if (named == nullptr) {
          member = member && c.at(axis.name()) == own.at(axis.name());
        } else if (named->indices_size() > 0) {
          member = member && std::count(named->indices().begin(), named->indices().end(), c.at(axis.name())) > 0;
        } else if (named->block() > 0) {
          member = member && c.at(axis.name()) / named->block() == own.at(axis.name()) / named->block();
        } else if (named->stride() > 0) {
          member = member && c.at(axis.name()) % named->stride() == own.at(axis.name()) % named->stride();
        }
      }
      if (member) members.push_back(other);
    }
    return members;
  }

  void Expand(int64_t rank) {
    const Template& t = TemplateOf(rank);
    for (const Action& action : t.prologue()) AddAction(rank, t, action, kPrologue, 0);
    for (int k = 0; k < repetitions_; ++k) {
      for (const Action& action : t.body()) AddAction(rank, t, action, kBody, k);
    }
    for (const Action& action : t.epilogue()) AddAction(rank, t, action, kEpilogue, 0);
  }

  void AddAction(int64_t rank, const Template& t, const Action& action, int list, int repetition) {
    if (IsLeftOut(action)) return;
    const bool collective =
        action.kind() == ALL_REDUCE || action.kind() == ALL_GATHER || action.kind() == REDUCE_SCATTER;
    const bool communicates = action.kind() == SEND || action.kind() == RECV || collective;
    const int steps = communicates ? 1 : program_.segments(action.segment()).steps_size();
    int item = -1;
    for (int i = 0; i < steps; ++i) {
      Node node;
      node.t = &t;
      node.action = &action;
      if (collective) {
        node.kind = Node::kCollective;
        node.collective = {action.kind() == ALL_REDUCE   ? NaiveCollective::kAllReduce
                           : action.kind() == ALL_GATHER ? NaiveCollective::kAllGather
                                                         : NaiveCollective::kReduceScatter,
                           action.algorithm(),
                           MembersOf(rank, action.group()),
                           {}};
        for (const int source : action.sources()) node.collective.source_bytes.push_back(t.buffers(source).bytes());
        node.stream = CommunicatorOf(action.purpose(), node.collective.members);
      } else if (communicates) {
        node.kind = Node::kTransfer;
        node.stream = StreamOf(rank, action);
        node.group = GroupOf(rank, action, list, repetition);
        groups_[node.group].push_back(static_cast<int>(nodes_.size()));
      } else {
        const Segment& segment = program_.segments(action.segment());
        const Step& step = segment.steps(i);
        node.detached = step.detached();
        node.of_segment = true;
        if (step.stream() == COLLECTIVE) {
          node.kind = Node::kCollective;
          node.collective = {step.kernel() == GROUP_ALL_REDUCE   ? NaiveCollective::kAllReduce
                             : step.kernel() == GROUP_ALL_GATHER ? NaiveCollective::kAllGather
                                                                 : NaiveCollective::kReduceScatter,
                             step.collective().algorithm(),
                             MembersOf(rank, step.collective().group()),
                             {}};
          for (const int input : step.inputs()) node.collective.source_bytes.push_back(BytesOf(segment.values(input)));
          node.stream = CommunicatorOf(step.collective().purpose(), node.collective.members);
        } else {
          node.kind = step.stream() == COMPUTE ? Node::kCompute : Node::kCopy;
          node.stream = "step " + std::to_string(step.stream());
          node.occupancy = durations_.step(action.segment(), i, action.kind());
        }
        if (node.kind == Node::kCompute && program_.compute_order() != STATIC_ORDER) {
          if (item < 0) item = node.item = NewItem(rank, t, action);
          items_[item].steps.push_back(static_cast<int>(nodes_.size()));
        }
      }
      nodes_.push_back(node);
      result_.steps.push_back(
          {.rank = rank, .list = list, .repetition = repetition, .action_id = action.id(), .step = i});
    }
  }

  // P3: one stream for each group and purpose.
  static std::string CommunicatorOf(Purpose purpose, const std::vector<int64_t>& members) {
    std::string stream = "collective " + std::to_string(purpose);
    for (const int64_t member : members) stream += " " + std::to_string(member);
    return stream;
  }

  static int64_t BytesOf(const Value& value) {
    int64_t bytes = value.dtype() == FP64                             ? 8
                    : value.dtype() == FP32 || value.dtype() == INT32 ? 4
                    : value.dtype() == EXACT192                       ? 24
                    : value.dtype() == UINT8                          ? 1
                                                                      : 2;
    for (const int64_t extent : value.shape()) bytes *= extent;
    return bytes;
  }

  // P15.
  bool IsLeftOut(const Action& action) const { return action.if_exceeded() && !exceeded_; }

  // P15: whoever depends on what is left out depends on the VALIDATE of its list.
  int StandIn(const google::protobuf::RepeatedPtrField<Action>& list, const Action& action) const {
    if (!IsLeftOut(action)) return action.id();
    for (const Action& other : list) {
      if (other.kind() == VALIDATE) return other.id();
    }
    return -1;
  }

  // P3.
  std::string StreamOf(int64_t rank, const Action& action) const {
    if (program_.transfer_streams() == SHARED) return "transfers";
    if (program_.transfer_streams() == PER_DIRECTION) return "transfers " + std::to_string(action.direction());
    return std::string(action.kind() == SEND ? "send " : "recv ") + std::to_string(PeerOf(rank, action)) + " " +
           std::to_string(action.lane()) + " " + std::to_string(action.direction()) + " " +
           std::to_string(action.skip());
  }

  // The group of the next transfer of the expansion: that of the step before it, if that stands beside it in the list
  // and has the same number.
  int GroupOf(int64_t rank, const Action& action, int list, int repetition) {
    if (!nodes_.empty()) {
      const Node& last = nodes_.back();
      const NaiveStep& step = result_.steps.back();
      if (last.group >= 0 && step.rank == rank && step.list == list && step.repetition == repetition &&
          action.transfer_group() != 0 && last.action->transfer_group() == action.transfer_group()) {
        return last.group;
      }
    }
    groups_.emplace_back();
    return static_cast<int>(groups_.size()) - 1;
  }

  int NewItem(int64_t rank, const Template& t, const Action& action) {
    Item item;
    item.rank = rank;
    if (action.kind() == FORWARD) item.queue = Item::kForward;
    for (const ActionKind kind : {BACKWARD, BACKWARD_INPUT, BACKWARD_WEIGHT}) {
      if (action.kind() == kind) item.queue = Item::kBackward;
    }
    for (const Dependency& dep : action.deps()) {
      for (const auto* list : {&t.prologue(), &t.body(), &t.epilogue()}) {
        for (const Action& other : *list) {
          if (other.id() == dep.action() && other.kind() == RECV) item.awaits_recv = true;
        }
      }
    }
    items_.push_back(item);
    return static_cast<int>(items_.size()) - 1;
  }

  // What step i waits for (P2).
  void Resolve(int i) {
    Node& node = nodes_[i];
    const NaiveStep& step = result_.steps[i];
    for (int j = i - 1; j >= 0 && result_.steps[j].rank == step.rank && node.item < 0; --j) {
      if (nodes_[j].stream != node.stream || (node.group >= 0 && nodes_[j].group == node.group)) continue;
      node.previous = nodes_[j].group >= 0 ? groups_[nodes_[j].group] : std::vector<int>{j};
      break;
    }
    node.ready_with = node.group >= 0 ? groups_[node.group] : std::vector<int>{i};
    bool named = false;
    // Of an action its attached steps, with `detached` all; or the one step.
    const auto wait_for = [&](int list, int repetition, int action_id, int step_index, bool detached) {
      for (size_t j = 0; j < nodes_.size(); ++j) {
        const NaiveStep& other = result_.steps[j];
        if (other.rank != step.rank || other.list != list || other.repetition != repetition ||
            other.action_id != action_id) {
          continue;
        }
        if (step_index >= 0 ? other.step != step_index : nodes_[j].detached && !detached) continue;
        node.finished.push_back(j);
        if (named) node.named.push_back(j);
      }
    };
    if (node.of_segment) {
      for (const int dep : program_.segments(node.action->segment()).steps(step.step).deps()) {
        wait_for(step.list, step.repetition, step.action_id, dep, false);
      }
    }
    named = true;
    for (const Dependency& dep : node.action->deps()) {
      for (const Action& action : node.t->prologue()) {
        // Repetition 0 of its own list is the only one.
        if (action.id() == dep.action() && dep.distance() == 0)
          wait_for(kPrologue, 0, dep.action(), -1, dep.detached());
      }
      for (const Action& action : node.t->body()) {
        if (action.id() != dep.action()) continue;
        const int from = step.list == kEpilogue ? repetitions_ - 1 : step.repetition;
        wait_for(kBody, from - dep.distance(), StandIn(node.t->body(), action), -1, dep.detached());
      }
      for (const Action& action : node.t->epilogue()) {
        if (action.id() != dep.action() || dep.distance() != 0) continue;
        wait_for(kEpilogue, 0, StandIn(node.t->epilogue(), action), -1, dep.detached());
      }
    }
    if (program_.step_barrier() && step.list == kBody && step.repetition > 0) {
      for (size_t j = 0; j < nodes_.size(); ++j) {
        const NaiveStep& other = result_.steps[j];
        if (other.list == kBody && other.repetition == step.repetition - 1 && !nodes_[j].detached) {
          node.finished.push_back(j);
        }
      }
    }
  }

  // Partners by counting (P4).
  void Match() {
    // The i-th of each kind: key -> steps in order, per rank.
    std::map<std::string, std::vector<int>> sends;
    std::map<std::string, std::vector<int>> recvs;
    std::map<std::string, std::map<int64_t, std::vector<int>>> collectives;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      Node& node = nodes_[i];
      const int64_t rank = result_.steps[i].rank;
      node.together = {static_cast<int>(i)};
      if (node.kind == Node::kTransfer) {
        const bool send = node.action->kind() == SEND;
        const int64_t peer = PeerOf(rank, *node.action);
        const std::string key = std::to_string(send ? rank : peer) + ">" + std::to_string(send ? peer : rank) + " " +
                                std::to_string(node.action->lane()) + " " + std::to_string(node.action->direction()) +
                                " " + std::to_string(node.action->skip());
        (send ? sends : recvs)[key].push_back(i);
      } else if (node.kind == Node::kCollective) {
        collectives[node.stream][rank].push_back(i);
      }
    }
    for (const auto& [key, list] : sends) {
      for (size_t i = 0; i < list.size(); ++i) {
        Node& send = nodes_[list[i]];
        Node& recv = nodes_[recvs[key].at(i)];
        const int64_t bytes = send.t->buffers(send.action->sources(0)).bytes();
        const auto [occupancy, latency] =
            durations_.transfer(result_.steps[list[i]].rank, result_.steps[recvs[key][i]].rank, bytes);
        send.together = recv.together = {list[i], recvs[key][i]};
        send.occupancy = recv.occupancy = occupancy;
        recv.latency = latency;
      }
    }
    for (const auto& [key, lists] : collectives) {
      const std::vector<int>& first = lists.begin()->second;
      for (size_t i = 0; i < first.size(); ++i) {
        const Node& node = nodes_[first[i]];
        const auto [occupancy, latency] = durations_.collective(node.collective);
        std::vector<int> together;
        for (const int64_t member : node.collective.members) together.push_back(lists.at(member).at(i));
        for (const int j : together) {
          nodes_[j].together = together;
          nodes_[j].occupancy = occupancy;
          nodes_[j].latency = latency;
        }
      }
    }
  }

  bool Happened(int64_t time, int64_t now) const { return time >= 0 && time <= now; }

  bool MakeReady(int64_t now) {
    bool changed = false;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      NaiveStep& step = result_.steps[i];
      if (step.ready >= 0 || nodes_[i].item >= 0) continue;
      bool ready = true;
      for (const int member : nodes_[i].ready_with) {
        for (const int j : nodes_[member].previous) ready = ready && Happened(result_.steps[j].end, now);
        ready = ready && WaitsAreOver(member, now);
      }
      if (!ready) continue;
      step.ready = now;
      changed = true;
    }
    return changed;
  }

  bool WaitsAreOver(int i, int64_t now) const {
    for (const int j : nodes_[i].finished) {
      if (!Happened(result_.steps[j].finish, now)) return false;
    }
    return true;
  }

  // Every rank whose compute stream is free starts one of the heads of its queues (P6).
  bool Choose(int64_t now) {
    bool changed = false;
    for (int64_t rank = 0; rank < ranks_ && !items_.empty(); ++rank) {
      bool busy = false;
      int forward = -1;
      int backward = -1;
      for (size_t i = 0; i < items_.size(); ++i) {
        const Item& item = items_[i];
        if (item.rank != rank) continue;
        if (item.chosen) {
          for (const int j : item.steps) busy = busy || !Happened(result_.steps[j].end, now);
          continue;
        }
        if (forward < 0 && item.queue != Item::kBackward) forward = static_cast<int>(i);
        if (backward < 0 && item.queue != Item::kForward) backward = static_cast<int>(i);
      }
      if (busy) continue;
      const auto ready = [&](int head, int other) {
        return head >= 0 && (items_[head].queue != Item::kBoth || other == head || other < 0) &&
               WaitsAreOver(items_[head].steps.front(), now);
      };
      // Whether nothing of the one queue is left before an action that is in both.
      const bool can_forward = ready(forward, backward);
      const bool can_backward = ready(backward, forward);
      if (!can_forward && !can_backward) continue;
      int chosen = can_forward ? forward : backward;
      if (can_forward && can_backward) {
        const bool first = program_.compute_order() == ARRIVAL && Arrival(forward) <= Arrival(backward);
        chosen = first ? forward : backward;
      }
      items_[chosen].chosen = true;
      result_.steps[items_[chosen].steps.front()].ready = now;
      changed = true;
    }
    return changed;
  }

  std::pair<bool, int64_t> Arrival(int item) const {
    int64_t last = -1;
    for (const int j : nodes_[items_[item].steps.front()].named) last = std::max(last, result_.steps[j].finish);
    return {items_[item].awaits_recv, last};
  }

  // Whether a transfer's group is ready, and all of its partners.
  bool GroupMayStart(int group) const {
    for (const int member : groups_[group]) {
      for (const int j : nodes_[member].together) {
        if (result_.steps[j].ready < 0) return false;
      }
    }
    return true;
  }

  void StartStep(int i, int64_t now) {
    NaiveStep& step = result_.steps[i];
    step.start = now;
    step.end = now + nodes_[i].occupancy;
    step.finish = step.end + nodes_[i].latency;
  }

  // Everything but compute under a slot limit starts when all that start with it are ready.
  bool Start(int64_t now) {
    bool changed = false;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (result_.steps[i].start >= 0 || (nodes_[i].kind == Node::kCompute && slots_per_node_ > 0)) continue;
      bool ready = true;
      for (const int j : nodes_[i].together) {
        ready = ready && result_.steps[j].ready >= 0 && (nodes_[j].group < 0 || GroupMayStart(nodes_[j].group));
      }
      if (!ready) continue;
      for (const int j : nodes_[i].together) StartStep(j, now);
      changed = true;
    }
    return changed;
  }

  // One slot to the first in line (P3).
  bool Grant(int64_t now) {
    if (slots_per_node_ == 0) return false;
    std::set<int64_t> running;
    std::map<int64_t, int> next;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      const NaiveStep& step = result_.steps[i];
      if (nodes_[i].kind != Node::kCompute) continue;
      if (step.start >= 0 && step.end > now) running.insert(step.rank);
      if (step.start < 0 && step.ready >= 0) next[step.rank] = i;
    }
    // Whoever holds a slot and is not running has ended a step just now.
    for (const auto& [rank, since] : holders_) {
      if (running.count(rank) > 0 || next.count(rank) == 0 || now - since >= turn_) continue;
      StartStep(next[rank], now);
      return true;
    }
    std::map<int64_t, int64_t> taken;
    for (auto holder = holders_.begin(); holder != holders_.end();) {
      const bool runs = running.count(holder->first) > 0;
      if (runs) ++taken[holder->first / devices_per_node_];
      holder = runs ? std::next(holder) : holders_.erase(holder);
    }
    int first = -1;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      const NaiveStep& step = result_.steps[i];
      if (nodes_[i].kind != Node::kCompute || step.ready < 0 || step.start >= 0) continue;
      if (taken[step.rank / devices_per_node_] >= slots_per_node_) continue;
      if (first < 0 || std::make_pair(step.ready, step.rank) <
                           std::make_pair(result_.steps[first].ready, result_.steps[first].rank)) {
        first = i;
      }
    }
    if (first < 0) return false;
    holders_[result_.steps[first].rank] = now;
    StartStep(first, now);
    return true;
  }

  int64_t NextInstant(int64_t now) const {
    int64_t next = -1;
    for (const NaiveStep& step : result_.steps) {
      for (const int64_t time : {step.end, step.finish}) {
        if (time > now && (next < 0 || time < next)) next = time;
      }
    }
    return next;
  }

  NaiveResult Conclude() {
    result_.complete = true;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      const NaiveStep& step = result_.steps[i];
      if (step.start < 0) result_.complete = false;
      result_.makespan = std::max(result_.makespan, step.finish);
      if (step.list == kBody && !nodes_[i].detached) {
        result_.repetition_finish.resize(std::max<size_t>(result_.repetition_finish.size(), step.repetition + 1));
        result_.repetition_finish[step.repetition] = std::max(result_.repetition_finish[step.repetition], step.finish);
      }
    }
    for (int64_t rank = 0; rank < ranks_; ++rank) result_.live_peak.push_back(LivePeak(rank));
    return std::move(result_);
  }

  bool Writes(const Action& action, int buffer) const {
    if (std::count(action.destinations().begin(), action.destinations().end(), buffer) > 0) return true;
    for (int k = 0; k < action.operands_size(); ++k) {
      if (action.operands(k) == buffer && program_.segments(action.segment()).operands(k).access() != READ) return true;
    }
    return false;
  }

  // P7, with lifetimes as half-open intervals of time.
  int64_t LivePeak(int64_t rank) const {
    const Template& t = TemplateOf(rank);
    struct Life {
      int64_t from, to, bytes;
    };
    std::vector<Life> lives;
    int64_t persistent = 0;
    for (int b = 0; b < t.buffers_size(); ++b) {
      const Buffer& buffer = t.buffers(b);
      if (buffer.place() != DEVICE) continue;
      if (buffer.persistent()) {
        persistent += buffer.bytes();
        continue;
      }
      std::set<std::pair<int, int>> instances = {{kPrologue, 0}, {kEpilogue, 0}};
      for (int k = 0; k < repetitions_; ++k) instances.insert({kBody, k});
      for (const auto& [list, repetition] : instances) {
        // Steps are in list order: the first writer is the first found.
        int writer = -1;
        int64_t from = -1;
        int64_t to = -1;
        for (size_t i = 0; i < nodes_.size(); ++i) {
          const NaiveStep& step = result_.steps[i];
          if (step.rank != rank || step.list != list || step.repetition != repetition) continue;
          const Action& action = *nodes_[i].action;
          if (writer < 0 && Writes(action, b)) writer = action.id();
          if (action.id() == writer && (from < 0 || step.start < from)) from = step.start;
          if (std::count(action.releases().begin(), action.releases().end(), b) > 0 && !nodes_[i].detached) {
            to = std::max(to, step.finish);
          }
        }
        if (from >= 0) lives.push_back({from, to, buffer.bytes()});
      }
    }
    int64_t peak = persistent;
    for (const Life& at : lives) {
      int64_t live = persistent;
      for (const Life& life : lives) {
        if (life.from <= at.from && at.from < life.to) live += life.bytes;
      }
      peak = std::max(peak, live);
    }
    return peak;
  }

  const Program& program_;
  const NaiveDurations& durations_;
  const int repetitions_;
  const int64_t devices_per_node_;
  const int64_t slots_per_node_;
  const int64_t turn_;
  const bool exceeded_;
  // Ranks that hold a slot, and since when.
  std::map<int64_t, int64_t> holders_;
  int64_t ranks_ = 1;
  std::vector<Node> nodes_;
  std::vector<std::vector<int>> groups_;
  std::vector<Item> items_;
  NaiveResult result_;
};

}  // namespace

NaiveResult SimulateNaively(const Program& program, const NaiveDurations& durations, int repetitions,
                            int64_t devices_per_node, int64_t slots_per_node, int64_t turn, bool exceeded) {
  return Naive(program, durations, repetitions, devices_per_node, slots_per_node, turn, exceeded).Run();
}

}  // namespace weft
