// Tests chunks of rows, groups of columns, and a call that requests only the plain sums.
// conformance/column_sum_cases.cc tests the values.
#include "executor/backends/cuda/kernels/column_sums.cu"

#include <cmath>
#include <vector>

#include "gtest/gtest.h"

namespace weft::exec::cuda {
namespace {

struct Case {
  int64_t segments, rows, columns, groups, rows_of_statistic;
  bool accumulate;
};

class ColumnSumsTest : public testing::TestWithParam<Case> {};

// Every row is in exactly one chunk, whatever the number of rows. Elements are small whole numbers, so sums are exact.
TEST_P(ColumnSumsTest, EveryRowCountsOnce) {
  const Case& c = GetParam();
  const int64_t rows = c.segments * c.rows, statistics = rows / c.rows_of_statistic * c.groups;
  std::vector<float> dy(rows * c.columns), x(dy.size()), mean(statistics), rstd(statistics, 0.5);
  for (size_t i = 0; i < dy.size(); ++i) {
    dy[i] = static_cast<float>(i % 5) - 1;
    x[i] = static_cast<float>(i % 7);
  }
  for (int64_t i = 0; i < statistics; ++i) mean[i] = static_cast<float>(i % 3);
  std::vector<float> plain(c.segments * c.columns, 7), products(plain);
  std::vector<float> expected_plain(plain.size(), c.accumulate ? 7 : 0), expected_products(expected_plain);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t j = 0; j < c.columns; ++j) {
      const int64_t e = r * c.columns + j, to = r / c.rows * c.columns + j;
      const int64_t s = r / c.rows_of_statistic * c.groups + j / (c.columns / c.groups);
      expected_plain[to] += dy[e];
      expected_products[to] += dy[e] * ((x[e] - mean[s]) * rstd[s]);
    }
  }
  ColumnSums sums;
  sums.dy = {dy.data(), Type::kFp32};
  sums.x = {x.data(), Type::kFp32};
  sums.mean = {mean.data(), Type::kFp32};
  sums.rstd = {rstd.data(), Type::kFp32};
  sums.plain = {plain.data(), Type::kFp32};
  sums.products = {products.data(), Type::kFp32};
  sums.rows_of_statistic = c.rows_of_statistic;
  sums.groups = c.groups;
  sums.segments = c.segments;
  sums.rows = c.rows;
  sums.columns = sums.stride = c.columns;
  sums.accumulate = c.accumulate;
  std::vector<float> scratch(sums.ScratchBytes() / 4, NAN);
  sums.scratch = scratch.data();
  ASSERT_EQ(Launch(sums, nullptr), nullptr);
  EXPECT_EQ(plain, expected_plain);
  EXPECT_EQ(products, expected_products);
  // Compute only the plain sums.
  sums.products = {};
  std::fill(plain.begin(), plain.end(), 7.0f);
  ASSERT_EQ(Launch(sums, nullptr), nullptr);
  EXPECT_EQ(plain, expected_plain);
}

// Chunks consist of whole turns and cover all rows. Their number suits a large device.
TEST(ColumnChunksTest, AreAsManyAsADeviceHasRoomFor) {
  const auto of = [](int64_t rows, int64_t columns) {
    ColumnSums sums;
    sums.rows = rows;
    sums.columns = columns;
    EXPECT_EQ(sums.RowsOfChunk() % kColumnTurns, 0);
    EXPECT_GE(sums.RowsOfChunk() * sums.Chunks(), rows);
    EXPECT_LT(sums.RowsOfChunk() * (sums.Chunks() - 1), rows);
    return sums.Chunks();
  };
  EXPECT_EQ(of(16384, 1600), 512);
  EXPECT_EQ(of(8192, 4096), 256);
  EXPECT_EQ(of(16384, 6400), 256);
  EXPECT_EQ(of(65536, 64), 2048);
  EXPECT_EQ(of(100, 1600), 13);
  EXPECT_EQ(of(1, 1600), 1);
}

INSTANTIATE_TEST_SUITE_P(Shapes, ColumnSumsTest,
                         testing::Values(Case{1, 1, 8, 1, 1, false}, Case{1, 63, 2, 1, 1, true},
                                         Case{1, 65, 264, 1, 1, false}, Case{1, 5000, 8, 1, 1, true},
                                         Case{1, 17000, 8, 1, 1, false}, Case{3, 129, 16, 1, 1, false},
                                         Case{2, 64, 264, 33, 64, true}, Case{1, 192, 24, 4, 64, false},
                                         Case{1, 30, 9, 3, 15, true}));

}  // namespace
}  // namespace weft::exec::cuda
