#include "executor/numerics/exact192.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace weft::exec {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

void AddTo(Exact192& accumulator, double x) {
  ExactAccumulate(absl::Span<const double>(&x, 1), absl::MakeSpan(&accumulator, 1));
}

Exact192 Sum(const std::vector<double>& terms) {
  Exact192 accumulator = {};
  for (double x : terms) AddTo(accumulator, x);
  return accumulator;
}

// Terms with exponents from -60 to 60; some of them are cancelling pairs.
std::vector<double> WildTerms(int count, std::mt19937_64& random) {
  std::uniform_real_distribution<double> mantissa(1, 2);
  std::uniform_int_distribution<int> exponent(-60, 60);
  std::vector<double> terms;
  while (static_cast<int>(terms.size()) < count) {
    const double x = std::ldexp(random() % 2 == 0 ? mantissa(random) : -mantissa(random), exponent(random));
    terms.push_back(x);
    if (random() % 3 == 0 && static_cast<int>(terms.size()) < count) terms.push_back(-x);
  }
  return terms;
}

// A second implementation to compare with: big integers in base 2^16 with a sign, whose least bit is 2^-1200. It shares
// no code with the code under test.
class BigNumber {
 public:
  static constexpr int kDigits = 160;
  static constexpr int kMin = -1200;

  void AddScaled(int64_t integer, int exponent) {
    // integer * 2^exponent, one bit at a time.
    const int64_t sign = integer < 0 ? -1 : 1;
    uint64_t magnitude = integer < 0 ? -static_cast<uint64_t>(integer) : static_cast<uint64_t>(integer);
    for (int bit = 0; magnitude != 0; ++bit, magnitude >>= 1) {
      if (magnitude & 1) digit_[(exponent + bit - kMin) / 16] += sign << ((exponent + bit - kMin) % 16);
    }
  }
  void Add(double x) {
    int exponent;
    const double fraction = std::frexp(x, &exponent);
    AddScaled(static_cast<int64_t>(std::ldexp(fraction, 53)), exponent - 53);
  }
  // Returns the bits of the magnitude, most significant first, and sets `*negative`.
  std::vector<int> Bits(bool* negative) const {
    std::vector<int64_t> digits(digit_, digit_ + kDigits);
    *negative = !Carry(digits);
    if (*negative) {
      for (int i = 0; i < kDigits; ++i) digits[i] = -digit_[i];
      Carry(digits);
    }
    std::vector<int> bits;
    for (int i = kDigits * 16 - 1; i >= 0; --i) bits.push_back((digits[i / 16] >> (i % 16)) & 1);
    return bits;
  }
  // Returns the nearest number with `precision` bits, ties to even, for any exponent.
  double Round(int precision) const {
    bool negative = false;
    const std::vector<int> bits = Bits(&negative);
    size_t first = 0;
    while (first < bits.size() && bits[first] == 0) ++first;
    if (first == bits.size()) return 0;
    int64_t mantissa = 0;
    for (int i = 0; i < precision; ++i) mantissa = mantissa * 2 + bits[first + i];
    const bool half = bits[first + precision] == 1;
    bool rest = false;
    for (size_t i = first + precision + 1; i < bits.size(); ++i) rest |= bits[i] == 1;
    if (half && (rest || mantissa % 2 == 1)) ++mantissa;
    const int exponent = kMin + static_cast<int>(bits.size() - 1 - first) - (precision - 1);
    return std::ldexp(static_cast<double>(negative ? -mantissa : mantissa), exponent);
  }

 private:
  // Carries, so that every digit is in [0, 2^16). Returns false if the number is negative.
  static bool Carry(std::vector<int64_t>& digits) {
    int64_t carry = 0;
    for (int64_t& digit : digits) {
      digit += carry;
      carry = digit >> 16;
      digit -= carry * 65536;
    }
    return carry >= 0;
  }

  int64_t digit_[kDigits] = {};
};

TEST(Exact192, EveryPermutationOfSix) {
  std::mt19937_64 random(1);
  for (int trial = 0; trial < 20; ++trial) {
    std::vector<double> terms = WildTerms(6, random);
    const Exact192 expected = Sum(terms);
    std::sort(terms.begin(), terms.end());
    int count = 0;
    do {
      ASSERT_EQ(Sum(terms), expected);
      ++count;
    } while (std::next_permutation(terms.begin(), terms.end()));
    EXPECT_GT(count, 1);
  }
}

TEST(Exact192, RandomPermutationsAndSplitsOfSixtyFour) {
  std::mt19937_64 random(2);
  std::vector<double> terms = WildTerms(64, random);
  const Exact192 expected = Sum(terms);
  bool plain_differs = false;
  const double plain = std::accumulate(terms.begin(), terms.end(), 0.0);
  for (int trial = 0; trial < 1000; ++trial) {
    std::shuffle(terms.begin(), terms.end(), random);
    ASSERT_EQ(Sum(terms), expected);
    plain_differs |= std::accumulate(terms.begin(), terms.end(), 0.0) != plain;
    // The terms are split over ranks and merged in any order.
    const int ranks = 1 + static_cast<int>(random() % 8);
    std::vector<Exact192> parts(ranks, Exact192{});
    for (double x : terms) AddTo(parts[random() % ranks], x);
    std::shuffle(parts.begin(), parts.end(), random);
    while (parts.size() > 1) {
      const size_t into = random() % (parts.size() - 1);
      ExactMerge({parts.back()}, absl::MakeSpan(&parts[into], 1));
      parts.pop_back();
    }
    ASSERT_EQ(parts[0], expected);
  }
  EXPECT_TRUE(plain_differs) << "plain fp64 sums would have passed: the terms prove nothing";
}

TEST(Exact192, RoundsLikeBigIntegers) {
  std::mt19937_64 random(3);
  for (int trial = 0; trial < 3000; ++trial) {
    const std::vector<double> terms = WildTerms(1 + static_cast<int>(random() % 12), random);
    BigNumber oracle;
    for (double x : terms) oracle.Add(x);
    for (int precision : {8, 24, 53}) {
      ASSERT_EQ(ExactRound(Sum(terms), precision), oracle.Round(precision))
          << "trial " << trial << " bits " << precision;
    }
  }
}

// Rounds sums that have few bits near the last bit kept, so that ties are common.
TEST(Exact192, TiesGoToEven) {
  std::mt19937_64 random(4);
  int ties = 0;
  for (int trial = 0; trial < 3000; ++trial) {
    const int precision = trial % 3 == 0 ? 8 : trial % 3 == 1 ? 24 : 53;
    const int exponent = static_cast<int>(random() % 120) - 60;
    const double lead =
        std::ldexp(static_cast<double>((uint64_t{1} << (precision - 1)) + random() % 4), exponent - precision);
    const double half = std::ldexp(1.0, exponent - precision - 1);
    std::vector<double> terms = {lead, half};
    if (random() % 2 == 0)
      terms.push_back(random() % 2 == 0 ? 0x1p-126 : -0x1p-126);
    else
      ++ties;
    if (random() % 2 == 0) {
      for (double& x : terms) x = -x;
    }
    BigNumber oracle;
    for (double x : terms) oracle.Add(x);
    ASSERT_EQ(ExactRound(Sum(terms), precision), oracle.Round(precision)) << "trial " << trial;
  }
  EXPECT_GT(ties, 1000);
  EXPECT_EQ(ExactRound(Sum({1.0, 0x1p-24}), 24), 1.0);
  EXPECT_EQ(ExactRound(Sum({1.0, 0x1p-24, 0x1p-126}), 24), 1.0 + 0x1p-23);
  EXPECT_EQ(ExactRound(Sum({1.0 + 0x1p-23, 0x1p-24}), 24), 1.0 + 0x1p-22);
  EXPECT_EQ(ExactRound(Sum({-1.0, -0x1p-24, -0x1p-126}), 24), -(1.0 + 0x1p-23));
}

TEST(Exact192, TermsRoundToTheGrid) {
  EXPECT_EQ(Sum({0x1p-126}), (Exact192{{1, 0, 0}}));
  EXPECT_EQ(Sum({-0x1p-126}), (Exact192{{~uint64_t{0}, ~uint64_t{0}, ~uint64_t{0}}}));
  EXPECT_EQ(Sum({0x1p-127}), (Exact192{{0, 0, 0}}));    // tie, to even
  EXPECT_EQ(Sum({0x1.8p-126}), (Exact192{{2, 0, 0}}));  // tie, to even
  EXPECT_EQ(Sum({0x1.0000000000001p-127}), (Exact192{{1, 0, 0}}));
  EXPECT_EQ(Sum({0x1.fffffffffffffp-128}), (Exact192{{0, 0, 0}}));
  EXPECT_EQ(Sum({std::numeric_limits<double>::denorm_min(), -std::numeric_limits<double>::min()}), (Exact192{}));
  EXPECT_EQ(Sum({-0.0}), (Exact192{}));
  EXPECT_EQ(Sum({1.0}), (Exact192{{0, uint64_t{1} << 62, 0}}));
  // A subnormal float below half a unit of the grid (2^-126) is rounded to 0.
  Exact192 accumulator = {};
  const float subnormal = std::numeric_limits<float>::denorm_min();
  ExactAccumulate(absl::Span<const float>(&subnormal, 1), absl::MakeSpan(&accumulator, 1));
  EXPECT_EQ(accumulator, (Exact192{}));
  const uint16_t minus_three = 0xC040;
  ExactAccumulateBf16({minus_three}, absl::MakeSpan(&accumulator, 1));
  EXPECT_EQ(ExactRound(accumulator, 53), -3.0);
}

TEST(Exact192, FloatTermsAreExactDownTo2ToMinus103) {
  std::mt19937_64 random(5);
  for (int trial = 0; trial < 1000; ++trial) {
    const float x =
        std::ldexp(1 + static_cast<float>(random() >> 41) * 0x1p-23f, static_cast<int>(random() % 160) - 103);
    if (x >= 0x1p64f) continue;
    ASSERT_EQ(ExactRound(Sum({x}), 24), x);
  }
}

// |sum - true sum| <= n * 2^-127 for terms that do not lie on the grid.
TEST(Exact192, ErrorBound) {
  std::mt19937_64 random(6);
  for (int trial = 0; trial < 200; ++trial) {
    const int n = 1 + static_cast<int>(random() % 50);
    BigNumber difference;
    Exact192 accumulator = {};
    for (int i = 0; i < n; ++i) {
      const double x =
          std::ldexp(static_cast<double>(static_cast<int64_t>(random())), -180 - static_cast<int>(random() % 20));
      difference.Add(x);
      AddTo(accumulator, x);
    }
    // These sums are far below 2^-73, so the accumulator's value is exact as a double.
    difference.Add(-ExactRound(accumulator, 53));
    ASSERT_LE(std::abs(difference.Round(53)), n * 0x1p-127);
  }
}

TEST(Exact192, OverflowAbsorbs) {
  for (double x : {0x1p64, -0x1p64, kInfinity, -kInfinity, std::nan(""), std::numeric_limits<double>::max()}) {
    const Exact192 sum = Sum({1.0, x, -x, 5.0});
    EXPECT_TRUE(sum.overflowed()) << x;
    EXPECT_TRUE(std::isnan(ExactRound(sum, 53)));
    Exact192 other = Sum({2.0});
    ExactMerge({sum}, absl::MakeSpan(&other, 1));
    EXPECT_TRUE(other.overflowed());
    Exact192 self = sum;
    ExactMerge({Sum({2.0})}, absl::MakeSpan(&self, 1));
    EXPECT_TRUE(self.overflowed());
    ExactMerge({self}, absl::MakeSpan(&self, 1));
    EXPECT_TRUE(self.overflowed());
  }
  const double large = 0x1.fffffffffffffp63;
  EXPECT_EQ(ExactRound(Sum({large}), 53), large);
  EXPECT_EQ(ExactRound(Sum({-large, -large}), 53), -2 * large);
  EXPECT_TRUE(Sum({large, large, large}).overflowed());
  EXPECT_TRUE(Sum({-large, -large, -large}).overflowed());
  EXPECT_TRUE(Sum({-0x1p63, -0x1p63, -0x1p63, -0x1p63}).overflowed());
}

}  // namespace
}  // namespace weft::exec
