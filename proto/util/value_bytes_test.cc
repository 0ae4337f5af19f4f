#include "proto/util/value_bytes.h"

#include <initializer_list>

#include "gtest/gtest.h"

namespace weft {
namespace {

Value ValueOf(DType dtype, std::initializer_list<int64_t> shape) {
  Value value;
  value.set_dtype(dtype);
  for (const int64_t extent : shape) value.add_shape(extent);
  return value;
}

TEST(ValueBytes, ElementsTimesTheBytesOfOne) {
  EXPECT_EQ(ValueBytes(ValueOf(FP32, {3, 5})), 60);
  EXPECT_EQ(ValueBytes(ValueOf(BF16, {7})), 14);
  EXPECT_EQ(ValueBytes(ValueOf(UINT8, {7, 2})), 14);
  EXPECT_EQ(ValueBytes(ValueOf(EXACT192, {2})), 48);
  // A scalar has one element. A value with an extent of zero has no elements.
  EXPECT_EQ(ValueBytes(ValueOf(FP64, {})), 8);
  EXPECT_EQ(ValueBytes(ValueOf(FP64, {4, 0})), 0);
  EXPECT_EQ(ValueBytes(ValueOf(DTYPE_UNSPECIFIED, {4})), 0);
}

TEST(ValueBytes, NothingWhereNoCountHolds) {
  EXPECT_EQ(ValueBytes(ValueOf(FP32, {-1, 4})), std::nullopt);
  EXPECT_EQ(ValueBytes(ValueOf(UINT8, {int64_t{1} << 62})), int64_t{1} << 62);
  EXPECT_EQ(ValueBytes(ValueOf(UINT8, {int64_t{1} << 32, int64_t{1} << 31})), std::nullopt);
  // The largest size that is allowed, and one element more.
  EXPECT_EQ(ValueBytes(ValueOf(FP64, {int64_t{1} << 59})), int64_t{1} << 62);
  EXPECT_EQ(ValueBytes(ValueOf(FP64, {(int64_t{1} << 59) + 1})), std::nullopt);
}

}  // namespace
}  // namespace weft
