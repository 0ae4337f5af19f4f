#include "executor/numerics/tf32_bits.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "gtest/gtest.h"

namespace weft::exec {
namespace {

// Computes the expected value by scaling: the nearest multiple of the unit in TF32's last place.
TEST(Tf32Bits, IsTheNearestNumberOfElevenBits) {
  std::mt19937 random(1);
  for (int i = 0; i < 200000; ++i) {
    const float x = FloatOfBits(static_cast<uint32_t>(random()));
    if (!std::isfinite(x) || x == 0) continue;
    int exponent;
    std::frexp(x, &exponent);
    const double unit = std::ldexp(1.0, std::max(exponent - 11, -136));
    const float expected = static_cast<float>(std::nearbyint(x / unit) * unit);
    ASSERT_EQ(Tf32FromFloat(x), expected) << x;
    ASSERT_EQ(Tf32FromFloat(expected), expected) << x;
  }
}

TEST(Tf32Bits, TiesGoToEvenAndWhatIsTooLargeIsInfinite) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(Tf32FromFloat(1 + 0x1p-11f), 1.0f);
  EXPECT_EQ(Tf32FromFloat(-1 - 3 * 0x1p-11f), -1 - 0x1p-9f);
  EXPECT_EQ(Tf32FromFloat(0x1.ffep127f), kInfinity);
  EXPECT_EQ(Tf32FromFloat(-std::numeric_limits<float>::max()), -kInfinity);
  EXPECT_EQ(Tf32FromFloat(-kInfinity), -kInfinity);
  EXPECT_EQ(Tf32FromFloat(0x1p-149f), 0.0f);
  EXPECT_TRUE(std::signbit(Tf32FromFloat(-0x1p-149f)));
  // Some NaNs differ from an infinity only in the bits that are dropped.
  for (const uint32_t nan : {0x7f800001u, 0xff801fffu, 0x7fffffffu}) {
    EXPECT_TRUE(std::isnan(Tf32FromFloat(FloatOfBits(nan))));
    EXPECT_EQ(BitsOfFloat(Tf32FromFloat(FloatOfBits(nan))) >> 31, nan >> 31);
  }
}

}  // namespace
}  // namespace weft::exec
