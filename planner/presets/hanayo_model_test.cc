#include "planner/presets/hanayo_model.h"

#include "gtest/gtest.h"

namespace weft::planner {
namespace {

// Sec. 3.4: with T_B = 2 T_F and free messages, (2P - 2) / (3PW + P - 1).
TEST(HanayoModel, WithoutMessages) {
  for (const int p : {2, 4, 8, 32}) {
    for (const int w : {1, 2, 4}) {
      EXPECT_NEAR(HanayoBubbleRatio(p, w, {1, 2, 0}), (2.0 * p - 2) / (3 * p * w + p - 1), 1e-12);
    }
  }
}

// P = 4, W = 2, T_F = 1, T_B = 2, T_C = 0.1: 1 + (1 + 4 + 1/2 + 2/3) 0.1 over 4/3 + (1/4 + 4/3) 2 + (1 + 8) 0.1.
TEST(HanayoModel, WithMessagesByHand) {
  EXPECT_NEAR(HanayoBubbleRatio(4, 2, {1, 2, 0.1}), (1 + 0.1 * 37 / 6) / (4.5 + 0.9), 1e-12);
}

// However long a message takes, more waves lower the ratio: the equation alone would always choose the most.
TEST(HanayoModel, MoreWavesAlwaysLowerTheRatio) {
  for (const double message : {0.0, 0.001, 0.1, 0.5, 5.0}) {
    EXPECT_LT(HanayoBubbleRatio(8, 4, {1, 2, message}), HanayoBubbleRatio(8, 2, {1, 2, message}));
  }
}

}  // namespace
}  // namespace weft::planner
