// On an idle network "analytic", by its closed forms, takes what "flow" takes over links and routes.
#include <memory>
#include <string>
#include <vector>

#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "simulator/network/network_model.h"

namespace weft {
namespace {

const GroupForm kAll = {{.kind = AxisPart::kAll, .size = 0, .listed = {}}};

Cluster MakeCluster(const std::string& text) {
  Cluster cluster;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "name: 'c' nodes: 1 devices_per_node: 8 nics_per_node: 8 "
      "intra_node { bytes_per_second: 48e9 latency_seconds: 2e-6 overhead_seconds: 1e-6 kind: NVLINK } "
      "inter_node { bytes_per_second: 10e9 latency_seconds: 5e-6 overhead_seconds: 1e-6 }",
      &cluster));
  EXPECT_TRUE(google::protobuf::TextFormat::MergeFromString(text, &cluster)) << text;
  return cluster;
}

Mesh MakeMesh(int64_t ranks) {
  Mesh mesh;
  mesh.add_axes()->set_name("x");
  mesh.mutable_axes(0)->set_size(ranks);
  return mesh;
}

// From the start to the finish, over all ranks; -1 if it cannot be.
double Seconds(const std::string& network, const Cluster& cluster, int64_t ranks, const std::string& algorithm,
               CollectiveKind kind, int64_t bytes) {
  const Mesh mesh = MakeMesh(ranks);
  const std::unique_ptr<NetworkModel> model = (*FindNetworkModel(network))->make(mesh, cluster);
  std::vector<int64_t> members(ranks);
  for (int64_t rank = 0; rank < ranks; ++rank) members[rank] = rank;
  const auto time = model->Collective(
      {.kind = kind, .algorithm = *FindCollective(algorithm), .parts = {{.elements = bytes, .element_bytes = 1}}}, kAll,
      members);
  EXPECT_TRUE(time.ok()) << time.status();
  return time.ok() ? static_cast<double>(time->occupancy.ps + time->latency.ps) * 1e-12 : -1;
}

void ExpectAgreement(const std::string& text, const std::vector<int64_t>& sizes,
                     const std::vector<std::string>& algorithms) {
  const Cluster cluster = MakeCluster(text);
  // Divides into all chunks and rings.
  const int64_t bytes = int64_t{420} << 20;
  for (const int64_t ranks : sizes) {
    for (const std::string& algorithm : algorithms) {
      for (const CollectiveKind kind : kCollectiveKinds) {
        const double flow = Seconds("flow", cluster, ranks, algorithm, kind, bytes);
        EXPECT_NEAR(Seconds("analytic", cluster, ranks, algorithm, kind, bytes), flow, flow * 1e-8)
            << text << ": " << algorithm << " " << CollectiveKindName(kind) << " over " << ranks;
      }
    }
  }
}

TEST(IdleAgreement, ALinkBetweenEveryTwo) {
  ExpectAgreement("node_links { all_pairs: true }", {2, 3, 4, 5, 8},
                  {"ring", "direct", "halving-doubling", "tree", "hierarchical", "hierarchical-4"});
}

TEST(IdleAgreement, ASwitch) {
  ExpectAgreement("", {2, 3, 4, 8}, {"ring", "direct", "halving-doubling", "tree", "hierarchical", "hierarchical-4"});
}

// A link between some, the switch between the others: at the same time.
TEST(IdleAgreement, PairsAndAMesh) {
  ExpectAgreement(
      "node_links { direct { first: 0 second: 1 link { bytes_per_second: 240e9 latency_seconds: 2e-6 } } "
      "direct { first: 2 second: 3 link { bytes_per_second: 240e9 latency_seconds: 2e-6 } } }",
      {2, 4, 8}, {"ring", "direct", "halving-doubling"});
  ExpectAgreement(
      "node_links { direct { first: 0 second: 1 link { bytes_per_second: 60e9 } } "
      "direct { first: 0 second: 2 link { bytes_per_second: 60e9 } } "
      "direct { first: 1 second: 2 link { bytes_per_second: 60e9 } } }",
      {3}, {"ring", "direct"});
}

// One message of a ring passes a bridge; more share it, which only "flow" has.
TEST(IdleAgreement, BridgesOfARing) {
  const std::string bridges = "node_links { devices_per_bridge: 4 bridge { bytes_per_second: 16e9 } }";
  ExpectAgreement(bridges, {2, 4, 8}, {"ring"});
  const Cluster cluster = MakeCluster(bridges);
  EXPECT_LT(Seconds("analytic", cluster, 8, "direct", CollectiveKind::kAllReduce, 1 << 20),
            Seconds("flow", cluster, 8, "direct", CollectiveKind::kAllReduce, 1 << 20));
}

// A device of each of eight nodes, two to a leaf: rings and pairs that go up, and all to all.
TEST(IdleAgreement, LinksUpThatAreOversubscribed) {
  for (const char* kind : {"FAT_TREE", "DRAGONFLY"}) {
    for (const char* oversubscription : {"1", "2", "4"}) {
      // Of one interface to a node the leaf's links divide evenly.
      const std::string text = std::string("nodes: 8 devices_per_node: 1 nics_per_node: 1 fabric { kind: ") + kind +
                               " nodes_per_switch: 4 oversubscription: " + oversubscription + " }";
      ExpectAgreement(text, {8}, {"ring", "direct", "halving-doubling"});
    }
  }
}

// Of eight groups of one device to a node each ring goes up, four to an uplink, as the audit's 8:1 tree has it.
TEST(IdleAgreement, AnEightToOneTreeTakesEightTimesAsLongForGroupsThatAllGoUp) {
  Cluster cluster = MakeCluster("nodes: 2 fabric { kind: FAT_TREE nodes_per_switch: 1 oversubscription: 8 }");
  Mesh mesh = MakeMesh(8);
  mesh.add_axes()->set_name("y");
  mesh.mutable_axes(1)->set_size(2);
  const GroupForm form = {{}, kAll[0]};
  const auto seconds = [&](const char* network) {
    const std::unique_ptr<NetworkModel> model = (*FindNetworkModel(network))->make(mesh, cluster);
    const std::vector<int64_t> members = {0, 8};
    const auto time = model->Collective({.kind = CollectiveKind::kAllGather,
                                         .algorithm = *FindCollective("ring"),
                                         .parts = {{.elements = 80'000'000, .element_bytes = 1}}},
                                        form, members);
    EXPECT_TRUE(time.ok()) << time.status();
    return static_cast<double>(time->occupancy.ps + time->latency.ps) * 1e-12;
  };
  const double narrow = seconds("analytic");
  cluster.mutable_fabric()->set_oversubscription(1);
  // 40 MB at 10 GB/s, and at an eighth of it.
  EXPECT_NEAR(seconds("analytic"), 5e-6 + 1e-6 + 40e6 / 10e9, 1e-9);
  EXPECT_NEAR(narrow, 5e-6 + 1e-6 + 40e6 / 1.25e9, 1e-9);
}

}  // namespace
}  // namespace weft
