// Tests stochastic rounding: its probabilities, and the values that it leaves unchanged.
#include "executor/numerics/stochastic_rounding.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "executor/numerics/float_bits.h"
#include "gtest/gtest.h"

namespace weft::exec {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

uint16_t Round(DType to, float x, uint32_t random) {
  return to == BF16 ? Bf16FromFloatAtRandom(x, random) : Fp16FromFloatAtRandom(x, random);
}
uint16_t Nearest(DType to, float x) { return to == BF16 ? Bf16FromFloat(x) : Fp16FromFloat(x); }
float Value(DType type, uint16_t bits) { return type == BF16 ? FloatFromBf16(bits) : FloatFromFp16(bits); }

// Rounds x with all 2^16 random numbers. Checks that x always becomes one of its two neighbors, and how often it
// becomes the neighbor away from zero: `exact` times, rounded down, with `exact` = 2^16 (|x| - low) / (high - low).
void CheckAllNumbers(DType to, float x, double exact) {
  const uint16_t low = Round(to, x, 0);
  int64_t away = 0;
  for (uint32_t random = 0; random < 65536; ++random) {
    const uint16_t bits = Round(to, x, random);
    ASSERT_TRUE(bits == low || bits == low + 1) << x << " by " << random;
    away += bits != low;
  }
  EXPECT_EQ(static_cast<double>(away), std::floor(exact)) << DType_Name(to) << " of " << x;
}

TEST(StochasticRoundingTest, ProbabilityIsTheDistanceFromTheLowerNeighbor) {
  for (const DType to : {BF16, FP16}) {
    std::mt19937 random(7);
    for (int i = 0; i < 40; ++i) {
      // Values from below the smallest subnormal of fp16 up to 2^15.
      const float x = std::ldexp(1 + std::generate_canonical<float, 24>(random), static_cast<int>(random() % 40) - 25) *
                      (i % 2 == 0 ? 1 : -1);
      const double low = std::fabs(Value(to, Round(to, x, 0)));
      const double high = std::fabs(Value(to, static_cast<uint16_t>(Round(to, x, 0) + 1)));
      ASSERT_LE(low, std::fabs(x));
      ASSERT_GT(high, std::fabs(x));
      CheckAllNumbers(to, x, 65536 * (std::fabs(static_cast<double>(x)) - low) / (high - low));
    }
  }
}

TEST(StochasticRoundingTest, RepresentableValuesStay) {
  for (const DType to : {BF16, FP16}) {
    for (uint32_t bits = 0; bits < 65536; ++bits) {
      const float x = Value(to, static_cast<uint16_t>(bits));
      if (std::isnan(x)) continue;
      for (const uint32_t random : {0u, 1u, 32767u, 65535u}) ASSERT_EQ(Round(to, x, random), bits) << x;
    }
  }
}

TEST(StochasticRoundingTest, BeyondTheLargestItIsToTheNearest) {
  for (const DType to : {BF16, FP16}) {
    const float largest = to == BF16 ? FloatFromBf16(0x7f7f) : 65504.0f;
    for (const float x : {kInfinity, largest, std::nextafter(largest, kInfinity), largest * 1.0009f, 3.4e38f, NAN}) {
      for (const uint32_t random : {0u, 40000u, 65535u}) {
        EXPECT_EQ(Round(to, x, random), Nearest(to, x)) << x;
        EXPECT_EQ(Round(to, -x, random), Nearest(to, -x)) << x;
      }
    }
    // A value below the largest finite value never exceeds it.
    EXPECT_EQ(Value(to, Round(to, std::nextafter(largest, 0.0f), 65535)), largest);
  }
}

// Rounds one value 2^16 times with the generator's own numbers, as different elements or in different steps. The mean
// of the results is the value, within five standard deviations.
TEST(StochasticRoundingTest, MeansAreTheValues) {
  constexpr int64_t kCount = 1 << 16;
  for (const DType to : {BF16, FP16}) {
    for (const float x : {1.0009f, -0.3f, 3e-7f, 1234.567f}) {
      const double low = Value(to, Round(to, x, 0)), high = Value(to, static_cast<uint16_t>(Round(to, x, 0) + 1));
      const double p = (x - low) / (high - low);
      const double bound = 5 * std::fabs(high - low) * std::sqrt(p * (1 - p) / kCount) + std::fabs(high - low) / 65536;
      const std::vector<float> values(kCount, x);
      std::vector<uint16_t> rounded(kCount);
      RoundAtRandom(values.data(), kCount, {5, 3, 2}, 11, to, rounded.data());
      double sum = 0;
      for (const uint16_t bits : rounded) sum += Value(to, bits);
      EXPECT_NEAR(sum / kCount, x, bound) << DType_Name(to) << " over elements";
      sum = 0;
      for (int64_t step = 0; step < kCount; ++step) {
        uint16_t bits = 0;
        RoundAtRandom(&x, 1, {5, step, 2}, 4, to, &bits);
        sum += Value(to, bits);
      }
      EXPECT_NEAR(sum / kCount, x, bound) << DType_Name(to) << " over steps";
    }
  }
}

// An element's number alone selects its random bits, whoever rounds the element and whatever is rounded with it.
TEST(StochasticRoundingTest, PartsAreThoseOfTheWhole) {
  std::mt19937 random(3);
  std::vector<float> values(1000);
  for (float& x : values) x = std::generate_canonical<float, 24>(random) - 0.5f;
  const int64_t first = (int64_t{1} << 35) - 500;
  std::vector<uint16_t> whole(values.size()), parts(values.size());
  RoundAtRandom(values.data(), 1000, {1, 2, 3}, first, BF16, whole.data());
  for (int64_t begin = 0, end = 0; begin < 1000; begin = end) {
    end = std::min<int64_t>(1000, begin + 1 + static_cast<int64_t>(random() % 30));
    RoundAtRandom(values.data() + begin, end - begin, {1, 2, 3}, first + begin, BF16, parts.data() + begin);
  }
  EXPECT_EQ(parts, whole);
  for (const RoundingNumbers& other : {RoundingNumbers{2, 2, 3}, RoundingNumbers{1, 3, 3}, RoundingNumbers{1, 2, 4},
                                       RoundingNumbers{1, 2, 3, PhiloxPurpose::kFirstMomentRounding},
                                       RoundingNumbers{1, 2, 3, PhiloxPurpose::kSecondMomentRounding}}) {
    RoundAtRandom(values.data(), 1000, other, first, BF16, parts.data());
    EXPECT_NE(parts, whole);
  }
}

}  // namespace
}  // namespace weft::exec
