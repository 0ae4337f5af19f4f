// Places of scores beyond what 32 bits count, and rows that see nothing. Values: conformance/attention_cases.cc.
#include "executor/backends/cuda/kernels/attention_ops.cu"

#include <vector>

#include "executor/backends/cuda/kernels/block_of_grid.h"

namespace weft::cuda {
namespace {

// 2^15 sequences of 512 positions with 16 heads: 1.4 * 10^11 scores.
TEST(AttentionOpsTest, MoreElementsThan32BitsCount) {
  constexpr int64_t kSequences = int64_t{1} << 15, kSequence = 512, kHeads = 16, kWidth = 8;
  constexpr int64_t kRows = kSequences * kSequence, kColumns = kHeads * kSequence;
  const SparseMemory q(kRows * kHeads * kWidth * 2), pairs(kRows * kColumns * 2);
  ASSERT_TRUE(q.good() && pairs.good());
  HeadPairs args;
  args.shape = {kSequences, kSequence, kHeads, kHeads, kWidth};
  args.queries = args.keys = {{q.data<void>(), Type::kBf16}, kHeads * kWidth, 0, kWidth};
  args.factor = 2;
  args.pairs = {{pairs.data<void>(), Type::kBf16}, kColumns, 0, kSequence};
  q.data<uint16_t>()[kRows * kHeads * kWidth - 1] = ToBf16(3.0f).bits;
  const ProductShape shape = {kSequences * kHeads, kSequence, kSequence, kWidth};
  using Kernel = TileProduct<PairsOfHeads<float>>;
  const int64_t blocks = kSequences * kHeads * 64;
  RunBlock(Kernel{{shape, args}}, blocks - 1, blocks, kTileThreads, Kernel::kSharedBytes);
  EXPECT_EQ(ToFloat(Bf16{pairs.data<uint16_t>()[kRows * kColumns - 1]}), 18);
  EXPECT_EQ(ToFloat(Bf16{pairs.data<uint16_t>()[kRows * kColumns - 2]}), 0);

  PairsSoftmax softmax;
  softmax.shape = args.shape;
  softmax.causal = true;
  softmax.s = softmax.p = args.pairs.array;
  RunBlock(Softmax<float>{softmax}, kRows * kHeads - 1, kRows * kHeads, kSoftmaxThreads, kSoftmaxThreads * 4);
  EXPECT_EQ(ToFloat(Bf16{pairs.data<uint16_t>()[kRows * kColumns - 1]}), 1);
}

// Large scores do not overflow; a score of -infinity is no probability.
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

}  // namespace
}  // namespace weft::cuda
