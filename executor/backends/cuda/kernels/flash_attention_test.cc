// Tests positions of attention beyond 32 bits. conformance/attention_cases.cc tests values.
#include "executor/backends/cuda/kernels/flash_attention.cu"

#include <vector>

#include "executor/backends/cuda/kernels/block_of_grid_testing.h"

namespace weft::exec::cuda {
namespace {

TEST(HeadPartTest, MoreElementsThan32BitsCount) {
  const HeadPart part = {{}, 12288, 4096, 128};
  EXPECT_EQ(part.Element(int64_t{1} << 24, 31), (int64_t{1} << 24) * 12288 + 4096 + 31 * 128);
}

// Sequence 1,048,575 of 2^20 has one key, so the result of a query is the value of that key.
TEST(FlashAttentionTest, MoreElementsThan32BitsCount) {
  constexpr int64_t kSequences = int64_t{1} << 20, kSequence = 32, kHeads = 2, kWidth = 64;
  constexpr int64_t kColumns = 3 * kHeads * kWidth, kRows = kSequences * kSequence;
  const SparseMemory qkv(kRows * kColumns * 2), o(kRows * kHeads * kWidth * 2), lse(kRows * kHeads * 4);
  ASSERT_TRUE(qkv.good() && o.good() && lse.good());
  AttentionProblem a;
  a.shape = {kSequences, kSequence, kHeads, kHeads, kWidth};
  a.causal = true;
  a.window = 1;
  const Array array = {qkv.data<void>(), Type::kBf16};
  a.q = {array, kColumns, 0, kWidth};
  a.k = {array, kColumns, kHeads * kWidth, kWidth};
  a.v = {array, kColumns, 2 * kHeads * kWidth, kWidth};
  a.o = {{o.data<void>(), Type::kBf16}, kHeads * kWidth, 0, kWidth};
  a.lse = {lse.data<void>(), Type::kFp32};
  const int64_t row = kRows - 3;
  qkv.data<uint16_t>()[a.v.Element(row, 1) + 5] = ToBf16(3.0f).bits;
  const int64_t blocks = BlocksFor<float>(a, kHeads);
  ASSERT_EQ(blocks, kSequences * kHeads);
  float& statistic = lse.data<float>()[((kSequences - 1) * kHeads + 1) * kSequence + kSequence - 3];
  statistic = -7;
  RunBlock(Forward<float>{a}, blocks - 1, blocks, kThreads, Layout<float>::kBytes);
  EXPECT_EQ(ToFloat(Bf16{o.data<uint16_t>()[a.o.Element(row, 1) + 5]}), 3);
  EXPECT_EQ(ToFloat(Bf16{o.data<uint16_t>()[a.o.Element(row - 1, 1) + 5]}), 0);
  // The only key has score 0, so the log-sum-exp is 0; it has replaced another number.
  EXPECT_EQ(statistic, 0);
}

}  // namespace
}  // namespace weft::exec::cuda
