// Tests rows of all lengths, scores of all sizes, and positions beyond 32 bits. conformance/attention_cases.cc tests
// values.
#include "executor/backends/cuda/kernels/pairs_softmax.cu"

#include <cmath>
#include <vector>

#include "executor/backends/cuda/kernels/block_of_grid_testing.h"

namespace weft::exec::cuda {
namespace {

// Large scores do not overflow. A score of -infinity has probability 0.
TEST(AttentionOpsTest, ScoresOfAllSizes) {
  std::vector<float> s = {3e38f, 3e38f, -INFINITY, -3e38f};
  PairsSoftmax softmax;
  softmax.shape = {1, 4, 1, 1, 0};
  std::vector<float> rows;
  for (int i = 0; i < 4; ++i) rows.insert(rows.end(), s.begin(), s.end());
  softmax.s = softmax.p = {rows.data(), Type::kFp32};
  ASSERT_EQ(Launch(softmax, nullptr), nullptr);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(std::vector<float>(rows.begin() + 4 * i, rows.begin() + 4 * i + 4), (std::vector<float>{0.5, 0.5, 0, 0}));
  }
}

// Tests lengths from rows that a warp can hold to rows that no block can hold.
TEST(PairsSoftmaxTest, RowsOfAllLengths) {
  for (const int64_t n : {1, 7, 512, 513, 1024, 1025, 8200, 16400}) {
    PairsSoftmax args;
    args.shape = {1, n, 1, 1, 0};
    std::vector<float> s(n), p(n, -1), ds(n, -1);
    for (int64_t i = 0; i < n; ++i) s[i] = static_cast<float>(i);
    args.s = {s.data(), Type::kFp32};
    args.p = {p.data(), Type::kFp32};
    const RowLayout layout = RowLayout::Of(1, n);
    // The matrix has one row.
    ASSERT_EQ(layout.blocks, 1);
    const auto run = [&](auto kernel) { RunBlock(kernel, 0, 1, layout.threads, kBlockSumBytes); };
    const auto forward = [&]<Type S>() {
      if (layout.held == 2) run(Softmax<float, S, 2>{args, 1, layout.per_warp});
      if (layout.held == 4) run(Softmax<float, S, 4>{args, 1, layout.per_warp});
      if (layout.held == 0) run(Softmax<float, S, 0>{args, 1, layout.per_warp});
    };
    n % kBlock == 0 ? forward.operator()<Type::kFp32>() : forward.operator()<Type::kNone>();
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) {
      const double expected = std::exp(static_cast<double>(i - n + 1)) * (1 - std::exp(-1.0)) / (1 - std::exp(-n));
      EXPECT_NEAR(p[i], expected, 1e-6) << n << " at " << i;
      sum += p[i];
    }
    EXPECT_NEAR(sum, 1, 1e-5) << n;
    PairsSoftmaxGradient gradient;
    gradient.shape = args.shape;
    gradient.dp = {s.data(), Type::kFp32};
    gradient.p = {p.data(), Type::kFp32};
    gradient.ds = {ds.data(), Type::kFp32};
    const auto backward = [&]<Type S>() {
      if (layout.held == 2) run(SoftmaxGradient<float, S, 2>{gradient, 1, layout.per_warp});
      if (layout.held == 4) run(SoftmaxGradient<float, S, 4>{gradient, 1, layout.per_warp});
      if (layout.held == 0) run(SoftmaxGradient<float, S, 0>{gradient, 1, layout.per_warp});
    };
    n % kBlock == 0 ? backward.operator()<Type::kFp32>() : backward.operator()<Type::kNone>();
    double mean = 0, total = 0;
    for (int64_t i = 0; i < n; ++i) mean += static_cast<double>(p[i]) * s[i];
    for (int64_t i = 0; i < n; ++i) {
      EXPECT_NEAR(ds[i], p[i] * (s[i] - mean), 1e-3 * (1 + std::abs(p[i] * (s[i] - mean)))) << n << " at " << i;
      total += ds[i];
    }
    EXPECT_NEAR(total, 0, 1e-2) << n;
  }
}

// 2^15 sequences of 512 positions with 16 heads: 1.4 * 10^11 scores.
TEST(PairsSoftmaxTest, MoreElementsThan32BitsCount) {
  constexpr int64_t kSequences = int64_t{1} << 15, kSequence = 512, kHeads = 16;
  constexpr int64_t kRows = kSequences * kSequence * kHeads;
  const SparseMemory s(kRows * kSequence * 2);
  ASSERT_TRUE(s.good());
  PairsSoftmax args;
  args.shape = {kSequences, kSequence, kHeads, kHeads, 0};
  args.causal = true;
  args.s = args.p = {s.data<void>(), Type::kBf16};
  s.data<uint16_t>()[kRows * kSequence - 1] = ToBf16(80.0f).bits;
  const RowLayout layout = RowLayout::Of(kRows, kSequence);
  ASSERT_TRUE(layout.per_warp && layout.held == 2);
  RunBlock(Softmax<float, Type::kBf16, 2>{args, kRows, true}, layout.blocks - 1, layout.blocks, layout.threads,
           kBlockSumBytes);
  EXPECT_EQ(ToFloat(Bf16{s.data<uint16_t>()[kRows * kSequence - 1]}), 1);
}

}  // namespace
}  // namespace weft::exec::cuda
