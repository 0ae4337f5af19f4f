#include "executor/testing/test_pipeline.h"

#include <algorithm>
#include <initializer_list>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace weft::exec {
namespace {

constexpr int kElements = 2;
constexpr int64_t kBytes = kElements * 8;

// Segments of the program, by index.
enum { kFill, kDouble, kAnswer, kHandDown, kTake, kEnd };

// Each element of `steps` lists operands, {inputs..., output}. The step is FILL if it has no inputs, else ADD, and uses
// whole operands.
void AddSegment(Program& program, const std::string& name, std::initializer_list<Access> operands,
                std::initializer_list<std::vector<int>> steps) {
  Segment& segment = *program.add_segments();
  segment.set_name(name);
  for (const Access access : operands) {
    Operand& operand = *segment.add_operands();
    operand.set_name(absl::StrCat("o", segment.operands_size() - 1));
    operand.set_bytes(kBytes);
    operand.set_access(access);
    Value& value = *segment.add_values();
    value.set_operand(segment.operands_size() - 1);
    value.set_dtype(FP64);
    value.add_shape(kElements);
  }
  for (const std::vector<int>& values : steps) {
    Step& step = *segment.add_steps();
    step.set_name(absl::StrCat(name, " ", segment.steps_size() - 1));
    step.set_kernel(values.size() == 1 ? FILL : ADD);
    if (values.size() == 1) step.mutable_attributes()->set_value(1);
    for (size_t i = 0; i + 1 < values.size(); ++i) step.add_inputs(values[i]);
    step.add_outputs(values.back());
  }
}

class RankBuilder {
 public:
  RankBuilder(const TestPipeline& pipeline, int rank, Template* t) : pipeline_(pipeline), rank_(rank), t_(*t) {
    t_.set_name(absl::StrCat("stage", rank));
    t_.add_pins()->set_axis("pipe");
    t_.mutable_pins(0)->set_index(rank);
    sum_ = Buffer("sum", /*persistent=*/true);
    result_ = Buffer("result", /*persistent=*/true);
    if (rank == 0) t_.mutable_buffers(result_)->set_role(LOSSES);
    forward_.resize(pipeline.microbatches, -1);
    backward_.resize(pipeline.microbatches, -1);
    x_.resize(pipeline.microbatches);
  }

  void Build() {
    const int n = pipeline_.microbatches;
    const int ahead = std::min(n, pipeline_.ranks - 1 - rank_);
    for (int m = 0; m < ahead; ++m) Forward(m);
    for (int m = 0; m < n; ++m) {
      // Each send is in a group with the receive that follows it and is from the same neighbor. On that neighbor, the
      // receive of the group comes before the send.
      if (ahead + m < n) Forward(ahead + m, 2 * m, 2 * m + 1);
      Backward(m, 2 * m + 1, 2 * m + 2);
    }
    Action& end = Add(OPTIMIZER_STEP, "end", 0);
    end.set_segment(kEnd);
    for (const int buffer : {sum_, result_}) end.add_operands(buffer);
    // A RECV overwrites what the previous repetition read, and an action overwrites what the previous repetition sent.
    // Both wait for the previous repetition.
    for (Action& action : *t_.mutable_body()) {
      if (action.kind() == RECV) Depend(action, consumer_.at(action.destinations(0)), 1);
    }
    for (Action& action : *t_.mutable_body()) {
      if (action.kind() == SEND) Depend(*t_.mutable_body(writer_.at(action.sources(0))), action.id(), 1);
    }
    t_.set_device_arena_bytes(256 * t_.buffers_size());
    consumer_.clear();
  }

 private:
  bool First() const { return rank_ == 0; }
  bool Last() const { return rank_ + 1 == pipeline_.ranks; }

  int Buffer(const std::string& name, bool persistent) {
    weft::Buffer& buffer = *t_.add_buffers();
    buffer.set_name(name);
    buffer.set_class_(IN_FLIGHT_ACTIVATION);
    buffer.set_dtype(FP64);
    buffer.add_shape(kElements);
    buffer.set_bytes(kBytes);
    buffer.set_offset(256 * (t_.buffers_size() - 1));
    buffer.set_persistent(persistent);
    writer_.push_back(-1);
    consumer_.push_back(-1);
    return t_.buffers_size() - 1;
  }

  Action& Add(ActionKind kind, const std::string& name, int m) {
    Action& action = *t_.add_body();
    action.set_id(t_.body_size() - 1);
    action.set_kind(kind);
    action.set_name(absl::StrCat(name, " s", rank_, " m", m));
    action.set_stage(rank_);
    action.set_microbatch(m);
    return action;
  }

  static void Depend(Action& action, int id, int distance) {
    action.add_deps()->set_action(id);
    action.mutable_deps(action.deps_size() - 1)->set_distance(distance);
  }

  // Adds a RECV. Returns the buffer that it fills, and in `id` the action's id.
  int Receive(int peer, Direction direction, int m, int group, int* id) {
    Action& action = Add(RECV, "R", m);
    const int buffer = Buffer(absl::StrCat("in", m), false);
    action.add_destinations(buffer);
    Transfer(action, peer, direction, group);
    *id = action.id();
    return buffer;
  }

  void Send(int peer, Direction direction, int m, int group, int buffer, int after) {
    Action& action = Add(SEND, "S", m);
    action.add_sources(buffer);
    Depend(action, after, 0);
    writer_[buffer] = after;
    Transfer(action, peer, direction, group);
  }

  void Transfer(Action& action, int peer, Direction direction, int group) {
    action.mutable_peer()->add_at()->set_axis("pipe");
    action.mutable_peer()->mutable_at(0)->set_index(peer);
    action.set_direction(direction);
    if (pipeline_.groups) action.set_transfer_group(group);
  }

  // `before` and `after` are the groups of the receive and of the send; 0 = none.
  void Forward(int m, int before = 0, int after = 0) {
    int received = -1, in = -1;
    if (!First()) in = Receive(rank_ - 1, TOWARDS_LOSS, m, before, &received);
    x_[m] = Buffer(absl::StrCat("x", m), false);
    Action& action = Add(FORWARD, "F", m);
    action.set_segment(First() ? kFill : kDouble);
    if (!First()) {
      action.add_operands(in);
      Depend(action, received, 0);
      consumer_[in] = action.id();
    }
    action.add_operands(x_[m]);
    if (m >= pipeline_.limit) Depend(action, backward_[m - pipeline_.limit], 0);
    forward_[m] = action.id();
    const int id = action.id();
    if (!Last()) Send(rank_ + 1, TOWARDS_LOSS, m, after, x_[m], id);
  }

  void Backward(int m, int before, int after) {
    int received = -1;
    int in = x_[m];
    if (!Last()) in = Receive(rank_ + 1, FROM_LOSS, m, before, &received);
    Action& action = Add(BACKWARD, "B", m);
    action.add_operands(in);
    action.add_operands(sum_);
    int out = -1;
    if (!First()) {
      out = Buffer(absl::StrCat("dx", m), false);
      action.add_operands(out);
    }
    action.set_segment(First() ? kTake : Last() ? kAnswer : kHandDown);
    Depend(action, forward_[m], 0);
    if (!Last()) {
      Depend(action, received, 0);
      consumer_[in] = action.id();
    }
    backward_[m] = action.id();
    const int id = action.id();
    if (!First()) Send(rank_ - 1, FROM_LOSS, m, after, out, id);
  }

  const TestPipeline& pipeline_;
  const int rank_;
  Template& t_;
  int sum_ = -1, result_ = -1;
  // By microbatch.
  std::vector<int> forward_, backward_, x_;
  // By buffer: the action that writes what is sent, and the action that reads what is received.
  std::vector<int> writer_, consumer_;
};

}  // namespace

Program TestPipelineProgram(const TestPipeline& pipeline) {
  Program program;
  program.set_name("test pipeline");
  program.set_microbatches(pipeline.microbatches);
  program.set_compute_order(pipeline.order);
  program.set_transfer_streams(pipeline.streams);
  program.mutable_mesh()->add_axes()->set_name("pipe");
  program.mutable_mesh()->mutable_axes(0)->set_size(pipeline.ranks);
  program.mutable_recipe()->set_global_batch_sequences(pipeline.microbatches);
  AddSegment(program, "fill", {WRITE}, {{0}});
  AddSegment(program, "double", {READ, WRITE}, {{0, 0, 1}});
  // Operands of "answer" and "hand down": in, sum, out.
  AddSegment(program, "answer", {READ, READ_WRITE, WRITE}, {{0, 0, 2}, {2, 1, 1}});
  AddSegment(program, "hand down", {READ, READ_WRITE, WRITE}, {{0, 1, 1}, {0, 0, 2}});
  AddSegment(program, "take", {READ, READ_WRITE}, {{0, 1, 1}});
  // The second step fills `sum` with the value from which the next repetition starts.
  AddSegment(program, "end", {READ_WRITE, WRITE}, {{0, 0, 1}, {0}});
  for (int rank = 0; rank < pipeline.ranks; ++rank) RankBuilder(pipeline, rank, program.add_templates()).Build();
  return program;
}

absl::Status AddingBackend::Run(const Step& step, absl::Span<const TensorView> inputs,
                                absl::Span<const TensorView> outputs, const StepContext& context) {
  double* y = static_cast<double*>(outputs[0].data);
  for (int i = 0; i < kElements; ++i) {
    y[i] = step.kernel() == ADD
               ? static_cast<const double*>(inputs[0].data)[i] + static_cast<const double*>(inputs[1].data)[i]
               : step.attributes().value() + 1000.0 * static_cast<double>(context.step) +
                     static_cast<double>(context.global_microbatch);
  }
  return absl::OkStatus();
}

double TestPipelineLoss(const TestPipeline& pipeline, int64_t first_step, int64_t step) {
  double sum = step == first_step ? 0 : 1 + 1000.0 * static_cast<double>(step - 1);
  for (int m = 0; m < pipeline.microbatches; ++m) {
    double value = 1 + 1000.0 * static_cast<double>(step) + m;
    for (int rank = 1; rank < pipeline.ranks; ++rank) value *= 4;
    sum += value;
  }
  return kElements * 2 * sum;
}

}  // namespace weft::exec
