#include "simulator/noise.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "simulator/network/placement.h"

namespace weft::sim {
namespace {

using ::testing::HasSubstr;

Cluster FourByTwo() {
  Cluster cluster;
  cluster.set_name("four by two");
  cluster.set_nodes(4);
  cluster.set_devices_per_node(2);
  cluster.set_nics_per_node(2);
  cluster.mutable_device()->set_name("plain");
  cluster.mutable_noise();
  return cluster;
}

// Returns the speeds of ranks 0..7 in one run, in millionths.
std::vector<int64_t> Speeds(const Cluster& cluster, int64_t seed, int64_t run) {
  const absl::StatusOr<Cluster> drawn = DrawCluster(cluster, 8, seed, run);
  EXPECT_TRUE(drawn.ok()) << drawn.status();
  const absl::StatusOr<RankPlacement> placement = RankPlacement::Make(8, *drawn);
  EXPECT_TRUE(placement.ok()) << placement.status();
  std::vector<int64_t> speeds;
  for (int64_t rank = 0; rank < 8; ++rank) speeds.push_back(placement->SpeedOf(rank));
  return speeds;
}

TEST(DrawCluster, NothingIsDrawnWithoutDeviations) {
  Cluster cluster = FourByTwo();
  const absl::StatusOr<Cluster> drawn = DrawCluster(cluster, 8, 1, 0);
  ASSERT_TRUE(drawn.ok());
  cluster.clear_noise();
  EXPECT_EQ(drawn->SerializeAsString(), cluster.SerializeAsString());
}

TEST(DrawCluster, AStragglerIsAWholeNode) {
  Cluster cluster = FourByTwo();
  cluster.mutable_noise()->set_straggler_probability(0.3);
  cluster.mutable_noise()->set_straggler_slowdown(2);
  int slow = 0;
  for (int64_t run = 0; run < 1000; ++run) {
    const std::vector<int64_t> speeds = Speeds(cluster, 1, run);
    for (int node = 0; node < 4; ++node) {
      EXPECT_EQ(speeds[2 * node], speeds[2 * node + 1]);
      EXPECT_TRUE(speeds[2 * node] == 1000000 || speeds[2 * node] == 500000);
      slow += speeds[2 * node] == 500000;
    }
  }
  EXPECT_NEAR(slow, 4000 * 0.3, 5 * std::sqrt(4000 * 0.3 * 0.7));
  cluster.mutable_noise()->set_straggler_probability(1);
  EXPECT_EQ(Speeds(cluster, 1, 0), std::vector<int64_t>(8, 500000));
}

// Devices that are already slow or of another kind keep their kind, and become slower.
TEST(DrawCluster, RowsThatAreThereAreKept) {
  Cluster cluster = FourByTwo();
  cluster.mutable_noise()->set_straggler_probability(1);
  cluster.mutable_noise()->set_straggler_slowdown(2);
  OtherDevices& row = *cluster.add_other_devices();
  row.add_nodes(1);
  row.add_devices(1);
  row.mutable_device()->set_name("other");
  row.set_speed(0.8);
  const absl::StatusOr<Cluster> drawn = DrawCluster(cluster, 8, 1, 0);
  ASSERT_TRUE(drawn.ok());
  const absl::StatusOr<RankPlacement> placement = RankPlacement::Make(8, *drawn);
  ASSERT_TRUE(placement.ok());
  for (int64_t rank = 0; rank < 8; ++rank) {
    EXPECT_EQ(placement->SpeedOf(rank), rank == 3 ? 400000 : 500000) << rank;
    EXPECT_EQ(placement->kinds()[placement->KindOf(rank)]->name(), rank == 3 ? "other" : "plain") << rank;
  }
}

TEST(DrawCluster, DeviceSpeedsDeviateAsStated) {
  Cluster cluster = FourByTwo();
  cluster.mutable_noise()->set_device_speed_deviation(0.05);
  double sum = 0, squares = 0;
  for (int64_t run = 0; run < 1000; ++run) {
    for (const int64_t speed : Speeds(cluster, 3, run)) {
      const double off = static_cast<double>(speed) / 1e6 - 1;
      sum += off;
      squares += off * off;
    }
  }
  EXPECT_NEAR(sum / 8000, 0, 5 * 0.05 / std::sqrt(8000.0));
  EXPECT_NEAR(std::sqrt(squares / 8000), 0.05, 0.05 * 0.05);
}

// However many devices there are, they fall into few classes and few rows.
TEST(DrawCluster, SpeedsAreFew) {
  Cluster cluster = FourByTwo();
  cluster.set_nodes(2000);
  cluster.mutable_noise()->set_device_speed_deviation(0.013);
  cluster.mutable_noise()->set_straggler_probability(0.01);
  cluster.mutable_noise()->set_straggler_slowdown(1.5);
  const absl::StatusOr<Cluster> drawn = DrawCluster(cluster, 4000, 1, 0);
  ASSERT_TRUE(drawn.ok());
  EXPECT_LT(drawn->other_devices_size(), 150);
  std::set<double> speeds;
  for (const OtherDevices& row : drawn->other_devices()) speeds.insert(row.speed());
  EXPECT_LT(speeds.size(), 70u);
  EXPECT_GT(speeds.size(), 20u);
}

// The speed of a device in a run depends only on seed, run and device, not on which rank runs on it.
TEST(DrawCluster, DrawsAreOfDevicesNotOfRanks) {
  Cluster cluster = FourByTwo();
  cluster.mutable_noise()->set_device_speed_deviation(0.05);
  const std::vector<int64_t> plain = Speeds(cluster, 9, 4);
  for (const int64_t device : {7, 6, 5, 4, 3, 2, 1, 0}) {
    cluster.mutable_placement()->add_devices_of_ranks(device);
  }
  std::vector<int64_t> turned = Speeds(cluster, 9, 4);
  EXPECT_NE(plain, turned);
  std::reverse(turned.begin(), turned.end());
  EXPECT_EQ(plain, turned);
  cluster.clear_placement();
  EXPECT_NE(plain, Speeds(cluster, 9, 5));
  EXPECT_NE(plain, Speeds(cluster, 10, 4));
}

TEST(DrawCluster, SlowInterfaces) {
  Cluster cluster = FourByTwo();
  cluster.mutable_noise()->set_slow_interface_probability(1);
  cluster.mutable_noise()->set_slow_interface_fraction(0.25);
  absl::StatusOr<Cluster> drawn = DrawCluster(cluster, 8, 1, 0);
  ASSERT_TRUE(drawn.ok());
  for (int64_t node = 0; node < 4; ++node) EXPECT_EQ(InterfacePorts(*drawn).NodeShare(node), 0.5);

  OtherInterfaces& half = *cluster.add_other_interfaces();
  half.add_nodes(1);
  half.add_interfaces(0);
  half.set_fraction(0.5);
  OtherInterfaces& down = *cluster.add_other_interfaces();
  down.add_nodes(2);
  down.add_interfaces(1);
  down.set_down(true);
  drawn = DrawCluster(cluster, 8, 1, 0);
  ASSERT_TRUE(drawn.ok());
  const InterfacePorts ports(*drawn);
  EXPECT_EQ(ports.Share(0, 0), 0.25);
  EXPECT_EQ(ports.Share(1, 0), 0.125);
  EXPECT_EQ(ports.Share(1, 1), 0.25);
  EXPECT_EQ(ports.Share(2, 0), 0.25);
  EXPECT_EQ(ports.Share(2, 1), 0);
}

TEST(DrawCluster, TooFewDevicesAreRefused) { EXPECT_FALSE(DrawCluster(FourByTwo(), 9, 1, 0).ok()); }

TEST(CheckNoise, NamesTheField) {
  Cluster cluster = FourByTwo();
  // Runs that do not differ are not worth simulating.
  EXPECT_THAT(std::string(CheckNoise(cluster).message()), HasSubstr("has no noise, so all runs would be the same"));
  cluster.mutable_noise()->set_straggler_slowdown(2);
  EXPECT_FALSE(CheckNoise(cluster).ok());
  cluster.mutable_noise()->clear_straggler_slowdown();
  cluster.mutable_noise()->set_step_deviation(0.5);
  EXPECT_TRUE(CheckNoise(cluster).ok());
  cluster.mutable_noise()->set_step_deviation(-0.5);
  EXPECT_THAT(std::string(CheckNoise(cluster).message()),
              HasSubstr("cluster.noise.step_deviation = -0.5 must be from 0 to 1; nearest valid: 0"));
  cluster.mutable_noise()->set_step_deviation(std::nan(""));
  EXPECT_FALSE(CheckNoise(cluster).ok());
  cluster.mutable_noise()->set_step_deviation(0);
  cluster.mutable_noise()->set_device_speed_deviation(2);
  EXPECT_THAT(std::string(CheckNoise(cluster).message()), HasSubstr("device_speed_deviation = 2"));
  cluster.mutable_noise()->set_device_speed_deviation(0);
  cluster.mutable_noise()->set_straggler_probability(0.5);
  EXPECT_THAT(std::string(CheckNoise(cluster).message()), HasSubstr("straggler_slowdown = 0 must be from 1"));
  cluster.mutable_noise()->set_straggler_probability(1.5);
  EXPECT_THAT(std::string(CheckNoise(cluster).message()), HasSubstr("straggler_probability = 1.5"));
  cluster.mutable_noise()->set_straggler_probability(0);
  cluster.mutable_noise()->set_slow_interface_probability(0.5);
  EXPECT_THAT(std::string(CheckNoise(cluster).message()), HasSubstr("slow_interface_fraction = 0 must be from 0.001"));
  cluster.clear_noise();
  EXPECT_THAT(std::string(CheckNoise(cluster).message()), HasSubstr("set cluster.noise"));
}

TEST(SummarizeRuns, PercentilesAreOfRunsThatWere) {
  NoiseReport report = SummarizeRuns({3}, 7);
  EXPECT_EQ(report.runs(), 1);
  EXPECT_EQ(report.seed(), 7);
  for (const double figure : {report.p10(), report.p50(), report.p90(), report.mean()}) EXPECT_EQ(figure, 3);
  report = SummarizeRuns({10, 9, 8, 7, 6, 5, 4, 3, 2, 1}, 0);
  EXPECT_EQ(report.p10(), 1);
  EXPECT_EQ(report.p50(), 5);
  EXPECT_EQ(report.p90(), 9);
  EXPECT_EQ(report.mean(), 5.5);
  report = SummarizeRuns({1, 2, 3}, 0);
  EXPECT_EQ(report.p10(), 1);
  EXPECT_EQ(report.p50(), 2);
  EXPECT_EQ(report.p90(), 3);
  EXPECT_EQ(SummarizeRuns(std::vector<double>(7, 0.1), 0).mean(), 0.1);
}

}  // namespace
}  // namespace weft::sim
