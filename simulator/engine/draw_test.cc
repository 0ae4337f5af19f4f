#include "simulator/engine/draw.h"

#include <cmath>
#include <cstdint>
#include <set>

#include "gtest/gtest.h"

namespace weft::sim {
namespace {

constexpr int kDraws = 400000;

double Deviate(int i) { return static_cast<double>(Draw(7).At(i).Normal()) / std::exp2(32) / kNormalDeviation; }

// The values are the same on every machine and never change, because reports are compared byte by byte.
TEST(Draw, Values) {
  EXPECT_EQ(Draw(1).Bits(), 6791897765849424158u);
  EXPECT_EQ(Draw(0).Normal(), -7353291248);
  EXPECT_EQ(Draw(1).At(2).Normal(), 2498065025);
  EXPECT_EQ(FactorDraw(0.02)(Draw(1)), 1081036187);
}

TEST(Draw, PlacesDiffer) {
  std::set<uint64_t> seen;
  for (uint64_t a = 0; a < 30; ++a) {
    for (uint64_t b = 0; b < 30; ++b) {
      for (uint64_t i = 0; i < 5; ++i) seen.insert(Draw(3).At(a).At(b).Bits(i));
      seen.insert(Draw(a).At(b).Bits());
    }
  }
  EXPECT_EQ(seen.size(), 30u * 30 * 6);
}

TEST(Draw, NormalMomentsAndTails) {
  double sum = 0, squares = 0, cubes = 0, fourths = 0;
  int beyond[4] = {};
  for (int i = 0; i < kDraws; ++i) {
    const double z = Deviate(i);
    sum += z;
    squares += z * z;
    cubes += z * z * z;
    fourths += z * z * z * z;
    for (int k = 0; k < 4; ++k) beyond[k] += std::abs(z) > k + 0.5;
  }
  EXPECT_NEAR(sum / kDraws, 0, 0.006);
  EXPECT_NEAR(squares / kDraws, 1, 0.01);
  EXPECT_NEAR(cubes / kDraws, 0, 0.03);
  EXPECT_NEAR(fourths / kDraws, 3 - 2.0 / 256, 0.06);
  for (int k = 0; k < 4; ++k) {
    const double expected = std::erfc((k + 0.5) / std::sqrt(2.0));
    EXPECT_NEAR(beyond[k], kDraws * expected, 5 * std::sqrt(kDraws * expected)) << k;
  }
}

TEST(Draw, HappensAsOftenAsItShould) {
  for (const double probability : {0.0, 0.01, 0.5, 1.0}) {
    int happened = 0;
    for (int i = 0; i < kDraws; ++i) happened += Draw(11).At(i).Happens(probability);
    EXPECT_NEAR(happened, kDraws * probability, 5 * std::sqrt(kDraws * probability * (1 - probability))) << probability;
  }
}

TEST(FactorDraw, IsOneWithoutDeviationAndNeverBelowAnEighth) {
  const FactorDraw none(0), wide(1);
  double sum = 0;
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(none(Draw(i)), FactorDraw::kOne);
    EXPECT_GE(wide(Draw(i)), FactorDraw::kOne / 8);
    sum += static_cast<double>(FactorDraw(0.1)(Draw(i))) / FactorDraw::kOne;
  }
  EXPECT_NEAR(sum / 1000, 1, 5 * 0.1 / std::sqrt(1000.0));
}

}  // namespace
}  // namespace weft::sim
