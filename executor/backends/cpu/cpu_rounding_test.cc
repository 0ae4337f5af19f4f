// Tests stochastic rounding in the updates: the bits equal those of the plain loop on every instruction set of this
// machine and with several threads, and the second moment is right after many steps.
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "executor/backends/cpu/cpu.h"
#include "executor/numerics/float_bits.h"
#include "executor/numerics/stochastic_rounding.h"
#include "gtest/gtest.h"

namespace weft::exec::cpu {
namespace {

constexpr int64_t kElements = 40003;
// Returns an ADAMW step that leaves the weights unchanged if moments and learning rate are 0.
Step RoundingStep() {
  Step step;
  step.set_name("adamw w");
  step.set_kernel(ADAMW);
  step.mutable_attributes()->set_beta1(0.9);
  step.mutable_attributes()->set_beta2(0.95);
  step.mutable_attributes()->set_epsilon(1);
  step.mutable_attributes()->set_rounding_site(5);
  return step;
}

TEST(CpuRoundingTest, LoopsMakeTheBitsOfThePlainOne) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::mt19937 random(11);
  const std::vector<int64_t> shape = {kElements};
  for (const DType to : {BF16, FP16}) {
    std::vector<float> w(kElements), gradient(kElements);
    for (float& x : w)
      x = std::ldexp(1 + static_cast<float>(random() % 4096) / 1e4f, static_cast<int>(random() % 40) - 24);
    w[1] = kInfinity, w[2] = -65519, w[3] = 1e-41f, w[4] = -3.4e38f, w[5] = 0, w[6] = NAN;
    std::vector<uint16_t> expected(kElements);
    // The generator's block count exceeds 32 bits partway through the elements.
    const int64_t first = (int64_t{1} << 35) - 20000 + (to == BF16 ? 0 : 3);
    RoundAtRandom(w.data(), kElements, {77, 9, 4}, first, to, expected.data());
    for (const char* name : {"baseline", "avx2", "avx512"}) {
      const LoopTable* loops = FindLoops(name);
      if (loops == nullptr) continue;
      for (const int threads : {1, 3}) {
        StepContext context;
        context.seed = 77;
        context.step = 9;
        context.first_element = first;
        std::vector<uint16_t> param(kElements);
        std::vector<float> m(kElements), v(kElements);
        const std::vector<TensorView> states = {
            {w.data(), FP32, shape}, {m.data(), FP32, shape}, {v.data(), FP32, shape}};
        std::vector<TensorView> in = states, out = states;
        in.insert(in.begin(), {gradient.data(), FP32, shape});
        out.push_back({param.data(), to, shape});
        const absl::Status status = MakeCpuBackendWithLoops(threads, *loops)->Run(RoundingStep(), in, out, context);
        ASSERT_TRUE(status.ok()) << status;
        EXPECT_TRUE(param == expected) << DType_Name(to) << " " << name << " " << threads;
      }
    }
  }
}

// With a gradient of 0, a moment becomes beta times itself in fp32 and is then rounded. Each moment has random numbers
// of its own. The step itself uses the moments before they are rounded.
TEST(CpuRoundingTest, MomentsAreRoundedByNumbersOfTheirOwn) {
  std::mt19937 random(12);
  const std::vector<int64_t> shape = {kElements};
  const int64_t first = (int64_t{1} << 35) - 20003;
  for (const bool adamw : {true, false}) {
    std::vector<uint16_t> moments[2];
    std::vector<float> gradient(kElements), weights(kElements);
    std::vector<uint16_t> expected[2];
    for (int i = 0; i < 2; ++i) {
      std::vector<float> next(kElements);
      for (int64_t e = 0; e < kElements; ++e) {
        moments[i].push_back(static_cast<uint16_t>(random() % 0x4100));
        next[e] = (i == 0 ? 0.9f : 0.95f) * FloatFromBf16(moments[i].back());
      }
      expected[i].resize(kElements);
      const PhiloxPurpose purpose = i == 0 ? PhiloxPurpose::kFirstMomentRounding : PhiloxPurpose::kSecondMomentRounding;
      RoundAtRandom(next.data(), kElements, {77, 9, 4, purpose}, first, BF16, expected[i].data());
    }
    for (const char* name : {"baseline", "avx2", "avx512"}) {
      const LoopTable* loops = FindLoops(name);
      if (loops == nullptr) continue;
      StepContext context;
      context.seed = 77;
      context.step = 9;
      context.first_element = first;
      Step step = RoundingStep();
      if (!adamw) {
        step.set_kernel(SGD_STEP);
        step.mutable_attributes()->set_momentum(0.9);
      }
      std::vector<uint16_t> m = moments[0], v = moments[1], param(kElements);
      std::vector<float> w = weights;
      std::vector<TensorView> out = {{w.data(), FP32, shape}, {m.data(), BF16, shape}};
      if (adamw) out.push_back({v.data(), BF16, shape});
      std::vector<TensorView> in = out;
      in.insert(in.begin(), {gradient.data(), FP32, shape});
      out.push_back({param.data(), BF16, shape});
      const absl::Status status = MakeCpuBackendWithLoops(3, *loops)->Run(step, in, out, context);
      ASSERT_TRUE(status.ok()) << status;
      EXPECT_TRUE(m == expected[0]) << name << " first moment, AdamW " << adamw;
      if (adamw) {
        EXPECT_TRUE(v == expected[1]) << name << " second moment";
      }
    }
  }
}

// With a constant gradient of 1 the second moment should approach 1. If it is rounded to nearest, it stops below 0.3,
// where (1 - beta2) (1 - v) is half the distance to the next bf16 number. If it is rounded stochastically, its mean is
// the result of fp32.
TEST(CpuRoundingTest, TheSecondMomentDoesNotStarve) {
  constexpr int64_t kMany = 4096, kSteps = 3000;
  const std::vector<int64_t> shape = {kMany};
  const std::vector<float> gradient(kMany, 1.0f);
  Step step = RoundingStep();
  step.mutable_attributes()->set_beta2(0.999);
  for (const bool at_random : {true, false}) {
    if (!at_random) step.mutable_attributes()->clear_rounding_site();
    std::vector<float> w(kMany);
    std::vector<uint16_t> m(kMany), v(kMany), param(kMany);
    const std::vector<TensorView> out = {
        {w.data(), FP32, shape}, {m.data(), BF16, shape}, {v.data(), BF16, shape}, {param.data(), BF16, shape}};
    std::vector<TensorView> in(out.begin(), out.begin() + 3);
    in.insert(in.begin(), {const_cast<float*>(gradient.data()), FP32, shape});
    const auto backend = MakeCpuBackendWithLoops(1, BestLoops());
    for (int64_t t = 0; t < kSteps; ++t) {
      StepContext context;
      context.seed = 5;
      context.step = t;
      ASSERT_TRUE(backend->Run(step, in, out, context).ok());
    }
    double sum = 0, squares = 0;
    for (const uint16_t bits : v) {
      const double x = FloatFromBf16(bits);
      sum += x;
      squares += x * x;
    }
    const double mean = sum / kMany, expected = 1 - std::pow(0.999, kSteps);
    if (!at_random) {
      EXPECT_LT(mean, 0.3);
      continue;
    }
    // Elements are independent, and only rounding spreads them. The bound is five standard deviations of their mean,
    // computed from their measured spread, plus 1e-4 for other errors.
    const double spread = std::sqrt(squares / kMany - mean * mean);
    EXPECT_LT(spread, 0.1);
    EXPECT_GT(spread, 0.001);
    EXPECT_NEAR(mean, expected, 5 * spread / std::sqrt(kMany) + 1e-4);
  }
}

}  // namespace
}  // namespace weft::exec::cpu
