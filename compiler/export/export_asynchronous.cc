// Lists and buffers of an asynchronous program.
//
// On a rank that is w forwards ahead, the body is F(w) B(0) F(w+1) B(1) ... With N microbatches per repetition, forward
// x of a repetition belongs to microbatch x, or, if x >= N, to microbatch x - N of the next repetition. A message is
// received in the list in which it is sent, so that transfers stay within a list. The previous rank is further ahead,
// so the RECV of x may be in an earlier repetition than F(x).
//
// Everything that passes from slot to slot is in a ring of persistent buffers. Microbatch x uses place x mod size,
// where size divides N, so that places do not depend on the repetition. A wait for the previous user of a place is a
// dependency on an action of this repetition, of the previous one, or (in the first) of the prologue.
#include "compiler/export/export_asynchronous.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/export/asynchronous_sums.h"
#include "compiler/memory/arena.h"
#include "compiler/segments/role_kinds.h"
#include "proto/util/mesh.h"
#include "proto/util/status.h"
#include "proto/util/units.h"

namespace weft {
namespace {

using ir::Role;

// Events of a microbatch on a rank.
enum class Event { kReceiveInput, kForward, kSendOutput, kReceiveGradient, kBackward, kSendGradient, kGatherWeights };

int ModuloOf(int x, int size) { return (x % size + size) % size; }

// The smallest divisor of `microbatches` that is at least `needed`. If `needed` is larger than `microbatches`:
// `microbatches`.
int RingSize(int microbatches, int needed) {
  int size = std::min(needed, microbatches);
  while (microbatches % size != 0) ++size;
  return size;
}

class RankExporter {
 public:
  RankExporter(const AsynchronousPlan& made, const SegmentSet& segments, const Plan& plan, int rank)
      : made_(made), segments_(segments), plan_(plan), rank_(rank), n_(made.microbatches) {
    ranks_ = static_cast<int>(made.schedule.order.size());
    ahead_ = AheadOf(rank);
    ahead_below_ = rank > 0 ? AheadOf(rank - 1) : 0;
    const int receives = std::max(1, plan.receive_buffers()), sends = std::max(1, plan.send_buffers());
    rings_[Role::Saved] = RingSize(n_, ahead_ + 1);
    // An input is received while the inputs in flight are in use, and inputs of the previous list may still be unread.
    rings_[Role::Input] = RingSize(n_, std::max(ahead_, ahead_below_) + receives);
    rings_[Role::OutputGrad] = RingSize(n_, 1 + receives);
    rings_[Role::Output] = RingSize(n_, std::max(sends, ReadsOutput() ? ahead_ + 1 : 1));
    rings_[Role::InputGrad] = RingSize(n_, sends);
    versions_ = made.schedule.asynchrony->uses == Asynchrony::Uses::kPrevious
                    ? 2
                    : RingSize(n_, made.schedule.asynchrony->versions[rank]);
    gathered_ = GatheredWeights(Optimizer(), Forward(), Backward());
  }

  absl::StatusOr<Template> Export() {
    const bool pinned = std::any_of(plan_.mesh().axes().begin(), plan_.mesh().axes().end(),
                                    [](const MeshAxis& axis) { return axis.name() == "pipe"; });
    out_.set_name(pinned ? absl::StrCat("pipe", rank_) : "all");
    if (pinned) {
      Coordinate& pin = *out_.add_pins();
      pin.set_axis("pipe");
      pin.set_index(rank_);
    }
    WritePrologue();
    WriteBody();
    for (const PendingDependency& dep : pending_) WEFT_RETURN_IF_ERROR(AddDependency(dep));
    WEFT_RETURN_IF_ERROR(PlaceBuffers());
    return std::move(out_);
  }

 private:
  int AheadOf(int rank) const {
    const std::vector<Slot>& order = made_.schedule.order[rank];
    return static_cast<int>(std::count_if(order.begin(), order.end(), [](const Slot& slot) { return slot.ahead > 0; }));
  }

  const StageSegment& Forward() const { return segments_.segments[segments_.stages[rank_].forward]; }
  const StageSegment& Backward() const { return segments_.segments[segments_.stages[rank_].backward]; }
  const StageSegment& Optimizer() const { return segments_.segments[segments_.ranks[rank_].optimizer_step]; }

  bool ReadsOutput() const {
    return std::any_of(Backward().operands.begin(), Backward().operands.end(),
                       [](const SegmentOperand& operand) { return operand.role == Role::Output; });
  }

  // The copy of the weights that microbatch x uses.
  int VersionOf(int x) const {
    const bool previous = made_.schedule.asynchrony->uses == Asynchrony::Uses::kPrevious;
    return ModuloOf(previous ? x / made_.microbatches_per_step : x, versions_);
  }

  // The copy of the weights that the update after the backward of microbatch x writes. It is the copy for the rank's
  // next forward. If forwards use the previous weights, so that there are two copies, it is the copy that the update's
  // own microbatches have used.
  int VersionWrittenAfter(int x) const {
    const bool previous = made_.schedule.asynchrony->uses == Asynchrony::Uses::kPrevious;
    return previous ? VersionOf(x) : VersionOf(x + ahead_ + 1);
  }

  // The buffer of an operand for microbatch x and version v.
  int BufferOf(const SegmentOperand& operand, int x, int version) {
    int slot = 0;
    if (const auto ring = rings_.find(operand.role); ring != rings_.end()) slot = ModuloOf(x, ring->second);
    if (operand.role == Role::Param) slot = version;
    const auto [it, fresh] =
        buffers_.try_emplace({operand.role, operand.tensor, operand.use, slot}, out_.buffers_size());
    if (!fresh) return it->second;
    Buffer& buffer = *out_.add_buffers();
    buffer.set_class_(static_cast<BufferClass>(BufferClassOf(operand.role)));
    buffer.set_bytes(operand.bytes);
    buffer.set_dtype(operand.dtype);
    for (const int64_t extent : operand.shape) buffer.add_shape(extent);
    buffer.set_persistent(true);
    buffer.set_role(BufferRoleOf(operand.role));
    buffer.set_name(std::string(ir::stringifyRole(operand.role)));
    if (buffer.role() == NO_ROLE) {
      absl::StrAppend(buffer.mutable_name(), " s", rank_, " place ", slot);
      if (operand.tensor >= 0) absl::StrAppend(buffer.mutable_name(), " ", segments_.tensors[operand.tensor].name());
    } else if (buffer.role() != LOCAL_LOSSES) {
      absl::StrAppend(buffer.mutable_name(), " ", segments_.tensors[operand.tensor].name());
      buffer.set_tensor(operand.tensor);
      buffer.set_use(operand.role == Role::Grad ? operand.use : 0);
      const Shard& shard = ShardOf(segments_.shards[operand.tensor], operand.role);
      if (shard.ByteSizeLong() > 0) *buffer.mutable_shard() = shard;
    }
    if (operand.role == Role::Param) {
      buffer.set_version(slot);
      absl::StrAppend(buffer.mutable_name(), " version ", slot);
    }
    return it->second;
  }

  Action& Add(bool prologue, ActionKind kind, std::string name) {
    Action& action = *(prologue ? out_.add_prologue() : out_.add_body());
    action.set_id(out_.prologue_size() + out_.body_size() - 1);
    action.set_kind(kind);
    action.set_name(std::move(name));
    action.set_stage(rank_);
    return action;
  }

  static std::string Place(int stage, int microbatch) { return absl::StrCat("s", stage, " m", microbatch); }

  // Binds the segment's operands. The workspace belongs to the action alone.
  void Bind(const StageSegment& segment, int x, int version, Action& action) {
    action.set_segment(static_cast<int>(&segment - segments_.segments.data()));
    for (const SegmentOperand& operand : segment.operands) {
      if (operand.role != Role::Workspace) {
        action.add_operands(BufferOf(operand, x, version));
        continue;
      }
      action.add_operands(out_.buffers_size());
      action.add_releases(out_.buffers_size());
      Buffer& workspace = *out_.add_buffers();
      workspace.set_name(absl::StrCat("workspace ", action.name()));
      workspace.set_class_(WORKSPACE);
      workspace.set_bytes(operand.bytes);
    }
  }

  // Sets the action's microbatch (its number within a repetition) and its step. If x >= N, microbatch x belongs to the
  // next repetition.
  void SetMicrobatch(int x, Action& action) const {
    action.set_microbatch(ModuloOf(x, n_));
    action.set_step(x / made_.microbatches_per_step);
  }

  // The first microbatch in the body for which `event` happens.
  int FirstOf(Event event) const {
    if (event == Event::kReceiveInput) return ahead_below_;
    return event == Event::kForward || event == Event::kSendOutput ? ahead_ : 0;
  }

  // Records the action of an event. `x` is the number of the microbatch. It counts from the start of the body's
  // repetition, or for the prologue from the start of the first repetition.
  void Note(Event event, int x, bool prologue, const Action& action) { ids_[{event, x, prologue}] = action.id(); }
  // Makes `action` wait for the event of microbatch x, in whichever list that event is. An event before the start of
  // the run causes no wait.
  void Wait(const Action& action, bool prologue, Event event, int x) {
    pending_.push_back({action.id(), prologue, event, x});
  }

  void AddTransfer(bool prologue, Event event, int x) {
    const bool send = event == Event::kSendOutput || event == Event::kSendGradient;
    const bool towards = event == Event::kSendOutput || event == Event::kReceiveInput;
    const int peer = send == towards ? rank_ + 1 : rank_ - 1;
    Action& action = Add(prologue, send ? SEND : RECV,
                         absl::StrCat(send ? "send " : "recv ", towards ? "F " : "B ", Place(rank_, ModuloOf(x, n_))));
    action.set_microbatch(ModuloOf(x, n_));
    action.set_direction(towards ? TOWARDS_LOSS : FROM_LOSS);
    Coordinate& at = *action.mutable_peer()->add_at();
    at.set_axis("pipe");
    at.set_index(peer);
    const Role role = send ? (towards ? Role::Output : Role::InputGrad) : towards ? Role::Input : Role::OutputGrad;
    const StageSegment& segment = towards ? Forward() : Backward();
    for (const SegmentOperand& operand : segment.operands) {
      if (operand.role != role) continue;
      (send ? action.mutable_sources() : action.mutable_destinations())->Add(BufferOf(operand, x, 0));
    }
    if (send) {
      Wait(action, prologue, towards ? Event::kForward : Event::kBackward, x);
    } else {
      Wait(action, prologue, Event::kBackward, x - rings_[role]);
    }
    Note(event, x, prologue, action);
  }

  void AddForward(bool prologue, int x) {
    Action& action = Add(prologue, FORWARD, absl::StrCat("F ", Place(rank_, ModuloOf(x, n_))));
    SetMicrobatch(prologue ? x + n_ : x, action);
    Bind(Forward(), x, VersionOf(x), action);
    if (rank_ > 0) Wait(action, prologue, Event::kReceiveInput, x);
    if (rank_ + 1 < ranks_) Wait(action, prologue, Event::kSendOutput, x - rings_[Role::Output]);
    // The first forward of an iteration is the first to read the weights that an update has gathered.
    if (!prologue && !gathered_.empty() && x % made_.microbatches_per_step == 0) {
      Wait(action, prologue, Event::kGatherWeights, UpdateBefore(x));
    }
    Note(Event::kForward, x, prologue, action);
    if (rank_ + 1 < ranks_) AddTransfer(prologue, Event::kSendOutput, x);
  }

  void AddBackward(int x) {
    if (rank_ + 1 < ranks_) AddTransfer(false, Event::kReceiveGradient, x);
    Action& action = Add(false, BACKWARD, absl::StrCat("B ", Place(rank_, x)));
    SetMicrobatch(x, action);
    Bind(Backward(), x, VersionOf(x), action);
    if (rank_ + 1 < ranks_) Wait(action, false, Event::kReceiveGradient, x);
    if (rank_ > 0) Wait(action, false, Event::kSendGradient, x - rings_[Role::InputGrad]);
    Note(Event::kBackward, x, false, action);
    if (rank_ > 0) AddTransfer(false, Event::kSendGradient, x);
    if ((x + 1) % made_.microbatches_per_step == 0) AddUpdate(x);
  }

  // The microbatch x' such that the update after the backward of x' makes the weights that forward x uses.
  int UpdateBefore(int x) const {
    const bool previous = made_.schedule.asynchrony->uses == Asynchrony::Uses::kPrevious;
    return previous ? x - x % made_.microbatches_per_step - made_.microbatches_per_step - 1 : x - ahead_ - 1;
  }

  // Adds a collective after the last backward of the update.
  Action& AddCollective(ActionKind kind, Purpose purpose, absl::string_view name, const Group& group) {
    Action& action = Add(false, kind, absl::StrCat(name, " s", rank_));
    action.set_purpose(purpose);
    action.set_algorithm(plan_.collective());
    *action.mutable_group() = group;
    return action;
  }

  void AddUpdate(int x) {
    std::vector<int> sums;
    for (const GradientSum& sum : GradientSumsBefore(Optimizer(), segments_, plan_)) {
      Action& action = AddCollective(sum.kind, GRADIENT_SYNC, sum.name, sum.group);
      for (const SegmentOperand* operand : sum.from) action.add_sources(BufferOf(*operand, 0, 0));
      for (const SegmentOperand* operand : sum.to) action.add_destinations(BufferOf(*operand, 0, 0));
      Wait(action, false, Event::kBackward, x);
      if (sum.after_previous) action.add_deps()->set_action(sums.back());
      sums.push_back(action.id());
    }
    const int version = VersionWrittenAfter(x);
    Action& action = Add(false, OPTIMIZER_STEP, absl::StrCat("optimizer s", rank_));
    action.set_step(x / made_.microbatches_per_step);
    Bind(Optimizer(), 0, version, action);
    for (int id : sums) action.add_deps()->set_action(id);
    if (gathered_.empty()) return;
    const int updated = action.id();
    // The previous gather reads the weights that this update is about to change.
    Wait(action, false, Event::kGatherWeights, x - made_.microbatches_per_step);
    Action& gather = AddCollective(ALL_GATHER, GATHER_WEIGHTS, "gather weights", GroupOfSharers(plan_));
    for (const auto& [part, param] : gathered_) {
      gather.add_sources(BufferOf(*part, 0, 0));
      gather.add_destinations(BufferOf(*param, 0, version));
    }
    gather.add_deps()->set_action(updated);
    Note(Event::kGatherWeights, x, false, gather);
  }

  void WritePrologue() {
    // Adds buffers for all copies of the weights, including copies that the prologue does not read.
    for (const SegmentOperand& operand : Optimizer().operands) {
      for (int v = 0; operand.role == Role::Param && v < versions_; ++v) BufferOf(operand, 0, v);
    }
    for (const auto& [part, param] : gathered_) {
      for (int v = 0; v < versions_; ++v) BufferOf(*param, 0, v);
    }
    for (int x = 0; x < std::max(ahead_, ahead_below_); ++x) {
      if (x < ahead_below_) AddTransfer(true, Event::kReceiveInput, x);
      if (x < ahead_) AddForward(true, x);
    }
  }

  void WriteBody() {
    for (int i = 0; i < n_; ++i) {
      if (rank_ > 0) AddTransfer(false, Event::kReceiveInput, ahead_below_ + i);
      AddForward(false, ahead_ + i);
      AddBackward(i);
    }
    AddLossSync();
  }

  void AddLossSync() {
    SegmentOperand losses;
    losses.role = Role::LocalLosses;
    losses.dtype = FP64;
    losses.shape = {n_ * AxisSize(plan_.mesh(), "data")};
    losses.bytes = losses.shape[0] * DTypeBytes(FP64);
    const int local = BufferOf(losses, 0, 0);
    const int sum = out_.buffers_size();
    Buffer& buffer = *out_.add_buffers();
    buffer = out_.buffers(local);
    buffer.set_name("losses");
    buffer.set_role(LOSSES);
    Action& sync = Add(false, ALL_REDUCE, "loss sync");
    sync.set_purpose(LOSS_SYNC);
    sync.set_algorithm(plan_.collective());
    // Ranks that differ on x or y have the same losses, so these axes are not summed.
    for (const MeshAxis& axis : plan_.mesh().axes()) {
      if (axis.name() != "x" && axis.name() != "y") sync.mutable_group()->add_axes()->set_axis(axis.name());
    }
    sync.mutable_group();
    sync.add_sources(local);
    sync.add_destinations(sum);
    Dependency& earlier = *sync.add_deps();
    earlier.set_action(sync.id());
    earlier.set_distance(1);
    if (rank_ + 1 < ranks_) return;
    // Only this rank, the last, writes the losses. It must not write them again before they are summed.
    Wait(sync, false, Event::kForward, ahead_ + n_ - 1);
    for (Action& action : *out_.mutable_body()) {
      if (action.kind() != FORWARD) continue;
      Dependency& before = *action.add_deps();
      before.set_action(sync.id());
      before.set_distance(1);
      break;
    }
  }

  struct PendingDependency {
    int action = 0;
    bool prologue = false;
    Event event = Event::kForward;
    int x = 0;
  };

  absl::Status AddDependency(const PendingDependency& dep) {
    auto& list = dep.prologue ? *out_.mutable_prologue() : *out_.mutable_body();
    Action& action = list[dep.action - (dep.prologue ? 0 : out_.prologue_size())];
    const auto in_prologue = ids_.find({dep.event, dep.x, true});
    if (in_prologue != ids_.end()) action.add_deps()->set_action(in_prologue->second);
    if (dep.prologue) return absl::OkStatus();
    const int first = FirstOf(dep.event);
    int distance = 0, x = dep.x;
    for (; x < first; x += n_) ++distance;
    const auto in_body = ids_.find({dep.event, x, false});
    if (in_body == ids_.end()) {
      return absl::InternalError(absl::StrCat("asynchronous program: ", action.name(), " waits for nothing"));
    }
    Dependency& in = *action.add_deps();
    in.set_action(in_body->second);
    in.set_distance(distance);
    return absl::OkStatus();
  }

  // Places persistent buffers one after the other, and the workspaces after them. Only one workspace is in use at a
  // time.
  absl::Status PlaceBuffers() {
    int64_t end = 0;
    for (Buffer& buffer : *out_.mutable_buffers()) {
      if (end > (int64_t{1} << 61) || buffer.bytes() > (int64_t{1} << 61)) {
        return absl::ResourceExhaustedError(absl::StrCat("template ", out_.name(), ": buffers exceed 2^61 bytes"));
      }
      if (!buffer.persistent()) continue;
      buffer.set_offset(end);
      end += RoundUp(buffer.bytes(), kArenaAlignment);
    }
    int64_t workspace = 0;
    for (Buffer& buffer : *out_.mutable_buffers()) {
      if (buffer.persistent()) continue;
      buffer.set_offset(end);
      workspace = std::max<int64_t>(workspace, RoundUp(buffer.bytes(), kArenaAlignment));
    }
    out_.set_device_arena_bytes(end + workspace);
    return absl::OkStatus();
  }

  const AsynchronousPlan& made_;
  const SegmentSet& segments_;
  const Plan& plan_;
  const int rank_;
  // Microbatches per repetition.
  const int n_;
  int ranks_ = 1;
  // Forwards before the first backward of a list, on this rank and on the previous rank. The previous rank sends
  // `ahead_below_` outputs in the prologue.
  int ahead_ = 0, ahead_below_ = 0;
  int versions_ = 1;
  // The weights to all-gather after each optimizer step, as (the replica's part, the whole weight). Empty if every
  // replica updates whole weights.
  std::vector<std::pair<const SegmentOperand*, const SegmentOperand*>> gathered_;
  // Sizes of the rings, by the role of what they hold.
  std::map<Role, int> rings_;
  Template out_;
  // (role, tensor, use, place in the ring or version) -> buffer.
  std::map<std::tuple<Role, int, int, int>, int> buffers_;
  std::map<std::tuple<Event, int, bool>, int> ids_;
  std::vector<PendingDependency> pending_;
};

// Refuses what the rank level supports but this exporter does not.
absl::Status CheckSegments(const SegmentSet& segments, const std::string& schedule) {
  const auto refuse = [&](const std::string& what) {
    return absl::InvalidArgumentError(
        absl::StrCat("schedule '", schedule, "' updates the weights without a flush: ", what));
  };
  for (const LogicalTensor& tensor : segments.tensors) {
    if (tensor.uses() <= 1) continue;
    return refuse(absl::StrCat("tensor '", tensor.name(), "' is used in ", tensor.uses(),
                               " places (tied); its ranks update at different times, so their copies would differ; use "
                               "a model whose head is not tied to its embedding"));
  }
  for (const SkipTensor& skip : segments.skips) {
    return refuse(absl::StrCat("value '", skip.name, "' crosses from stage ", skip.from_stage, " to stage ",
                               skip.to_stage,
                               " by a skip connection, but only one value per stage may cross, and only to the next "
                               "stage; use a schedule that flushes"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Program> ExportAsynchronous(const AsynchronousPlan& asynchronous, const SegmentSet& segments,
                                           const Plan& plan) {
  WEFT_RETURN_IF_ERROR(CheckSegments(segments, plan.schedule().name()));
  Program out;
  *out.mutable_mesh() = plan.mesh();
  out.set_schedule(plan.schedule().name());
  out.set_stages(static_cast<int32_t>(segments.stages.size()));
  out.set_microbatches(asynchronous.microbatches);
  out.set_steps_per_repetition(asynchronous.steps_per_repetition);
  for (const LogicalTensor& tensor : segments.tensors) *out.add_tensors() = tensor;
  for (const StageSegment& segment : segments.segments) *out.add_segments() = segment.segment;
  for (int rank = 0; rank < static_cast<int>(asynchronous.schedule.order.size()); ++rank) {
    WEFT_ASSIGN_OR_RETURN(*out.add_templates(), RankExporter(asynchronous, segments, plan, rank).Export());
    ChainCompute(out, out.mutable_templates(rank));
  }
  return out;
}

}  // namespace weft
