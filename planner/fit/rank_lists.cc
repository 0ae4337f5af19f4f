#include "planner/fit/rank_lists.h"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "planner/fit/plan_memory.h"

namespace weft::planner {
namespace {

ActionKind KindOf(SlotKind kind) {
  switch (kind) {
    case SlotKind::kForward:
      return FORWARD;
    case SlotKind::kBackward:
      return BACKWARD;
    case SlotKind::kBackwardInput:
      return BACKWARD_INPUT;
    case SlotKind::kBackwardWeight:
      return BACKWARD_WEIGHT;
  }
  return ACTION_UNSPECIFIED;
}

bool IsOfTensor(const Buffer& buffer) {
  switch (buffer.role()) {
    case PARAM:
    case MASTER:
    case GRAD:
    case GRAD_ACCUMULATOR:
    case MOMENT1:
    case MOMENT2:
      return true;
    default:
      return false;
  }
}

// For each microbatch: the first microbatch of its forward, and the width of that forward.
struct WideForwards {
  std::vector<int> first, width;

  WideForwards(const PipelineSchedule& schedule, int microbatches) : first(microbatches), width(microbatches, 1) {
    for (int m = 0; m < microbatches; ++m) first[m] = m;
    for (const std::vector<Slot>& order : schedule.order) {
      for (const Slot& slot : order) {
        if (slot.kind != SlotKind::kForward || slot.width == 1) continue;
        for (int m = slot.microbatch; m < slot.microbatch + slot.width; ++m) {
          first[m] = slot.microbatch;
          width[m] = slot.width;
        }
      }
    }
  }
};

class RankList {
 public:
  RankList(const ListsRequest& request, const WideForwards& wide, const std::set<int32_t>& shared, int rank,
           Program* program, Template* t)
      : in_(request), wide_(wide), shared_(shared), rank_(rank), program_(program), t_(t) {}

  void Write() {
    const std::vector<Slot>& order = in_.schedule.order[rank_];
    std::set<int> stages;
    for (const Slot& slot : order) stages.insert(slot.stage);
    // Microbatches use some persistent buffers in turn, so no action has all of them as operands. Create all of them
    // first.
    for (const int stage : stages) {
      const Template& of = *PartsOf(stage).of;
      for (int32_t b = 0; b < of.buffers_size(); ++b) {
        if (of.buffers(b).persistent()) Persistent(stage, b);
      }
    }
    FindReaders(order);
    // Buffers that the first action of a pair releases. The pair runs as one action, so they are released after the
    // second.
    std::vector<int32_t> held;
    for (const Slot& slot : order) {
      const std::vector<int32_t> released = Compute(slot);
      held.insert(held.end(), released.begin(), released.end());
      if (slot.paired || t_->body_size() == 0) continue;
      t_->mutable_body()->rbegin()->mutable_releases()->Add(held.begin(), held.end());
      held.clear();
    }
    if (t_->body_size() > 0) {
      for (auto& [key, sent] : unsent_) {
        for (const int32_t buffer : sent) t_->mutable_body()->rbegin()->add_releases(buffer);
      }
    }
    WriteEnd(stages);
  }

 private:
  // Lane, stage, microbatch, value.
  using ValueKey = std::tuple<int, int, int, int>;
  // Kind, lane, stage.
  using ActionKey = std::tuple<ActionKind, int, int>;
  // Direction, lane, stage.
  using EdgeKey = std::tuple<Direction, int, int>;

  const StageParts& PartsOf(int stage) const { return in_.parts[in_.form_of_stage[stage]]; }
  int MicrobatchOf(const StageValue& value, int microbatch) const {
    return value.of_forward ? wide_.first[microbatch] : microbatch;
  }

  int32_t AddBuffer(const Buffer& like, int64_t bytes) {
    Buffer* buffer = t_->add_buffers();
    buffer->set_class_(like.class_());
    buffer->set_dtype(like.dtype());
    buffer->set_bytes(bytes);
    buffer->set_place(like.place());
    buffer->set_persistent(like.persistent());
    buffer->set_role(like.role());
    return t_->buffers_size() - 1;
  }

  // Returns the rank's buffer for persistent buffer `index` of the stage's form. The stages of a rank share buffers
  // without a tensor, such as losses, and the buffers of tensors that several forms hold.
  int32_t Persistent(int stage, int32_t index) {
    const Template& of = *PartsOf(stage).of;
    const Buffer& buffer = of.buffers(index);
    const auto [found, is_new] = of_stage_.try_emplace({stage, index}, -1);
    if (!is_new) return found->second;
    int64_t bytes = buffer.bytes();
    if (IsOfTensor(buffer)) {
      if (!shared_.contains(buffer.tensor())) return found->second = AddBuffer(buffer, bytes);
      const auto [same, first] =
          of_rank_.try_emplace({1, buffer.role(), buffer.tensor(), buffer.use(), buffer.version()}, -1);
      if (first) same->second = AddBuffer(buffer, bytes);
      return found->second = same->second;
    }
    // The order of buffers of the same role and size identifies them.
    int64_t number = 0;
    for (int32_t i = 0; i < index; ++i) {
      const Buffer& other = of.buffers(i);
      number += other.persistent() && other.role() == buffer.role() && other.bytes() == bytes && !IsOfTensor(other);
    }
    const auto [same, first] = of_rank_.try_emplace({0, buffer.role(), buffer.class_(), bytes, number}, -1);
    // Losses have an element for each microbatch; the forms have two microbatches.
    if (buffer.role() == LOSSES || buffer.role() == LOCAL_LOSSES) bytes = bytes / 2 * in_.microbatches;
    if (first) same->second = AddBuffer(buffer, bytes);
    return found->second = same->second;
  }

  // True if the stage is on this rank.
  bool IsHere(int lane, int stage) const { return in_.schedule.placement[lane][stage] == rank_; }
  static int SenderOf(int stage, Direction direction) { return direction == TOWARDS_LOSS ? stage - 1 : stage + 1; }
  static int ReceiverOf(int stage, Direction direction) { return direction == TOWARDS_LOSS ? stage + 1 : stage - 1; }

  int32_t Transient(int lane, int stage, int microbatch, int index) {
    const StageValue& value = PartsOf(stage).values[index];
    if (value.received != DIRECTION_UNSPECIFIED) {
      const int maker = SenderOf(stage, value.received);
      const int made = PartsOf(maker).ValueSent(value.received);
      if (IsHere(lane, maker) && made >= 0) return Transient(lane, maker, microbatch, made);
    }
    const int of = MicrobatchOf(value, microbatch);
    const auto [found, is_new] = transients_.try_emplace({lane, stage, of, index}, -1);
    if (!is_new) return found->second;
    const Buffer& like = PartsOf(stage).of->buffers(value.buffer);
    const int width = value.of_forward && like.class_() != WORKSPACE ? wide_.width[of] : 1;
    return found->second = AddBuffer(like, like.bytes() * width);
  }

  // Finds the order in which the rank reads what it receives, and the backwards that run in halves.
  void FindReaders(const std::vector<Slot>& order) {
    for (const Slot& slot : order) {
      if (slot.kind == SlotKind::kBackwardInput) split_.insert({slot.lane, slot.stage, slot.microbatch});
      if (slot.kind == SlotKind::kBackwardWeight) continue;
      const Direction direction = slot.kind == SlotKind::kForward ? TOWARDS_LOSS : FROM_LOSS;
      readers_[{direction, slot.lane, slot.stage}].push_back(slot.microbatch);
    }
  }

  // Adds the buffers of receives that run ahead of the action's own as destinations of the action.
  void ReceiveAhead(const Slot& slot, const StageParts& parts, Action* action) {
    if (in_.plan.transfer_placement() == DEFERRED) return;
    const Direction direction = slot.kind == SlotKind::kForward ? TOWARDS_LOSS : FROM_LOSS;
    for (size_t v = 0; v < parts.values.size(); ++v) {
      if (parts.values[v].received != direction || IsHere(slot.lane, SenderOf(slot.stage, direction))) continue;
      const std::vector<int>& readers = readers_[{direction, slot.lane, slot.stage}];
      size_t& read = read_[{direction, slot.lane, slot.stage}];
      ++read;
      const size_t until = std::min(readers.size(), read + std::max(1, in_.plan.receive_buffers()));
      for (size_t i = read; i < until; ++i) {
        action->add_destinations(Transient(slot.lane, slot.stage, readers[i], static_cast<int>(v)));
      }
    }
  }

  // Writes the action of a slot. Returns the buffers that it releases.
  std::vector<int32_t> Compute(const Slot& slot) {
    const StageParts& parts = PartsOf(slot.stage);
    const ActionKind kind = KindOf(slot.kind);
    const auto found = parts.actions.find(kind);
    std::vector<int32_t> released;
    if (found == parts.actions.end()) return released;
    const StageAction& like = found->second;
    std::deque<int32_t>& unsent = unsent_[{kind, slot.lane, slot.stage}];
    while (static_cast<int>(unsent.size()) >= std::max(1, in_.plan.send_buffers())) {
      t_->mutable_body()->rbegin()->add_releases(unsent.front());
      unsent.pop_front();
    }
    Action* action = t_->add_body();
    action->set_kind(kind);
    action->set_segment(like.segment);
    action->set_stage(slot.stage);
    action->set_microbatch(slot.microbatch);
    action->mutable_operands()->Reserve(static_cast<int>(like.operands.size()));
    const bool split = split_.contains({slot.lane, slot.stage, slot.microbatch});
    for (const int32_t operand : like.operands) {
      if (operand < 0) {
        action->add_operands(Persistent(slot.stage, -1 - operand));
        continue;
      }
      const StageValue& value = parts.values[operand];
      const int32_t buffer = Transient(slot.lane, slot.stage, slot.microbatch, operand);
      action->add_operands(buffer);
      if ((split ? value.last_if_split : value.last_if_whole) != kind) continue;
      if (value.sent != DIRECTION_UNSPECIFIED) {
        // If the reader is on this rank, the reader releases the buffer.
        if (!IsHere(slot.lane, ReceiverOf(slot.stage, value.sent))) unsent.push_back(buffer);
        continue;
      }
      // The backwards of all microbatches of a wide forward read its results. The last of them releases the buffer.
      const int of = MicrobatchOf(value, slot.microbatch);
      const int readers = kind == FORWARD || !value.of_forward ? 1 : wide_.width[of];
      if (++reads_[buffer] >= readers) released.push_back(buffer);
    }
    if (kind != BACKWARD_WEIGHT) ReceiveAhead(slot, parts, action);
    return released;
  }

  // Returns the rank's buffer for buffer `index` of the stage's form, as the end of the iteration uses it.
  int32_t OfEnd(int stage, int32_t index) {
    const Buffer& buffer = PartsOf(stage).of->buffers(index);
    if (buffer.persistent()) return Persistent(stage, index);
    const auto [found, is_new] = of_stage_.try_emplace({stage, index}, -1);
    if (is_new) found->second = AddBuffer(buffer, buffer.bytes());
    return found->second;
  }

  void CopyAction(int stage, const Action& from, Action* to) {
    if (to->kind() == ACTION_UNSPECIFIED) {
      to->set_kind(from.kind());
      to->set_segment(from.segment());
      to->set_stage(stage);
    }
    for (const int32_t buffer : from.operands()) to->add_operands(OfEnd(stage, buffer));
    for (const int32_t buffer : from.sources()) to->add_sources(OfEnd(stage, buffer));
    for (const int32_t buffer : from.destinations()) to->add_destinations(OfEnd(stage, buffer));
    for (const int32_t buffer : from.releases()) to->add_releases(OfEnd(stage, buffer));
  }

  // Appends the steps of a segment to another, with their values.
  static void JoinSegment(const Segment& from, Segment* to) {
    const int values = to->values_size(), operands = to->operands_size();
    to->mutable_operands()->MergeFrom(from.operands());
    for (const Value& value : from.values()) {
      Value* copy = to->add_values();
      *copy = value;
      copy->set_operand(value.operand() + operands);
    }
    for (const Step& step : from.steps()) {
      Step* copy = to->add_steps();
      copy->set_kernel(step.kernel());
      for (const int32_t input : step.inputs()) copy->add_inputs(input + values);
      for (const int32_t output : step.outputs()) copy->add_outputs(output + values);
    }
  }

  // Writes the end of the iteration for all stages of the rank: first everything before the update, then the update,
  // then the rest. The update of all stages is one action, unless a stage updates bucket by bucket.
  void WriteEnd(const std::set<int>& stages) {
    const auto copy = [&](size_t StageParts::* begin, size_t StageParts::* end) {
      for (const int stage : stages) {
        const StageParts& parts = PartsOf(stage);
        const size_t from = begin == nullptr ? 0 : parts.*begin, to = end == nullptr ? parts.end.size() : parts.*end;
        for (size_t i = from; i < to; ++i) CopyAction(stage, *parts.end[i], t_->add_body());
      }
    };
    copy(nullptr, &StageParts::update_begin);
    const bool at_once = std::all_of(stages.begin(), stages.end(), [&](int stage) {
      return PartsOf(stage).update_end - PartsOf(stage).update_begin <= 1;
    });
    if (at_once && stages.size() > 1) {
      WriteJoinedUpdate(stages);
    } else {
      copy(&StageParts::update_begin, &StageParts::update_end);
    }
    copy(&StageParts::update_end, nullptr);
  }

  void WriteJoinedUpdate(const std::set<int>& stages) {
    Action* update = t_->add_body();
    Segment joined;
    for (const int stage : stages) {
      const StageParts& parts = PartsOf(stage);
      for (size_t i = parts.update_begin; i < parts.update_end; ++i) {
        JoinSegment(program_->segments(parts.end[i]->segment()), &joined);
        CopyAction(stage, *parts.end[i], update);
      }
    }
    if (update->kind() == ACTION_UNSPECIFIED) {
      t_->mutable_body()->RemoveLast();
      return;
    }
    update->set_segment(program_->segments_size());
    *program_->add_segments() = std::move(joined);
  }

  const ListsRequest& in_;
  const WideForwards& wide_;
  // Tensors that more than one form holds.
  const std::set<int32_t>& shared_;
  const int rank_;
  Program* program_;
  Template* t_;
  std::map<ValueKey, int32_t> transients_;
  // Buffers of the rank, by stage and buffer of the form's template.
  std::map<std::pair<int, int32_t>, int32_t> of_stage_;
  // Buffers that all stages of the rank share.
  std::map<std::tuple<int, int, int64_t, int64_t, int64_t>, int32_t> of_rank_;
  std::map<ActionKey, std::deque<int32_t>> unsent_;
  // Microbatches in the order in which an edge's receives are read, and how many were read.
  std::map<EdgeKey, std::vector<int>> readers_;
  std::map<EdgeKey, size_t> read_;
  // Lane, stage and microbatch of each backward in two halves.
  std::set<std::tuple<int, int, int>> split_;
  std::map<int32_t, int> reads_;
};

// Tensors that more than one form holds.
std::set<int32_t> SharedTensors(const std::vector<StageParts>& parts) {
  std::set<int32_t> seen, shared;
  for (const StageParts& form : parts) {
    std::set<int32_t> own;
    for (const Buffer& buffer : form.of->buffers()) {
      if (buffer.persistent() && IsOfTensor(buffer)) own.insert(buffer.tensor());
    }
    for (const int32_t tensor : own) {
      if (!seen.insert(tensor).second) shared.insert(tensor);
    }
  }
  return shared;
}

}  // namespace

void WriteLists(const ListsRequest& request, Program* program) {
  const WideForwards wide(request.schedule, request.microbatches);
  const std::set<int32_t> shared = SharedTensors(request.parts);
  google::protobuf::RepeatedPtrField<Template> templates;
  for (size_t rank = 0; rank < request.schedule.order.size(); ++rank) {
    Template* t = templates.Add();
    if (!request.wanted.empty() && !request.wanted[rank]) continue;
    RankList(request, wide, shared, static_cast<int>(rank), program, t).Write();
  }
  for (Template& t : templates) t.set_device_arena_bytes(FullestMoment(t));
  program->mutable_templates()->Swap(&templates);
}

}  // namespace weft::planner
