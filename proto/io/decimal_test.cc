#include "proto/io/decimal.h"

#include <limits>
#include <string>

#include "gtest/gtest.h"

namespace weft {
namespace {

TEST(ReadDecimal, TakesTheNearestDouble) {
  double value = 7;
  EXPECT_EQ(ReadDecimal(" +1.5e3 ", &value), Decimal::kRight);
  EXPECT_EQ(value, 1500);
  EXPECT_EQ(ReadDecimal("-.25", &value), Decimal::kRight);
  EXPECT_EQ(value, -0.25);
  EXPECT_EQ(ReadDecimal("1.7976931348623157e308", &value), Decimal::kRight);
  EXPECT_EQ(value, std::numeric_limits<double>::max());
  EXPECT_EQ(ReadDecimal("5e-324", &value), Decimal::kRight);
  EXPECT_EQ(value, std::numeric_limits<double>::denorm_min());
}

TEST(ReadDecimal, ZeroIsInRangeHoweverItIsWritten) {
  for (const char* zero : {"0", "-0.000", "0e-400", "0.0e999"}) {
    double value = 7;
    EXPECT_EQ(ReadDecimal(zero, &value), Decimal::kRight) << zero;
    EXPECT_EQ(value, 0) << zero;
  }
}

TEST(ReadDecimal, RefusesNumbersOutOfRange) {
  for (const std::string& text : {std::string("1e400"), std::string("-1e400"), std::string("1e-400"),
                                  std::string("-0.001e-322"), "1" + std::string(400, '0')}) {
    double value = 7;
    EXPECT_EQ(ReadDecimal(text, &value), Decimal::kOutOfRange) << text;
    EXPECT_EQ(value, 7) << text;
  }
}

TEST(ReadDecimal, WordsAreNoNumbers) {
  for (const char* text : {"", " ", "+", "-", "+-1", "inf", "-inf", "nan", "1e", "1x", "0x10", "1 2", "1,5"}) {
    double value = 7;
    EXPECT_EQ(ReadDecimal(text, &value), Decimal::kNoNumber) << text;
    EXPECT_EQ(value, 7) << text;
  }
}

TEST(BadBeginning, IsAZeroOrAPlus) {
  for (const char* text : {"010", "-010", "00", "00.5", " 01"}) {
    EXPECT_EQ(BadBeginning(text), " without a 0 in front") << text;
  }
  for (const char* text : {"+5", "+05", "+", " +0.5"}) EXPECT_EQ(BadBeginning(text), " without a + in front") << text;
  for (const char* text : {"", "0", "-0", "0.5", "0x10", "10", "-10", "1e+5", "five"}) {
    EXPECT_EQ(BadBeginning(text), "") << text;
  }
}

}  // namespace
}  // namespace weft
