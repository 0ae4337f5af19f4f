#include "simulator/testing/test_programs.h"

#include <algorithm>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/parse_text.h"

namespace weft::sim {
namespace {

Coordinate MakeCoordinate(const std::string& axis, int64_t index) {
  Coordinate coordinate;
  coordinate.set_axis(axis);
  coordinate.set_index(index);
  return coordinate;
}

int AddBuffer(Template& t, BufferClass buffer_class, int64_t bytes, bool persistent) {
  Buffer* buffer = t.add_buffers();
  buffer->set_name(absl::StrCat("b", t.buffers_size() - 1));
  buffer->set_class_(buffer_class);
  buffer->set_dtype(FP32);
  buffer->set_bytes(bytes);
  buffer->set_persistent(persistent);
  return t.buffers_size() - 1;
}

void AddDependency(Action& action, int id, int distance) {
  Dependency* dep = action.add_deps();
  dep->set_action(id);
  dep->set_distance(distance);
}

// ---- Random programs.

using Random = std::mt19937_64;

// Returns a uniform number in [0, bound).
int Below(Random& random, int bound) { return static_cast<int>(random() % bound); }

int64_t Size(const Mesh& mesh, const std::string& axis) {
  for (const MeshAxis& candidate : mesh.axes()) {
    if (candidate.name() == axis) return candidate.size();
  }
  return 1;
}

// Returns a group over x (all, blocks, or places in blocks), over data, or over both; and its number of members.
std::pair<Group, int64_t> RandomStepGroup(Random& random, const Mesh& mesh) {
  Group group;
  int64_t members = 1;
  const int choice = Below(random, 6);
  if (choice < 4) {
    const int64_t x = Size(mesh, "x");
    AxisSubset* axis = group.add_axes();
    axis->set_axis("x");
    if (choice == 1 && x % 2 == 0) axis->set_block(2);
    if (choice == 2 && x % 2 == 0) axis->set_stride(2);
    members = axis->block() > 0 ? 2 : axis->stride() > 0 ? x / 2 : x;
  }
  if (choice >= 3) {
    group.add_axes()->set_axis("data");
    members *= Size(mesh, "data");
  }
  return {group, members};
}

// Makes `step` a collective of one or two buffers, with new values.
void MakeCollective(Random& random, const Mesh& mesh, Segment& segment, Step& step) {
  int64_t members = 1;
  std::tie(*step.mutable_collective()->mutable_group(), members) = RandomStepGroup(random, mesh);
  step.set_stream(COLLECTIVE);
  step.set_kernel(static_cast<Kernel>(GROUP_ALL_REDUCE + Below(random, 3)));
  step.mutable_collective()->set_purpose(static_cast<Purpose>(TENSOR + Below(random, 3)));
  step.mutable_collective()->set_algorithm(Below(random, 2) == 0 ? "ring" : "direct");
  for (int i = 1 + Below(random, 2); i > 0; --i) {
    const int64_t part = 1 + Below(random, 3);
    const auto add_value = [&](int64_t rows) {
      Value* value = segment.add_values();
      value->set_dtype(Below(random, 2) == 0 ? FP32 : BF16);
      value->add_shape(rows);
      value->add_shape(part);
      return segment.values_size() - 1;
    };
    step.add_inputs(add_value(step.kernel() == GROUP_ALL_GATHER ? 1 : members));
    step.add_outputs(add_value(step.kernel() == GROUP_REDUCE_SCATTER ? 1 : members));
    segment.mutable_values(step.outputs(step.outputs_size() - 1))
        ->set_dtype(segment.values(step.inputs(step.inputs_size() - 1)).dtype());
  }
}

Segment RandomSegment(Random& random, const Mesh& mesh, int index) {
  Segment segment;
  segment.set_name(absl::StrCat("segment", index));
  for (int i = 0; i < 2; ++i) {
    Operand* operand = segment.add_operands();
    operand->set_name(absl::StrCat("operand", i));
    operand->set_access(i == 0 ? WRITE : READ_WRITE);
  }
  // The first two segments use the compute stream only, because actions in the queues of a dynamic order require that.
  const int streams = index < 2 ? 1 : index < 4 ? 3 : 5;
  const int steps = 1 + Below(random, index < 4 ? 5 : 8);
  for (int i = 0; i < steps; ++i) {
    Step* step = segment.add_steps();
    step->set_name(absl::StrCat("step", i));
    const int stream = Below(random, streams);
    if (stream < 3) {
      step->set_stream(static_cast<StreamKind>(stream));
    } else {
      MakeCollective(random, mesh, segment, *step);
    }
    for (int dep = 0; dep < i; ++dep) {
      if (Below(random, 3) == 0) step->add_deps(dep);
    }
    step->set_detached(Below(random, 5) == 0);
  }
  segment.mutable_steps(Below(random, steps))->set_detached(false);
  return segment;
}

class RandomBuilder {
 public:
  explicit RandomBuilder(uint64_t seed) : random_(seed) {}

  Program Build() {
    pipe_ = 1 + Below(random_, 3);
    data_ = 1 + Below(random_, 2);
    // Keep ranks few: the oracle's time grows with the square of the number of steps.
    x_ = pipe_ * data_ > 4 ? 1 : pipe_ * data_ > 2 ? 1 + Below(random_, 2) : 1 << Below(random_, 3);
    const bool data_inside = Below(random_, 2) == 0;
    for (const char* axis : {data_inside ? "data" : "pipe", data_inside ? "pipe" : "data"}) {
      MeshAxis* mesh_axis = program_.mutable_mesh()->add_axes();
      mesh_axis->set_name(axis);
      mesh_axis->set_size(axis[0] == 'd' ? data_ : pipe_);
    }
    MeshAxis* x = program_.mutable_mesh()->add_axes();
    x->set_name("x");
    x->set_size(x_);
    if (Below(random_, 2) == 0) program_.mutable_mesh()->mutable_axes()->SwapElements(0, 2);
    program_.set_step_barrier(Below(random_, 4) == 0);
    program_.set_compute_order(static_cast<ComputeOrder>(std::max(0, Below(random_, 4) - 1)));
    program_.set_transfer_streams(static_cast<TransferStreams>(std::max(0, Below(random_, 4) - 1)));
    for (int i = 0; i < 7; ++i) *program_.add_segments() = RandomSegment(random_, program_.mesh(), i);
    for (int p = 0; p < pipe_; ++p) {
      Template* t = program_.add_templates();
      t->set_name(absl::StrCat("pipe", p));
      *t->add_pins() = MakeCoordinate("pipe", p);
      AddBuffer(*t, PARAMETER, 1000, /*persistent=*/true);
    }
    next_id_.assign(pipe_, 0);
    kept_.resize(pipe_);
    FillList(&Template::mutable_prologue, Below(random_, 4));
    FillList(&Template::mutable_body, 3 + Below(random_, 25));
    FillList(&Template::mutable_epilogue, Below(random_, 4));
    AddBackwardDependencies();
    return program_;
  }

 private:
  using List = google::protobuf::RepeatedPtrField<Action>;

  // Generates events one after the other for all templates. Appends each event to the list of every template that takes
  // part. This order is free of deadlock.
  void FillList(List* (Template::*list)(), int count) {
    for (int i = 0; i < count; ++i) {
      const int p = Below(random_, pipe_);
      const int choice = Below(random_, 10);
      if (choice < 5) {
        AddCompute(p, list);
      } else if (choice < 8 && pipe_ > 1) {
        Below(random_, 3) > 0 ? AddTransfer(p, AnotherThan(p), list) : AddTransferGroup(list);
      } else {
        AddCollective(p, list);
      }
    }
    for (auto& kept : kept_) {
      for (const auto& [writer, buffer] : kept) writer->add_releases(buffer);
      kept.clear();
    }
  }

  // Makes actions wait for actions of earlier repetitions that come later in the list.
  void AddBackwardDependencies() {
    for (Template& t : *program_.mutable_templates()) {
      for (int i = 0; i < t.body_size(); ++i) {
        const int later = i + Below(random_, t.body_size() - i);
        if (Below(random_, 6) == 0) AddDependency(*t.mutable_body(i), t.body(later).id(), 1 + Below(random_, 2));
      }
    }
  }

  int AnotherThan(int p) { return (p + 1 + Below(random_, pipe_ - 1)) % pipe_; }

  Action& NewAction(int p, List* (Template::*list)(), ActionKind kind, const std::string& name, int group = 0) {
    Template& t = *program_.mutable_templates(p);
    List& actions = *(t.*list)();
    Action action;
    action.set_id(next_id_[p]);
    // Ids ascend but need not be dense.
    next_id_[p] += 1 + Below(random_, 2);
    action.set_kind(kind);
    action.set_name(absl::StrCat(name, " ", action.id()));
    action.set_transfer_group(group);
    const bool body = &actions == t.mutable_body();
    for (const Action& earlier : actions) {
      // Actions that start together cannot wait for each other.
      if (in_group_event_ && earlier.id() >= event_first_[p]) continue;
      if (Below(random_, 6) == 0) AddDependencyOn(action, earlier, body ? Below(random_, 3) : 0);
    }
    if (body) {
      if (Below(random_, 8) == 0) AddDependency(action, action.id(), 1);
      for (const Action& earlier : t.prologue()) {
        if (Below(random_, 10) == 0) AddDependencyOn(action, earlier, 0);
      }
    } else if (t.body_size() > 0) {
      for (const Action& earlier : t.body()) {
        if (Below(random_, 10) == 0) AddDependencyOn(action, earlier, 0);
      }
    }
    *actions.Add() = action;
    return *(actions.end() - 1);
  }

  // Makes the action wait for `earlier`. In half of the cases it waits for the detached steps of `earlier` too, if
  // there are any.
  void AddDependencyOn(Action& action, const Action& earlier, int distance) {
    AddDependency(action, earlier.id(), distance);
    if (earlier.operands_size() == 0 || Below(random_, 2) == 0) return;
    for (const Step& step : program_.segments(earlier.segment()).steps()) {
      if (step.detached()) action.mutable_deps(action.deps_size() - 1)->set_detached(true);
    }
  }

  void AddCompute(int p, List* (Template::*list)()) {
    Template& t = *program_.mutable_templates(p);
    const bool dynamic = program_.compute_order() != STATIC_ORDER;
    constexpr ActionKind kKinds[] = {FORWARD,        BACKWARD,        FORWARD,        BACKWARD,
                                     BACKWARD_INPUT, BACKWARD_WEIGHT, OPTIMIZER_STEP, FORWARD_BACKWARD};
    const ActionKind kind = kKinds[Below(random_, dynamic ? 7 : 8)];
    Action& action = NewAction(p, list, kind, "compute");
    // Actions in the queues of a dynamic order may use the compute stream only.
    action.set_segment(Below(random_, dynamic && kind != OPTIMIZER_STEP ? 2 : program_.segments_size()));
    // The first operand is a new buffer, the second the persistent one. The buffer dies with this action or with the
    // next compute action of the list.
    const int buffer = AddBuffer(t, static_cast<BufferClass>(2 + Below(random_, 6)), 1 + Below(random_, 1000),
                                 /*persistent=*/false);
    action.add_operands(buffer);
    action.add_operands(0);
    for (const auto& [writer, kept] : std::exchange(kept_[p], {})) {
      AddDependency(action, writer->id(), 0);
      action.add_releases(kept);
    }
    if (Below(random_, 2) == 0) {
      action.add_releases(buffer);
    } else {
      kept_[p].push_back({&action, buffer});
    }
  }

  struct Transfer {
    int from = 0;
    int to = 0;
    int lane = 0;
    int skip = 0;
    int64_t bytes = 0;

    bool SameChannel(const Transfer& other) const {
      return std::tie(from, to, lane, skip) == std::tie(other.from, other.to, other.lane, other.skip);
    }
  };

  Transfer RandomTransfer(int from, int to) {
    return {from, to, Below(random_, 2), std::max(0, Below(random_, 4) - 2), 1 + Below(random_, 5)};
  }

  void AddSide(const Transfer& transfer, bool is_send, int group, List* (Template::*list)()) {
    const int p = is_send ? transfer.from : transfer.to;
    Action& action = NewAction(p, list, is_send ? SEND : RECV, is_send ? "send" : "recv", group);
    *action.mutable_peer()->add_at() = MakeCoordinate("pipe", is_send ? transfer.to : transfer.from);
    action.set_lane(transfer.lane);
    action.set_skip(transfer.skip);
    action.set_direction(transfer.from < transfer.to ? TOWARDS_LOSS : FROM_LOSS);
    Template& t = *program_.mutable_templates(p);
    const int buffer = AddBuffer(t, IN_FLIGHT_ACTIVATION, transfer.bytes, /*persistent=*/is_send);
    (is_send ? action.add_sources(buffer) : action.add_destinations(buffer));
    if (!is_send) action.add_releases(buffer);
  }

  void AddTransfer(int from, int to, List* (Template::*list)()) {
    const Transfer transfer = RandomTransfer(from, to);
    for (const bool is_send : {true, false}) AddSide(transfer, is_send, 0, list);
  }

  // Adds several transfers that start together. On each rank, all its transfers form a group, or only its sends or only
  // its receives do.
  void AddTransferGroup(List* (Template::*list)()) {
    std::vector<Transfer> transfers;
    bool same_channel = false;
    for (int i = 2 + Below(random_, 3); i > 0; --i) {
      const int from = Below(random_, pipe_);
      const Transfer transfer = RandomTransfer(from, AnotherThan(from));
      for (const Transfer& other : transfers) same_channel |= other.SameChannel(transfer);
      transfers.push_back(transfer);
    }
    ++groups_;
    in_group_event_ = true;
    event_first_ = next_id_;
    // Two messages of one channel are in flight together only if both sides have them in a group. If transfers share
    // streams and only one side has the group, the group could wait for a transfer that the other side can start only
    // after another transfer of the same group.
    const bool both_sides = same_channel || program_.transfer_streams() != PER_EDGE || Below(random_, 2) == 0;
    const bool sends_together = both_sides || Below(random_, 2) == 0;
    const bool recvs_together = both_sides || !sends_together;
    for (int p = 0; p < pipe_; ++p) {
      for (const Transfer& transfer : transfers) {
        if (transfer.from == p) AddSide(transfer, true, sends_together ? groups_ : 0, list);
        if (transfer.to == p) AddSide(transfer, false, recvs_together ? groups_ : 0, list);
      }
    }
    in_group_event_ = false;
  }

  void AddCollective(int p, List* (Template::*list)()) {
    const int choice = Below(random_, 4);
    const Purpose purpose = static_cast<Purpose>(1 + Below(random_, 4));
    Group group;
    std::vector<int> members;
    if (choice < 2 || pipe_ == 1) {
      // The replicas of one stage. Some of these groups list all indices of the axis explicitly.
      AxisSubset* axis = group.add_axes();
      axis->set_axis("data");
      for (int i = 0; choice == 0 && i < data_; ++i) axis->add_indices(i);
      members = {p};
    } else if (choice == 2) {
      // The first and the last stage.
      AxisSubset* axis = group.add_axes();
      axis->set_axis("pipe");
      axis->add_indices(0);
      axis->add_indices(pipe_ - 1);
      members = {0, pipe_ - 1};
    } else {
      group.add_axes()->set_axis("pipe");
      group.add_axes()->set_axis("data");
      for (int i = 0; i < pipe_; ++i) members.push_back(i);
    }
    if (Below(random_, 4) == 0) group.add_axes()->set_axis("x");
    int64_t ranks = static_cast<int64_t>(members.size());
    for (const AxisSubset& axis : group.axes()) ranks *= axis.axis() == "x" ? x_ : axis.axis() == "data" ? data_ : 1;
    const int64_t bytes = 4 * (1 + Below(random_, 100));
    const char* algorithm = Below(random_, 2) == 0 ? "ring" : "direct";
    const ActionKind kind = static_cast<ActionKind>(
        std::vector<int>{ALL_REDUCE, ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER}[Below(random_, 4)]);
    for (const int member : members) {
      Action& action = NewAction(member, list, kind, "collective");
      *action.mutable_group() = group;
      action.set_purpose(purpose);
      action.set_algorithm(algorithm);
      Template& t = *program_.mutable_templates(member);
      const int64_t source_bytes = kind == ALL_GATHER ? bytes : bytes * ranks;
      const int buffer = AddBuffer(t, COMMUNICATION, bytes * ranks, /*persistent=*/false);
      if (kind == ALL_REDUCE) {
        action.add_sources(buffer);
      } else {
        action.add_sources(AddBuffer(t, COMMUNICATION, source_bytes, /*persistent=*/true));
        t.mutable_buffers(buffer)->set_bytes(kind == ALL_GATHER ? bytes * ranks : bytes);
      }
      action.add_destinations(buffer);
      action.add_releases(buffer);
    }
  }

  Random random_;
  Program program_;
  int pipe_ = 1;
  int data_ = 1;
  int x_ = 1;
  int groups_ = 0;
  // True while the transfers of a group are added. `event_first_` then has, for each template, the first action id that
  // belongs to the group.
  bool in_group_event_ = false;
  std::vector<int> event_first_;
  std::vector<int> next_id_;
  // For each template, (writer, buffer) of the current list's buffers that no action releases yet.
  std::vector<std::vector<std::pair<Action*, int>>> kept_;
};

}  // namespace

Program GPipeProgram(int ranks, int microbatches, int64_t bytes) {
  Program program;
  program.set_name("gpipe");
  program.set_schedule("gpipe");
  program.set_stages(ranks);
  program.set_microbatches(microbatches);
  MeshAxis* axis = program.mutable_mesh()->add_axes();
  axis->set_name("pipe");
  axis->set_size(ranks);
  for (const char* name : {"forward", "backward"}) {
    Segment* segment = program.add_segments();
    segment->set_name(name);
    Operand* operand = segment->add_operands();
    operand->set_name("saved");
    operand->set_bytes(bytes);
    operand->set_access(segment->name() == "forward" ? WRITE : READ);
    segment->add_steps()->set_name(absl::StrCat(name, " step"));
  }
  for (int rank = 0; rank < ranks; ++rank) {
    Template* t = program.add_templates();
    t->set_name(absl::StrCat("stage", rank));
    *t->add_pins() = MakeCoordinate("pipe", rank);
    AddBuffer(*t, PARAMETER, 10 * bytes, /*persistent=*/true);
    int id = 0;
    int last_id = -1;
    const auto add = [&](ActionKind kind, const std::string& name, int microbatch) {
      Action& action = *t->add_body();
      action.set_id(id++);
      action.set_kind(kind);
      action.set_name(absl::StrCat(name, " s", rank, " m", microbatch));
      action.set_stage(rank);
      action.set_microbatch(microbatch);
      return &action;
    };
    const auto transfer = [&](ActionKind kind, int peer, Direction direction, int microbatch) {
      const int buffer = AddBuffer(*t, IN_FLIGHT_ACTIVATION, bytes, /*persistent=*/kind == SEND);
      Action& action = *add(kind, kind == SEND ? "send" : "recv", microbatch);
      *action.mutable_peer()->add_at() = MakeCoordinate("pipe", peer);
      action.set_direction(direction);
      if (kind == SEND) {
        AddDependency(action, last_id, 0);
        action.add_sources(buffer);
      } else {
        action.add_destinations(buffer);
      }
      last_id = action.id();
      return buffer;
    };
    std::vector<int> saved;
    for (const bool forward : {true, false}) {
      const Direction direction = forward ? TOWARDS_LOSS : FROM_LOSS;
      const int from = forward ? rank - 1 : rank + 1;
      const int to = forward ? rank + 1 : rank - 1;
      for (int m = 0; m < microbatches; ++m) {
        const bool receives = from >= 0 && from < ranks;
        const int received = receives ? transfer(RECV, from, direction, m) : -1;
        Action& compute = *add(forward ? FORWARD : BACKWARD, forward ? "F" : "B", m);
        if (receives) {
          AddDependency(compute, last_id, 0);
          compute.add_releases(received);
        }
        last_id = compute.id();
        compute.set_segment(forward ? 0 : 1);
        if (forward) saved.push_back(AddBuffer(*t, SAVED_ACTIVATION, bytes, /*persistent=*/false));
        compute.add_operands(saved[m]);
        if (!forward) compute.add_releases(saved[m]);
        if (to >= 0 && to < ranks) transfer(SEND, to, direction, m);
      }
    }
  }
  return program;
}

void AddGradientSync(Program& program) {
  for (Template& t : *program.mutable_templates()) {
    Action& action = *t.add_body();
    action.set_id(1000);
    action.set_kind(ALL_REDUCE);
    AddDependency(action, t.body(t.body_size() - 2).id(), 0);
    action.add_sources(0);
    action.add_destinations(0);
    action.mutable_group()->add_axes()->set_axis("data");
    action.set_purpose(GRADIENT_SYNC);
    action.set_algorithm("ring");
  }
}

Program OneSegmentProgram(const std::vector<std::string>& steps) {
  Program program = Parse<Program>(R"pb(
    mesh { axes { name: "x" size: 2 } }
    segments { values { dtype: FP32 shape: 8 } }
    templates { body { kind: FORWARD } }
  )pb");
  for (const std::string& step : steps) *program.mutable_segments(0)->add_steps() = Parse<Step>(step);
  return program;
}

Program RandomEngineProgram(uint64_t seed) { return RandomBuilder(seed).Build(); }

}  // namespace weft::sim
