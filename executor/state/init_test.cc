#include "executor/state/init.h"

#include <cmath>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"

namespace weft::exec {
namespace {

LogicalTensor Normal(double stddev, std::vector<int64_t> shape) {
  LogicalTensor tensor;
  for (int64_t extent : shape) tensor.add_shape(extent);
  tensor.set_init_normal(stddev);
  return tensor;
}

std::vector<float> Values(uint64_t seed, int64_t index, const LogicalTensor& tensor, int64_t first, int64_t count) {
  std::vector<float> values(count, -1);
  InitialValues(seed, index, tensor, first, absl::MakeSpan(values));
  return values;
}

TEST(Init, RangesAgreeWithTheWhole) {
  const LogicalTensor tensor = Normal(0.02, {7, 11});
  const std::vector<float> whole = Values(5, 3, tensor, 0, 77);
  for (int64_t first = 0; first < 77; ++first) {
    for (int64_t count : {1, 2, 3, 10}) {
      if (first + count > 77) continue;
      EXPECT_EQ(Values(5, 3, tensor, first, count),
                std::vector<float>(whole.begin() + first, whole.begin() + first + count));
    }
  }
}

TEST(Init, PaddingIsZeroAndConstantIsConstant) {
  std::vector<float> values = Values(5, 0, Normal(1, {3, 3}), 6, 6);
  EXPECT_NE(values[2], 0);
  EXPECT_EQ(std::vector<float>(values.begin() + 3, values.end()), std::vector<float>(3, 0.0f));
  LogicalTensor ones = Normal(0, {4});
  ones.set_init_constant(1);
  EXPECT_EQ(Values(5, 0, ones, 2, 4), (std::vector<float>{1, 1, 0, 0}));
}

TEST(Init, SeedAndTensorMatter) {
  const LogicalTensor tensor = Normal(1, {100});
  EXPECT_NE(Values(1, 0, tensor, 0, 100), Values(2, 0, tensor, 0, 100));
  EXPECT_NE(Values(1, 0, tensor, 0, 100), Values(1, 1, tensor, 0, 100));
  EXPECT_NE(Values(1, 0, tensor, 0, 100), Values((uint64_t{1} << 32) + 1, 0, tensor, 0, 100));
}

// Moments of a standard normal; the bounds are five standard errors of a sample of this size.
TEST(Init, MomentsAreNormal) {
  const int64_t n = 200000;
  const std::vector<float> values = Values(9, 4, Normal(1, {n}), 0, n);
  double sum = 0, squares = 0, fourths = 0;
  for (double x : values) {
    sum += x;
    squares += x * x;
    fourths += x * x * x * x;
  }
  EXPECT_NEAR(sum / n, 0, 5 / std::sqrt(n));
  EXPECT_NEAR(squares / n, 1, 5 * std::sqrt(2.0 / n));
  EXPECT_NEAR(fourths / n, 3, 5 * std::sqrt(96.0 / n));
}

}  // namespace
}  // namespace weft::exec
