#include "proto/util/units.h"

#include <cmath>
#include <limits>
#include <vector>

#include "gtest/gtest.h"

namespace weft {
namespace {

TEST(UnitsTest, SecondsAreRoundedUpToPicoseconds) {
  EXPECT_EQ(FromSeconds(1).ps, 1'000'000'000'000);
  EXPECT_EQ(FromSeconds(1.5e-12).ps, 2);
  EXPECT_EQ(FromSeconds(1e-13).ps, 1);
  EXPECT_EQ(FromSeconds(0).ps, 0);
}

TEST(UnitsTest, SecondsOutOfRangeAreClamped) {
  EXPECT_EQ(FromSeconds(-1).ps, 0);
  EXPECT_EQ(FromSeconds(std::nan("")).ps, 0);
  EXPECT_EQ(FromSeconds(1e300).ps, int64_t{1} << 62);
  EXPECT_EQ(FromSeconds(std::numeric_limits<double>::infinity()).ps, int64_t{1} << 62);
}

TEST(UnitsTest, ElementCountRefusesNegativeExtentsAndOverflow) {
  EXPECT_EQ(ElementCount({}), 1);
  EXPECT_EQ(ElementCount(std::vector<int64_t>{3, 4}), 12);
  EXPECT_EQ(ElementCount(std::vector<int64_t>{0, int64_t{1} << 62}), 0);
  EXPECT_EQ(ElementCount(std::vector<int64_t>{2, -1}), std::nullopt);
  EXPECT_EQ(ElementCount(std::vector<int64_t>{int64_t{1} << 40, int64_t{1} << 40}), std::nullopt);
}

TEST(UnitsTest, EveryDTypeHasASizeAndAName) {
  for (int value = DType_MIN; value <= DType_MAX; ++value) {
    const DType dtype = static_cast<DType>(value);
    if (!DType_IsValid(value)) continue;
    EXPECT_EQ(DTypeBytes(dtype) == 0, dtype == DTYPE_UNSPECIFIED || dtype == TF32) << value;
    EXPECT_EQ(DTypeName(dtype) == "unspecified", dtype == DTYPE_UNSPECIFIED) << value;
  }
}

TEST(UnitsTest, MasksTakeOneByte) {
  EXPECT_EQ(DTypeBytes(UINT8), 1);
  EXPECT_EQ(DTypeName(UINT8), "uint8");
}

TEST(UnitsTest, RoundUpReachesTheNextMultiple) {
  EXPECT_EQ(RoundUp(0, 256), 0);
  EXPECT_EQ(RoundUp(1, 256), 256);
  EXPECT_EQ(RoundUp(256, 256), 256);
}

}  // namespace
}  // namespace weft
