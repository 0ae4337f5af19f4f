#include "executor/numerics/sum_parts.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "executor/numerics/exact192.h"
#include "gtest/gtest.h"

namespace weft::exec {
namespace {

uint16_t Bf16(float x) { return static_cast<uint16_t>(std::bit_cast<uint32_t>(x) >> 16); }

TEST(SumPartsTest, Bf16RoundsToNearestEven) {
  // In bf16, 256 + 1 is half way between 256 and 258; ties go to even, so the sum is 256. 258 + 1 rounds to 260.
  const std::vector<uint16_t> a = {Bf16(256), Bf16(258), Bf16(1.5), Bf16(INFINITY)};
  const std::vector<uint16_t> b = {Bf16(1), Bf16(1), Bf16(2), Bf16(-INFINITY)};
  std::vector<uint16_t> sum(4);
  const void* parts[] = {a.data(), b.data()};
  ASSERT_TRUE(SumParts(BF16, 4, parts, sum.data()));
  EXPECT_EQ(sum[0], Bf16(256));
  EXPECT_EQ(sum[1], Bf16(260));
  EXPECT_EQ(sum[2], Bf16(3.5));
  EXPECT_TRUE(std::isnan(std::bit_cast<float>(static_cast<uint32_t>(sum[3]) << 16)));
}

// Every fp16 number survives the round trip, and values between two of them round correctly.
TEST(SumPartsTest, Fp16RoundsToNearestEven) {
  const auto round = [](double x) {
    uint16_t half = 0;
    AddTo(FP64, &x, 1, false, FP16, &half);
    return half;
  };
  for (uint32_t bits = 0; bits < 0x7c00; ++bits) {
    const uint16_t half = static_cast<uint16_t>(bits), negative = half | 0x8000, next = half + 1;
    double value = 0, above = 65536;
    AddTo(FP16, &half, 1, false, FP64, &value);
    ASSERT_EQ(value, bits < 0x400 ? std::ldexp(bits, -24)
                                  : std::ldexp(1024 + (bits & 0x3ff), static_cast<int>(bits >> 10) - 25));
    if (next < 0x7c00) AddTo(FP16, &next, 1, false, FP64, &above);
    ASSERT_EQ(round(value), half);
    ASSERT_EQ(round(-value), negative);
    const double middle = (value + above) / 2;
    ASSERT_EQ(round(middle), half % 2 == 0 ? half : next);
    ASSERT_EQ(round(std::nextafter(middle, 0)), half);
    ASSERT_EQ(round(std::nextafter(middle, 1e9)), next);
  }
  EXPECT_EQ(round(-INFINITY), 0xfc00);
  EXPECT_EQ(round(NAN), 0x7e00);
  // 2048 + 1 is a tie in fp16.
  const uint16_t a = round(2048), b = round(1), c = round(0x1p-24);
  uint16_t sum = 0;
  const void* parts[] = {&a, &b, &c};
  ASSERT_TRUE(SumParts(FP16, 1, parts, &sum));
  // The sum is computed in float. The third term would decide the tie, but float loses it.
  EXPECT_EQ(sum, round(2048));
  Exact192 exact = {};
  AddTo(FP16, &c, 1, false, EXACT192, &exact);
  EXPECT_EQ(ExactRound(exact, 53), 0x1p-24);
}

TEST(SumPartsTest, SumsInTheGivenOrder) {
  const float big = 1 << 24, one = 1, negative = -big;
  float sum = 0;
  const void* first[] = {&big, &one, &negative};
  ASSERT_TRUE(SumParts(FP32, 1, first, &sum));
  EXPECT_EQ(sum, 0);
  const void* last[] = {&big, &negative, &one};
  ASSERT_TRUE(SumParts(FP32, 1, last, &sum));
  EXPECT_EQ(sum, 1);
  EXPECT_FALSE(SumParts(INT32, 1, last, &sum));
}

TEST(AddToTest, ConvertsAndAdds) {
  const std::vector<float> x = {1.5, -2, 0.25};
  std::vector<double> y = {1, 1, 1};
  AddTo(FP32, x.data(), 3, false, FP64, y.data());
  EXPECT_EQ(y, (std::vector<double>{1.5, -2, 0.25}));
  AddTo(FP32, x.data(), 3, true, FP64, y.data());
  EXPECT_EQ(y, (std::vector<double>{3, -4, 0.5}));
  // bf16 gradients are added to an fp32 sum without loss.
  const std::vector<uint16_t> half = {Bf16(1), Bf16(256)};
  std::vector<float> sum = {0x1p-20f, 1};
  AddTo(BF16, half.data(), 2, true, FP32, sum.data());
  EXPECT_EQ(sum, (std::vector<float>{1 + 0x1p-20f, 257}));
}

TEST(AddToTest, RoundsOnce) {
  // The values are just above the middle between 1 and the next bf16. Rounding to fp32 first would give the middle,
  // which then rounds to even.
  const std::vector<double> x = {
      1 + 0x1p-8 + 0x1p-40, 1 + 0x1p-8, -(1 + 0x1p-8 + 0x1p-40), 1e300, -1e-300, NAN, INFINITY, 0};
  std::vector<uint16_t> y(x.size());
  AddTo(FP64, x.data(), x.size(), false, BF16, y.data());
  EXPECT_EQ(y[0], Bf16(1 + 0x1p-7f));
  EXPECT_EQ(y[1], Bf16(1));
  EXPECT_EQ(y[2], Bf16(-(1 + 0x1p-7f)));
  EXPECT_EQ(y[3], Bf16(INFINITY));
  EXPECT_EQ(y[4], Bf16(-0.0f));
  EXPECT_TRUE(std::isnan(std::bit_cast<float>(static_cast<uint32_t>(y[5]) << 16)));
  EXPECT_EQ(y[6], Bf16(INFINITY));
  EXPECT_EQ(y[7], Bf16(0));
}

TEST(AddToTest, ToExactAccumulators) {
  EXPECT_TRUE(CanAddTo(BF16, EXACT192) && CanAddTo(EXACT192, EXACT192) && CanAddTo(FP64, BF16));
  EXPECT_FALSE(CanAddTo(EXACT192, FP64) || CanAddTo(INT32, EXACT192) || CanAddTo(INT32, INT32));
  const std::vector<float> x = {0x1p-30f, -3};
  std::vector<Exact192> sums(2, Exact192{{7, 7, 7}});
  AddTo(FP32, x.data(), 2, false, EXACT192, sums.data());
  AddTo(FP32, x.data(), 2, true, EXACT192, sums.data());
  const double y[] = {1, 0.5};
  AddTo(FP64, y, 2, true, EXACT192, sums.data());
  EXPECT_EQ(ExactRound(sums[0], 53), 1 + 0x1p-29);
  EXPECT_EQ(ExactRound(sums[1], 53), -5.5);
  const std::vector<Exact192> terms = sums;
  AddTo(EXACT192, terms.data(), 2, true, EXACT192, sums.data());
  EXPECT_EQ(ExactRound(sums[1], 53), -11);
  AddTo(EXACT192, terms.data(), 2, false, EXACT192, sums.data());
  EXPECT_EQ(ExactRound(sums[1], 53), -5.5);
}

}  // namespace
}  // namespace weft::exec
