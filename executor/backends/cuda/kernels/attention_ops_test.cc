// Tests positions of scores beyond 32 bits. conformance/attention_cases.cc tests values.
#include "executor/backends/cuda/kernels/attention_ops.cu"

#include <vector>

#include "executor/backends/cuda/kernels/block_of_grid_testing.h"

namespace weft::exec::cuda {
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
}

}  // namespace
}  // namespace weft::exec::cuda
