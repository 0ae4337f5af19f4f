#include "simulator/network/placement.h"

#include <random>
#include <set>
#include <string>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace weft::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Cluster Parse(const std::string& text) {
  Cluster cluster;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &cluster)) << text;
  return cluster;
}

std::vector<int64_t> DevicesOfRanks(const RankPlacement& placement) {
  std::vector<int64_t> devices;
  for (int64_t rank = 0; rank < placement.ranks(); ++rank) devices.push_back(placement.DeviceOf(rank));
  return devices;
}

TEST(RankPlacement, RankOrderByDefault) {
  const Cluster cluster = Parse("nodes: 3 devices_per_node: 2");
  const auto placement = RankPlacement::Make(5, cluster);
  ASSERT_TRUE(placement.ok()) << placement.status();
  EXPECT_THAT(DevicesOfRanks(*placement), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_EQ(placement->NodeOf(3), 1);
  EXPECT_EQ(placement->DeviceInNode(3), 1);
  EXPECT_THAT(placement->nodes(), ElementsAre(0, 1, 2));
  EXPECT_THAT(placement->RanksOf(2), ElementsAre(4));
  EXPECT_THAT(placement->RanksOf(3), IsEmpty());
  EXPECT_TRUE(placement->all_alike());
}

TEST(RankPlacement, AsManyRanksOnEachNode) {
  const Cluster racks = Parse("nodes: 9 devices_per_node: 72");
  const auto places = [&](int64_t ranks) {
    const auto placement = RankPlacement::Make(ranks, racks);
    EXPECT_TRUE(placement.ok()) << placement.status();
    std::vector<size_t> sizes;
    for (const int64_t node : placement->nodes()) {
      sizes.push_back(placement->RanksOf(node).size());
      EXPECT_EQ(placement->DeviceInNode(placement->RanksOf(node)[0]), 0);
    }
    return sizes;
  };
  EXPECT_THAT(places(64), ElementsAre(64));
  EXPECT_THAT(places(72), ElementsAre(72));
  EXPECT_THAT(places(128), ElementsAre(64, 64));
  EXPECT_THAT(places(144), ElementsAre(72, 72));
  EXPECT_THAT(places(256), ElementsAre(64, 64, 64, 64));
  // 160 ranks do not spread evenly over three nodes.
  EXPECT_THAT(places(160), ElementsAre(72, 72, 16));
  const Cluster listed = Parse("nodes: 9 devices_per_node: 4 placement { nodes: [ 7, 2 ] }");
  EXPECT_THAT(DevicesOfRanks(*RankPlacement::Make(6, listed)), ElementsAre(28, 29, 30, 8, 9, 10));
}

TEST(RankPlacement, ListedNodesAndDevices) {
  const Cluster cluster = Parse("nodes: 9 devices_per_node: 4 placement { nodes: [ 7, 2, 5 ] devices: [ 3, 1 ] }");
  const auto placement = RankPlacement::Make(5, cluster);
  ASSERT_TRUE(placement.ok()) << placement.status();
  EXPECT_THAT(DevicesOfRanks(*placement), ElementsAre(31, 29, 11, 9, 23));
  EXPECT_THAT(placement->nodes(), ElementsAre(2, 5, 7));
  EXPECT_THAT(placement->RanksOf(2), ElementsAre(2, 3));
  EXPECT_THAT(placement->RanksOf(5), ElementsAre(4));
  EXPECT_THAT(placement->RanksOf(3), IsEmpty());
  EXPECT_THAT(placement->Devices(), ElementsAre(9, 11, 23, 29, 31));
  // With fewer ranks, the last nodes of the list have none.
  EXPECT_THAT(RankPlacement::Make(3, cluster)->nodes(), ElementsAre(2, 7));
}

TEST(RankPlacement, EveryRankStated) {
  const Cluster cluster = Parse("nodes: 4 devices_per_node: 2 placement { devices_of_ranks: [ 6, 1, 7, 0, 2 ] }");
  const auto placement = RankPlacement::Make(4, cluster);
  ASSERT_TRUE(placement.ok()) << placement.status();
  EXPECT_THAT(DevicesOfRanks(*placement), ElementsAre(6, 1, 7, 0));
  EXPECT_THAT(placement->nodes(), ElementsAre(0, 3));
  EXPECT_THAT(placement->RanksOf(0), ElementsAre(1, 3));
  EXPECT_THAT(placement->RanksOf(3), ElementsAre(0, 2));
  EXPECT_THAT(placement->RanksOf(1), IsEmpty());
}

TEST(RankPlacement, TooFewDevicesNameTheNearestValue) {
  const auto error = [](const std::string& text, int64_t ranks) {
    const Cluster cluster = Parse(text);
    return std::string(RankPlacement::Make(ranks, cluster).status().message());
  };
  EXPECT_EQ(
      error("name: 'c' nodes: 2 devices_per_node: 4", 9),
      "cluster 'c' has 2 nodes with 4 devices each, but the program has 9 ranks; cluster.nodes must be at least 3");
  EXPECT_EQ(error("name: 'c' nodes: 9 devices_per_node: 4 placement { nodes: [ 1, 2 ] devices: [ 0, 1, 2 ] }", 7),
            "cluster 'c' has 2 nodes in cluster.placement.nodes with 3 devices each in cluster.placement.devices, but "
            "the program has 7 ranks; cluster.placement.nodes must list at least 3 nodes");
  EXPECT_THAT(error("nodes: 9 devices_per_node: 4 placement { devices_of_ranks: [ 1, 2 ] }", 3),
              HasSubstr("cluster.placement.devices_of_ranks has 2 devices, but the program has 3 ranks"));
}

TEST(RankPlacement, TheLastRowThatNamesADeviceSaysWhatItIs) {
  const Cluster cluster = Parse(R"(
    nodes: 4 devices_per_node: 2 device { name: "a" }
    other_devices { devices: 1 speed: 0.5 }
    other_devices { nodes: [ 1, 2 ] device { name: "b" } }
    other_devices { nodes: 2 devices: 0 device { name: "c" } speed: 1.25 }
  )");
  const auto placement = RankPlacement::Make(8, cluster);
  ASSERT_TRUE(placement.ok());
  EXPECT_FALSE(placement->all_alike());
  ASSERT_EQ(placement->kinds().size(), 4u);
  using Pair = std::pair<int32_t, int64_t>;
  std::vector<Pair> got;
  for (int64_t rank = 0; rank < 8; ++rank) got.push_back(placement->KindAndSpeed(rank));
  EXPECT_THAT(got, ElementsAre(Pair(0, 1000000), Pair(0, 500000), Pair(2, 1000000), Pair(2, 1000000), Pair(3, 1250000),
                               Pair(2, 1000000), Pair(0, 1000000), Pair(0, 500000)));
  EXPECT_EQ(placement->kinds()[0]->name(), "a");
  EXPECT_EQ(placement->kinds()[1]->name(), "a");
  EXPECT_EQ(placement->kinds()[2]->name(), "b");
  EXPECT_EQ(placement->kinds()[3]->name(), "c");
}

TEST(RankPlacement, RanksOfNodesAreAllRanksOnce) {
  for (uint32_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    Cluster cluster;
    cluster.set_nodes(1 + random() % 6);
    cluster.set_devices_per_node(1 + random() % 4);
    std::vector<int64_t> devices(cluster.nodes() * cluster.devices_per_node());
    for (size_t i = 0; i < devices.size(); ++i) devices[i] = static_cast<int64_t>(i);
    std::shuffle(devices.begin(), devices.end(), random);
    const int64_t ranks = 1 + static_cast<int64_t>(random() % devices.size());
    if (seed % 2 == 0) {
      for (const int64_t device : devices) cluster.mutable_placement()->add_devices_of_ranks(device);
    }
    const auto placement = RankPlacement::Make(ranks, cluster);
    ASSERT_TRUE(placement.ok()) << placement.status();
    std::set<int64_t> seen;
    for (const int64_t node : placement->nodes()) {
      const std::vector<int64_t> on_node = placement->RanksOf(node);
      EXPECT_FALSE(on_node.empty());
      EXPECT_TRUE(std::is_sorted(on_node.begin(), on_node.end()));
      for (const int64_t rank : on_node) {
        EXPECT_EQ(placement->NodeOf(rank), node);
        EXPECT_TRUE(seen.insert(rank).second);
      }
    }
    EXPECT_EQ(static_cast<int64_t>(seen.size()), ranks);
  }
}

TEST(InterfacePorts, SharedEvenly) {
  // Two devices share an interface.
  const Cluster few = Parse("devices_per_node: 8 nics_per_node: 4");
  const InterfacePorts ports(few);
  EXPECT_EQ(ports.ports(), 4);
  EXPECT_EQ(ports.PortOf(0, 0), 0);
  EXPECT_EQ(ports.PortOf(0, 1), 0);
  EXPECT_EQ(ports.PortOf(0, 7), 3);
  EXPECT_EQ(ports.Share(0, 0), 1);
  EXPECT_EQ(ports.NodeShare(0), 4);
  // Four interfaces for three devices: each device has 4/3 of an interface.
  const Cluster many = Parse("devices_per_node: 3 nics_per_node: 4");
  EXPECT_EQ(InterfacePorts(many).ports(), 3);
  EXPECT_DOUBLE_EQ(InterfacePorts(many).Share(0, 1), 4.0 / 3);
  EXPECT_EQ(InterfacePorts(many).PortOf(0, 2), 2);
  const Cluster none = Parse("devices_per_node: 3");
  EXPECT_EQ(InterfacePorts(none).PortOf(0, 2), -1);
  EXPECT_EQ(InterfacePorts(none).NodeShare(0), 0);
}

TEST(InterfacePorts, DownAndSlowOnes) {
  const Cluster cluster = Parse(R"(
    devices_per_node: 4 nics_per_node: 4
    other_interfaces { nodes: 1 interfaces: [ 1, 2 ] down: true }
    other_interfaces { interfaces: 3 fraction: 0.5 }
    other_interfaces { nodes: [ 2, 3 ] down: true }
    other_interfaces { nodes: 3 interfaces: 2 fraction: 0.25 }
  )");
  const InterfacePorts ports(cluster);
  EXPECT_FALSE(ports.all_alike());
  EXPECT_EQ(ports.NodeShare(0), 3.5);
  EXPECT_EQ(ports.NodeShare(1), 1.5);
  EXPECT_EQ(ports.NodeShare(2), 0);
  EXPECT_EQ(ports.NodeShare(3), 0.25);
  EXPECT_EQ(ports.PortOf(1, 0), 0);
  EXPECT_EQ(ports.PortOf(1, 1), 0);
  EXPECT_EQ(ports.PortOf(1, 2), 3);
  EXPECT_EQ(ports.PortOf(2, 0), -1);
  EXPECT_EQ(ports.PortOf(3, 0), 2);
}

TEST(InterfacePorts, PartsOfAnInterfaceThatIsDown) {
  // Four interfaces for three devices. In thirds of an interface, device 0 has 0..4, device 1 has 4..8 and device 2 has
  // 8..12. Interface 1 covers 3..6.
  const Cluster cluster = Parse("devices_per_node: 3 nics_per_node: 4 other_interfaces { interfaces: 1 down: true }");
  const InterfacePorts ports(cluster);
  EXPECT_DOUBLE_EQ(ports.Share(0, 0), 1);
  EXPECT_DOUBLE_EQ(ports.Share(0, 1), 2.0 / 3);
  EXPECT_DOUBLE_EQ(ports.Share(0, 2), 4.0 / 3);
  EXPECT_DOUBLE_EQ(ports.NodeShare(0), 3);
}

}  // namespace
}  // namespace weft::sim
