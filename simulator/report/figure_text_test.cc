#include "simulator/report/figure_text.h"

#include "gtest/gtest.h"

namespace weft::sim {
namespace {

TEST(FigureTextTest, TimesHaveTheUnitOfTheirSize) {
  EXPECT_EQ(Seconds(0), "0");
  EXPECT_EQ(Seconds(12.34e-6), "12.34 us");
  EXPECT_EQ(Seconds(0.0012), "1.200 ms");
  EXPECT_EQ(Seconds(-0.0012), "-1.200 ms");
  EXPECT_EQ(Seconds(3), "3.000 s");
}

TEST(FigureTextTest, BytesAreInPowersOf1024) {
  EXPECT_EQ(Bytes(1023), "1023 B");
  EXPECT_EQ(Bytes(1536), "1.5 KiB");
  EXPECT_EQ(Bytes(int64_t{3} << 19), "1.5 MiB");
  EXPECT_EQ(Bytes(int64_t{80} << 30), "80.00 GiB");
  EXPECT_EQ(Percent(0.1234), "12.3 %");
}

TEST(FigureTextTest, ColumnsAreAsWideAsTheirWidestCell) {
  EXPECT_EQ(Table({{"name", "b"}, {"x", "100", "%"}, {"longer"}}),
            "  name      b\n"
            "  x       100  %\n"
            "  longer\n");
  // An ellipsis is three bytes in one column.
  EXPECT_EQ(Table({{"…é", "b"}, {"xyz", "100"}}),
            "  …é     b\n"
            "  xyz  100\n");
}

}  // namespace
}  // namespace weft::sim
