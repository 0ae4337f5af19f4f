#include "executor/backends/cuda/bandwidth_measure.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "executor/backends/cuda/emulated_backend.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft::cuda {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(BandwidthMeasure, OneRowForEachCaseInOrder) {
  std::vector<BandwidthCase> cases = BandwidthCases(256, 128, 500);
  // And launches of several steps, which there are of more columns.
  const size_t steps = cases.size();
  for (BandwidthCase& c : BandwidthCases(256, 1152, 500)) {
    if (!c.launch.empty()) cases.push_back(std::move(c));
  }
  ASSERT_GT(cases.size(), steps);
  std::vector<BandwidthRow> rows;
  const absl::Status status =
      MeasureBandwidth(EmulatedBackend(), cases, 1, [&](const BandwidthRow& row) { rows.push_back(row); });
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_EQ(rows.size(), cases.size());
  for (size_t i = 0; i < cases.size(); ++i) {
    EXPECT_EQ(rows[i].name, cases[i].name);
    EXPECT_EQ(rows[i].bytes, cases[i].Bytes());
    EXPECT_GE(rows[i].nanoseconds, 1);
  }
}

TEST(BandwidthMeasure, WhatABackendDoesNotHaveIsNamed) {
  std::vector<BandwidthCase> cases = BandwidthCases(256, 128, 500);
  cases.resize(2);
  cases[1].step.set_kernel(KERNEL_UNSPECIFIED);
  int rows = 0;
  const absl::Status status = MeasureBandwidth(EmulatedBackend(), cases, 1, [&](const BandwidthRow&) { ++rows; });
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), HasSubstr(cases[1].name + ": "));
  // What was measured before is not lost.
  EXPECT_EQ(rows, 1);
}

TEST(BandwidthMeasure, AnOutlierDoesNotMoveTheMedian) {
  EXPECT_EQ(MedianTime({7}), 7);
  EXPECT_EQ(MedianTime({1000, 3, 4, 5, 2}), 4);
  EXPECT_EQ(MedianTime({4, 1, 3, 2}), 3);
  // Two events at the same time.
  EXPECT_EQ(MedianTime({0, 0, 9}), 1);
}

TEST(BandwidthMeasure, ALineIsJsonWithTheQuotient) {
  // 3 GB in 1 ms.
  EXPECT_EQ(BandwidthLine({"ADD bf16", int64_t{3000000000}, 1000000}),
            R"({"kernel": "ADD bf16", "bytes": 3000000000, "microseconds": 1000.0, "terabytes_per_second": 3.000})");
  EXPECT_EQ(BandwidthLine({"x", 1234567, 345}),
            R"({"kernel": "x", "bytes": 1234567, "microseconds": 0.3, "terabytes_per_second": 3.578})");
}

TEST(BandwidthContent, TokensAreAllDifferentAsLongAsTheyCanBe) {
  for (const int64_t below : {1, 2, 13, 500, 50304}) {
    const BandwidthOperand tokens = {INT32, {below}, below};
    const std::vector<char> bytes = BandwidthContent(tokens);
    std::vector<int32_t> values(below);
    std::memcpy(values.data(), bytes.data(), bytes.size());
    EXPECT_EQ(static_cast<int64_t>(std::set<int32_t>(values.begin(), values.end()).size()), below);
    EXPECT_GE(*std::min_element(values.begin(), values.end()), 0);
    EXPECT_LT(*std::max_element(values.begin(), values.end()), below);
  }
}

TEST(BandwidthContent, OthersAreOnes) {
  const auto values = [](DType dtype, auto zero) {
    const std::vector<char> bytes = BandwidthContent({dtype, {2, 1}});
    std::vector<decltype(zero)> out(2, zero);
    EXPECT_EQ(bytes.size(), 2 * sizeof zero);
    std::memcpy(out.data(), bytes.data(), bytes.size());
    return out;
  };
  EXPECT_THAT(values(FP32, 0.0f), ElementsAre(1, 1));
  EXPECT_THAT(values(FP64, 0.0), ElementsAre(1, 1));
  EXPECT_THAT(values(BF16, uint16_t{0}), ElementsAre(0x3f80, 0x3f80));
}

}  // namespace
}  // namespace weft::cuda
