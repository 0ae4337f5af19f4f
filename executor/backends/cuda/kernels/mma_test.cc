// Compares the emulated product of a warp with plain loops. Lanes hold their elements as a GPU's tensor cores require.
#include "executor/backends/cuda/kernels/mma.h"

#include <vector>

#include "gtest/gtest.h"

namespace weft::exec::cuda {
namespace {

// sums [16, 8] += left [16, 16] x right [16, 8], for small whole numbers.
template <Type S>
struct OneProduct {
  static constexpr int kMaxThreads = 64;
  const float *left, *right;
  float* sums;

  template <typename Thread>
  void operator()(Thread& thread) const {
    const int g = thread.lane() / 4, t = thread.lane() % 4;
    const auto of_left = [&](int row, int k) { return HalvesOf<S>(left[row * 16 + k], left[row * 16 + k + 1]); };
    const auto of_right = [&](int k) { return HalvesOf<S>(right[k * 8 + g], right[(k + 1) * 8 + g]); };
    const MmaLeft a = {{of_left(g, 2 * t), of_left(g + 8, 2 * t), of_left(g, 2 * t + 8), of_left(g + 8, 2 * t + 8)}};
    const MmaRight b = {{of_right(2 * t), of_right(2 * t + 8)}};
    // Each warp has sums of its own.
    float* const to = sums + thread.warp() * 128;
    MmaSums c;
    for (int i = 0; i < 4; ++i) c.sum[i] = to[(g + i / 2 * 8) * 8 + 2 * t + i % 2];
    Multiply<S>(thread, a, b, c);
    for (int i = 0; i < 4; ++i) to[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = c.sum[i];
  }
};

template <Type S>
void Check() {
  std::vector<float> left(256), right(128), sums(256), expected(256);
  for (int i = 0; i < 256; ++i) left[i] = static_cast<float>(i * 7 % 11 - 5);
  for (int i = 0; i < 128; ++i) right[i] = static_cast<float>(i * 5 % 13 - 6);
  for (int i = 0; i < 256; ++i) sums[i] = expected[i] = static_cast<float>(i);
  for (int i = 0; i < 256; ++i) {
    for (int k = 0; k < 16; ++k) expected[i] += left[i % 128 / 8 * 16 + k] * right[k * 8 + i % 8];
  }
  ASSERT_EQ(LaunchKernel(OneProduct<S>{left.data(), right.data(), sums.data()}, 1, 64, 0, nullptr), nullptr);
  EXPECT_EQ(sums, expected);
}

TEST(Mma, IsAProductOfBf16) { Check<Type::kBf16>(); }
TEST(Mma, IsAProductOfFp16) { Check<Type::kFp16>(); }

}  // namespace
}  // namespace weft::exec::cuda
