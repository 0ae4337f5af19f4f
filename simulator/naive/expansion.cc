#include "simulator/naive/expansion.h"

#include "simulator/naive/coordinates.h"

namespace weft::sim::naive {
namespace {

int64_t BytesOf(const Value& value) {
  int64_t bytes = value.dtype() == FP64                             ? 8
                  : value.dtype() == FP32 || value.dtype() == INT32 ? 4
                  : value.dtype() == EXACT192                       ? 24
                  : value.dtype() == UINT8                          ? 1
                                                                    : 2;
  for (const int64_t extent : value.shape()) bytes *= extent;
  return bytes;
}

// P3: one stream for each group and purpose.
std::string CommunicatorOf(Purpose purpose, const std::vector<int64_t>& members) {
  std::string stream = "collective " + std::to_string(purpose);
  for (const int64_t member : members) stream += " " + std::to_string(member);
  return stream;
}

class Expander {
 public:
  Expander(Expansion& expansion, const NaiveDurations& durations)
      : expansion_(expansion), program_(*expansion.program), durations_(durations) {}

  void AddRank(int64_t rank) {
    const Template& t = TemplateOf(program_, rank);
    for (const Action& action : t.prologue()) AddAction(rank, t, action, kPrologue, 0);
    for (int k = 0; k < expansion_.repetitions; ++k) {
      for (const Action& action : t.body()) AddAction(rank, t, action, kBody, k);
    }
    for (const Action& action : t.epilogue()) AddAction(rank, t, action, kEpilogue, 0);
  }

 private:
  void AddAction(int64_t rank, const Template& t, const Action& action, int list, int repetition) {
    if (IsLeftOut(action, expansion_.exceeded)) return;
    const bool collective =
        action.kind() == ALL_REDUCE || action.kind() == ALL_GATHER || action.kind() == REDUCE_SCATTER;
    const bool communicates = action.kind() == SEND || action.kind() == RECV || collective;
    const int steps = communicates ? 1 : program_.segments(action.segment()).steps_size();
    int item = -1;
    for (int i = 0; i < steps; ++i) {
      const int index = static_cast<int>(expansion_.nodes.size());
      Node node;
      node.t = &t;
      node.action = &action;
      if (collective) {
        node.kind = Node::kCollective;
        node.collective = {action.kind() == ALL_REDUCE   ? NaiveCollective::kAllReduce
                           : action.kind() == ALL_GATHER ? NaiveCollective::kAllGather
                                                         : NaiveCollective::kReduceScatter,
                           action.algorithm(),
                           MembersOf(program_, rank, action.group()),
                           {},
                           {},
                           &t,
                           &action.group()};
        for (int k = 0; k < action.sources_size(); ++k) {
          const Buffer& source = t.buffers(action.sources(k));
          node.collective.source_bytes.push_back(source.bytes());
          node.collective.types.push_back({source.dtype(), t.buffers(action.destinations(k)).dtype()});
        }
        node.stream = CommunicatorOf(action.purpose(), node.collective.members);
      } else if (communicates) {
        node.kind = Node::kTransfer;
        node.stream = StreamOf(rank, action);
        node.group = GroupOf(rank, action, list, repetition);
        expansion_.groups[node.group].push_back(index);
      } else {
        AddStepOfSegment(rank, action, repetition, i, node);
        if (node.kind == Node::kCompute && program_.compute_order() != STATIC_ORDER) {
          if (item < 0) item = node.item = NewItem(rank, t, action);
          expansion_.items[item].steps.push_back(index);
        }
      }
      expansion_.nodes.push_back(node);
      expansion_.steps.push_back(
          {.rank = rank, .list = list, .repetition = repetition, .action_id = action.id(), .step = i});
    }
  }

  void AddStepOfSegment(int64_t rank, const Action& action, int repetition, int index, Node& node) {
    const Segment& segment = program_.segments(action.segment());
    const Step& step = segment.steps(index);
    node.detached = step.detached();
    node.of_segment = true;
    if (step.stream() == COLLECTIVE) {
      node.kind = Node::kCollective;
      node.collective = {step.kernel() == GROUP_ALL_REDUCE   ? NaiveCollective::kAllReduce
                         : step.kernel() == GROUP_ALL_GATHER ? NaiveCollective::kAllGather
                                                             : NaiveCollective::kReduceScatter,
                         step.collective().algorithm(),
                         MembersOf(program_, rank, step.collective().group()),
                         {},
                         {},
                         node.t,
                         &step.collective().group()};
      for (int k = 0; k < step.inputs_size(); ++k) {
        const Value& source = segment.values(step.inputs(k));
        node.collective.source_bytes.push_back(BytesOf(source));
        node.collective.types.push_back({source.dtype(), segment.values(step.outputs(k)).dtype()});
      }
      node.stream = CommunicatorOf(step.collective().purpose(), node.collective.members);
    } else {
      node.kind = step.stream() == COMPUTE ? Node::kCompute : Node::kCopy;
      node.stream = "step " + std::to_string(step.stream());
      for (int load = 0; load < 3; ++load) {
        node.costs[load] = durations_.step({.rank = rank,
                                            .repetition = repetition,
                                            .action_id = action.id(),
                                            .kind = action.kind(),
                                            .segment = action.segment(),
                                            .step = index,
                                            .load = node.kind == Node::kCompute ? load : 0});
      }
    }
  }

  // The stream of a transfer (P3).
  std::string StreamOf(int64_t rank, const Action& action) const {
    if (program_.transfer_streams() == SHARED) return "transfers";
    if (program_.transfer_streams() == PER_DIRECTION) return "transfers " + std::to_string(action.direction());
    return std::string(action.kind() == SEND ? "send " : "recv ") + std::to_string(PeerOf(program_, rank, action)) +
           " " + std::to_string(action.lane()) + " " + std::to_string(action.direction()) + " " +
           std::to_string(action.skip());
  }

  // Returns the group of the next transfer of the expansion. If the step before it is its neighbor in the list and has
  // the same transfer_group, this is the group of that step, else a new group.
  int GroupOf(int64_t rank, const Action& action, int list, int repetition) {
    if (!expansion_.nodes.empty()) {
      const Node& last = expansion_.nodes.back();
      const NaiveStep& step = expansion_.steps.back();
      if (last.group >= 0 && step.rank == rank && step.list == list && step.repetition == repetition &&
          action.transfer_group() != 0 && last.action->transfer_group() == action.transfer_group()) {
        return last.group;
      }
    }
    expansion_.groups.emplace_back();
    return static_cast<int>(expansion_.groups.size()) - 1;
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
    expansion_.items.push_back(item);
    return static_cast<int>(expansion_.items.size()) - 1;
  }

  Expansion& expansion_;
  const Program& program_;
  const NaiveDurations& durations_;
};

}  // namespace

bool IsLeftOut(const Action& action, bool exceeded) { return action.if_exceeded() && !exceeded; }

Expansion Expand(const Program& program, const NaiveDurations& durations, int repetitions, bool exceeded) {
  Expansion expansion;
  expansion.program = &program;
  expansion.repetitions = repetitions;
  expansion.exceeded = exceeded;
  Expander expander(expansion, durations);
  for (int64_t rank = 0; rank < Ranks(program); ++rank) expander.AddRank(rank);
  return expansion;
}

}  // namespace weft::sim::naive
