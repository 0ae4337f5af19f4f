#include "simulator/network/placed_links.h"

#include <cstdio>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/util/mesh.h"
#include "simulator/network/network_model.h"

namespace weft::sim {
namespace {

using ::testing::HasSubstr;

const AxisPart kOwn;
const AxisPart kAll = {.kind = AxisPart::kAll, .size = 0, .listed = {}};

// Bandwidth is 100 GB/s inside a node and 10 GB/s per interface.
Cluster MakeCluster(const std::string& text) {
  Cluster cluster;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "name: 'c' intra_node { bytes_per_second: 1e11 latency_seconds: 1e-6 } "
      "inter_node { bytes_per_second: 1e10 latency_seconds: 5e-6 }",
      &cluster));
  EXPECT_TRUE(google::protobuf::TextFormat::MergeFromString(text, &cluster)) << text;
  return cluster;
}

Mesh MakeMesh(const std::vector<int64_t>& sizes) {
  Mesh mesh;
  for (size_t i = 0; i < sizes.size(); ++i) {
    mesh.add_axes()->set_name(std::string(1, static_cast<char>('a' + i)));
    mesh.mutable_axes(mesh.axes_size() - 1)->set_size(sizes[i]);
  }
  return mesh;
}

class PlacedLinksTest : public ::testing::Test {
 protected:
  void Make(const std::vector<int64_t>& sizes, const std::string& text) {
    links_.reset();
    mesh_ = MakeMesh(sizes);
    cluster_ = MakeCluster(text);
    links_ = std::make_unique<PlacedLinks>(mesh_, cluster_);
  }
  // Returns the bandwidth, in GB/s, of the members of the group of `rank` that are on the node of `rank`.
  double NodeBandwidth(int64_t rank, const GroupForm& form) {
    std::vector<int64_t> inside;
    for (const int64_t member : FormMembers(mesh_, rank, form)) {
      if (links_->Node(member) == links_->Node(rank)) inside.push_back(member);
    }
    const auto bandwidth = links_->NodeBandwidth(inside, &form);
    EXPECT_TRUE(bandwidth.ok()) << bandwidth.status();
    return bandwidth.value_or(0) / 1e9;
  }
  double Between(int64_t source, int64_t destination) {
    const auto path = links_->Path(source, destination);
    EXPECT_TRUE(path.ok()) << path.status();
    return path.ok() ? path->bytes_per_second / 1e9 : 0;
  }
  double Transfer(int64_t source, int64_t destination) {
    const auto path = links_->SharedPath(source, destination);
    EXPECT_TRUE(path.ok()) << path.status();
    return path.ok() ? path->bytes_per_second / 1e9 : 0;
  }

  Mesh mesh_;
  Cluster cluster_;
  std::unique_ptr<PlacedLinks> links_;
};

TEST_F(PlacedLinksTest, Equation10CountsWhereRanksAre) {
  // Two groups of four along b on two nodes of four devices: both groups span both nodes.
  Make({2, 4}, "nodes: 4 devices_per_node: 4 nics_per_node: 4");
  EXPECT_DOUBLE_EQ(NodeBandwidth(0, {kOwn, kAll}), 20);
  // Every group along b is on one node, so none of them crosses. All pairs along a cross: each node has a member of
  // four pairs, and each member has its own interface.
  Make({2, 4},
       "nodes: 4 devices_per_node: 4 nics_per_node: 4 placement { devices_of_ranks: [ 0, 4, 1, 5, 2, 6, 3, 7 ] }");
  EXPECT_EQ(links_->Node(5), 1);
  EXPECT_DOUBLE_EQ(Between(0, 6), 100);
  EXPECT_DOUBLE_EQ(NodeBandwidth(0, {kAll, kOwn}), 10);
  // The ranks use two devices on each of four nodes. Each group along b has one member on every node.
  Make({2, 4}, "nodes: 9 devices_per_node: 4 nics_per_node: 4 placement { nodes: [ 8, 1, 3, 5 ] devices: [ 1, 2 ] }");
  EXPECT_EQ(links_->Node(0), 8);
  EXPECT_DOUBLE_EQ(NodeBandwidth(0, {kOwn, kAll}), 10);
  EXPECT_DOUBLE_EQ(NodeBandwidth(0, {kAll, kAll}), 20);
}

TEST_F(PlacedLinksTest, InterfacesThatAreDownOrSlow) {
  Make({2, 4}, R"(nodes: 4 devices_per_node: 4 nics_per_node: 4
    other_interfaces { nodes: 1 interfaces: [ 2, 3 ] down: true }
    other_interfaces { nodes: 0 interfaces: 0 fraction: 0.5 })");
  // Each of the two groups has two members on each node. Half of the traffic of a group out of node 0 goes by each
  // member's interface, and the interface of rank 0 has half speed. On node 1, devices 2 and 3 send by interface 1, as
  // device 1 does.
  EXPECT_DOUBLE_EQ(NodeBandwidth(0, {kOwn, kAll}), 10);
  EXPECT_DOUBLE_EQ(NodeBandwidth(1, {kOwn, kAll}), 20);
  EXPECT_DOUBLE_EQ(NodeBandwidth(4, {kOwn, kAll}), 10 / 1.5);
  EXPECT_DOUBLE_EQ(NodeBandwidth(5, {kOwn, kAll}), 10 / 1.5);
  EXPECT_DOUBLE_EQ(Between(0, 4), 5);
  EXPECT_DOUBLE_EQ(Between(1, 6), 10);
  // The two ranks of a node with the same coordinate b send at the same time. On node 1 these are devices 0 and 1. Each
  // has its own interface here, and both share one on the next cluster.
  EXPECT_DOUBLE_EQ(Transfer(1, 5), 10);
  EXPECT_DOUBLE_EQ(Transfer(0, 4), 5);
  Make(
      {2, 4},
      "nodes: 4 devices_per_node: 4 nics_per_node: 4 other_interfaces { nodes: 1 interfaces: [ 0, 1, 2 ] down: true }");
  EXPECT_DOUBLE_EQ(Transfer(1, 5), 5);
  Make({8}, "nodes: 4 devices_per_node: 4 nics_per_node: 4 other_interfaces { nodes: 1 down: true }");
  EXPECT_THAT(std::string(links_->Path(0, 4).status().message()), HasSubstr("cluster.other_interfaces leaves node 1"));
  const GroupForm all = {kAll};
  const std::vector<int64_t> ranks = {4, 5, 6, 7};
  EXPECT_THAT(std::string(links_->NodeBandwidth(ranks, &all).status().message()),
              HasSubstr("cluster.other_interfaces leaves node 1 no interface"));
}

TEST_F(PlacedLinksTest, SlowestLinkOfARoute) {
  Make({4}, R"(nodes: 1 devices_per_node: 4 node_links {
    direct { first: 0 second: 1 link { bytes_per_second: 2e11 } }
    devices_per_bridge: 2 bridge { bytes_per_second: 3e10 } })");
  EXPECT_DOUBLE_EQ(Between(1, 0), 200);
  EXPECT_DOUBLE_EQ(Between(2, 3), 100);
  EXPECT_DOUBLE_EQ(Between(1, 2), 30);
  EXPECT_DOUBLE_EQ(Transfer(1, 2), 30);
  // The PCIe port limits the traffic to the interface.
  Make({4}, "nodes: 4 devices_per_node: 1 nics_per_node: 1 intra_node { kind: PCIE bytes_per_second: 4e9 }");
  EXPECT_DOUBLE_EQ(NodeBandwidth(0, {kAll}), 4);
  EXPECT_DOUBLE_EQ(Between(0, 1), 4);
}

TEST_F(PlacedLinksTest, TooFewDevicesAreSaidByEveryQuestion) {
  Make({9}, "nodes: 2 devices_per_node: 4 nics_per_node: 1");
  EXPECT_THAT(std::string(links_->Path(0, 1).status().message()), HasSubstr("cluster.nodes must be at least 3"));
  EXPECT_THAT(std::string(links_->SharedPath(0, 1).status().message()), HasSubstr("must be at least 3"));
  const GroupForm all = {kAll};
  const std::vector<int64_t> ranks = {0};
  EXPECT_THAT(std::string(links_->NodeBandwidth(ranks, &all).status().message()), HasSubstr("must be at least 3"));
}

// A slow interface slows down the devices that use it. The device of an interface that is down uses the interface of a
// neighbor, which slows down both. The six other devices keep their bandwidth.
TEST_F(PlacedLinksTest, AnInterfaceThatIsDownIsShared) {
  const std::string machine =
      "nodes: 2 devices_per_node: 8 nics_per_node: 8 other_interfaces { nodes: 1 interfaces: 3 ";
  for (const bool down : {false, true}) {
    Make({8, 2}, machine + (down ? "down: true }" : "fraction: 0.5 }"));
    for (int64_t rank = 8; rank < 16; ++rank) {
      const bool slow = rank == 11 || (down && rank == 10);
      EXPECT_DOUBLE_EQ(NodeBandwidth(rank, {kOwn, kAll}), slow ? 5 : 10) << rank;
      EXPECT_DOUBLE_EQ(Transfer(rank - 8, rank), slow ? 5 : 10) << rank;
    }
    // One group of all ranks: each device sends an eighth of the traffic that leaves the node.
    EXPECT_DOUBLE_EQ(NodeBandwidth(8, {kAll, kAll}), 40);
    EXPECT_DOUBLE_EQ(NodeBandwidth(0, {kAll, kAll}), 80);
  }
}

// Four nodes of two devices, two nodes to a leaf: the nodes below a leaf send as much as four interfaces carry, and the
// links up from the leaf carry as much as one interface.
TEST_F(PlacedLinksTest, LinksUpThatAreOversubscribed) {
  const std::string machine =
      "nodes: 4 devices_per_node: 2 nics_per_node: 2 "
      "fabric { kind: FAT_TREE nodes_per_switch: 2 oversubscription: ";
  Make({2, 4}, machine + "4 }");
  const auto place = [&](const GroupForm& form, std::vector<int64_t> ranks) {
    return links_->PlaceBandwidth(ranks, &form) / 1e9;
  };
  EXPECT_TRUE(links_->HasNarrowPlaces());
  EXPECT_DOUBLE_EQ(place({kAll, kAll}, {0, 1, 2, 3}), 10);
  EXPECT_DOUBLE_EQ(place({kOwn, kAll}, {0, 2}), 5);
  EXPECT_DOUBLE_EQ(NodeBandwidth(0, {kOwn, kAll}), 10);
  EXPECT_DOUBLE_EQ(Transfer(0, 2), 10);
  // Ranks 0 and 1 send up from the leaf at the same time.
  EXPECT_DOUBLE_EQ(Transfer(0, 4), 5);
  // On rails, the leaf of a device is the leaf of its interface.
  Make({2, 4},
       "nodes: 4 devices_per_node: 2 nics_per_node: 2 "
       "fabric { kind: RAIL_OPTIMISED nodes_per_switch: 2 oversubscription: 4 }");
  EXPECT_DOUBLE_EQ(place({kAll, kAll}, {0, 1, 2, 3}), 10);
  EXPECT_DOUBLE_EQ(place({kOwn, kAll}, {0, 2}), 5);
  // A fabric that is not oversubscribed does not limit the nodes.
  Make({2, 4}, machine + "1 }");
  EXPECT_FALSE(links_->HasNarrowPlaces());
}

// A network reuses the times of one group for other groups of its shape. These times equal the times that a new network
// computes for each group.
TEST_F(PlacedLinksTest, RememberedTimesAreThoseOfAFreshNetwork) {
  const std::vector<std::string> machines = {
      "nodes: 8 devices_per_node: 4 nics_per_node: 2",
      "nodes: 8 devices_per_node: 4 nics_per_node: 4 other_interfaces { nodes: [ 1, 5 ] interfaces: 2 down: true }",
      "nodes: 8 devices_per_node: 4 nics_per_node: 1 node_links { devices_per_bridge: 2 bridge { bytes_per_second: "
      "1e10 } }",
      "nodes: 8 devices_per_node: 4 nics_per_node: 4 fabric { kind: RAIL_OPTIMISED nodes_per_switch: 3 "
      "hop_latency_seconds: 1e-6 }",
      "nodes: 8 devices_per_node: 4 nics_per_node: 2 fabric { kind: FAT_TREE nodes_per_switch: 3 oversubscription: 6 }",
      "nodes: 8 devices_per_node: 4 nics_per_node: 4 node_links { all_pairs: true }",
      "nodes: 8 devices_per_node: 4 nics_per_node: 4 fabric { kind: TORUS torus: [ 4, 2 ] hop_latency_seconds: 1e-6 }",
      "nodes: 8 devices_per_node: 4 nics_per_node: 4 placement { nodes: [ 3, 1, 7, 6, 5, 0, 2, 4 ] devices: [ 3, 2, 0 "
      "] } "
      "fabric { kind: DRAGONFLY nodes_per_switch: 2 hop_latency_seconds: 1e-6 }",
  };
  const auto entry = FindNetworkModel("analytic");
  ASSERT_TRUE(entry.ok());
  for (const std::string& machine : machines) {
    SCOPED_TRACE(machine);
    const Mesh mesh = MakeMesh({2, 4, 3});
    const Cluster cluster = MakeCluster(machine);
    const std::unique_ptr<NetworkModel> remembers = (*entry)->make(mesh, cluster);
    for (const GroupForm& form : {GroupForm{kAll, kOwn, kOwn}, GroupForm{kOwn, kAll, kOwn}, GroupForm{kOwn, kOwn, kAll},
                                  GroupForm{kAll, kAll, kAll}, GroupForm{kOwn, kAll, kAll}}) {
      for (const CollectiveEntry& algorithm : Collectives()) {
        for (int64_t rank = 0; rank < 24; ++rank) {
          const CollectiveCall call = {.kind = CollectiveKind::kAllReduce,
                                       .algorithm = &algorithm,
                                       .parts = {{.elements = 1000 + rank / 2 % 2, .element_bytes = 4}}};
          const std::vector<int64_t> members = FormMembers(mesh, rank, form);
          if (members.front() != rank) continue;
          const auto fresh = (*entry)->make(mesh, cluster)->Collective(call, form, members);
          const auto told = remembers->Collective(call, form, members);
          ASSERT_EQ(fresh.ok(), told.ok()) << algorithm.name;
          if (!fresh.ok()) continue;
          EXPECT_EQ(*fresh, *told) << algorithm.name << " " << rank;
        }
      }
    }
  }
}

// A mesh of tensor 8, data 128 and pipe 16 on 2,048 nodes of 8 devices. The test times every group and every transfer,
// with several sizes for each group.
TEST_F(PlacedLinksTest, SixteenThousandRanksAreQuick) {
  const Mesh mesh = MakeMesh({8, 128, 16});
  const Cluster cluster = MakeCluster(
      "nodes: 2048 devices_per_node: 8 nics_per_node: 8 "
      "fabric { kind: RAIL_OPTIMISED nodes_per_switch: 32 oversubscription: 1 hop_latency_seconds: 2e-7 }");
  const std::vector<GroupForm> forms = {{kAll, kOwn, kOwn}, {kOwn, kAll, kOwn}};
  std::vector<std::vector<std::vector<int64_t>>> groups(forms.size());
  for (size_t form = 0; form < forms.size(); ++form) {
    for (int64_t rank = 0; rank < 16384; ++rank) {
      const bool first = form == 0 ? rank % 8 == 0 : rank / 8 % 128 == 0;
      if (first) groups[form].push_back(FormMembers(mesh, rank, forms[form]));
    }
  }
  const std::clock_t start = std::clock();
  const std::unique_ptr<NetworkModel> network = (*FindNetworkModel("analytic"))->make(mesh, cluster);
  for (size_t form = 0; form < forms.size(); ++form) {
    for (const std::vector<int64_t>& members : groups[form]) {
      for (int64_t size = 1; size <= 8; ++size) {
        const CollectiveCall call = {.kind = CollectiveKind::kAllGather,
                                     .algorithm = *FindCollective("ring"),
                                     .parts = {{.elements = size << 20, .element_bytes = 2}}};
        ASSERT_TRUE(network->Collective(call, forms[form], members).ok());
      }
    }
  }
  for (int64_t rank = 0; rank < 16384; ++rank) {
    ASSERT_TRUE(network->Transfer(rank, (rank + 1024) % 16384, 1 << 20).ok());
    ASSERT_TRUE(network->Transfer((rank + 1024) % 16384, rank, 1 << 20).ok());
  }
  const double took = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  std::printf("16384 ranks: %.3f s\n", took);
  // This takes well under 0.1 s on an idle processor with the optimized library; sanitizers make it slower.
  EXPECT_LT(took, 5);
}

}  // namespace
}  // namespace weft::sim
