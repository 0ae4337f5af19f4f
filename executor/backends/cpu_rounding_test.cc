// Stochastic rounding in the updates: the bits of the plain loop, on every set of instructions that this machine has,
// and split over threads; and who refuses.
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "executor/backends/cpu.h"
#include "executor/stochastic_rounding.h"
#include "gtest/gtest.h"

namespace weft::cpu {
namespace {

constexpr int64_t kElements = 40003;
// Of moments of 0, at a learning rate of 0: the weights stay.
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
    // The count of blocks of the generator leaves 32 bits on the way.
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

TEST(CpuRoundingTest, RefusedWithoutHalves) {
  const std::vector<int64_t> shape = {4};
  alignas(64) double wide[4] = {};
  alignas(64) float w[4] = {};
  const TensorView single = {w, FP32, shape}, doubles = {wide, FP64, shape}, half = {w, BF16, shape};
  const auto backend = MakeCpuBackendWithLoops(1, BestLoops());
  const auto refuses = [&](const TensorView& state, std::vector<TensorView> more) {
    std::vector<TensorView> out(3, state);
    out.insert(out.end(), more.begin(), more.end());
    const absl::Status status = backend->Run(RoundingStep(), std::vector<TensorView>(4, state), out, {});
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(status.ToString().find("'adamw w': stochastic rounding is of weights in FP32"), std::string::npos)
        << status;
  };
  refuses(single, {});
  refuses(single, {single});
  refuses(doubles, {half});
}

}  // namespace
}  // namespace weft::cpu
