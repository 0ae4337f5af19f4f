// Tests which steps share a launch: steps of one key that are independent of each other and of other streams, and norms
// with the ADDs before or after them.
#include "proto/util/step_runs.h"

#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace weft {
namespace {

// Steps on floats of one memory. A range is {first element, number of elements}.
class Steps {
 public:
  using Ranges = std::vector<std::pair<int, int>>;

  PlacedStep& Add(Kernel kernel, const Ranges& in, const Ranges& out, DType in_type = FP32, DType out_type = FP32) {
    auto step = std::make_unique<Step>();
    step->set_kernel(kernel);
    step->set_stream(COMPUTE);
    PlacedStep& use = uses_.emplace_back();
    use.step = step.get();
    protos_.push_back(std::move(step));
    for (const auto& range : in) use.inputs.push_back(Touch(range, in_type));
    for (const auto& range : out) use.outputs.push_back(Touch(range, out_type));
    return use;
  }
  Step& Proto(int i) { return *protos_[i]; }
  PlacedStep& Use(int i) { return uses_[i]; }
  std::vector<StepRange> Updates() const { return FindUpdateRuns(uses_); }
  std::vector<StepRange> Norms() const { return FindNormRuns(uses_); }

 private:
  static StepTouch Touch(const std::pair<int, int>& range, DType type) {
    const auto at = [](int element) { return static_cast<uint64_t>(4 * element); };
    return {at(range.first), at(range.first + range.second), type};
  }

  std::vector<PlacedStep> uses_;
  std::vector<std::unique_ptr<Step>> protos_;
};

using Runs = std::vector<StepRange>;

TEST(UpdateRunsTest, NeighborsOfOneKernel) {
  Steps steps;
  steps.Add(NORM_TOTAL, {{0, 1}}, {{1, 1}});
  for (int i = 0; i < 3; ++i) steps.Add(SCALE, {{1, 1}, {10 + 10 * i, 10}}, {{10 + 10 * i, 10}});
  for (int i = 0; i < 2; ++i) steps.Add(FILL, {}, {{50 + 10 * i, 10}});
  steps.Add(NORM_TOTAL, {{0, 1}}, {{1, 1}});
  EXPECT_EQ(steps.Updates(), (Runs{{1, 5, {{1, 2, 3}, {4, 5}}}}));
}

TEST(UpdateRunsTest, OneAloneIsNone) {
  Steps steps;
  steps.Add(FILL, {}, {{0, 10}});
  steps.Add(CAST, {{0, 10}}, {{10, 10}});
  steps.Add(FILL, {}, {{0, 10}});
  EXPECT_EQ(steps.Updates(), Runs());
}

// Kernels alternate like this in exact accumulation and in buckets of offloaded states.
TEST(UpdateRunsTest, KernelsThatTakeTurns) {
  Steps exact;
  for (int i = 0; i < 3; ++i) {
    exact.Add(EXACT_ROUND, {{100 * i, 60}}, {{1000 + 10 * i, 10}});
    exact.Add(FILL, {}, {{100 * i, 60}});
    exact.Add(SQUARED_NORM, {{1000 + 10 * i, 10}}, {{2000, 3}});
    exact.Proto(3 * i + 2).mutable_attributes()->set_slot(i);
  }
  EXPECT_EQ(exact.Updates(), (Runs{{0, 9, {{0, 3, 6}, {1, 4, 7}, {2, 5, 8}}}}));
  // Each round writes its result over the result of the round before.
  Steps shared;
  for (int i = 0; i < 2; ++i) {
    shared.Add(EXACT_ROUND, {{100 * i, 60}}, {{1000, 10}});
    shared.Add(SQUARED_NORM, {{1000, 10}}, {{2000 + i, 1}});
  }
  EXPECT_EQ(shared.Updates(), Runs());
}

TEST(UpdateRunsTest, OneThatIsUnlikeBreaksNoRun) {
  Steps types;
  for (int i = 0; i < 5; ++i) types.Add(CAST, {{10 * i, 10}}, {{100 + 10 * i, 10}}, FP32, i == 2 ? FP16 : BF16);
  EXPECT_EQ(types.Updates(), (Runs{{0, 5, {{0, 1, 3, 4}, {2}}}}));
  Steps values;
  for (int i = 0; i < 3; ++i) {
    values.Add(FILL, {}, {{10 * i, 10}});
    values.Proto(i).mutable_attributes()->set_value(i == 1 ? 1 : 0);
  }
  EXPECT_EQ(values.Updates(), (Runs{{0, 3, {{0, 2}, {1}}}}));
  Steps betas;
  for (int i = 0; i < 4; ++i) {
    betas.Add(ADAMW, {{10 * i, 10}}, {{10 * i, 10}});
    betas.Proto(i).mutable_attributes()->set_beta1(i < 2 ? 0.9 : 0.8);
    betas.Proto(i).mutable_attributes()->set_weight_decay(i % 2);
  }
  EXPECT_EQ(betas.Updates(), (Runs{{0, 4, {{0, 1}, {2, 3}}}}));
}

TEST(UpdateRunsTest, DependentStepsFollowTheLaunch) {
  Steps chain;
  for (int i = 0; i < 4; ++i) chain.Add(CAST, {{10 * i, 10}}, {{10 * i + 10, 10}});
  EXPECT_EQ(chain.Updates(), Runs());
  Steps written_twice;
  for (const int to : {0, 10, 5, 30}) written_twice.Add(FILL, {}, {{to, 10}});
  // The last step can share the launch of the first two.
  EXPECT_EQ(written_twice.Updates(), (Runs{{0, 4, {{0, 1, 3}, {2}}}}));
  Steps written_behind_a_read;
  written_behind_a_read.Add(CAST, {{0, 10}}, {{100, 10}});
  written_behind_a_read.Add(CAST, {{20, 10}}, {{9, 1}});
  EXPECT_EQ(written_behind_a_read.Updates(), Runs());
  Steps neighbors;
  neighbors.Add(CAST, {{0, 10}}, {{100, 10}});
  neighbors.Add(CAST, {{0, 10}}, {{110, 10}});
  neighbors.Add(CAST, {{5, 10}}, {{90, 10}});
  EXPECT_EQ(neighbors.Updates(), (Runs{{0, 3, {{0, 1, 2}}}}));
}

// This holds for any number of steps that are all unlike.
TEST(UpdateRunsTest, ManyUnlikeStepsAreCutIntoPieces) {
  Steps steps;
  constexpr int kSteps = 20000;
  for (int i = 0; i < kSteps; ++i) {
    steps.Add(FILL, {}, {{10 * i, 10}});
    steps.Proto(i).mutable_attributes()->set_value(i / 2);
  }
  size_t launches = 0;
  for (const StepRange& range : steps.Updates()) launches += range.launches.size();
  EXPECT_GE(launches, kSteps / 2u);
  EXPECT_LE(launches, kSteps / 2u + kSteps / 64u);
}

TEST(UpdateRunsTest, NormsAreElementsOfOneVector) {
  Steps steps;
  for (int i = 0; i < 4; ++i) {
    steps.Add(SQUARED_NORM, {{100 + 10 * i, 10}}, {{0, 4}});
    steps.Proto(i).mutable_attributes()->set_slot(i == 3 ? 1 : i);
  }
  EXPECT_EQ(steps.Updates(), (Runs{{0, 4, {{0, 1, 2}, {3}}}}));
}

TEST(UpdateRunsTest, OtherStreamsEndARun) {
  for (int what = 0; what < 4; ++what) {
    Steps steps;
    for (int i = 0; i < 4; ++i) {
      PlacedStep& use = steps.Add(FILL, {}, {{10 * i, 10}});
      if (i != 2) continue;
      if (what == 0) use.waits = true;
      if (what == 1) use.awaited = true;
      if (what == 2) steps.Proto(2).set_stream(D2H);
      if (what == 3) use.step = nullptr;
    }
    EXPECT_EQ(steps.Updates(), what == 0   ? (Runs{{0, 2, {{0, 1}}}, {2, 2, {{2, 3}}}})
                               : what == 1 ? (Runs{{0, 3, {{0, 1, 2}}}})
                                           : (Runs{{0, 2, {{0, 1}}}}))
        << what;
  }
}

TEST(UpdateRunsTest, SumsAreNotInRuns) {
  Steps steps;
  for (int i = 0; i < 2; ++i) {
    steps.Add(SCALE, {{0, 1}, {10 + 10 * i, 10}}, {{100 + 10 * i, 10}});
    steps.Proto(i).set_accumulate(i == 1);
  }
  EXPECT_EQ(steps.Updates(), Runs());
}

// An ADD (a + b -> x) before a norm (x, gamma -> y, rstd).
Steps Forward(std::pair<int, int> y = {300, 100}) {
  Steps steps;
  steps.Add(MATMUL, {{900, 10}}, {{100, 100}});
  steps.Add(ADD, {{0, 100}, {100, 100}}, {{200, 100}});
  steps.Add(RMS_NORM, {{200, 100}, {800, 10}}, {y, {700, 10}});
  return steps;
}

TEST(NormRunsTest, ASumAndItsNorm) {
  const Runs both = {{1, 2, {{1, 2}}}};
  EXPECT_EQ(Forward().Norms(), both);
  EXPECT_EQ(Forward().Updates(), Runs());
  // The norm's result may overwrite a term of the sum exactly, but not shifted by some rows. It may not overwrite the
  // sum.
  EXPECT_EQ(Forward({100, 100}).Norms(), both);
  EXPECT_EQ(Forward({50, 100}).Norms(), Runs());
  EXPECT_EQ(Forward({200, 100}).Norms(), Runs());
  // The sum may overwrite one of its terms.
  Steps in_place = Forward();
  in_place.Use(1).outputs[0] = in_place.Use(2).inputs[0] = in_place.Use(1).inputs[0];
  EXPECT_EQ(in_place.Norms(), both);
  for (int what = 0; what < 6; ++what) {
    Steps steps = Forward();
    if (what == 0) steps.Use(2).inputs[0].end += 4;
    if (what == 1) steps.Use(1).awaited = true;
    if (what == 2) steps.Use(2).waits = true;
    if (what == 3) steps.Proto(1).set_accumulate(true);
    if (what == 4) steps.Use(2).inputs[1] = steps.Use(2).inputs[0];
    if (what == 5) steps.Use(2).inputs[0].dtype = BF16;
    EXPECT_EQ(steps.Norms(), Runs()) << what;
  }
  Steps first_waits = Forward();
  first_waits.Use(1).waits = true;
  first_waits.Use(2).awaited = true;
  EXPECT_EQ(first_waits.Norms(), both);
}

// The backward of a norm (dy, x, gamma, rstd -> dx), its weights (dy, x, rstd -> dgamma), and residual + dx -> sum.
Steps Backward(bool weights, std::pair<int, int> sum = {400, 100}) {
  Steps steps;
  steps.Add(RMS_NORM_BACKWARD, {{0, 100}, {100, 100}, {800, 10}, {700, 10}}, {{200, 100}});
  if (weights) {
    steps.Add(RMS_NORM_BACKWARD_WEIGHT, {{0, 100}, {100, 100}, {700, 10}}, {{820, 10}});
    steps.Proto(1).set_accumulate(true);
  }
  steps.Add(ADD, {{300, 100}, {200, 100}}, {sum});
  return steps;
}

TEST(NormRunsTest, AGradientAndItsSum) {
  const Runs two = {{0, 2, {{0, 1}}}}, three = {{0, 3, {{1}, {0, 2}}}};
  EXPECT_EQ(Backward(false).Norms(), two);
  EXPECT_EQ(Backward(true).Norms(), three);
  EXPECT_EQ(Backward(true, {300, 100}).Norms(), three);
  // The sum may overwrite an input of the norm's backward, because the gradients of the weights have already read this
  // input.
  EXPECT_EQ(Backward(false, {0, 100}).Norms(), two);
  EXPECT_EQ(Backward(true, {0, 100}).Norms(), three);
  EXPECT_EQ(Backward(true, {50, 100}).Norms(), Runs());
  for (int what = 0; what < 5; ++what) {
    Steps steps = Backward(true);
    if (what == 0) steps.Proto(0).set_accumulate(true);
    if (what == 1) steps.Use(2).inputs[0] = steps.Use(2).inputs[1];
    if (what == 2) steps.Use(1).awaited = true;
    if (what == 3) steps.Use(1).outputs[0] = steps.Use(0).inputs[2];
    if (what == 4) steps.Proto(1).set_kernel(BIAS_GRADIENT);
    EXPECT_EQ(steps.Norms(), Runs()) << what;
  }
}

// Like Backward(), but with rows that are long enough, for a norm with or without a mean, and with the gradient of the
// bias after the sum. The gradients of weights and bias are accumulated.
constexpr int kLong = 2000;
// A norm needs more than kMinSummedNorm and at most kMaxSummedNorm columns.
constexpr int kMinSummedNorm = 1024, kMaxSummedNorm = 8192;
Steps LongBackward(bool centered, int columns = kLong, std::pair<int, int> sum = {40000, 10000}) {
  const std::pair<int, int> dy = {0, 10000}, x = {10000, 10000}, dx = {20000, 10000}, residual = {30000, 10000};
  const std::pair<int, int> gamma = {50000, columns}, mean = {60000, 5}, rstd = {60005, 5}, dgamma = {70000, columns},
                            dbeta = {80000, columns}, dbias = {90000, columns};
  Steps steps;
  if (centered) {
    steps.Add(LAYER_NORM_BACKWARD, {dy, x, gamma, mean, rstd}, {dx});
    steps.Add(LAYER_NORM_BACKWARD_WEIGHT, {dy, x, mean, rstd}, {dgamma, dbeta});
  } else {
    steps.Add(RMS_NORM_BACKWARD, {dy, x, gamma, rstd}, {dx});
    steps.Add(RMS_NORM_BACKWARD_WEIGHT, {dy, x, rstd}, {dgamma});
  }
  steps.Add(ADD, {residual, dx}, {sum});
  steps.Add(BIAS_GRADIENT, {sum}, {dbias});
  for (const int i : {1, 3}) steps.Proto(i).set_accumulate(true);
  return steps;
}

TEST(NormRunsTest, SumsOverRowsGoWithTheRows) {
  const Runs all = {{0, 4, {{0, 1, 2, 3}}}}, no_bias = {{0, 3, {{0, 1, 2}}}}, apart = {{0, 3, {{1}, {0, 2}}}};
  for (const bool centered : {false, true}) {
    EXPECT_EQ(LongBackward(centered).Norms(), all);
    EXPECT_EQ(LongBackward(centered, kMaxSummedNorm).Norms(), all);
    EXPECT_EQ(LongBackward(centered, kMinSummedNorm + 1).Norms(), all);
    EXPECT_EQ(LongBackward(centered, kMinSummedNorm).Norms(), apart);
    EXPECT_EQ(LongBackward(centered, kMaxSummedNorm + 1).Norms(), apart);
    // The sum may overwrite, row by row, a tensor that these steps read.
    for (const int place : {0, 10000, 30000}) EXPECT_EQ(LongBackward(centered, kLong, {place, 10000}).Norms(), all);
    for (int what = 0; what < 7; ++what) {
      Steps steps = LongBackward(centered);
      if (what == 0) steps.Proto(3).set_kernel(MATMUL);
      if (what == 1) steps.Use(3).waits = true;
      if (what == 2) steps.Use(2).awaited = true;
      if (what == 3) steps.Use(3).inputs[0] = steps.Use(0).inputs[0];
      // The gradient of the bias overwrites another gradient, or a tensor that these steps read.
      if (what == 4) steps.Use(3).outputs[0] = steps.Use(1).outputs[0];
      if (what == 5) steps.Use(3).outputs[0] = steps.Use(0).inputs[2];
      if (what == 6) steps.Use(3).inputs[0].dtype = BF16;
      EXPECT_EQ(steps.Norms(), no_bias) << what;
    }
    for (int what = 0; what < 4; ++what) {
      Steps steps = LongBackward(centered);
      // The gradients of the weights read another tensor, have the kernel of another norm, are computed in double, or
      // overwrite a term of the sum.
      if (what == 0) steps.Use(1).inputs[1].begin += 4;
      if (what == 1) steps.Proto(1).set_kernel(centered ? RMS_NORM_BACKWARD_WEIGHT : LAYER_NORM_BACKWARD_WEIGHT);
      if (what == 2) steps.Use(0).inputs[0].dtype = steps.Use(1).inputs[0].dtype = FP64;
      if (what == 3) steps.Use(1).outputs[0] = steps.Use(2).inputs[0];
      EXPECT_EQ(steps.Norms(), apart) << what;
    }
  }
}

TEST(NormRunsTest, AnActivationAndTheBiasBeforeIt) {
  const auto steps_of = [] {
    Steps steps;
    steps.Add(GELU_BACKWARD, {{0, 100}, {100, 100}}, {{200, 100}});
    steps.Add(BIAS_GRADIENT, {{200, 100}}, {{300, 10}});
    return steps;
  };
  const Runs both = {{0, 2, {{0, 1}}}};
  EXPECT_EQ(steps_of().Norms(), both);
  EXPECT_EQ(steps_of().Updates(), Runs());
  Steps in_place = steps_of();
  in_place.Use(0).outputs[0] = in_place.Use(1).inputs[0] = in_place.Use(0).inputs[0];
  EXPECT_EQ(in_place.Norms(), both);
  for (int what = 0; what < 6; ++what) {
    Steps steps = steps_of();
    if (what == 0) steps.Proto(0).set_kernel(SILU_BACKWARD);
    if (what == 1) steps.Proto(1).set_kernel(MATMUL);
    if (what == 2) steps.Use(0).awaited = true;
    if (what == 3) steps.Use(1).waits = true;
    if (what == 4) steps.Use(1).inputs[0].begin += 4;
    if (what == 5) steps.Use(1).outputs[0] = steps.Use(0).inputs[1];
    EXPECT_EQ(steps.Norms(), Runs()) << what;
  }
}

TEST(NormRunsTest, ExactSumsOfOneOpsGradients) {
  Steps steps;
  steps.Add(MATMUL, {{0, 10}}, {{10, 10}});
  for (int i = 0; i < 3; ++i) steps.Add(EXACT_ACCUMULATE, {{10 * i, 10}}, {{100 + 60 * i, 60}}, FP32, EXACT192);
  steps.Add(EXACT_ACCUMULATE, {{30, 10}}, {{300, 60}}, BF16, EXACT192);
  steps.Add(MATMUL, {{0, 10}}, {{10, 10}});
  steps.Add(EXACT_ACCUMULATE, {{10, 10}}, {{100, 60}}, FP32, EXACT192);
  EXPECT_EQ(steps.Norms(), (Runs{{1, 3, {{1, 2, 3}}}}));
  // Two steps add to one accumulator, so they run one after the other.
  steps.Use(2).outputs[0] = steps.Use(1).outputs[0];
  EXPECT_EQ(steps.Norms(), (Runs{{2, 2, {{2, 3}}}}));
  steps.Use(3).waits = true;
  EXPECT_EQ(steps.Norms(), Runs());
}

TEST(PlacedStepsTest, AreTheProgramsOwn) {
  Program program;
  Template* t = program.add_templates();
  for (const auto& [place, offset] : {std::pair{DEVICE, 256}, std::pair{HOST, 256}}) {
    Buffer* buffer = t->add_buffers();
    buffer->set_place(place);
    buffer->set_offset(offset);
  }
  Segment* segment = program.add_segments();
  for (const int operand : {0, 1}) {
    Value* value = segment->add_values();
    value->set_operand(operand);
    value->set_offset(64);
    value->set_dtype(BF16);
    value->add_shape(5);
    value->add_shape(2);
  }
  for (const StreamKind stream : {COMPUTE, D2H, COMPUTE}) {
    Step* step = segment->add_steps();
    step->set_kernel(stream == D2H ? ADD : CAST);
    step->set_stream(stream);
    step->add_inputs(0);
    step->add_outputs(1);
  }
  segment->mutable_steps(1)->add_deps(0);
  segment->mutable_steps(2)->add_deps(0);
  Action action;
  action.set_kind(OPTIMIZER_STEP);
  action.add_operands(0);
  action.add_operands(1);
  const std::vector<PlacedStep> uses = PlacedStepsOf(program, *t, action);
  ASSERT_EQ(uses.size(), 3u);
  EXPECT_EQ(uses[0].inputs[0], (StepTouch{320, 340, BF16}));
  EXPECT_FALSE(uses[0].inputs[0].Meets(uses[0].outputs[0]));
  EXPECT_EQ(uses[0].outputs[0].end - uses[0].outputs[0].begin, 20u);
  EXPECT_TRUE(uses[0].awaited);
  EXPECT_TRUE(uses[1].waits);
  EXPECT_FALSE(uses[2].waits);
  // Steps that can never share a launch have no tensors: an ADD in an optimizer step, and a CAST in a forward.
  EXPECT_TRUE(uses[1].inputs.empty());
  action.set_kind(FORWARD);
  EXPECT_TRUE(PlacedStepsOf(program, *t, action)[0].inputs.empty());
  EXPECT_FALSE(PlacedStepsOf(program, *t, action)[1].inputs.empty());
}

TEST(RangeOfTest, IsTheOneThatAStepIsIn) {
  const std::vector<StepRange> ranges = {{1, 2, {{1, 2}}}, {5, 3, {{6}, {5, 7}}}};
  for (int step = 0; step < 10; ++step) {
    const StepRange* expected = step == 1 || step == 2 ? &ranges[0] : step >= 5 && step < 8 ? &ranges[1] : nullptr;
    EXPECT_EQ(RangeOf(ranges, step), expected) << step;
  }
  EXPECT_EQ(RangeOf({}, 0), nullptr);
}

// Builds a segment. Value() adds a tensor of 10 floats at {operand, offset}, and Add() adds a step with its work.
class OneStep {
 public:
  int Value(int operand, int64_t offset) {
    ::weft::Value& value = *segment_.add_values();
    value.set_operand(operand);
    value.set_offset(offset);
    value.set_dtype(FP32);
    value.add_shape(10);
    return segment_.values_size() - 1;
  }
  void Add(Kernel kernel, std::vector<int> in, std::vector<int> out, int64_t bytes, int64_t flops = 0) {
    Step& step = *segment_.add_steps();
    step.set_kernel(kernel);
    step.set_name(Kernel_Name(kernel));
    step.mutable_inputs()->Assign(in.begin(), in.end());
    step.mutable_outputs()->Assign(out.begin(), out.end());
    step.mutable_work()->set_bytes(bytes);
    step.mutable_work()->set_flops(flops);
    step.mutable_work()->set_dtype(FP32);
  }
  Step Joined(const std::vector<int>& launch) const { return AsOneStep(segment_, launch); }

 private:
  Segment segment_;
};

TEST(AsOneStepTest, TheSumIsNotReadAgain) {
  OneStep steps;
  const int a = steps.Value(0, 0), b = steps.Value(1, 0), sum = steps.Value(2, 64), same = steps.Value(2, 64);
  const int y = steps.Value(2, 0);
  steps.Add(ADD, {a, b}, {sum}, 120);
  steps.Add(RMS_NORM, {same}, {y}, 80);
  EXPECT_EQ(steps.Joined({0, 1}).work().bytes(), 160);
  EXPECT_EQ(steps.Joined({0, 1}).kernel(), ADD);
  EXPECT_EQ(steps.Joined({1}).work().bytes(), 80);
  EXPECT_EQ(steps.Joined({1}).kernel(), RMS_NORM);
}

// The backward of a norm with all steps that can share its launch. Each tensor has 40 bytes.
TEST(AsOneStepTest, SharedInputsCountOnce) {
  OneStep steps;
  const int dy = steps.Value(0, 0), x = steps.Value(1, 0), gamma = steps.Value(2, 0), dx = steps.Value(3, 0),
            residual = steps.Value(4, 0), sum = steps.Value(5, 0), dgamma = steps.Value(6, 0),
            dbias = steps.Value(7, 0);
  steps.Add(RMS_NORM_BACKWARD, {dy, x, gamma}, {dx}, 160);
  steps.Add(RMS_NORM_BACKWARD_WEIGHT, {dy, x}, {dgamma}, 120);
  steps.Add(ADD, {residual, dx}, {sum}, 120);
  steps.Add(BIAS_GRADIENT, {sum}, {dbias}, 80);
  EXPECT_EQ(steps.Joined({0, 1, 2, 3}).work().bytes(), 160 + 40 + 80 + 40);
  EXPECT_EQ(steps.Joined({0, 1, 2, 3}).kernel(), RMS_NORM_BACKWARD);
  EXPECT_EQ(steps.Joined({0, 1, 2}).work().bytes(), 160 + 40 + 80);
}

TEST(AsOneStepTest, ManyAreTheLargestWithTheWorkOfAll) {
  OneStep steps;
  for (const int64_t bytes : {100, 300, 300, 200}) {
    const int tensor = steps.Value(static_cast<int>(bytes), bytes);
    steps.Add(ADAMW, {tensor}, {tensor}, bytes, bytes / 100);
  }
  const Step one = steps.Joined({0, 1, 2, 3});
  EXPECT_EQ(one.work().bytes(), 900);
  EXPECT_EQ(one.work().flops(), 9);
  EXPECT_EQ(one.inputs(0), 1);
  // Sums saturate at the largest number.
  steps.Add(ADAMW, {}, {}, std::numeric_limits<int64_t>::max());
  EXPECT_EQ(steps.Joined({0, 1, 4}).work().bytes(), std::numeric_limits<int64_t>::max());
}

}  // namespace
}  // namespace weft
