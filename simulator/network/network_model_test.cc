#include "simulator/network/network_model.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/util/mesh.h"

namespace weft::sim {
namespace {

using ::testing::HasSubstr;

template <typename Message>
Message Parse(const std::string& text) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

// Inside a node: 100 GB/s, latency 1 us, overhead 2 us. NICs: 10 GB/s, latency 5 us, overhead 3 us.
Cluster TestCluster(int devices_per_node, int nics) {
  Cluster cluster = Parse<Cluster>(R"pb(
    nodes: 64
    intra_node { bytes_per_second: 1e11 latency_seconds: 1e-6 overhead_seconds: 2e-6 }
    inter_node { bytes_per_second: 1e10 latency_seconds: 5e-6 overhead_seconds: 3e-6 }
  )pb");
  cluster.set_devices_per_node(devices_per_node);
  cluster.set_nics_per_node(nics);
  return cluster;
}

Mesh MakeMesh(const std::vector<std::pair<std::string, int64_t>>& axes) {
  Mesh mesh;
  for (const auto& [name, size] : axes) {
    mesh.add_axes()->set_name(name);
    mesh.mutable_axes(mesh.axes_size() - 1)->set_size(size);
  }
  return mesh;
}

// `expected` is in microseconds. A time from doubles may be rounded up by one picosecond.
void ExpectMicroseconds(Time time, double expected) {
  EXPECT_GE(time.ps, static_cast<int64_t>(expected * 1e6 + 0.5));
  EXPECT_LE(time.ps, static_cast<int64_t>(expected * 1e6 + 0.5) + 1);
}

const AxisPart kAll = {.kind = AxisPart::kAll, .size = 0, .listed = {}};
AxisPart Listed(const std::vector<int64_t>& listed) { return {.kind = AxisPart::kListed, .size = 0, .listed = listed}; }
AxisPart Block(int64_t size) { return {.kind = AxisPart::kBlock, .size = size, .listed = {}}; }
AxisPart Stride(int64_t size) { return {.kind = AxisPart::kStride, .size = size, .listed = {}}; }

class AnalyticTest : public ::testing::Test {
 protected:
  void Make(const Mesh& mesh, const Cluster& cluster) {
    mesh_ = mesh;
    cluster_ = cluster;
    const auto entry = FindNetworkModel("analytic");
    ASSERT_TRUE(entry.ok());
    network_ = (*entry)->make(mesh_, cluster_);
  }
  TransferTime Transfer(int64_t source, int64_t destination, int64_t bytes) {
    const auto time = network_->Transfer(source, destination, bytes);
    EXPECT_TRUE(time.ok()) << time.status();
    return time.value_or(TransferTime{});
  }
  // For each listed axis, the coordinates in the group; on all other axes, the rank's own coordinate.
  using Parts = std::vector<std::pair<std::string, AxisPart>>;
  GroupForm Form(const Parts& parts) {
    GroupForm form(mesh_.axes_size());
    for (int i = 0; i < mesh_.axes_size(); ++i) {
      for (const auto& [axis, part] : parts) {
        if (axis == mesh_.axes(i).name()) form[i] = part;
      }
    }
    return form;
  }
  TransferTime Collective(const std::string& algorithm, CollectiveKind kind, const Parts& parts, int64_t elements,
                          int64_t rank = 0) {
    const auto entry = FindCollective(algorithm);
    EXPECT_TRUE(entry.ok());
    const CollectiveCall call = {
        .kind = kind, .algorithm = *entry, .parts = {{.elements = elements, .element_bytes = 4}}};
    const GroupForm form = Form(parts);
    const auto time = network_->Collective(call, form, FormMembers(mesh_, rank, form));
    EXPECT_TRUE(time.ok()) << time.status();
    return time.value_or(TransferTime{});
  }
  TransferTime AllReduce(const std::string& algorithm, const Parts& parts, int64_t elements) {
    return Collective(algorithm, CollectiveKind::kAllReduce, parts, elements);
  }

  Mesh mesh_;
  Cluster cluster_;
  std::unique_ptr<NetworkModel> network_;
};

TEST_F(AnalyticTest, TransferInsideANode) {
  Make(MakeMesh({{"pipe", 4}}), TestCluster(4, 1));
  const TransferTime time = Transfer(0, 1, 1'000'000);
  ExpectMicroseconds(time.occupancy, 2 + 10);
  ExpectMicroseconds(time.latency, 1);
}

TEST_F(AnalyticTest, TransferAcrossNodesSharesTheNics) {
  // The data axis is inside the nodes {0..3} and {4..7}. The pipe axis crosses nodes, and 4 replicas at a time share 2
  // NICs: 5 GB/s each.
  Make(MakeMesh({{"data", 4}, {"pipe", 2}}), TestCluster(4, 2));
  ExpectMicroseconds(Transfer(1, 5, 1'000'000).occupancy, 3 + 200);
  ExpectMicroseconds(Transfer(1, 5, 1'000'000).latency, 5);
  // The pipe axis is mostly inside nodes: only the pair (1, 2) crosses, at the speed of one NIC.
  Make(MakeMesh({{"pipe", 4}, {"data", 1}}), TestCluster(2, 2));
  ExpectMicroseconds(Transfer(1, 2, 1'000'000).occupancy, 3 + 100);
  // 3 pipe stages on nodes of 2: the two ranks on node 1 (stage 2 of replica 0 and stage 0 of replica 1) send across
  // nodes in opposite directions.
  Make(MakeMesh({{"pipe", 3}, {"data", 2}}), TestCluster(2, 1));
  ExpectMicroseconds(Transfer(1, 2, 1'000'000).occupancy, 3 + 100);
}

TEST_F(AnalyticTest, RingClosedForm) {
  Make(MakeMesh({{"data", 4}}), TestCluster(4, 1));
  // 2(n-1) (overhead + latency) + 2(n-1)/n S/B with S = 4 MB: 6 * 3 + 60 us; the last latency comes after the
  // occupancy.
  const TransferTime time = AllReduce("ring", {{"data", kAll}}, 1'000'000);
  ExpectMicroseconds(time.occupancy, 6 * (2 + 10) + 5 * 1);
  ExpectMicroseconds(time.latency, 1);
}

TEST_F(AnalyticTest, RingTakesTheBandwidthOfEquation10) {
  // x = 2 and half of data = 4 are inside nodes of 4 devices: two rings over data share the node's NICs. B = 4 * 10
  // GB/s / 2; each message is 1 MB.
  Make(MakeMesh({{"x", 2}, {"data", 4}}), TestCluster(4, 4));
  ExpectMicroseconds(AllReduce("ring", {{"data", kAll}}, 1'000'000).occupancy, 6 * (3 + 50) + 5 * 5);
  // One group over all ranks has the whole bandwidth of the node, 40 GB/s; 8 messages of 0.5 MB.
  Make(MakeMesh({{"data", 8}}), TestCluster(4, 4));
  ExpectMicroseconds(AllReduce("ring", {{"data", kAll}}, 1'000'000).occupancy, 14 * (3 + 12.5) + 13 * 5);
  // The preceding axes are larger than a node: at most G_node = 4 rings cross, with 10 GB/s each.
  Make(MakeMesh({{"x", 8}, {"data", 2}}), TestCluster(4, 4));
  ExpectMicroseconds(AllReduce("ring", {{"data", kAll}}, 1'000'000).occupancy, 2 * (3 + 200) + 1 * 5);
  // One member per node and no other group: a device has only its own NIC.
  Make(MakeMesh({{"data", 2}}), TestCluster(1, 1));
  ExpectMicroseconds(AllReduce("ring", {{"data", kAll}}, 1'000'000).occupancy, 2 * (3 + 200) + 1 * 5);
}

TEST_F(AnalyticTest, AllGatherAndReduceScatterAreHalfAnAllReduce) {
  Make(MakeMesh({{"z", 4}}), TestCluster(4, 1));
  for (const CollectiveKind kind : {CollectiveKind::kAllGather, CollectiveKind::kReduceScatter}) {
    // (n-1) (overhead + latency) + (n-1)/n S/B with S = 4 MB: 3 * 3 + 30 us.
    const TransferTime ring = Collective("ring", kind, {{"z", kAll}}, 1'000'000);
    ExpectMicroseconds(ring.occupancy, 3 * (2 + 10) + 2 * 1);
    ExpectMicroseconds(ring.latency, 1);
    // Direct takes one round: three messages of a quarter each.
    ExpectMicroseconds(Collective("direct", kind, {{"z", kAll}}, 1'000'000).occupancy, 3 * (2 + 10));
  }
}

TEST_F(AnalyticTest, EveryAxisSeesItsShareOfTheNics) {
  // The paper's order of axes is x, y, z, data, innermost first. Nodes of 8 devices have 4 NICs of 10 GB/s: 40 GB/s.
  // Messages are 1 MB.
  Make(MakeMesh({{"x", 2}, {"y", 4}, {"z", 2}, {"data", 2}}), TestCluster(8, 4));
  const auto message = [&](const std::string& axis, CollectiveKind kind) {
    const int64_t elements = 250'000 * AxisSize(mesh_, axis);
    return Collective("ring", kind, {{axis, kAll}}, elements).occupancy;
  };
  ExpectMicroseconds(message("x", CollectiveKind::kAllReduce), 2 * (2 + 10) + 1);
  ExpectMicroseconds(message("y", CollectiveKind::kAllReduce), 6 * (2 + 10) + 5);
  // Eight groups along z cross between nodes, or eight groups along data: each has 5 GB/s.
  ExpectMicroseconds(message("z", CollectiveKind::kAllGather), 3 + 200);
  ExpectMicroseconds(message("data", CollectiveKind::kAllReduce), 2 * (3 + 200) + 5);
  // z is inside the nodes, and x crosses between nodes in 8 groups.
  Make(MakeMesh({{"z", 2}, {"y", 4}, {"x", 2}}), TestCluster(8, 4));
  ExpectMicroseconds(message("z", CollectiveKind::kAllGather), 2 + 10);
  ExpectMicroseconds(message("x", CollectiveKind::kAllReduce), 2 * (3 + 200) + 5);
  // Half of the y axis is inside a node: its 2 groups cross, with 20 GB/s each.
  Make(MakeMesh({{"x", 2}, {"y", 8}}), TestCluster(8, 4));
  ExpectMicroseconds(message("y", CollectiveKind::kReduceScatter), 7 * (3 + 50) + 6 * 5);
}

TEST_F(AnalyticTest, OtherBlocksCrossAtTheSameTime) {
  // data = 6 on nodes of 3 with 1 NIC: blocks {0, 1}, {2, 3}, {4, 5}. Only block {2, 3} crosses between nodes.
  Make(MakeMesh({{"data", 6}}), TestCluster(3, 1));
  ExpectMicroseconds(Collective("ring", CollectiveKind::kAllGather, {{"data", Block(2)}}, 500'000, 2).occupancy,
                     3 + 100);
  ExpectMicroseconds(Collective("ring", CollectiveKind::kAllGather, {{"data", Block(2)}}, 500'000, 0).occupancy,
                     2 + 10);
  // With stride 3, the groups {0, 3}, {1, 4} and {2, 5} share the NIC.
  ExpectMicroseconds(Collective("ring", CollectiveKind::kAllGather, {{"data", Stride(3)}}, 500'000, 1).occupancy,
                     3 + 300);
}

TEST_F(AnalyticTest, OneByOneTravelsDirectly) {
  // Parts that are summed in exact accumulators travel in the source's type. They follow the other parts, and each
  // member sends every other member the range that it owns.
  Make(MakeMesh({{"z", 4}}), TestCluster(4, 1));
  CollectiveCall call = {.kind = CollectiveKind::kReduceScatter,
                         .algorithm = *FindCollective("ring"),
                         .parts = {{.elements = 1'000'000, .element_bytes = 4, .one_by_one = true}}};
  const GroupForm form = Form({{"z", kAll}});
  ExpectMicroseconds(network_->Collective(call, form, {0, 1, 2, 3})->occupancy, 3 * (2 + 10));
  call.parts.push_back({.elements = 2'000'000, .element_bytes = 4});
  const auto both = network_->Collective(call, form, {0, 1, 2, 3});
  // Three rounds of the ring, then one direct round, with three latencies between them.
  ExpectMicroseconds(both->occupancy, 3 * (2 + 20) + 3 * (2 + 10) + 3 * 1);
  ExpectMicroseconds(both->latency, 1);
}

TEST_F(AnalyticTest, GroupOfListedCoordinatesCountsOnlyItsLikes) {
  // Copies of tied weights are on pipe stages 0 and 3 of each of two replicas. One node holds stages 0 and 1 of both
  // replicas, the other node holds stages 2 and 3.
  Make(MakeMesh({{"data", 2}, {"pipe", 4}}), TestCluster(4, 2));
  // Two groups cross: (0, 6) and (1, 7). Both use the first NIC of node 0 and the second of node 1, so each has 5 GB/s.
  // Messages are 2 MB.
  ExpectMicroseconds(AllReduce("ring", {{"pipe", Listed({0, 3})}}, 1'000'000).occupancy, 2 * (3 + 400) + 1 * 5);
  // One group over all coordinates of data and both tied stages has 10 GB/s; messages are 1 MB.
  ExpectMicroseconds(AllReduce("ring", {{"data", kAll}, {"pipe", Listed({0, 3})}}, 1'000'000).occupancy,
                     6 * (3 + 100) + 5 * 5);
}

TEST_F(AnalyticTest, DirectClosedForm) {
  Make(MakeMesh({{"data", 4}}), TestCluster(4, 1));
  ExpectMicroseconds(AllReduce("direct", {{"data", kAll}}, 250'000).occupancy, 3 * (2 + 10));
  // Two nodes of two members. Each member sends one message inside (12 us) and two messages out, for which both members
  // share one NIC: 1 MB at 5 GB/s.
  Make(MakeMesh({{"data", 4}}), TestCluster(2, 1));
  const TransferTime time = AllReduce("direct", {{"data", kAll}}, 250'000);
  ExpectMicroseconds(time.occupancy, 12 + 2 * (3 + 200));
  ExpectMicroseconds(time.latency, 5);
}

TEST_F(AnalyticTest, GroupOfOneIsFreeAndNeedsNoFigures) {
  Make(MakeMesh({{"data", 1}}), Cluster());
  EXPECT_EQ(AllReduce("ring", {{"data", kAll}}, 1'000'000), TransferTime{});
  EXPECT_EQ(AllReduce("direct", {{"data", kAll}}, 1'000'000), TransferTime{});
}

TEST_F(AnalyticTest, PartsAreCutOneByOne) {
  // Two parts of 5 and 3 elements over 4 members: chunks have ceil(5/4) + ceil(3/4) = 3 elements.
  Make(MakeMesh({{"data", 4}}), TestCluster(4, 1));
  const CollectiveCall call = {
      .kind = CollectiveKind::kAllReduce,
      .algorithm = *FindCollective("ring"),
      .parts = {{.elements = 5, .element_bytes = 1'000'000}, {.elements = 3, .element_bytes = 1'000'000}}};
  const auto time = network_->Collective(call, Form({{"data", kAll}}), {0, 1, 2, 3});
  ASSERT_TRUE(time.ok());
  ExpectMicroseconds(time->occupancy, 6 * (2 + 30) + 5 * 1);
}

TEST_F(AnalyticTest, MissingFiguresAreNamed) {
  Make(MakeMesh({{"data", 4}}), Parse<Cluster>("nodes: 2 devices_per_node: 2 intra_node { bytes_per_second: 1e9 }"));
  EXPECT_TRUE(network_->Transfer(0, 1, 1).ok());
  EXPECT_THAT(std::string(network_->Transfer(1, 2, 1).status().message()),
              HasSubstr("cluster.inter_node.bytes_per_second"));
  Make(MakeMesh({{"data", 4}}), Parse<Cluster>("nodes: 2 devices_per_node: 2 inter_node { bytes_per_second: 1e9 }"));
  EXPECT_THAT(std::string(network_->Transfer(1, 2, 1).status().message()), HasSubstr("cluster.nics_per_node"));
  const CollectiveCall call = {.algorithm = *FindCollective("ring"), .parts = {{.elements = 4, .element_bytes = 4}}};
  EXPECT_THAT(std::string(network_->Collective(call, Form({{"data", Listed({0, 1})}}), {0, 1}).status().message()),
              HasSubstr("cluster.intra_node.bytes_per_second"));
}

TEST(None, IsFree) {
  const Mesh mesh;
  const Cluster cluster;
  const auto entry = FindNetworkModel("none");
  ASSERT_TRUE(entry.ok());
  const std::unique_ptr<NetworkModel> network = (*entry)->make(mesh, cluster);
  EXPECT_EQ(*network->Transfer(0, 1, 1 << 30), TransferTime{});
  EXPECT_EQ(*network->Collective(CollectiveCall(), {}, {0, 1}), TransferTime{});
}

TEST(NetworkModels, RegistryIsSortedAndUnknownNamesAreRefused) {
  for (size_t i = 1; i < NetworkModels().size(); ++i) EXPECT_LT(NetworkModels()[i - 1].name, NetworkModels()[i].name);
  const auto unknown = FindNetworkModel("analitic");
  EXPECT_EQ(unknown.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(unknown.status().message()), HasSubstr("nearest: 'analytic'"));
}

}  // namespace
}  // namespace weft::sim
