#include "simulator/metrics/least_room.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/parse_text.h"

namespace weft::sim {
namespace {

LeastRoom Find(const std::vector<int64_t>& bytes, const std::vector<int32_t>& templates, const std::string& others) {
  const Cluster cluster = Parse<Cluster>(
      "nodes: 4 devices_per_node: 1 device { name: 'large' memory_bytes: 100 reserved_bytes: 5 } " + others);
  const auto placement = RankPlacement::Make(static_cast<int64_t>(templates.size()), cluster);
  EXPECT_TRUE(placement.ok()) << placement.status();
  return placement.ok() ? FindLeastRoom(bytes, templates, *placement) : LeastRoom();
}

constexpr char kSmall[] = "other_devices { nodes: 2 device { name: 'small' memory_bytes: 60 } }";

TEST(LeastRoom, IsOfTheFirstRankThatTakesMostWhereDevicesAreAlike) {
  const LeastRoom least = Find({30, 70}, {0, 1, 1, 0}, "");
  EXPECT_EQ(least.rank, 1);
  EXPECT_EQ(least.device_bytes, 75);
  EXPECT_EQ(least.capacity_bytes, 100);
}

TEST(LeastRoom, IsOfTheDeviceThatHasLeastLeft) {
  EXPECT_EQ(Find({30, 40}, {1, 1, 0, 0}, kSmall).rank, 2);
  EXPECT_EQ(Find({30, 40}, {1, 1, 0, 0}, kSmall).capacity_bytes, 60);
  EXPECT_EQ(Find({30, 66}, {1, 1, 0, 0}, kSmall).rank, 0);
}

TEST(LeastRoom, RanksWithoutATemplateTakeNothing) {
  EXPECT_EQ(Find({10}, {-1, -1, -1, 0}, "").rank, 3);
  EXPECT_EQ(Find({10}, {-1, 0, -1, -1}, kSmall).rank, 2);
}

TEST(LeastRoom, OfHostileSizesIsStillLess) {
  constexpr int64_t kLargest = 9223372036854775807;
  const LeastRoom least = Find({kLargest, 1}, {1, 0}, "");
  EXPECT_EQ(least.rank, 1);
  EXPECT_GT(least.device_bytes, least.capacity_bytes);
}

TEST(LeastRoom, DecidesAboutTheFit) {
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
