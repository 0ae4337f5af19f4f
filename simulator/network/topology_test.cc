#include "simulator/network/topology.h"

#include <chrono>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace weft::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Inside a node: 100 GB/s, 1 us latency, 2 us overhead. Interfaces: 10 GB/s, 5 us latency, 3 us overhead. A hop takes
// 0.5 us.
const char kLinks[] = R"(
  intra_node { bytes_per_second: 1e11 latency_seconds: 1e-6 overhead_seconds: 2e-6 }
  inter_node { bytes_per_second: 1e10 latency_seconds: 5e-6 overhead_seconds: 3e-6 }
  fabric { hop_latency_seconds: 0.5e-6 }
)";

class TopologyTest : public ::testing::Test {
 protected:
  // Places `ranks` ranks on the cluster that kLinks and `text` describe.
  void Make(int64_t ranks, const std::string& text) {
    topology_.reset();
    placement_.reset();
    cluster_ = std::make_unique<Cluster>();
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(kLinks, cluster_.get())) << kLinks;
    ASSERT_TRUE(google::protobuf::TextFormat::MergeFromString(text, cluster_.get())) << text;
    absl::StatusOr<RankPlacement> placement = RankPlacement::Make(ranks, *cluster_);
    ASSERT_TRUE(placement.ok()) << placement.status();
    placement_ = std::make_unique<RankPlacement>(*placement);
    absl::StatusOr<Topology> topology = Topology::Make(*cluster_, *placement_);
    ASSERT_TRUE(topology.ok()) << topology.status();
    topology_ = std::make_unique<Topology>(*std::move(topology));
  }
  std::vector<std::string> Names(int64_t from, int64_t to) {
    const auto route = topology_->Route(from, to);
    EXPECT_TRUE(route.ok()) << route.status();
    std::vector<std::string> names;
    if (route.ok()) {
      for (const int32_t link : route->links) names.push_back(topology_->LinkName(link));
    }
    return names;
  }
  double Microseconds(int64_t from, int64_t to) { return topology_->Route(from, to)->latency_seconds * 1e6; }
  int64_t Carries(const std::string& name) {
    for (size_t i = 0; i < topology_->links().size(); ++i) {
      if (topology_->LinkName(static_cast<int32_t>(i)) == name) return topology_->links()[i].bytes_per_second;
    }
    ADD_FAILURE() << "no link " << name;
    return 0;
  }
  std::string Error(int64_t from, int64_t to) { return std::string(topology_->Route(from, to).status().message()); }

  std::unique_ptr<Cluster> cluster_;
  std::unique_ptr<RankPlacement> placement_;
  std::unique_ptr<Topology> topology_;
};

TEST_F(TopologyTest, ASwitchInsideAndOneOutside) {
  Make(8, "nodes: 2 devices_per_node: 4 nics_per_node: 2");
  EXPECT_THAT(Names(1, 3), ElementsAre("node 0 device 1 out", "node 0 device 3 in"));
  EXPECT_THAT(Names(1, 1), IsEmpty());
  EXPECT_THAT(Names(1, 7), ElementsAre("node 0 nic 0 out", "node 1 nic 1 in"));
  EXPECT_DOUBLE_EQ(Microseconds(1, 3), 1);
  EXPECT_DOUBLE_EQ(Microseconds(1, 7), 5);
  EXPECT_DOUBLE_EQ(topology_->Route(1, 3)->overhead_seconds, 2e-6);
  EXPECT_DOUBLE_EQ(topology_->Route(1, 7)->overhead_seconds, 3e-6);
  EXPECT_EQ(Carries("node 0 device 1 out"), 100'000'000'000);
  EXPECT_EQ(Carries("node 1 nic 1 in"), 10'000'000'000);
  // Eight devices with two links each; two nodes with two interfaces of two links each.
  EXPECT_EQ(topology_->links().size(), 8u * 2 + 2 * 2 * 2);
}

TEST_F(TopologyTest, OnlyWhatPlacedRanksCanUse) {
  Make(4, "nodes: 1000 devices_per_node: 8 nics_per_node: 8 placement { nodes: [ 900, 7 ] devices: [ 6, 2 ] }");
  EXPECT_THAT(Names(900 * 8 + 6, 7 * 8 + 2), ElementsAre("node 900 nic 6 out", "node 7 nic 2 in"));
  EXPECT_EQ(topology_->links().size(), 4u * 2 + 4 * 2);
  EXPECT_EQ(topology_->LinkName(0), "node 7 device 2 out");
  EXPECT_THAT(Error(0, 7 * 8 + 2), HasSubstr("device 0 has no rank"));
  // One rank on a node needs no switch.
  Make(2, "nodes: 2 devices_per_node: 8 nics_per_node: 8 placement { devices_of_ranks: [ 0, 9 ] }");
  EXPECT_EQ(topology_->links().size(), 4u);
  Make(1, "nodes: 2 devices_per_node: 8 nics_per_node: 8");
  EXPECT_EQ(topology_->links().size(), 0u);
}

TEST_F(TopologyTest, PairsWithoutASwitch) {
  Make(3, R"(nodes: 1 devices_per_node: 4 node_links {
    all_pairs: true direct { first: 2 second: 0 link { bytes_per_second: 2e11 latency_seconds: 9e-7 } } })");
  EXPECT_THAT(Names(0, 1), ElementsAre("node 0 device 0 to 1"));
  EXPECT_THAT(Names(1, 0), ElementsAre("node 0 device 1 to 0"));
  EXPECT_THAT(Names(0, 2), ElementsAre("node 0 device 0 to 2"));
  EXPECT_EQ(Carries("node 0 device 0 to 1"), 100'000'000'000);
  EXPECT_EQ(Carries("node 0 device 2 to 0"), 200'000'000'000);
  EXPECT_DOUBLE_EQ(Microseconds(0, 2), 0.9);
  EXPECT_EQ(topology_->Route(2, 0)->overhead_seconds, 0);
  EXPECT_EQ(topology_->links().size(), 6u);
}

TEST_F(TopologyTest, DirectLinksBesideBridges) {
  // Two devices to a bridge. The first two devices are also linked directly.
  Make(4, R"(nodes: 1 devices_per_node: 4 node_links {
    direct { first: 0 second: 1 link { bytes_per_second: 2e11 latency_seconds: 9e-7 } }
    devices_per_bridge: 2 bridge { bytes_per_second: 3e10 latency_seconds: 2e-6 overhead_seconds: 1e-6 } })");
  EXPECT_THAT(Names(0, 1), ElementsAre("node 0 device 0 to 1"));
  EXPECT_THAT(Names(3, 2), ElementsAre("node 0 device 3 out", "node 0 device 2 in"));
  EXPECT_THAT(Names(1, 2),
              ElementsAre("node 0 device 1 out", "node 0 bridge 0 out", "node 0 bridge 1 in", "node 0 device 2 in"));
  EXPECT_DOUBLE_EQ(Microseconds(1, 2), 3);
  EXPECT_DOUBLE_EQ(topology_->Route(1, 2)->overhead_seconds, 3e-6);
  EXPECT_EQ(Carries("node 0 bridge 1 in"), 30'000'000'000);
}

TEST_F(TopologyTest, AnInterfaceBehindAnotherBridge) {
  // The only interface of a node is below the bridge of devices 0 and 1. Device 2 reaches it over its PCIe port and
  // both bridges.
  Make(6, R"(nodes: 2 devices_per_node: 3 nics_per_node: 1 intra_node { kind: PCIE } node_links {
    devices_per_bridge: 2 bridge { bytes_per_second: 3e10 latency_seconds: 2e-6 overhead_seconds: 1e-6 } })");
  EXPECT_THAT(Names(2, 3), ElementsAre("node 0 device 2 out", "node 0 bridge 1 out", "node 0 bridge 0 in",
                                       "node 0 nic 0 out", "node 1 nic 0 in", "node 1 device 0 in"));
  EXPECT_THAT(Names(3, 2), ElementsAre("node 1 device 0 out", "node 1 nic 0 out", "node 0 nic 0 in",
                                       "node 0 bridge 0 out", "node 0 bridge 1 in", "node 0 device 2 in"));
  EXPECT_DOUBLE_EQ(Microseconds(2, 3), 7);
  EXPECT_DOUBLE_EQ(Microseconds(2, 5), 9);
}

TEST_F(TopologyTest, InterfacesThatAreDownOrSlow) {
  Make(8, R"(nodes: 3 devices_per_node: 4 nics_per_node: 4
    other_interfaces { nodes: 1 interfaces: [ 0, 1 ] down: true }
    other_interfaces { nodes: 0 interfaces: 3 fraction: 0.25 })");
  EXPECT_THAT(Names(4, 0), ElementsAre("node 1 nic 2 out", "node 0 nic 0 in"));
  EXPECT_THAT(Names(3, 5), ElementsAre("node 0 nic 3 out", "node 1 nic 2 in"));
  EXPECT_EQ(Carries("node 0 nic 3 out"), 2'500'000'000);
  EXPECT_EQ(Carries("node 1 nic 2 in"), 10'000'000'000);
  Make(8, "nodes: 3 devices_per_node: 4 nics_per_node: 4 other_interfaces { nodes: 1 down: true }");
  EXPECT_THAT(Names(4, 5), ElementsAre("node 1 device 0 out", "node 1 device 1 in"));
  EXPECT_THAT(Error(0, 4), HasSubstr("cluster.other_interfaces leaves node 1 no interface"));
  // With more interfaces than devices, the share of a device is one link.
  Make(4, "nodes: 2 devices_per_node: 2 nics_per_node: 4 other_interfaces { nodes: 0 interfaces: 1 down: true }");
  EXPECT_THAT(Names(0, 3), ElementsAre("node 0 nics of device 0 out", "node 1 nics of device 1 in"));
  EXPECT_EQ(Carries("node 0 nics of device 0 out"), 10'000'000'000);
  EXPECT_EQ(Carries("node 1 nics of device 1 in"), 20'000'000'000);
}

TEST_F(TopologyTest, FatTree) {
  // Each leaf has two nodes with two interfaces each. Half of the bandwidth of the nodes goes up, over two links.
  Make(12, R"(nodes: 6 devices_per_node: 2 nics_per_node: 2
    fabric { kind: FAT_TREE nodes_per_switch: 2 oversubscription: 2 })");
  EXPECT_THAT(Names(0, 3), ElementsAre("node 0 nic 0 out", "node 1 nic 1 in"));
  EXPECT_DOUBLE_EQ(Microseconds(0, 3), 5);
  EXPECT_THAT(Names(0, 5), ElementsAre("node 0 nic 0 out", "leaf 0 up 1", "leaf 1 down 1", "node 2 nic 1 in"));
  EXPECT_DOUBLE_EQ(Microseconds(0, 5), 6);
  EXPECT_THAT(Names(9, 6), ElementsAre("node 4 nic 1 out", "leaf 2 up 0", "leaf 1 down 0", "node 3 nic 0 in"));
  EXPECT_EQ(Carries("leaf 2 up 1"), 10'000'000'000);
  // Oversubscription 1.5: a leaf has three links up for the four interfaces below it. The three share 40 / 1.5 GB/s.
  Make(12, R"(nodes: 6 devices_per_node: 2 nics_per_node: 2
    fabric { kind: FAT_TREE nodes_per_switch: 2 oversubscription: 1.5 })");
  EXPECT_EQ(Carries("leaf 0 up 2"), 8'888'888'888);
  // Nodes below a single leaf need no links above it.
  Make(4, R"(nodes: 6 devices_per_node: 2 nics_per_node: 2 fabric { kind: FAT_TREE nodes_per_switch: 2 })");
  EXPECT_EQ(topology_->links().size(), 4u * 2 + 4 * 2);
}

TEST_F(TopologyTest, AFullFatTreeCarriesEveryShift) {
  Make(32, "nodes: 16 devices_per_node: 2 nics_per_node: 2 fabric { kind: FAT_TREE nodes_per_switch: 4 }");
  for (int64_t shift = 1; shift < 32; ++shift) {
    std::set<int32_t> used;
    for (int64_t from = 0; from < 32; ++from) {
      if (from / 2 == (from + shift) % 32 / 2) continue;
      const auto route = topology_->Route(from, (from + shift) % 32);
      for (const int32_t link : route->links) EXPECT_TRUE(used.insert(link).second) << topology_->LinkName(link);
    }
  }
}

TEST_F(TopologyTest, RailsStayBelowTheirLeaf) {
  Make(16, R"(nodes: 8 devices_per_node: 2 nics_per_node: 2
    fabric { kind: RAIL_OPTIMISED nodes_per_switch: 4 oversubscription: 2 })");
  EXPECT_THAT(Names(1, 3), ElementsAre("node 0 nic 1 out", "node 1 nic 1 in"));
  EXPECT_DOUBLE_EQ(Microseconds(1, 3), 5);
  // The message goes to another rail, so it goes up and down inside the group. Each leaf has two links up, since four
  // nodes are below it.
  EXPECT_THAT(Names(1, 2),
              ElementsAre("node 0 nic 1 out", "leaf 0 rail 1 up 1", "leaf 0 rail 0 down 1", "node 1 nic 0 in"));
  EXPECT_THAT(Names(1, 13),
              ElementsAre("node 0 nic 1 out", "leaf 0 rail 1 up 0", "leaf 1 rail 1 down 0", "node 6 nic 1 in"));
  EXPECT_DOUBLE_EQ(Microseconds(1, 13), 6);
  EXPECT_EQ(Carries("leaf 1 rail 1 down 0"), 10'000'000'000);
}

TEST_F(TopologyTest, Dragonfly) {
  Make(8, R"(nodes: 8 devices_per_node: 1 nics_per_node: 1
    fabric { kind: DRAGONFLY nodes_per_switch: 4 oversubscription: 4 })");
  EXPECT_THAT(Names(0, 3), ElementsAre("node 0 nic 0 out", "node 3 nic 0 in"));
  EXPECT_DOUBLE_EQ(Microseconds(0, 3), 5.5);
  EXPECT_THAT(Names(0, 4), ElementsAre("node 0 nic 0 out", "group 0 out", "group 1 in", "node 4 nic 0 in"));
  EXPECT_DOUBLE_EQ(Microseconds(0, 4), 6.5);
  EXPECT_EQ(Carries("group 1 in"), 10'000'000'000);
}

TEST_F(TopologyTest, TorusGoesDimensionByDimensionTheShorterWay) {
  Make(24, "nodes: 24 devices_per_node: 1 nics_per_node: 1 fabric { kind: TORUS torus: [ 4, 3, 2 ] }");
  EXPECT_THAT(Names(0, 1), ElementsAre("node 0 nic 0 out", "node 0 dimension 0 up", "node 1 nic 0 in"));
  EXPECT_DOUBLE_EQ(Microseconds(0, 1), 5);
  EXPECT_THAT(Names(0, 3), ElementsAre("node 0 nic 0 out", "node 0 dimension 0 down", "node 3 nic 0 in"));
  // Half round the ring, both directions are equally long, and the message goes up. It then goes one node down in the
  // second dimension and one step in the third.
  EXPECT_THAT(Names(0, 2 + 4 * 2 + 12),
              ElementsAre("node 0 nic 0 out", "node 0 dimension 0 up", "node 1 dimension 0 up",
                          "node 2 dimension 1 down", "node 10 dimension 2 up", "node 22 nic 0 in"));
  EXPECT_DOUBLE_EQ(Microseconds(0, 22), 6.5);
  // Every message takes the fewest hops.
  for (int64_t from = 0; from < 24; ++from) {
    for (int64_t to = 0; to < 24; ++to) {
      if (from == to) continue;
      const auto around = [](int64_t a, int64_t b, int64_t size) {
        return std::min((a - b + size) % size, (b - a + size) % size);
      };
      const int64_t hops =
          around(from % 4, to % 4, 4) + around(from / 4 % 3, to / 4 % 3, 3) + around(from / 12, to / 12, 2);
      EXPECT_EQ(static_cast<int64_t>(topology_->Route(from, to)->links.size()), hops + 2) << from << " to " << to;
    }
  }
}

TEST_F(TopologyTest, MissingFiguresAreNamed) {
  cluster_ = std::make_unique<Cluster>();
  cluster_->set_nodes(2);
  cluster_->set_devices_per_node(2);
  placement_ = std::make_unique<RankPlacement>(*RankPlacement::Make(4, *cluster_));
  topology_ = std::make_unique<Topology>(*Topology::Make(*cluster_, *placement_));
  EXPECT_THAT(Error(0, 1), HasSubstr("cluster.intra_node.bytes_per_second"));
  EXPECT_THAT(Error(0, 2), HasSubstr("cluster.inter_node.bytes_per_second"));
  cluster_->mutable_inter_node()->set_bytes_per_second(1);
  EXPECT_THAT(Error(0, 2), HasSubstr("cluster.nics_per_node"));
}

TEST_F(TopologyTest, TooManyLinksAreRefused) {
  Cluster cluster;
  cluster.set_nodes(2'000'000'000);
  cluster.set_devices_per_node(1);
  cluster.mutable_fabric()->set_kind(TORUS);
  cluster.mutable_fabric()->add_torus(2'000'000'000);
  const RankPlacement placement = *RankPlacement::Make(2, cluster);
  const auto topology = Topology::Make(cluster, placement);
  EXPECT_EQ(topology.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(topology.status().message()), HasSubstr("links"));
}

// The routes of random machines begin at the source, end at the destination and take no link twice. Every link has its
// own name, and some route takes each link between a pair of devices and each link of an interface.
TEST_F(TopologyTest, RandomMachines) {
  for (uint32_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    const auto pick = [&](int64_t low, int64_t high) {
      return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
    };
    const int64_t nodes = pick(1, 8);
    const int64_t devices = pick(1, 6);
    std::string text = "nodes: " + std::to_string(nodes) + " devices_per_node: " + std::to_string(devices) +
                       " nics_per_node: " + std::to_string(pick(1, 7));
    if (pick(0, 1) == 0) text += " intra_node { kind: PCIE }";
    text += " node_links { ";
    if (pick(0, 2) == 0) text += "all_pairs: true ";
    if (devices > 1 && pick(0, 1) == 0) text += "direct { first: 1 second: 0 link { bytes_per_second: 1e9 } } ";
    if (pick(0, 1) == 0)
      text += "devices_per_bridge: " + std::to_string(pick(1, 3)) + " bridge { bytes_per_second: 1e9 }";
    text += " } fabric { ";
    switch (pick(0, 4)) {
      case 0:
        break;
      case 1:
        text += "kind: FAT_TREE nodes_per_switch: 2 oversubscription: 1.7";
        break;
      case 2:
        text += "kind: RAIL_OPTIMISED nodes_per_switch: 3";
        break;
      case 3:
        text += "kind: DRAGONFLY nodes_per_switch: 3 oversubscription: 2";
        break;
      default:
        text += "kind: TORUS torus: [ 1, " + std::to_string(nodes) + " ]";
    }
    text += " } placement { ";
    std::vector<int64_t> all(nodes * devices);
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int64_t>(i);
    std::shuffle(all.begin(), all.end(), random);
    const int64_t ranks = pick(1, nodes * devices);
    for (int64_t i = 0; i < ranks; ++i) text += "devices_of_ranks: " + std::to_string(all[i]) + " ";
    Make(ranks, text + "}");
    std::set<std::string> names;
    for (size_t i = 0; i < topology_->links().size(); ++i) {
      EXPECT_TRUE(names.insert(topology_->LinkName(static_cast<int32_t>(i))).second);
      EXPECT_GT(topology_->links()[i].bytes_per_second, 0);
    }
    std::set<int32_t> used;
    for (int64_t a = 0; a < ranks; ++a) {
      for (int64_t b = 0; b < ranks; ++b) {
        const auto route = topology_->RouteOfRanks(a, b);
        ASSERT_TRUE(route.ok()) << route.status();
        ASSERT_EQ(route->links.empty(), a == b);
        if (a == b) continue;
        std::set<int32_t> once(route->links.begin(), route->links.end());
        EXPECT_EQ(once.size(), route->links.size());
        used.insert(once.begin(), once.end());
        EXPECT_EQ(topology_->links()[route->links.front()].place, placement_->NodeOf(a));
        EXPECT_EQ(topology_->links()[route->links.back()].place, placement_->NodeOf(b));
      }
    }
    for (size_t i = 0; i < topology_->links().size(); ++i) {
      const LinkRole role = topology_->links()[i].role;
      if (role != LinkRole::kPair && role != LinkRole::kInterfaceIn && role != LinkRole::kInterfaceOut) continue;
      EXPECT_TRUE(used.count(static_cast<int32_t>(i))) << topology_->LinkName(static_cast<int32_t>(i)) << "\n" << text;
    }
  }
}

TEST_F(TopologyTest, SixteenThousandDevicesAreQuick) {
  const auto start = std::chrono::steady_clock::now();
  Make(16384,
       "nodes: 2048 devices_per_node: 8 nics_per_node: 8 "
       "fabric { kind: RAIL_OPTIMISED nodes_per_switch: 32 oversubscription: 1 }");
  size_t links = 0;
  for (int64_t rank = 0; rank < 16384; ++rank)
    links += topology_->RouteOfRanks(rank, (rank + 1000) % 16384)->links.size();
  EXPECT_EQ(links, 16384u * 4);
  EXPECT_EQ(topology_->links().size(), 16384u * 4 + 2048 / 32 * 8 * 32 * 2);
  // The bound also holds in a build without optimization and on a busy machine. A table of all pairs would take hours.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

}  // namespace
}  // namespace weft::sim
