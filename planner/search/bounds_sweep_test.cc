#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "planner/search/bounds_sweep_testing.h"
#include "tests/full.h"

namespace weft::planner {
namespace {

// The program bounds_sweep draws more, and larger models.
TEST(BoundsSweep, NoBoundIsAboveWhatIsSimulated) {
  const SweepResult result = SweepBounds({.seed = 20261, .candidates = full ? 10'000 : 400, .tiny = true});
  EXPECT_THAT(result.violations, testing::IsEmpty());
  EXPECT_GT(result.simulated, result.candidates / 2);
  EXPECT_LT(Quantile(result.estimate_errors, 0.5), 0.1);
  EXPECT_LT(Quantile(result.bound_gaps, 0.5), 0.2);
  EXPECT_LT(Quantile(result.memory_gaps, 0.5), 0.15);
  EXPECT_GT(Quantile(result.spearman, 0.5), 0.8);
}

}  // namespace
}  // namespace weft::planner
