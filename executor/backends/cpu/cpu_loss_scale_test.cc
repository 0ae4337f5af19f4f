// Tests loss scaling in the kernels (docs/kernels.md): the norm, the update of the scale, and optimizers that undo it.
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "executor/backends/cpu/cpu_kernel_case.h"
#include "gtest/gtest.h"

namespace weft::exec::cpu {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Tensor Vector(const std::vector<double>& values) {
  Tensor tensor(FP64, {static_cast<int64_t>(values.size())});
  for (size_t i = 0; i < values.size(); ++i) tensor.Set(static_cast<int64_t>(i), values[i]);
  return tensor;
}

std::vector<Tensor> RunOne(const Step& step, std::vector<Tensor> in, std::vector<Tensor> out,
                           StepContext context = {}) {
  const absl::Status status = RunStep(*MakeCpuBackend(2), step, in, out, context);
  EXPECT_TRUE(status.ok()) << status;
  return out;
}

Values Norm(double clip, double fixed, std::vector<Tensor> in) {
  Step step = MakeStep(NORM_TOTAL);
  step.mutable_attributes()->set_clip_norm(clip);
  step.mutable_attributes()->set_loss_scale(fixed);
  return RunOne(step, std::move(in), {Tensor(FP64, {2})})[0].Values();
}

TEST(CpuLossScale, NormIsOfTheLossItself) {
  // Squared norms of gradients that are scaled by 8. Unscaled, the norms are 3 and 4, and the norm of both is 5.
  const Tensor norms = Vector({64 * 9, 64 * 16});
  EXPECT_EQ(Norm(0, 8, {norms}), (Values{5, 1.0 / 8}));
  EXPECT_EQ(Norm(1, 8, {norms}), (Values{5, 1 / (5 + 1e-6) / 8}));
  EXPECT_EQ(Norm(100, 8, {norms}), (Values{5, 1.0 / 8}));
  EXPECT_EQ(Norm(1, 0, {norms, Vector({8, 3, 1})}), (Values{5, 1 / (5 + 1e-6) / 8}));
  EXPECT_EQ(Norm(0, 0, {norms}), (Values{40, 1}));
}

TEST(CpuLossScale, OverflowsMakeTheFactorZero) {
  for (double bad : {kInfinity, std::nan("")}) {
    const Values norm = Norm(1, 0, {Vector({1, bad}), Vector({8, 3, 1})});
    EXPECT_FALSE(std::isfinite(norm[0]));
    EXPECT_EQ(norm[1], 0);
    // The norm is not finite with a fixed scale either.
    EXPECT_FALSE(std::isfinite(Norm(1, 8, {Vector({1, bad})})[0]));
  }
}

Values Updated(double factor, const Values& scale, int interval) {
  Step step = MakeStep(UPDATE_LOSS_SCALE);
  step.mutable_attributes()->set_growth_interval(interval);
  step.mutable_attributes()->set_loss_scale(1024);
  return RunOne(step, {Vector({1, factor}), Vector(scale)}, {Tensor(FP64, {3})})[0].Values();
}

TEST(CpuLossScale, HalvesDoublesAndCounts) {
  EXPECT_EQ(Updated(0.5, {8, 0, 4}, 3), (Values{8, 1, 4}));
  EXPECT_EQ(Updated(0.5, {8, 1, 4}, 3), (Values{8, 2, 4}));
  EXPECT_EQ(Updated(0.5, {8, 2, 4}, 3), (Values{16, 0, 4}));
  EXPECT_EQ(Updated(0, {8, 2, 4}, 3), (Values{4, 0, 5}));
  // The scale stops at its limits, 1 and 2^60.
  EXPECT_EQ(Updated(0, {1.5, 2, 0}, 3), (Values{1, 0, 1}));
  EXPECT_EQ(Updated(1, {0x1p60, 2, 0}, 3), (Values{0x1p60, 0, 0}));
}

// Returns gradient, weight and two moments of 1000 elements each.
std::vector<Tensor> State(DType grad, double scale) {
  std::mt19937_64 random(7);
  std::vector<Tensor> state = {Normal(FP32, {1000}, random), Normal(FP32, {1000}, random), Normal(FP32, {1000}, random),
                               Normal(FP32, {1000}, random)};
  Tensor scaled(grad, {1000});
  for (int64_t i = 0; i < 1000; ++i) {
    // Gradients are exact in half precision, so that every scale gives the same numbers.
    scaled.Set(i, scale * std::round(64 * state[0].Get(i)) / 1024);
    state[3].Set(i, std::abs(state[3].Get(i)));
  }
  state[0] = scaled;
  return state;
}

std::vector<Tensor> Update(Kernel kernel, std::vector<Tensor> in, const std::vector<Tensor>& scaling, int64_t t,
                           bool copy) {
  Step step = MakeStep(kernel);
  StepAttributes& a = *step.mutable_attributes();
  a.set_weight_decay(0.1);
  if (kernel == ADAMW) {
    a.set_beta1(0.9);
    a.set_beta2(0.95);
    a.set_epsilon(1e-8);
  } else {
    a.set_momentum(0.9);
    in.pop_back();
  }
  std::vector<Tensor> out(in.size() - 1, Tensor(FP32, {1000}));
  if (copy) out.push_back(Tensor(FP16, {1000}));
  in.insert(in.end(), scaling.begin(), scaling.end());
  StepContext context;
  context.step = t;
  context.learning_rate = 0.01;
  return RunOne(step, std::move(in), std::move(out), context);
}

void ExpectSame(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_EQ(a[i].bytes(), b[i].bytes()) << i;
}

TEST(CpuLossScale, OptimizersUndoTheScale) {
  for (Kernel kernel : {ADAMW, SGD_STEP}) {
    for (DType grad : {FP32, FP16}) {
      for (bool copy : {false, true}) {
        const std::vector<Tensor> plain = Update(kernel, State(FP32, 1), {}, 4, copy);
        ExpectSame(Update(kernel, State(grad, 256), {Vector({1, 1.0 / 256})}, 4, copy), plain);
        // The optimizer has skipped two of the six iterations of the run.
        ExpectSame(Update(kernel, State(grad, 256), {Vector({1, 1.0 / 256}), Vector({256, 3, 2})}, 6, copy), plain);
      }
    }
  }
}

TEST(CpuLossScale, ASkippedStepChangesNothing) {
  for (Kernel kernel : {ADAMW, SGD_STEP}) {
    std::vector<Tensor> state = State(FP16, 1);
    state[0].Set(3, kInfinity);
    state[0].Set(5, std::nan(""));
    const std::vector<Tensor> out = Update(kernel, state, {Vector({kInfinity, 0}), Vector({256, 3, 2})}, 6, true);
    const size_t states = out.size() - 1;
    for (size_t i = 0; i < states; ++i) EXPECT_EQ(out[i].bytes(), state[i + 1].bytes()) << i;
    // The kernel must still write the copy for compute, because ranks may gather the weight from it.
    for (int64_t i = 0; i < 1000; ++i) {
      EXPECT_EQ(out[states].Get(i), Tensor::FromFp16(Tensor::RoundToFp16(state[1].Get(i)))) << i;
    }
  }
}

TEST(CpuLossScale, ScaleIntoAnotherType) {
  Tensor x(FP16, {3}), y(FP32, {3});
  for (int i = 0; i < 3; ++i) x.Set(i, 1024 * (i + 1));
  const Values scaled = RunOne(MakeStep(SCALE), {Vector({0, 0x1p-14}), x}, {y})[0].Values();
  EXPECT_EQ(scaled, (Values{0x1p-4, 0x1p-3, 0x3p-4}));
}

TEST(CpuLossScale, DerivativesOfTheLossTakeIt) {
  std::mt19937_64 random(3);
  Tensor logits = Normal(FP32, {4, 8}, random), lse(FP32, {4}), targets(INT32, {4});
  for (int64_t r = 0; r < 4; ++r) lse.Set(r, 3), targets.Set(r, r == 2 ? -1 : r);
  Step step = MakeStep(CROSS_ENTROPY_BACKWARD);
  step.mutable_attributes()->set_vocabulary(7);
  step.mutable_attributes()->set_loss_weight(0.125);
  const Values plain = RunOne(step, {logits, lse, targets}, {Tensor(FP32, {4, 8})})[0].Values();
  const Values scaled = RunOne(step, {logits, lse, targets, Vector({64, 0, 0})}, {Tensor(FP32, {4, 8})})[0].Values();
  for (size_t i = 0; i < plain.size(); ++i) EXPECT_EQ(scaled[i], 64 * plain[i]) << i;
  step = MakeStep(SQUARED_ERROR_BACKWARD);
  step.mutable_attributes()->set_loss_weight(0.125);
  const Tensor target = Normal(FP32, {4, 8}, random);
  const Values one = RunOne(step, {logits, target}, {Tensor(FP32, {4, 8})})[0].Values();
  const Values more = RunOne(step, {logits, target, Vector({64, 0, 0})}, {Tensor(FP32, {4, 8})})[0].Values();
  for (size_t i = 0; i < one.size(); ++i) EXPECT_EQ(more[i], 64 * one[i]) << i;
}

}  // namespace
}  // namespace weft::exec::cpu
