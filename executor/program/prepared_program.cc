#include "executor/program/prepared_program.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "executor/interface/channels.h"
#include "executor/interface/step_tensors.h"
#include "executor/program/figure_steps.h"
#include "executor/program/prepared_order.h"
#include "executor/program/prepared_streams.h"
#include "executor/program/step_waits.h"
#include "executor/program/stream_demand.h"
#include "executor/program/tensor_piece.h"
#include "kernels/traits.h"
#include "proto/util/mesh.h"
#include "proto/util/status.h"
#include "proto/util/units.h"
#include "schedules/collective/plan.h"

namespace weft::exec {
namespace {

template <typename F>
void ForEachAction(const Template& t, F f) {
  for (const Action& action : t.prologue()) f(action, kPrologueList);
  for (const Action& action : t.body()) f(action, kBodyList);
  for (const Action& action : t.epilogue()) f(action, kEpilogueList);
}

bool IsBackward(const Action& action) {
  return action.kind() == BACKWARD || action.kind() == BACKWARD_INPUT || action.kind() == BACKWARD_WEIGHT;
}

// Returns the number of elements of the buffer, including the padding after a tensor whose parts are rounded up (rule
// P8).
int64_t ElementsOf(const Buffer& buffer) { return buffer.bytes() / std::max<int64_t>(1, DTypeBytes(buffer.dtype())); }

CollectiveKind KindOf(const Action& action) {
  return action.kind() == ALL_GATHER       ? CollectiveKind::kAllGather
         : action.kind() == REDUCE_SCATTER ? CollectiveKind::kReduceScatter
                                           : CollectiveKind::kAllReduce;
}

CollectiveKind KindOf(const Step& step) {
  return step.kernel() == GROUP_ALL_GATHER       ? CollectiveKind::kAllGather
         : step.kernel() == GROUP_REDUCE_SCATTER ? CollectiveKind::kReduceScatter
                                                 : CollectiveKind::kAllReduce;
}

// Added to the name of a communicator's stream if the transport sums in its own order (rule P10).
constexpr char kOtherOrder[] = ", sums in the transport's order";

class Preparer {
 public:
  Preparer(const Program& program, Endpoint& endpoint, const Arena& arena, const StreamPlan& streams,
           PreparedProgram& out)
      : program_(program),
        rank_(endpoint.rank()),
        arena_(arena),
        native_(endpoint.native_collectives()),
        plan_(streams),
        out_(out) {}

  absl::Status Run() {
    const int index = TemplateOfRank(program_, rank_);
    if (index < 0) return absl::InvalidArgumentError(absl::StrCat("rank ", rank_, " has no template"));
    t_ = &program_.templates(index);
    out_.rank_template = t_;
    out_.data_coordinate = AxisCoordinate(program_.mesh(), rank_, "data");
    const int64_t depth = AxisSize(program_.mesh(), "z");
    out_.microbatch_sequences = std::max<int64_t>(1, program_.recipe().microbatch_sequences());
    if (out_.microbatch_sequences % depth != 0) {
      return absl::InvalidArgumentError(absl::StrCat("axis z has ", depth, " ranks, which cannot share the ",
                                                     out_.microbatch_sequences, " sequences of a microbatch equally"));
    }
    out_.own_sequences = out_.microbatch_sequences / depth;
    out_.first_own_sequence = out_.own_sequences * AxisCoordinate(program_.mesh(), rank_, "z");
    streams_ = std::make_unique<PreparedStreams>(program_, rank_, *t_, arena_.device(), native_, plan_, out_.streams);
    WEFT_RETURN_IF_ERROR(streams_->Begin());
    if (program_.compute_order() != STATIC_ORDER) out_.backward_queue = streams_->AddBackwardQueue();

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
    // Steps point into `views`, so its elements must not move.
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
        action.deps.push_back({found->second, dep.distance(), dep.detached()});
        PreparedAction& target = out_.actions[found->second];
        action.awaits_recv |= target.action->kind() == RECV;
        target.awaited = true;
        detached_awaited_.resize(out_.actions.size());
        detached_awaited_[found->second] = detached_awaited_[found->second] || dep.detached();
      }
    }
    for (const PreparedStream& stream : out_.streams) {
      for (int list = 0; list < 3; ++list) out_.steps_of_list[list] += stream.steps[list].size();
    }
    for (size_t i = 0; i < detached_awaited_.size(); ++i) {
      if (!detached_awaited_[i]) continue;
      for (const int step : out_.actions[i].last_detached) out_.actions[i].steps[step].awaited = true;
    }
    GroupTransfers(out_);
    if (out_.backward_queue >= 0) OrderQueues(out_);
    if (arena_.device().asynchronous()) {
      WEFT_RETURN_IF_ERROR(streams_->UseCopies());
      PrepareWaits(out_);
    }
    return MarkFigures(program_, rank_, arena_, out_);
  }

 private:
  std::string Name(const Action& action) const {
    return absl::StrCat("rank ", rank_, ": action ", action.id(), " '", action.name(), "'");
  }

  // For a step that rounds stochastically: the number of its first element, which depends on the optimizer's part of
  // the tensor. 0 for other steps.
  absl::StatusOr<int64_t> FirstElement(const Action& action, const StepAttributes& attributes) const {
    if (attributes.rounding_site() == 0) return 0;
    const int tensor = static_cast<int>(attributes.rounding_site()) - 1;
    for (const Buffer& buffer : t_->buffers()) {
      if (buffer.role() != MASTER || buffer.tensor() != tensor) continue;
      return FirstElementOf(program_, rank_, buffer) + attributes.first_element();
    }
    return absl::InvalidArgumentError(
        absl::StrCat(Name(action), ": there are no master weights for rounding_site ", attributes.rounding_site()));
  }

  std::byte* Data(int buffer) const { return arena_.Data(t_->buffers(buffer)); }

  TensorView View(const Action& action, const Segment& segment, int value_index) const {
    const Value& value = segment.values(value_index);
    return {Data(action.operands(value.operand())) + value.offset(), value.dtype(),
            absl::MakeConstSpan(value.shape().data(), value.shape_size())};
  }

  // Number of sequences that a step works on: this rank's sequences of one microbatch or, in a wide action, as many as
  // the step's rows hold.
  int64_t Sequences(const Action& action, const Segment& segment, const Step& step) const {
    const int64_t one = out_.own_sequences;
    const int64_t length = kernels::RowsOfSample(program_, step);
    const Value* value = kernels::RowsValue(segment, step);
    if (action.width() <= 1 || length <= 0 || value == nullptr || value->shape().empty()) return one;
    return std::max<int64_t>(1, value->shape(0) / length);
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
    // For each stream that the action's steps use: the last step that is not detached, that step's position in the
    // stream's list, and the last detached step.
    struct Used {
      int stream;
      int last = -1;
      size_t position = 0;
      int last_detached = -1;
    };
    std::vector<Used> streams;
    // Reserved, because steps must not move while they are filled.
    prepared.steps.reserve(segment.steps_size());
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
      WEFT_ASSIGN_OR_RETURN(target.first_element, FirstElement(action, attributes));
      target.writes_norm = IsFirstOn(program_.mesh(), rank_, attributes.counted_once());
      const size_t first = out_.views.size();
      for (int value : step.inputs()) out_.views.push_back(View(action, segment, value));
      for (int value : step.outputs()) out_.views.push_back(View(action, segment, value));
      target.inputs = absl::MakeConstSpan(out_.views).subspan(first, step.inputs_size());
      target.outputs = absl::MakeConstSpan(out_.views).subspan(first + step.inputs_size(), step.outputs_size());
      if (const absl::Status fits = CheckStep(step, target.inputs, target.outputs); !fits.ok()) {
        return absl::InvalidArgumentError(absl::StrCat(Name(action), ", ", fits.message()));
      }
      target.stream = static_cast<int>(step.stream());
      if (IsCollective(step)) {
        WEFT_ASSIGN_OR_RETURN(target.stream, streams_->StepStream(step, action));
        WEFT_RETURN_IF_ERROR(PrepareCollective(action, step, target));
      }
      for (int dep : step.deps()) {
        if (prepared.steps[dep].stream == target.stream) continue;
        target.deps.push_back(dep);
        prepared.steps[dep].awaited = true;
      }
      std::vector<StreamStep>& steps = StepsOf(action, target.stream, prepared.list);
      auto used =
          std::find_if(streams.begin(), streams.end(), [&](const Used& u) { return u.stream == target.stream; });
      const bool is_new = used == streams.end();
      if (is_new) used = streams.insert(streams.end(), Used{.stream = target.stream});
      steps.push_back({.action = index, .step = s, .first = is_new});
      if (step.detached()) {
        used->last_detached = s;
      } else {
        used->last = s;
        used->position = steps.size() - 1;
      }
    }
    for (const Used& used : streams) {
      if (used.last_detached >= 0) prepared.last_detached.push_back(used.last_detached);
      if (used.last < 0) continue;
      prepared.last_steps.push_back(used.last);
      StepsOf(action, used.stream, prepared.list)[used.position].last = true;
    }
    if (prepared.last_steps.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(Name(action), ": all steps of its segment are detached"));
    }
    return absl::OkStatus();
  }

  // Checks the numbers of elements. The destination of an all-gather has the sources of all members, and the source of
  // a reduce-scatter has the destinations of all members.
  absl::Status CheckSizes(const Action& action, CollectiveKind kind, int64_t source, int64_t destination,
                          int64_t members) const {
    const int64_t expected = kind == CollectiveKind::kAllGather ? source * members : destination * members;
    if (kind == CollectiveKind::kAllReduce   ? source == destination
        : kind == CollectiveKind::kAllGather ? destination == expected
                                             : source == expected) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(absl::StrCat(Name(action), ": ", CollectiveKindName(kind), " over ", members,
                                                   " members from ", source, " to ", destination,
                                                   " elements; these sizes do not match"));
  }

  absl::StatusOr<std::unique_ptr<PreparedCollective>> MakeCollective(const Action& action, int stream,
                                                                     const std::string& algorithm, CollectiveKind kind,
                                                                     std::vector<CollectiveBuffer> buffers) {
    WEFT_ASSIGN_OR_RETURN(const CollectiveEntry* entry, FindCollective(algorithm));
    PreparedStream& on = out_.streams[stream];
    auto collective = on.communicator->Prepare(*entry, kind, std::move(buffers));
    if (collective.ok()) {
      // Rule P10: the stream's name in the trace states that the transport sums in its own order.
      if (!(*collective)->keeps_order() && !absl::StrContains(on.name, kOtherOrder)) on.name += kOtherOrder;
      return collective;
    }
    return absl::Status(collective.status().code(), absl::StrCat(Name(action), ": ", collective.status().message()));
  }

  absl::Status PrepareCollective(const Action& action, const Step& step, PreparedStep& target) {
    const CollectiveKind kind = KindOf(step);
    std::vector<CollectiveBuffer> buffers;
    for (size_t i = 0; i < target.inputs.size(); ++i) {
      const TensorView &from = target.inputs[i], &to = target.outputs[i];
      WEFT_RETURN_IF_ERROR(
          CheckSizes(action, kind, Elements(from), Elements(to), out_.streams[target.stream].communicator->members()));
      buffers.push_back({from.data, from.dtype, Elements(from), to.data, to.dtype, step.accumulate()});
    }
    WEFT_ASSIGN_OR_RETURN(target.collective, MakeCollective(action, target.stream, step.collective().algorithm(), kind,
                                                            std::move(buffers)));
    return absl::OkStatus();
  }

  std::vector<StreamStep>& StepsOf(const Action& action, int stream, ActionList list) {
    const bool backwards = stream == COMPUTE && out_.backward_queue >= 0 && IsBackward(action);
    return out_.streams[backwards ? out_.backward_queue : stream].steps[list];
  }

  absl::Status PrepareCommunication(int index) {
    PreparedAction& prepared = out_.actions[index];
    PreparedStep& step = prepared.steps.emplace_back();
    prepared.last_steps = {0};
    WEFT_RETURN_IF_ERROR(IsTransfer(*prepared.action) ? PrepareTransfer(prepared, step)
                                                      : PrepareCollectiveAction(*prepared.action, step));
    out_.streams[step.stream].steps[prepared.list].push_back({.action = index, .step = 0, .first = true, .last = true});
    return absl::OkStatus();
  }

  absl::Status PrepareTransfer(PreparedAction& prepared, PreparedStep& step) {
    const Action& action = *prepared.action;
    const int64_t peer = PeerRank(program_.mesh(), rank_, action.peer());
    prepared.sends = action.kind() == SEND;
    prepared.peer = static_cast<int>(peer);
    WEFT_ASSIGN_OR_RETURN(prepared.channel, streams_->Channel(action, peer));
    const int buffer = prepared.sends ? action.sources(0) : action.destinations(0);
    prepared.data = Data(buffer);
    prepared.bytes = t_->buffers(buffer).bytes();
    WEFT_ASSIGN_OR_RETURN(step.stream, streams_->TransferStream(action, peer));
    return absl::OkStatus();
  }

  absl::Status PrepareCollectiveAction(const Action& action, PreparedStep& step) {
    WEFT_ASSIGN_OR_RETURN(step.stream, streams_->CommunicatorStream(action.group(), action.purpose(), action));
    const CollectiveKind kind = KindOf(action);
    if (action.sources_size() != action.destinations_size()) {
      return absl::InvalidArgumentError(absl::StrCat(Name(action), ": ", action.sources_size(), " sources and ",
                                                     action.destinations_size(),
                                                     " destinations; the numbers must be equal"));
    }
    std::vector<CollectiveBuffer> buffers;
    for (int i = 0; i < action.sources_size(); ++i) {
      const Buffer &from = t_->buffers(action.sources(i)), &to = t_->buffers(action.destinations(i));
      WEFT_RETURN_IF_ERROR(CheckSizes(action, kind, ElementsOf(from), ElementsOf(to),
                                      out_.streams[step.stream].communicator->members()));
      buffers.push_back(
          {Data(action.sources(i)), from.dtype(), ElementsOf(from), Data(action.destinations(i)), to.dtype(), false});
    }
    WEFT_ASSIGN_OR_RETURN(step.collective,
                          MakeCollective(action, step.stream, action.algorithm(), kind, std::move(buffers)));
    return absl::OkStatus();
  }

  const Program& program_;
  const int rank_;
  const Arena& arena_;
  NativeCollectives* const native_;
  const StreamPlan plan_;
  PreparedProgram& out_;
  const Template* t_ = nullptr;
  std::unique_ptr<PreparedStreams> streams_;
  absl::flat_hash_map<int32_t, int> index_of_id_;
  // By action: true if another action waits for its detached steps.
  std::vector<bool> detached_awaited_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<PreparedProgram>> PrepareProgram(const Program& program, Endpoint& endpoint,
                                                                const Arena& arena) {
  auto prepared = std::make_unique<PreparedProgram>();
  WEFT_ASSIGN_OR_RETURN(const StreamPlan streams, PlanStreams(program, endpoint, arena.device()));
  WEFT_RETURN_IF_ERROR(Preparer(program, endpoint, arena, streams, *prepared).Run());
  return prepared;
}

}  // namespace weft::exec
