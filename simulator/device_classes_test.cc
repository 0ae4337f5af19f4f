#include "simulator/device_classes.h"

#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

TEST(DeviceClasses, OfKindAndSpeed) {
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
  ASSERT_EQ(devices.of_rank.size(), 6u);
  EXPECT_EQ(devices.DeviceOf(0).name(), "a");
  EXPECT_EQ(devices.DeviceOf(3).name(), "a");
  EXPECT_EQ(devices.Of(0), devices.Of(1));
  EXPECT_EQ(devices.Of(2), devices.Of(3));
  EXPECT_NE(devices.Of(0), devices.Of(2));
  EXPECT_EQ(devices.classes[devices.Of(2)].speed, 500'000);
  EXPECT_EQ(devices.DeviceOf(4).name(), "b");
  cluster.clear_other_devices();
  const auto alike = RankPlacement::Make(6, cluster);
  ASSERT_TRUE(alike.ok()) << alike.status();
  EXPECT_TRUE(FindDeviceClasses(*alike).of_rank.empty());
  EXPECT_EQ(FindDeviceClasses(*alike).DeviceOf(5).name(), "a");
}

TEST(DeviceClasses, CostsAreRoundedUp) {
  EXPECT_EQ(AtSpeed(Time{100}, kFullSpeed).ps, 100);
  EXPECT_EQ(AtSpeed(Time{100}, 500'000).ps, 200);
  EXPECT_EQ(AtSpeed(Time{100}, 300'000).ps, 334);
  EXPECT_EQ(AtSpeed(Time{100}, 2'000'000).ps, 50);
  EXPECT_EQ(AtSpeed(Time{1}, 3'000'000).ps, 1);
  EXPECT_EQ(AtSpeed(Time{0}, 1).ps, 0);
  EXPECT_EQ(AtSpeed(Time{int64_t{1} << 62}, 1).ps, int64_t{1} << 62);
}

}  // namespace
}  // namespace weft
