#include "executor/numerics/diffusion.h"

#include <vector>

#include "gtest/gtest.h"

namespace weft::exec {
namespace {

TEST(Diffusion, TimesCoverAllLevelsEvenly) {
  std::vector<int> counts(10, 0);
  for (int64_t sample = 0; sample < 5000; ++sample) {
    const int64_t t = TimestepOfSample(3, sample, 10);
    ASSERT_GE(t, 0);
    ASSERT_LT(t, 10);
    ++counts[t];
  }
  for (int count : counts) EXPECT_NEAR(count, 500, 100);
  EXPECT_EQ(TimestepOfSample(3, 1, 1), 0);
}

TEST(Diffusion, NoiseDoesNotDependOnWhereItIsCut) {
  std::vector<double> whole(33);
  NoiseOfSample(9, int64_t{1} << 40, 0, absl::MakeSpan(whole));
  for (int64_t first : {1, 2, 7}) {
    std::vector<double> part(5);
    NoiseOfSample(9, int64_t{1} << 40, first, absl::MakeSpan(part));
    for (size_t i = 0; i < part.size(); ++i) EXPECT_EQ(part[i], whole[first + i]);
  }
}

// For the linear schedule with 1000 levels, the first beta is 1e-4 and the product over all levels is 4.0358e-5 (about
// 4e-5 in Ho et al. 2020).
TEST(Diffusion, SignalLevels) {
  EXPECT_NEAR(SignalLevel(1000, false, 0), 1 - 1e-4, 1e-15);
  EXPECT_NEAR(SignalLevel(1000, false, 999), 4.0358e-5, 1e-8);
  EXPECT_NEAR(SignalLevel(1000, true, 499), 0.49, 0.01);
  for (const bool cosine : {false, true}) {
    for (int64_t steps : {1, 2, 25, 1000}) {
      double before = 1;
      for (int64_t t = 0; t < steps; ++t) {
        const double level = SignalLevel(steps, cosine, t);
        EXPECT_LT(level, before);
        EXPECT_GE(level, 0);
        before = level;
      }
    }
  }
}

}  // namespace
}  // namespace weft::exec
