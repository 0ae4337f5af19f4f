// Tests skipped steps, sizes that are not multiples of anything, and more elements than 32 bits count.
// conformance/optimizer_cases.cc tests all other values.
#include "executor/backends/cuda/kernels/optimizer.cu"

#include <algorithm>
#include <vector>

#include "executor/backends/cuda/kernels/block_of_grid_testing.h"
#include "executor/numerics/philox.h"
#include "executor/numerics/stochastic_rounding.h"

namespace weft::exec::cuda {
namespace {

struct State {
  explicit State(int64_t n) : gradient(n, 2), w(n, 1), m(n, 0.5), v(n, 0.25), param(n, 7) {}
  AdamWUpdate Update() {
    AdamWUpdate update;
    update.elements = static_cast<int64_t>(w.size());
    update.gradient = {gradient.data(), Type::kFp32};
    update.from[0] = update.to[0] = {w.data(), Type::kFp32};
    update.from[1] = update.to[1] = {m.data(), Type::kFp32};
    update.from[2] = update.to[2] = {v.data(), Type::kFp32};
    update.param = {param.data(), Type::kBf16};
    update.scaling = {norm, scale};
    update.learning_rate = 0.1;
    update.beta1 = 0.9;
    update.beta2 = 0.99;
    update.epsilon = 1e-8;
    update.step = 5;
    return update;
  }

  std::vector<float> gradient, w, m, v;
  std::vector<uint16_t> param;
  double norm[2] = {3, 0}, scale[3] = {1024, 0, 2};
};

// The state keeps its bits, whatever the gradient holds. The rounded copy of the weights is still written.
TEST(OptimizerTest, AnOverflowSkipsTheStep) {
  State state(1003);
  state.gradient[5] = NAN;
  const State before = state;
  ASSERT_EQ(Launch(state.Update(), nullptr), nullptr);
  EXPECT_EQ(state.w, before.w);
  EXPECT_EQ(state.m, before.m);
  EXPECT_EQ(state.v, before.v);
  EXPECT_EQ(state.param, std::vector<uint16_t>(1003, ToBf16(1.0f).bits));
}

// With a fixed scale, factor 0 makes the gradient zero; nothing is skipped.
TEST(OptimizerTest, AFixedScaleDoesNotSkip) {
  State state(9);
  AdamWUpdate update = state.Update();
  update.scaling.scale = nullptr;
  ASSERT_EQ(Launch(update, nullptr), nullptr);
  EXPECT_FLOAT_EQ(state.m[8], 0.45f);
  EXPECT_NE(state.w[8], 1);
}

// Skipped steps do not count in the bias corrections.
TEST(OptimizerTest, SkippedStepsDoNotCount) {
  State with(9), without(9);
  with.norm[1] = without.norm[1] = 1;
  AdamWUpdate late = with.Update(), early = without.Update();
  late.step = 7;
  early.scaling.scale = nullptr;
  ASSERT_EQ(Launch(late, nullptr), nullptr);
  ASSERT_EQ(Launch(early, nullptr), nullptr);
  EXPECT_EQ(with.w, without.w);
}

TEST(OptimizerTest, ScaleStaysWithinItsBounds) {
  const double overflow[2] = {INFINITY, 0}, fine[2] = {1, 1};
  double scale[3] = {1, 3, 0};
  ASSERT_EQ(Launch(LossScaleUpdate{overflow, scale, 2, scale}, nullptr), nullptr);
  EXPECT_EQ(scale[0], 1);
  EXPECT_EQ(scale[1], 0);
  EXPECT_EQ(scale[2], 1);
  scale[0] = 0x1p60;
  for (int i = 0; i < 2; ++i) ASSERT_EQ(Launch(LossScaleUpdate{fine, scale, 2, scale}, nullptr), nullptr);
  EXPECT_EQ(scale[0], 0x1p60);
  EXPECT_EQ(scale[1], 0);
}

// Tensors of a table, whatever their sizes, are updated as by one launch per tensor.
TEST(OptimizerTest, ATableIsItsTensors) {
  std::vector<State> together, alone;
  std::vector<TensorUpdate> tensors;
  std::vector<int64_t> ends;
  int64_t tiles = 0;
  for (const int64_t n : {int64_t{3}, int64_t{0}, 2 * kTileElements + 5, kTileElements, int64_t{1}}) {
    together.emplace_back(n);
    alone.emplace_back(n);
    ends.push_back(tiles += TilesOf(n));
  }
  AdamWUpdate all;
  for (size_t i = 0; i < alone.size(); ++i) {
    for (auto* state : {&together[i], &alone[i]}) {
      for (size_t e = 0; e < state->w.size(); ++e) state->gradient[e] = static_cast<float>(e % 17) - 8;
      state->norm[1] = 1;
    }
    AdamWUpdate one = alone[i].Update();
    one.weight_decay = i % 2 == 0 ? 0.1 : 0;
    one.rounding = {true, 5, 6, 7};
    one.rounding_tensor = static_cast<uint32_t>(i);
    // Most of these elements are not the first of a block of the random generator.
    one.first_element = static_cast<int64_t>(i) * 3;
    ASSERT_EQ(Launch(one, nullptr), nullptr);
    all = together[i].Update();
    all.rounding = one.rounding;
    TensorUpdate tensor = all;
    tensor.weight_decay = one.weight_decay;
    tensor.rounding_tensor = one.rounding_tensor;
    tensor.first_element = one.first_element;
    tensors.push_back(tensor);
  }
  all.table = {tensors.data(), ends.data(), static_cast<int64_t>(ends.size()), tiles};
  ASSERT_EQ(Launch(all, nullptr), nullptr);
  for (size_t i = 0; i < alone.size(); ++i) {
    EXPECT_EQ(together[i].w, alone[i].w) << i;
    EXPECT_EQ(together[i].m, alone[i].m) << i;
    EXPECT_EQ(together[i].v, alone[i].v) << i;
    EXPECT_EQ(together[i].param, alone[i].param) << i;
  }
}

// The result of an element does not depend on where the rank's part of the tensor begins.
TEST(OptimizerTest, PartsAreRoundedAsTheWhole) {
  const auto rounded = [](int64_t first, int64_t count) {
    State state(count);
    for (int64_t e = 0; e < count; ++e) state.w[e] = 1 + static_cast<float>(first + e) / 1e5f;
    AdamWUpdate update = state.Update();
    update.scaling = {};
    update.learning_rate = 0;
    update.rounding = {true, 1, 2, 3};
    update.first_element = (int64_t{1} << 35) - 20 + first;
    EXPECT_EQ(Launch(update, nullptr), nullptr);
    return state.param;
  };
  const std::vector<uint16_t> whole = rounded(0, 64);
  int64_t nearest = 0;
  for (int64_t e = 0; e < 64; ++e) nearest += whole[e] == ToBf16(1 + static_cast<float>(e) / 1e5f).bits;
  EXPECT_LT(nearest, 64);
  for (int64_t first = 0; first < 24; ++first) {
    const std::vector<uint16_t> part = rounded(first, 40);
    EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + first)) << first;
  }
}

// Moments in bf16 are rounded to the same bits as by the plain loop, with random numbers of their own, wherever a part
// begins. This holds for both updates and for the kernels for any types.
TEST(OptimizerTest, MomentsAreRoundedAsTheWhole) {
  constexpr int64_t kAll = 96, kAt = (int64_t{1} << 35) - 21;
  const uint64_t seed = 0x123456789abcdef0;
  const auto high = [&](PhiloxPurpose purpose) { return MakePhiloxKey(seed, purpose).high; };
  const PhiloxPurpose purposes[] = {PhiloxPurpose::kFirstMomentRounding, PhiloxPurpose::kSecondMomentRounding};
  const StochasticRounding rounding = {true,
                                       MakePhiloxKey(seed, PhiloxPurpose::kWeightRounding).low,
                                       high(PhiloxPurpose::kWeightRounding),
                                       3,
                                       {high(purposes[0]), high(purposes[1])}};
  std::vector<uint16_t> before(kAll), expected[2];
  for (int64_t e = 0; e < kAll; ++e) before[e] = static_cast<uint16_t>(0x3e00 + e * 37);
  for (int i = 0; i < 2; ++i) {
    std::vector<float> next(kAll);
    for (int64_t e = 0; e < kAll; ++e) next[e] = (i == 0 ? 0.9f : 0.99f) * FloatFromBf16(before[e]);
    expected[i].resize(kAll);
    RoundAtRandom(next.data(), kAll, {seed, 3, 2, purposes[i]}, kAt, BF16, expected[i].data());
  }
  for (const Type of_gradient : {Type::kFp32, Type::kBf16, Type::kFp16}) {
    for (int64_t first = 0; first < 24; ++first) {
      const int64_t count = kAll - first - (first % 3);
      State state(count);
      std::fill(state.gradient.begin(), state.gradient.end(), 0.0f);
      std::vector<uint16_t> m(before.begin() + first, before.begin() + first + count), v = m, b = m;
      const auto fill = [&](auto& update) {
        update.gradient.type = of_gradient;
        update.scaling = {};
        update.rounding = rounding;
        update.rounding_tensor = 2;
        update.first_element = kAt + first;
        update.from[1] = update.to[1] = {m.data(), Type::kBf16};
      };
      AdamWUpdate adamw = state.Update();
      fill(adamw);
      adamw.from[2] = adamw.to[2] = {v.data(), Type::kBf16};
      ASSERT_EQ(Launch(adamw, nullptr), nullptr);
      EXPECT_TRUE(std::equal(m.begin(), m.end(), expected[0].begin() + first)) << first;
      EXPECT_TRUE(std::equal(v.begin(), v.end(), expected[1].begin() + first)) << first;
      SgdUpdate sgd;
      static_cast<TensorUpdate&>(sgd) = state.Update();
      fill(sgd);
      sgd.from[1] = sgd.to[1] = {b.data(), Type::kBf16};
      sgd.from[2] = sgd.to[2] = {};
      sgd.momentum = 0.9;
      ASSERT_EQ(Launch(sgd, nullptr), nullptr);
      EXPECT_TRUE(std::equal(b.begin(), b.end(), expected[0].begin() + first)) << first;
    }
  }
}

// A skipped step keeps the bits of the moments.
TEST(OptimizerTest, ASkippedStepRoundsNoMoment) {
  State state(40);
  std::vector<uint16_t> m(40), v(40);
  for (int i = 0; i < 40; ++i) v[i] = m[i] = static_cast<uint16_t>(0x3e00 + i);
  const std::vector<uint16_t> before = m;
  AdamWUpdate update = state.Update();
  update.from[1] = update.to[1] = {m.data(), Type::kBf16};
  update.from[2] = update.to[2] = {v.data(), Type::kBf16};
  update.rounding = {true, 1, 2, 3, {4, 5}};
  ASSERT_EQ(Launch(update, nullptr), nullptr);
  EXPECT_EQ(m, before);
  EXPECT_EQ(v, before);
}

TEST(OptimizerTest, MoreElementsThan32BitsCount) {
  constexpr int64_t kElements = (int64_t{1} << 32) + 1000;
  const SparseMemory gradient(kElements * 2), w(kElements * 4), b(kElements * 4);
  ASSERT_TRUE(gradient.good() && w.good() && b.good());
  // An element of thread 7 of a tile that only 64 bits can count.
  constexpr int64_t kPlace = (int64_t{1} << 32) + 56;
  gradient.data<uint16_t>()[kPlace] = ToBf16(4.0f).bits;
  SgdUpdate update;
  update.elements = kElements;
  update.gradient = {gradient.data<void>(), Type::kBf16};
  update.from[0] = update.to[0] = {w.data<void>(), Type::kFp32};
  update.learning_rate = 0.5;
  const int64_t blocks = BlocksFor(update);
  RunBlock(SgdKernel<float, Type::kBf16, Type::kFp32, Type::kFp32>{update}, kPlace / kTileElements % blocks, blocks,
           kTileThreads, sizeof(TensorUpdate));
  EXPECT_EQ(w.data<float>()[kPlace], -2);
  EXPECT_EQ(w.data<float>()[56], 0);
}

}  // namespace
}  // namespace weft::exec::cuda
