#include "compiler/backward/recompute_groups.h"

#include <cmath>
#include <cstdlib>

#include "gtest/gtest.h"

namespace weft {
namespace {

TEST(AxonnInterval, IsTheFactorNearestToTheRoot) {
  // The paper's 12B model has 48 layers: 4 per stage on 12 stages, 2 per stage on 24.
  EXPECT_EQ(AxonnInterval(4, 48), 4);
  EXPECT_EQ(AxonnInterval(2, 48), 2);
  EXPECT_EQ(AxonnInterval(48, 48), 6);
  EXPECT_EQ(AxonnInterval(0, 48), 1);
  for (int64_t all = 1; all <= 60; ++all) {
    for (int64_t stage = 1; stage <= all; ++stage) {
      int64_t best = 1;
      for (int64_t k = 1; k <= stage; ++k) {
        const double root = std::sqrt(static_cast<double>(all));
        if (stage % k == 0 && std::abs(k - root) < std::abs(best - root)) best = k;
      }
      EXPECT_EQ(AxonnInterval(stage, all), best) << stage << " of " << all;
    }
  }
}

}  // namespace
}  // namespace weft
