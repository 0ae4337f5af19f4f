#include "simulator/program/device_classes.h"

#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "simulator/engine/device_speed.h"

namespace weft::sim {
namespace {

TEST(DeviceClasses, GroupsDevicesByKindAndSpeed) {
  Cluster cluster;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"pb(
        device { name: "a" }
        nodes: 3
        devices_per_node: 2
        other_devices { nodes: 1 speed: 0.5 }
        other_devices {
          nodes: 2
          device { name: "b" }
        }
        other_devices { nodes: 2 devices: 1 speed: 0.5 }
      )pb",
      &cluster));
  const auto placement = RankPlacement::Make(6, cluster);
  ASSERT_TRUE(placement.ok()) << placement.status();
  const DeviceClasses devices = FindDeviceClasses(*placement);
  EXPECT_EQ(devices.kinds.size(), 2u);
  EXPECT_EQ(devices.DeviceOf(0).name(), "a");
  EXPECT_EQ(devices.DeviceOf(3).name(), "a");
  EXPECT_EQ(devices.KindOf(2), devices.KindOf(0));
  EXPECT_EQ(devices.DeviceOf(4).name(), "b");
  ASSERT_EQ(devices.speed_of_rank.size(), 6u);
  EXPECT_EQ(devices.speed_of_rank[1], kFullSpeed);
  EXPECT_EQ(devices.speed_of_rank[2], 500'000);
  EXPECT_EQ(devices.speed_of_rank[3], 500'000);
  EXPECT_EQ(devices.speed_of_rank[4], kFullSpeed);
  cluster.mutable_other_devices()->DeleteSubrange(1, 2);
  const auto slow = RankPlacement::Make(6, cluster);
  ASSERT_TRUE(slow.ok()) << slow.status();
  EXPECT_TRUE(FindDeviceClasses(*slow).kind_of_rank.empty());
  EXPECT_EQ(FindDeviceClasses(*slow).speed_of_rank.size(), 6u);
  // The slow nodes are not used.
  const auto unused = RankPlacement::Make(2, cluster);
  ASSERT_TRUE(unused.ok()) << unused.status();
  EXPECT_TRUE(FindDeviceClasses(*unused).speed_of_rank.empty());
  cluster.clear_other_devices();
  const auto alike = RankPlacement::Make(6, cluster);
  ASSERT_TRUE(alike.ok()) << alike.status();
  EXPECT_TRUE(FindDeviceClasses(*alike).kind_of_rank.empty());
  EXPECT_EQ(FindDeviceClasses(*alike).DeviceOf(5).name(), "a");
}

TEST(DeviceSpeed, CostsAreRoundedUp) {
  EXPECT_EQ(AtSpeed(100, kFullSpeed), 100);
  EXPECT_EQ(AtSpeed(100, 500'000), 200);
  EXPECT_EQ(AtSpeed(100, 300'000), 334);
  EXPECT_EQ(AtSpeed(100, 2'000'000), 50);
  EXPECT_EQ(AtSpeed(1, 3'000'000), 1);
  EXPECT_EQ(AtSpeed(0, 1), 0);
  EXPECT_EQ(AtSpeed(int64_t{1} << 62, 1), int64_t{1} << 62);
}

}  // namespace
}  // namespace weft::sim
