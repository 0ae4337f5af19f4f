// Pieces of sums over rows, and places beyond what 32 bits count. Values: conformance/conv_cases.cc.
#include "executor/backends/cuda/kernels/group_norm.cu"

#include <vector>

#include "executor/backends/cuda/kernels/block_of_grid.h"

namespace weft::cuda {
namespace {

// Every row is in one piece, whatever their number.
TEST(GroupNormTest, EveryRowCountsOnce) {
  for (const int64_t rows : {1, 63, 64, 65, 4095, 4097, 5000}) {
    GroupNormWeight args;
    args.shape = {1, rows, 2, 1, false, false};
    std::vector<float> dy(rows * 2, 1), x(rows * 2, 3), dgamma(2, -1), dbeta(2, -1);
    float mean = 1, rstd = 0.5;
    std::vector<float> scratch(args.ScratchBytes() / 4, NAN);
    args.dy = {dy.data(), Type::kFp32};
    args.x = {x.data(), Type::kFp32};
    args.mean = {&mean, Type::kFp32};
    args.rstd = {&rstd, Type::kFp32};
    args.dgamma = {dgamma.data(), Type::kFp32};
    args.dbeta = {dbeta.data(), Type::kFp32};
    args.scratch = scratch.data();
    ASSERT_EQ(Launch(args, nullptr), nullptr);
    EXPECT_EQ(dgamma, std::vector<float>(2, static_cast<float>(rows)));
    EXPECT_EQ(dbeta, std::vector<float>(2, static_cast<float>(rows)));
  }
}

// The last group of 2^17 samples of 16 positions and 4,096 channels ends at element 8 * 10^9.
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
  RunBlock(Forward<float>{args}, kSamples * kGroups - 1, kSamples * kGroups, kThreads, kPairBytes<float>);
  EXPECT_EQ(mean.data<float>()[kSamples * kGroups - 1], 1);
  EXPECT_EQ(y.data<uint16_t>()[kElements - kColumns - 17], 0);
  EXPECT_GT(ToFloat(Bf16{y.data<uint16_t>()[kElements - 1]}), 10);
  EXPECT_LT(ToFloat(Bf16{y.data<uint16_t>()[kElements - kColumns - 1]}), 2);
}

}  // namespace
}  // namespace weft::cuda
