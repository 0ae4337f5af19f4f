// Tests positions beyond 32 bits. conformance/conv_cases.cc tests values.
#include "executor/backends/cuda/kernels/group_norm.cu"

#include <vector>

#include "executor/backends/cuda/kernels/block_of_grid_testing.h"

namespace weft::exec::cuda {
namespace {

// The last group of 2^17 samples of 16 positions and 4,096 channels ends at element 2^33.
TEST(GroupNormTest, MoreElementsThan32BitsCount) {
  constexpr int64_t kSamples = int64_t{1} << 17, kRows = 16, kColumns = 4096, kGroups = 256;
  constexpr int64_t kElements = kSamples * kRows * kColumns;
  const SparseMemory x(kElements * 2), y(kElements * 2), mean(kSamples * kGroups * 4), rstd(kSamples * kGroups * 4);
  ASSERT_TRUE(x.good() && y.good() && mean.good() && rstd.good());
  std::vector<float> gamma(kColumns, 1), beta(kColumns, 2);
  GroupNormForward args;
  args.shape = {kSamples, kRows, kColumns, kGroups, false, false};
  args.epsilon = 1;
  args.x = {x.data<void>(), Type::kBf16};
  args.gamma = {gamma.data(), Type::kFp32};
  args.beta = {beta.data(), Type::kFp32};
  args.y = {y.data<void>(), Type::kBf16};
  args.mean = {mean.data<void>(), Type::kFp32};
  args.rstd = {rstd.data<void>(), Type::kFp32};
  x.data<uint16_t>()[kElements - 1] = ToBf16(256.0f).bits;
  RunBlock(Forward<float, Type::kNone, 0>{args}, kSamples * kGroups - 1, kSamples * kGroups, kThreads,
           kPairBytes<float>);
  EXPECT_EQ(mean.data<float>()[kSamples * kGroups - 1], 1);
  EXPECT_EQ(y.data<uint16_t>()[kElements - kColumns - 17], 0);
  EXPECT_GT(ToFloat(Bf16{y.data<uint16_t>()[kElements - 1]}), 10);
  EXPECT_LT(ToFloat(Bf16{y.data<uint16_t>()[kElements - kColumns - 1]}), 2);
}

}  // namespace
}  // namespace weft::exec::cuda
