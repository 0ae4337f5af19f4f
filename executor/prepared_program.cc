#include "executor/prepared_program.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/mesh.h"
#include "proto/status.h"
#include "schedules/collective/plan.h"

namespace weft {
namespace {

// What tells apart the messages between two ranks: (0, lane, direction, {skip}) or (1, 0, purpose, members).
using ChannelKey = std::tuple<int, int, int, std::vector<int64_t>>;

bool IsTransfer(const Action& action) { return action.kind() == SEND || action.kind() == RECV; }

ChannelKey KeyOf(const Mesh& mesh, int rank, const Action& action) {
  if (IsTransfer(action)) return {0, action.lane(), static_cast<int>(action.direction()), {action.skip()}};
  return {1, 0, static_cast<int>(action.purpose()), GroupMembers(mesh, rank, action.group())};
}

template <typename F>
void ForEachAction(const Template& t, F f) {
  for (const Action& action : t.prologue()) f(action, kPrologueList);
  for (const Action& action : t.body()) f(action, kBodyList);
  for (const Action& action : t.epilogue()) f(action, kEpilogueList);
}

// Numbers the channels between `rank` and each peer: both ends see the same set of keys, so sorting it gives the same
// numbers on both.
class ChannelMap {
 public:
  ChannelMap(const Mesh& mesh, int rank, const Template& t) {
    std::map<int64_t, std::set<ChannelKey>> keys;
    ForEachAction(t, [&](const Action& action, ActionList) {
      const ChannelKey key = KeyOf(mesh, rank, action);
      if (IsTransfer(action)) {
        keys[PeerRank(mesh, rank, action.peer())].insert(key);
      } else if (action.kind() == ALL_REDUCE) {
        for (int64_t member : std::get<3>(key)) keys[member].insert(key);
      }
    });
    for (const auto& [peer, set] : keys) {
      int number = 0;
      for (const ChannelKey& key : set) channels_[{peer, key}] = number++;
    }
  }
  int Channel(int64_t peer, const ChannelKey& key) const { return channels_.at({peer, key}); }

 private:
  std::map<std::pair<int64_t, ChannelKey>, int> channels_;
};

bool IsBackward(const Action& action) {
  return action.kind() == BACKWARD || action.kind() == BACKWARD_INPUT || action.kind() == BACKWARD_WEIGHT;
}

std::string StreamName(TransferStreams sharing, const Action& action) {
  const char* direction = action.direction() == TOWARDS_LOSS ? "towards_loss" : "from_loss";
  if (IsTransfer(action)) {
    if (sharing == SHARED) return "p2p";
    if (sharing == PER_DIRECTION) return absl::StrCat("p2p ", direction);
    std::vector<std::string> at;
    for (const Coordinate& c : action.peer().at()) at.push_back(absl::StrCat(c.axis(), "=", c.index()));
    return absl::StrCat(action.kind() == SEND ? "send " : "recv ", absl::StrJoin(at, ","), " ", direction, " lane ",
                        action.lane(), action.skip() > 0 ? absl::StrCat(" skip ", action.skip()) : "");
  }
  std::vector<std::string> axes;
  for (const AxisSubset& axis : action.group().axes()) {
    axes.push_back(axis.indices().empty() ? axis.axis()
                                          : absl::StrCat(axis.axis(), "=", absl::StrJoin(axis.indices(), "+")));
  }
  return absl::StrCat("all_reduce ", Purpose_Name(action.purpose()), " over ", absl::StrJoin(axes, ","));
}

class Preparer {
 public:
  Preparer(const Program& program, int rank, const Arena& arena, PreparedProgram& out)
      : program_(program), rank_(rank), arena_(arena), out_(out) {}

  absl::Status Run() {
    const int index = TemplateOfRank(program_, rank_);
    if (index < 0) return absl::InvalidArgumentError(absl::StrCat("rank ", rank_, " has no template"));
    t_ = &program_.templates(index);
    out_.rank_template = t_;
    out_.data_coordinate = AxisCoordinate(program_.mesh(), rank_, "data");
    const int64_t depth = AxisSize(program_.mesh(), "z");
    out_.microbatch_sequences = std::max<int64_t>(1, program_.recipe().microbatch_sequences());
    if (out_.microbatch_sequences % depth != 0) {
      return absl::InvalidArgumentError(absl::StrCat("axis z of ", depth, " cannot share the ",
                                                     out_.microbatch_sequences, " sequences of a microbatch equally"));
    }
    out_.own_sequences = out_.microbatch_sequences / depth;
    out_.first_own_sequence = out_.own_sequences * AxisCoordinate(program_.mesh(), rank_, "z");
    channels_ = std::make_unique<ChannelMap>(program_.mesh(), rank_, *t_);
    out_.streams.resize(3);
    out_.streams[0].name = "compute";
    out_.streams[1].type = out_.streams[2].type = StreamType::kCopy;
    out_.streams[1].name = "d2h";
    out_.streams[2].name = "h2d";
    if (program_.compute_order() != STATIC_ORDER) {
      out_.backward_queue = static_cast<int>(out_.streams.size());
      out_.streams.emplace_back().name = "compute";
    }

    size_t views = 0;
    ForEachAction(*t_, [&](const Action& action, ActionList list) {
      index_of_id_[action.id()] = static_cast<int>(index_of_id_.size());
      PreparedAction& prepared = out_.actions.emplace_back();
      prepared.action = &action;
      prepared.list = list;
      if (!IsCompute(action)) return;
      for (const Step& step : program_.segments(action.segment()).steps()) {
        views += step.inputs_size() + step.outputs_size();
      }
    });
    // Steps point into it: it must not move.
    out_.views.reserve(views);
    for (int i = 0; i < static_cast<int>(out_.actions.size()); ++i) {
      PreparedAction& action = out_.actions[i];
      WEFT_RETURN_IF_ERROR(IsCompute(*action.action) ? PrepareCompute(i) : PrepareCommunication(i));
      for (const Dependency& dep : action.action->deps()) {
        const auto found = index_of_id_.find(dep.action());
        if (found == index_of_id_.end()) {
          return absl::InvalidArgumentError(
              absl::StrCat(Name(*action.action), " depends on action ", dep.action(), ", which does not exist"));
        }
        action.deps.push_back({found->second, dep.distance()});
        action.awaits_recv |= out_.actions[found->second].action->kind() == RECV;
        out_.actions[found->second].awaited = true;
      }
    }
    for (const PreparedStream& stream : out_.streams) {
      for (int list = 0; list < 3; ++list) out_.steps_of_list[list] += stream.steps[list].size();
    }
    if (out_.backward_queue >= 0) OrderQueues();
    FindResults();
    return absl::OkStatus();
  }

 private:
  static bool IsCompute(const Action& action) { return !IsTransfer(action) && action.kind() != ALL_REDUCE; }
  std::string Name(const Action& action) const {
    return absl::StrCat("rank ", rank_, ": action ", action.id(), " '", action.name(), "'");
  }

  std::byte* Data(int buffer) const { return arena_.Data(t_->buffers(buffer)); }

  TensorView View(const Action& action, const Segment& segment, int value_index) const {
    const Value& value = segment.values(value_index);
    return {Data(action.operands(value.operand())) + value.offset(), value.dtype(),
            absl::MakeConstSpan(value.shape().data(), value.shape_size())};
  }

  // Sequences of the microbatches that a step is for: those of one, or in a wide action what its rows hold.
  int64_t Sequences(const Action& action, const Segment& segment, const Step& step) const {
    const int64_t one = out_.own_sequences;
    const int64_t length = program_.recipe().sequence_length();
    if (action.width() <= 1 || length <= 0 || step.outputs().empty()) return one;
    const Value& value = segment.values(step.outputs(0));
    return value.shape().empty() ? one : std::max<int64_t>(1, value.shape(0) / length);
  }

  absl::Status PrepareCompute(int index) {
    PreparedAction& prepared = out_.actions[index];
    const Action& action = *prepared.action;
    const Segment& segment = program_.segments(action.segment());
    if (segment.steps().empty()) {
      return absl::InvalidArgumentError(absl::StrCat(Name(action), ": its segment has no steps"));
    }
    prepared.context.seed = program_.recipe().seed();
    if (out_.own_sequences < out_.microbatch_sequences) {
      prepared.context.own_sequences = out_.own_sequences;
      prepared.context.sample_stride = out_.microbatch_sequences;
    }
    int last[3] = {-1, -1, -1};
    // Where the last steps stand in their streams' lists.
    size_t last_position[3] = {0, 0, 0};
    bool seen[3] = {false, false, false};
    for (int s = 0; s < segment.steps_size(); ++s) {
      const Step& step = segment.steps(s);
      PreparedStep& target = prepared.steps.emplace_back();
      target.step = &step;
      const int64_t microbatch = step.attributes().of_backward() ? action.backward().microbatch() : action.microbatch();
      target.global_microbatch =
          out_.data_coordinate * program_.microbatches() + microbatch + step.attributes().microbatch_offset();
      target.microbatch_of_step = target.global_microbatch;
      if (const int64_t steps = program_.steps_per_repetition(); steps > 0) {
        const int64_t per_step = program_.microbatches() / steps;
        target.microbatch_of_step =
            out_.data_coordinate * per_step + (microbatch + step.attributes().microbatch_offset()) % per_step;
      }
      target.sequences = Sequences(action, segment, step);
      const StepAttributes& attributes = step.attributes();
      target.column_shift = ShiftAt(program_.mesh(), rank_, attributes.column_shift());
      target.row_shift = ShiftAt(program_.mesh(), rank_, attributes.row_shift());
      target.writes_norm = IsFirstOn(program_.mesh(), rank_, attributes.counted_once());
      const size_t first = out_.views.size();
      for (int value : step.inputs()) out_.views.push_back(View(action, segment, value));
      for (int value : step.outputs()) out_.views.push_back(View(action, segment, value));
      target.inputs = absl::MakeConstSpan(out_.views).subspan(first, step.inputs_size());
      target.outputs = absl::MakeConstSpan(out_.views).subspan(first + step.inputs_size(), step.outputs_size());
      for (int dep : step.deps()) {
        if (segment.steps(dep).stream() != step.stream()) target.deps.push_back(dep);
      }
      const int stream = step.stream();
      std::vector<StreamStep>& steps = StepsOf(action, stream, prepared.list);
      steps.push_back({.action = index, .step = s, .first = !std::exchange(seen[stream], true)});
      if (!step.detached()) {
        last[stream] = s;
        last_position[stream] = steps.size() - 1;
      }
    }
    for (int stream = 0; stream < 3; ++stream) {
      if (last[stream] < 0) continue;
      prepared.last_steps.push_back(last[stream]);
      StepsOf(action, stream, prepared.list)[last_position[stream]].last = true;
    }
    prepared.several_streams = seen[0] + seen[1] + seen[2] > 1;
    if (prepared.last_steps.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(Name(action), ": all steps of its segment are detached"));
    }
    return absl::OkStatus();
  }

  std::vector<StreamStep>& StepsOf(const Action& action, int stream, ActionList list) {
    const bool backwards = stream == COMPUTE && out_.backward_queue >= 0 && IsBackward(action);
    return out_.streams[backwards ? out_.backward_queue : stream].steps[list];
  }

  // Rule P6: what is in both queues starts when all backwards before it have ended, and backwards after it when it has.
  // Forwards are in its own queue here.
  void OrderQueues() {
    for (int list = 0; list < 3; ++list) {
      std::vector<StreamStep>& forwards = out_.streams[0].steps[list];
      std::vector<StreamStep>& backwards = out_.streams[out_.backward_queue].steps[list];
      if (forwards.empty() || backwards.empty()) continue;
      const auto in_both = [&](const StreamStep& step) { return out_.actions[step.action].action->kind() != FORWARD; };
      size_t b = 0;
      for (StreamStep& step : forwards) {
        if (!step.first || !in_both(step)) continue;
        while (b < backwards.size() && backwards[b].action < step.action) ++b;
        step.other_position = static_cast<int>(b);
      }
      // Behind the last of them in the list: what the first backwards of the next repetition wait for.
      size_t behind = forwards.size();
      while (behind > 0 && !in_both(forwards[behind - 1])) --behind;
      if (behind == 0) continue;
      size_t f = 0, after = 0;
      for (StreamStep& step : backwards) {
        if (!step.first) continue;
        for (; f < forwards.size() && forwards[f].action < step.action; ++f) {
          if (in_both(forwards[f])) after = f + 1;
        }
        step.other_position = static_cast<int>(after > 0 ? after : behind);
        step.other_repetition = after > 0 ? 0 : -1;
      }
    }
  }

  absl::Status PrepareCommunication(int index) {
    PreparedAction& prepared = out_.actions[index];
    const Action& action = *prepared.action;
    const ChannelKey key = KeyOf(program_.mesh(), rank_, action);
    prepared.steps.emplace_back();
    prepared.last_steps = {0};
    PreparedStream stream;
    stream.name = StreamName(program_.transfer_streams(), action);
    StreamKey stream_key = {0, -1, false, key};
    if (IsTransfer(action)) {
      const int64_t peer = PeerRank(program_.mesh(), rank_, action.peer());
      stream.type = StreamType::kTransfers;
      prepared.sends = action.kind() == SEND;
      prepared.peer = static_cast<int>(peer);
      prepared.channel = channels_->Channel(peer, key);
      switch (program_.transfer_streams()) {
        case SHARED:
          stream_key = {1, -1, false, {}};
          break;
        case PER_DIRECTION:
          stream_key = {2, action.direction(), false, {}};
          break;
        default:
          stream_key = {3, peer, prepared.sends, key};
      }
      const int buffer = action.kind() == SEND ? action.sources(0) : action.destinations(0);
      prepared.data = Data(buffer);
      prepared.bytes = t_->buffers(buffer).bytes();
      if (prepared.channel >= kProgramChannels) return absl::InvalidArgumentError(Name(action) + ": too many channels");
    } else {
      stream.type = StreamType::kCollective;
      const std::vector<int64_t>& ranks = std::get<3>(key);
      std::vector<CollectivePeer> members;
      int self = -1;
      for (int64_t member : ranks) {
        if (member == rank_) self = static_cast<int>(members.size());
        members.push_back({static_cast<int>(member), channels_->Channel(member, key)});
      }
      if (self < 0) return absl::InvalidArgumentError(Name(action) + ": the rank is not in its own group");
      std::vector<ReducedBuffer> buffers;
      for (int i = 0; i < action.sources_size(); ++i) {
        const Buffer& source = t_->buffers(action.sources(i));
        const int64_t element = DTypeBytes(source.dtype());
        if (element == 0) return absl::InvalidArgumentError(Name(action) + ": a source without a dtype");
        buffers.push_back({Data(action.sources(i)), Data(action.destinations(i)), source.dtype(), Elements(source)});
      }
      WEFT_ASSIGN_OR_RETURN(const CollectiveEntry* entry, FindCollective(action.algorithm()));
      WEFT_ASSIGN_OR_RETURN(CollectivePlan plan, entry->Build(static_cast<int64_t>(members.size())));
      auto all_reduce = AllReduce::Create(std::move(plan), std::move(members), self, std::move(buffers));
      if (!all_reduce.ok()) {
        return absl::Status(all_reduce.status().code(),
                            absl::StrCat(Name(action), ": ", all_reduce.status().message()));
      }
      prepared.all_reduce = *std::move(all_reduce);
    }
    const auto [found, is_new] = streams_.try_emplace(stream_key, static_cast<int>(out_.streams.size()));
    if (is_new) out_.streams.push_back(std::move(stream));
    out_.streams[found->second].steps[prepared.list].push_back(
        {.action = index, .step = 0, .first = true, .last = true});
    if (IsTransfer(action)) AddToGroup(index, found->second);
    return absl::OkStatus();
  }

  // Rule P4: neighbours in the list with the same number. The first of a group learns of it with the second.
  void AddToGroup(int index, int stream) {
    PreparedAction& own = out_.actions[index];
    PreparedAction* before = index > 0 ? &out_.actions[index - 1] : nullptr;
    const int before_stream = std::exchange(last_transfer_stream_, stream);
    if (before == nullptr || own.action->transfer_group() == 0 || !IsTransfer(*before->action) ||
        before->list != own.list || before->action->transfer_group() != own.action->transfer_group()) {
      return;
    }
    if (before->group < 0) {
      before->group = static_cast<int>(out_.groups.size());
      out_.groups.emplace_back().list = own.list;
      AddMember(before->group, index - 1, before_stream);
    }
    own.group = before->group;
    AddMember(own.group, index, stream);
  }

  void AddMember(int group, int action, int stream) {
    PreparedGroup& target = out_.groups[group];
    target.actions.push_back(action);
    target.stream_of.push_back(stream);
    if (std::find(target.streams.begin(), target.streams.end(), stream) == target.streams.end()) {
      target.streams.push_back(stream);
    }
  }

  static int64_t Elements(const Buffer& buffer) {
    int64_t elements = 1;
    for (int64_t extent : buffer.shape()) elements *= extent;
    return elements;
  }

  // The body action that writes a buffer of the role last, and the buffer.
  const Buffer* FindWriter(BufferRole role, bool PreparedAction::* flag) {
    const Buffer* result = nullptr;
    int writer = -1;
    for (int i = 0; i < static_cast<int>(out_.actions.size()); ++i) {
      const PreparedAction& prepared = out_.actions[i];
      if (prepared.list != kBodyList) continue;
      auto consider = [&](int buffer) {
        if (t_->buffers(buffer).role() != role) return;
        result = &t_->buffers(buffer);
        writer = i;
      };
      for (int buffer : prepared.action->destinations()) consider(buffer);
      if (!IsCompute(*prepared.action)) continue;
      const Segment& segment = program_.segments(prepared.action->segment());
      for (int o = 0; o < segment.operands_size(); ++o) {
        if (segment.operands(o).access() != READ) consider(prepared.action->operands(o));
      }
    }
    if (writer >= 0) out_.actions[writer].*flag = true;
    return result;
  }

  void FindResults() {
    const Buffer* losses = FindWriter(LOSSES, &PreparedAction::writes_losses);
    if (losses == nullptr) losses = FindWriter(LOCAL_LOSSES, &PreparedAction::writes_losses);
    if (losses != nullptr) {
      out_.losses = absl::MakeConstSpan(reinterpret_cast<const double*>(arena_.Data(*losses)), Elements(*losses));
    }
    const Buffer* norm = FindWriter(NORM, &PreparedAction::writes_norm);
    if (norm != nullptr) {
      out_.norm = reinterpret_cast<const double*>(arena_.Data(*norm));
      return;
    }
    const Buffer* norms = FindWriter(NORMS, &PreparedAction::writes_norm);
    if (norms != nullptr) {
      out_.norms = absl::MakeConstSpan(reinterpret_cast<const double*>(arena_.Data(*norms)), Elements(*norms));
    }
  }

  const Program& program_;
  const int rank_;
  const Arena& arena_;
  PreparedProgram& out_;
  const Template* t_ = nullptr;
  std::unique_ptr<ChannelMap> channels_;
  absl::flat_hash_map<int32_t, int> index_of_id_;
  // Sort of stream, peer or direction, whether it sends, what it is of.
  using StreamKey = std::tuple<int, int64_t, bool, ChannelKey>;
  std::map<StreamKey, int> streams_;
  int last_transfer_stream_ = -1;
};

}  // namespace

absl::StatusOr<std::unique_ptr<PreparedProgram>> PrepareProgram(const Program& program, int rank, const Arena& arena) {
  auto prepared = std::make_unique<PreparedProgram>();
  WEFT_RETURN_IF_ERROR(Preparer(program, rank, arena, *prepared).Run());
  return prepared;
}

}  // namespace weft
