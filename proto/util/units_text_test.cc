#include "proto/util/units_text.h"

#include "gtest/gtest.h"

namespace weft {
namespace {

TEST(UnitsText, Bytes) {
  EXPECT_EQ(BytesText(0), "0 B");
  EXPECT_EQ(BytesText(1023), "1023 B");
  EXPECT_EQ(BytesText(1024), "1 KiB");
  EXPECT_EQ(BytesText(1536), "1.5 KiB");
  EXPECT_EQ(BytesText((1 << 20) - 1), "1 MiB");
  EXPECT_EQ(BytesText(int64_t{80} << 30), "80 GiB");
  EXPECT_EQ(BytesText(INT64_MAX), "8 EiB");
}

TEST(UnitsText, Seconds) {
  EXPECT_EQ(SecondsText(0), "0 s");
  EXPECT_EQ(SecondsText(1.23456), "1.235 s");
  EXPECT_EQ(SecondsText(0.01234), "12.34 ms");
  EXPECT_EQ(SecondsText(4.5e-5), "45 us");
  EXPECT_EQ(SecondsText(3e-12), "0.003 ns");
  EXPECT_EQ(SecondsText(-0.5), "-500 ms");
}

TEST(UnitsText, CountsAndPercents) {
  EXPECT_EQ(CountText(124439808), "124.4 M");
  EXPECT_EQ(CountText(7), "7");
  EXPECT_EQ(CountText(999.99), "1 k");
  EXPECT_EQ(SignedPercentText(-0.0321), "-3.2 %");
  EXPECT_EQ(SignedPercentText(0.12), "+12.0 %");
}

}  // namespace
}  // namespace weft
