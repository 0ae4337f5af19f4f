#include "simulator/metrics/tightest_rank.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/parse_text.h"

namespace weft::sim {
namespace {

TightestRank Find(const std::vector<int64_t>& bytes, const std::vector<int32_t>& templates, const std::string& others) {
  const Cluster cluster = Parse<Cluster>(
      "nodes: 4 devices_per_node: 1 device { name: 'large' memory_bytes: 100 reserved_bytes: 5 } " + others);
  const auto placement = RankPlacement::Make(static_cast<int64_t>(templates.size()), cluster);
  EXPECT_TRUE(placement.ok()) << placement.status();
  return placement.ok() ? FindTightestRank(bytes, templates, *placement) : TightestRank();
}

constexpr char kSmall[] = "other_devices { nodes: 2 device { name: 'small' memory_bytes: 60 } }";

TEST(TightestRank, IsOfTheFirstRankThatTakesMostWhereDevicesAreAlike) {
  const TightestRank tightest = Find({30, 70}, {0, 1, 1, 0}, "");
  EXPECT_EQ(tightest.rank, 1);
  EXPECT_EQ(tightest.device_bytes, 75);
  EXPECT_EQ(tightest.capacity_bytes, 100);
}

TEST(TightestRank, IsOfTheDeviceThatHasLeastLeft) {
  EXPECT_EQ(Find({30, 40}, {1, 1, 0, 0}, kSmall).rank, 2);
  EXPECT_EQ(Find({30, 40}, {1, 1, 0, 0}, kSmall).capacity_bytes, 60);
  EXPECT_EQ(Find({30, 66}, {1, 1, 0, 0}, kSmall).rank, 0);
}

TEST(TightestRank, RanksWithoutATemplateTakeNothing) {
  EXPECT_EQ(Find({10}, {-1, -1, -1, 0}, "").rank, 3);
  EXPECT_EQ(Find({10}, {-1, 0, -1, -1}, kSmall).rank, 2);
}

TEST(TightestRank, HandlesTheLargestSizes) {
  constexpr int64_t kLargest = 9223372036854775807;
  const TightestRank tightest = Find({kLargest, 1}, {1, 0}, "");
  EXPECT_EQ(tightest.rank, 1);
  EXPECT_GT(tightest.device_bytes, tightest.capacity_bytes);
}

TEST(TightestRank, DecidesAboutTheFit) {
  SimulationReport report;
  ReportFit({3, 100, 100}, &report);
  EXPECT_EQ(report.device_bytes(), 100);
  EXPECT_EQ(report.capacity_bytes(), 100);
  EXPECT_TRUE(report.fits());
  ReportFit({3, 101, 100}, &report);
  EXPECT_FALSE(report.fits());
  report.set_planned_host_bytes(2);
  report.set_host_capacity_bytes(1);
  ReportFit({3, 100, 100}, &report);
  EXPECT_FALSE(report.fits());
}

}  // namespace
}  // namespace weft::sim
