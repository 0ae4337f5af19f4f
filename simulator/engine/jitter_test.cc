#include "simulator/engine/jitter.h"

#include <cmath>
#include <cstdint>

#include "gtest/gtest.h"

namespace weft::sim {
namespace {

TEST(Jitter, NoneChangesNothing) {
  EXPECT_FALSE(Jitter().any());
  EXPECT_FALSE(Jitter(Draw(1), 0).any());
  for (const int64_t cost : {int64_t{0}, int64_t{1}, int64_t{123456789}, int64_t{1} << 61}) {
    EXPECT_EQ(Jitter::Scaled(cost, Jitter().Factor(1, 2, 3, 4)), cost);
  }
}

TEST(Jitter, CostsAreRoundedUpAndBounded) {
  EXPECT_EQ(Jitter::Scaled(3, FactorDraw::kOne / 2), 2);
  EXPECT_EQ(Jitter::Scaled(1, FactorDraw::kOne / 8), 1);
  EXPECT_EQ(Jitter::Scaled(0, FactorDraw::kOne * 2), 0);
  EXPECT_EQ(Jitter::Scaled(1000, FactorDraw::kOne + 1), 1001);
  EXPECT_EQ(Jitter::Scaled(int64_t{1} << 62, FactorDraw::kOne * 8), int64_t{1} << 62);
}

// Every step of every rank and repetition has a factor of its own, with the stated deviation.
TEST(Jitter, StepsDiffer) {
  const Jitter jitter(Draw(5), 0.02);
  const int64_t base = jitter.Factor(1, 2, 3, 4);
  EXPECT_NE(base, jitter.Factor(2, 2, 3, 4));
  EXPECT_NE(base, jitter.Factor(1, 3, 3, 4));
  EXPECT_NE(base, jitter.Factor(1, 2, 4, 4));
  EXPECT_NE(base, jitter.Factor(1, 2, 3, 5));
  EXPECT_NE(base, Jitter(Draw(6), 0.02).Factor(1, 2, 3, 4));
  EXPECT_EQ(base, Jitter(Draw(5), 0.02).Factor(1, 2, 3, 4));
  double sum = 0, squares = 0;
  int count = 0;
  for (int64_t rank = 0; rank < 20; ++rank) {
    for (int64_t repetition = 0; repetition < 10; ++repetition) {
      for (int64_t action = 0; action < 20; ++action) {
        for (int64_t step = 0; step < 5; ++step, ++count) {
          const double factor = static_cast<double>(jitter.Factor(rank, repetition, action, step)) / FactorDraw::kOne;
          sum += factor - 1;
          squares += (factor - 1) * (factor - 1);
        }
      }
    }
  }
  EXPECT_NEAR(sum / count, 0, 5 * 0.02 / std::sqrt(count));
  EXPECT_NEAR(std::sqrt(squares / count), 0.02, 0.02 * 0.03);
}

}  // namespace
}  // namespace weft::sim
