// The closed forms of "analytic" agree with "flow" over links and routes on an idle network, and also when similar
// groups run the same collective at the same time.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "simulator/network/network_model.h"

namespace weft::sim {
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

// Returns the time from the start to the finish of a collective over all ranks; -1 if it fails.
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
  // A multiple of all numbers of chunks and rings, so no message is rounded.
  const int64_t bytes = int64_t{1260} << 20;
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

// Some members have a link to each other, the rest use the switch at the same time.
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

// One message of a ring passes a bridge. If more messages share it, only "flow" slows them down.
TEST(IdleAgreement, BridgesOfARing) {
  const std::string bridges = "node_links { devices_per_bridge: 4 bridge { bytes_per_second: 16e9 } }";
  ExpectAgreement(bridges, {2, 4, 8}, {"ring"});
  const Cluster cluster = MakeCluster(bridges);
  EXPECT_LT(Seconds("analytic", cluster, 8, "direct", CollectiveKind::kAllReduce, 1 << 20),
            Seconds("flow", cluster, 8, "direct", CollectiveKind::kAllReduce, 1 << 20));
}

// Several rings run at the same time; inside a node or between nodes, whichever takes longer counts.
TEST(IdleAgreement, RingsOverNodes) {
  for (const char* inside : {"1e9", "48e9", "900e9"}) {
    for (const char* links : {"", "node_links { all_pairs: true }"}) {
      for (const int64_t devices : {1, 2, 3, 4, 8}) {
        const std::string text = absl::StrCat("nodes: 4 devices_per_node: ", devices, " nics_per_node: ", devices, " ",
                                              links, " intra_node { bytes_per_second: ", inside, " }");
        ExpectAgreement(text, {2 * devices, 4 * devices}, {"ring"});
      }
    }
  }
}

// One device on each of eight nodes, four nodes to a leaf with oversubscribed uplinks: ring, direct and
// halving-doubling.
TEST(IdleAgreement, LinksUpThatAreOversubscribed) {
  for (const char* kind : {"FAT_TREE", "DRAGONFLY"}) {
    for (const char* oversubscription : {"1", "2", "4"}) {
      // With one interface per node, the leaf's links divide evenly.
      const std::string text = std::string("nodes: 8 devices_per_node: 1 nics_per_node: 1 fabric { kind: ") + kind +
                               " nodes_per_switch: 4 oversubscription: " + oversubscription + " }";
      ExpectAgreement(text, {8}, {"ring", "direct", "halving-doubling"});
    }
  }
}

// Returns the time of the slowest of `flows` if similar groups are all in flight. Each has an equal share of every
// link.
double SecondsOfAllInFlight(const NetworkModel& network, const std::vector<Flow>& flows) {
  double slowest = 0;
  for (const Flow& flow : flows) {
    double seconds = static_cast<double>(flow.latency.ps) * 1e-12;
    for (size_t p = 0; p < flow.phases.size(); ++p) {
      double of_byte = 0;
      for (const auto& [link, own] : flow.phases[p].loads) {
        int64_t messages = 0;
        for (const Flow& other : flows) {
          for (const auto& [used, load] : other.phases[p].loads) messages += used == link ? load : 0;
        }
        const double carries = static_cast<double>(network.LinkCapacities()[link]);
        of_byte = std::max(of_byte, static_cast<double>(messages) / carries);
      }
      seconds += static_cast<double>(flow.phases[p].fixed_ps) * 1e-12;
      seconds += of_byte * static_cast<double>(flow.phases[p].bytes);
    }
    slowest = std::max(slowest, seconds);
  }
  return slowest;
}

// Each of two nodes is below a leaf of its own, so all eight rings cross between the leaves. With oversubscription 8
// they share the one uplink of a leaf; with oversubscription 1 each ring has its own uplink.
TEST(IdleAgreement, AnEightToOneTreeTakesEightTimesAsLongForGroupsThatAllGoUp) {
  Cluster cluster = MakeCluster("nodes: 2 fabric { kind: FAT_TREE nodes_per_switch: 1 oversubscription: 8 }");
  Mesh mesh = MakeMesh(8);
  mesh.add_axes()->set_name("y");
  mesh.mutable_axes(1)->set_size(2);
  const GroupForm form = {{}, kAll[0]};
  const CollectiveCall call = {.kind = CollectiveKind::kAllGather,
                               .algorithm = *FindCollective("ring"),
                               .parts = {{.elements = 80'000'000, .element_bytes = 1}}};
  for (const auto& [oversubscription, bandwidth] : {std::pair{8, 1.25e9}, std::pair{1, 10e9}}) {
    cluster.mutable_fabric()->set_oversubscription(oversubscription);
    const std::unique_ptr<NetworkModel> analytic = (*FindNetworkModel("analytic"))->make(mesh, cluster);
    const std::unique_ptr<NetworkModel> flow = (*FindNetworkModel("flow"))->make(mesh, cluster);
    std::vector<Flow> flows;
    for (int64_t rank = 0; rank < 8; ++rank) {
      const std::vector<int64_t> members = {rank, rank + 8};
      const auto time = analytic->Collective(call, form, members);
      ASSERT_TRUE(time.ok()) << time.status();
      // 40 MB move at 10 GB/s, or at an eighth of that.
      EXPECT_NEAR(static_cast<double>(time->occupancy.ps + time->latency.ps) * 1e-12, 5e-6 + 1e-6 + 40e6 / bandwidth,
                  1e-9);
      flows.push_back(*flow->CollectiveFlow(call, form, members));
    }
    EXPECT_NEAR(SecondsOfAllInFlight(*flow, flows), 5e-6 + 1e-6 + 40e6 / bandwidth, 1e-9) << oversubscription;
  }
}

}  // namespace
}  // namespace weft::sim
