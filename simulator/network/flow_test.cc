#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "simulator/network/network_model.h"

namespace weft {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

constexpr double kInside = 1e11, kInsideLatency = 1e-6, kInsideOverhead = 2e-6;
constexpr double kNic = 1e10, kNicLatency = 5e-6, kNicOverhead = 3e-6;

Cluster MakeCluster(int64_t nodes, int64_t devices, int64_t nics) {
  Cluster cluster;
  cluster.set_nodes(nodes);
  cluster.set_devices_per_node(devices);
  cluster.set_nics_per_node(nics);
  cluster.mutable_intra_node()->set_bytes_per_second(kInside);
  cluster.mutable_intra_node()->set_latency_seconds(kInsideLatency);
  cluster.mutable_intra_node()->set_overhead_seconds(kInsideOverhead);
  cluster.mutable_inter_node()->set_bytes_per_second(kNic);
  cluster.mutable_inter_node()->set_latency_seconds(kNicLatency);
  cluster.mutable_inter_node()->set_overhead_seconds(kNicOverhead);
  return cluster;
}

class FlowTest : public ::testing::Test {
 protected:
  void Make(int64_t ranks, const Cluster& cluster) {
    cluster_ = cluster;
    mesh_.Clear();
    mesh_.add_axes()->set_name("data");
    mesh_.mutable_axes(0)->set_size(ranks);
    network_ = (*FindNetworkModel("flow"))->make(mesh_, cluster_);
    analytic_ = (*FindNetworkModel("analytic"))->make(mesh_, cluster_);
  }

  static CollectiveCall Call(const std::string& algorithm, CollectiveKind kind, int64_t elements) {
    return {
        .kind = kind, .algorithm = *FindCollective(algorithm), .parts = {{.elements = elements, .element_bytes = 4}}};
  }
  static std::vector<int64_t> Members(int64_t n, int64_t first = 0, int64_t stride = 1) {
    std::vector<int64_t> members;
    for (int64_t i = 0; i < n; ++i) members.push_back(first + i * stride);
    return members;
  }
  Flow FlowOf(const CollectiveCall& call, const std::vector<int64_t>& members) {
    const auto flow = network_->CollectiveFlow(call, {}, members);
    EXPECT_TRUE(flow.ok()) << flow.status();
    return flow.value_or(Flow{});
  }
  TransferTime TimeOf(const CollectiveCall& call, const std::vector<int64_t>& members) {
    const auto time = network_->Collective(call, {}, members);
    EXPECT_TRUE(time.ok()) << time.status();
    return time.value_or(TransferTime{});
  }

  Mesh mesh_;
  Cluster cluster_;
  std::unique_ptr<NetworkModel> network_;
  std::unique_ptr<NetworkModel> analytic_;
};

// One ps of each phase, and what whole bytes per second lose.
void ExpectSeconds(Time time, double expected, int64_t phases = 1) {
  EXPECT_NEAR(static_cast<double>(time.ps), expected * 1e12, 1 + 2.0 * static_cast<double>(phases) + expected * 1e3);
}

TEST_F(FlowTest, TransfersTakeTheirRoute) {
  Make(8, MakeCluster(2, 4, 4));
  const auto inside = network_->Transfer(0, 1, 1'000'000);
  ASSERT_TRUE(inside.ok()) << inside.status();
  ExpectSeconds(inside->occupancy, kInsideOverhead + 1e6 / kInside);
  ExpectSeconds(inside->latency, kInsideLatency, 0);
  const auto outside = network_->Transfer(0, 5, 1'000'000);
  ASSERT_TRUE(outside.ok()) << outside.status();
  ExpectSeconds(outside->occupancy, kNicOverhead + 1e6 / kNic);
  ExpectSeconds(outside->latency, kNicLatency, 0);
  const auto flow = network_->TransferFlow(0, 5, 1'000'000);
  ASSERT_TRUE(flow.ok());
  ASSERT_EQ(flow->phases.size(), 1u);
  EXPECT_EQ(flow->phases[0].fixed_ps, 3'000'000);
  EXPECT_EQ(flow->phases[0].bytes, 1'000'000);
  EXPECT_GE(flow->phases[0].loads.size(), 2u);
  for (const auto& [link, load] : flow->phases[0].loads) {
    EXPECT_EQ(load, 1);
    EXPECT_GT(network_->LinkCapacities()[link], 0);
  }
}

// Every round of the plan by itself: the longest of its messages' starts and latencies, and the fullest port. A chunk
// of several parts is rounded up in each.
double SecondsByThePlan(const CollectivePlan& plan, int64_t elements, int64_t element_bytes) {
  const double chunk =
      static_cast<double>((elements + plan.chunks - 1) / plan.chunks) * static_cast<double>(element_bytes);
  double seconds = -kInsideLatency;
  for (const auto& round : plan.rounds) {
    std::vector<int> out(plan.members, 0), in(plan.members, 0);
    for (const CollectiveStep& step : round) {
      ++out[step.source];
      ++in[step.destination];
    }
    const int most = std::max(*std::max_element(out.begin(), out.end()), *std::max_element(in.begin(), in.end()));
    seconds += most * (kInsideOverhead + chunk / kInside) + kInsideLatency;
  }
  return seconds;
}

TEST_F(FlowTest, EveryAlgorithmTakesWhatItsPlanSays) {
  Make(16, MakeCluster(1, 16, 0));
  for (const CollectiveEntry& entry : Collectives()) {
    if (entry.in_switch()) continue;
    for (const CollectiveKind kind : kCollectiveKinds) {
      for (const int64_t n : {2, 3, 4, 5, 8, 16}) {
        for (const int64_t elements : {1, 1000, 1'000'000}) {
          SCOPED_TRACE(testing::Message()
                       << entry.name << " " << CollectiveKindName(kind) << " " << n << " " << elements);
          const CollectivePlan plan = *entry.Build(n, kind);
          const TransferTime time = TimeOf(Call(std::string(entry.name), kind, elements), Members(n));
          ExpectSeconds(time.occupancy, SecondsByThePlan(plan, elements, 4), static_cast<int64_t>(plan.rounds.size()));
          ExpectSeconds(time.latency, kInsideLatency, 0);
        }
      }
    }
  }
}

TEST_F(FlowTest, ClosedFormsOfRingAndDirectOnAnIdleNetwork) {
  Make(8, MakeCluster(1, 8, 0));
  const double n = 8, bytes = 4e6;
  const auto ring = [&](double halves) {
    return halves * ((n - 1) * (kInsideOverhead + kInsideLatency) + (n - 1) / n * bytes / kInside) - kInsideLatency;
  };
  ExpectSeconds(TimeOf(Call("ring", CollectiveKind::kAllReduce, 1'000'000), Members(8)).occupancy, ring(2));
  ExpectSeconds(TimeOf(Call("ring", CollectiveKind::kAllGather, 1'000'000), Members(8)).occupancy, ring(1));
  ExpectSeconds(TimeOf(Call("ring", CollectiveKind::kReduceScatter, 1'000'000), Members(8)).occupancy, ring(1));
  ExpectSeconds(TimeOf(Call("direct", CollectiveKind::kAllReduce, 1'000'000), Members(8)).occupancy,
                (n - 1) * (kInsideOverhead + bytes / kInside));
  // As the analytic network has them, where nothing is shared.
  for (const std::string algorithm : {"ring", "direct"}) {
    for (const CollectiveKind kind : kCollectiveKinds) {
      const CollectiveCall call = Call(algorithm, kind, 1'000'000);
      const auto expected =
          analytic_->Collective(call, GroupForm(1, {.kind = AxisPart::kAll, .listed = {}}), Members(8));
      ASSERT_TRUE(expected.ok()) << expected.status();
      ExpectSeconds(TimeOf(call, Members(8)).occupancy, ToSeconds(expected->occupancy));
      EXPECT_EQ(TimeOf(call, Members(8)).latency, expected->latency);
    }
  }
}

TEST_F(FlowTest, ARingOverNodesUsesAllTheirInterfaces) {
  Make(16, MakeCluster(2, 8, 8));
  const double bytes = 64e6;
  const Flow flow = FlowOf(Call("ring", CollectiveKind::kAllReduce, 16'000'000), Members(16));
  ASSERT_EQ(flow.phases.size(), 1u);
  EXPECT_EQ(flow.phases[0].bytes, 30 * (64'000'000 / 16 / 8));
  // Out of and into each device 7 of 8 rings inside the node, the eighth by its interface.
  ExpectSeconds(TimeOf(Call("ring", CollectiveKind::kAllReduce, 16'000'000), Members(16)).occupancy,
                30 * kNicOverhead + 29 * kNicLatency + 30.0 / 16 / 8 * bytes / std::min(kNic, kInside / 7));
  // One member on each of two nodes has one interface.
  ExpectSeconds(TimeOf(Call("ring", CollectiveKind::kAllReduce, 16'000'000), {0, 8}).occupancy,
                2 * kNicOverhead + kNicLatency + bytes / kNic);
  // Two interfaces for eight devices: both are full.
  Make(16, MakeCluster(2, 8, 2));
  ExpectSeconds(TimeOf(Call("ring", CollectiveKind::kAllReduce, 16'000'000), Members(16)).occupancy,
                30 * kNicOverhead + 29 * kNicLatency + 30.0 / 16 * bytes / (2 * kNic));
}

TEST_F(FlowTest, UplinksThatCarryLessAreWhatATreeWaitsFor) {
  Cluster cluster = MakeCluster(4, 1, 1);
  const CollectiveCall call = Call("direct", CollectiveKind::kAllGather, 1'000'000);
  Make(4, cluster);
  const TransferTime flat = TimeOf(call, Members(4));
  ExpectSeconds(flat.occupancy, 3 * kNicOverhead + 3 * 1e6 / kNic);
  cluster.mutable_fabric()->set_kind(FAT_TREE);
  cluster.mutable_fabric()->set_nodes_per_switch(2);
  cluster.mutable_fabric()->set_oversubscription(2);
  Make(4, cluster);
  // Each of two nodes below a leaf sends to two others, by uplinks that carry as much as one interface.
  ExpectSeconds(TimeOf(call, Members(4)).occupancy, 3 * kNicOverhead + 4 * 1e6 / kNic);
}

TEST_F(FlowTest, LinksBetweenEveryTwoAreAllUsed) {
  Cluster cluster = MakeCluster(1, 8, 0);
  cluster.mutable_node_links()->set_all_pairs(true);
  Make(8, cluster);
  for (const int64_t n : {2, 3, 4, 7, 8}) {
    const double bytes = static_cast<double>(n) * 840 * 4;
    const CollectiveCall call = Call("ring", CollectiveKind::kAllGather, n * 840);
    const Flow flow = FlowOf(call, Members(n));
    ASSERT_EQ(flow.phases.size(), 1u);
    EXPECT_EQ(flow.phases[0].loads.size(), static_cast<size_t>(n * (n - 1)));
    const double links = static_cast<double>(n - 1);
    ExpectSeconds(TimeOf(call, Members(n)).occupancy, links * kInsideOverhead + (links - 1) * kInsideLatency +
                                                          links / static_cast<double>(n) * bytes / (links * kInside));
  }
}

// Up and down at the same time: every link of a member is used once.
TEST_F(FlowTest, SwitchesInClosedForm) {
  Cluster cluster = MakeCluster(2, 8, 8);
  cluster.mutable_node_links()->set_switch_reduces(true);
  Make(16, cluster);
  const double bytes = 4e6;
  for (const int64_t n : {2, 4, 8}) {
    const double others = static_cast<double>(n - 1), part = others / static_cast<double>(n);
    const TransferTime all = TimeOf(Call("switch", CollectiveKind::kAllReduce, 1'000'000), Members(n));
    ExpectSeconds(all.occupancy, kInsideOverhead + bytes / kInside, 2);
    ExpectSeconds(all.latency, kInsideLatency, 0);
    for (const CollectiveKind kind : {CollectiveKind::kAllGather, CollectiveKind::kReduceScatter}) {
      const Flow flow = FlowOf(Call("switch", kind, 1'000'000), Members(n));
      ASSERT_EQ(flow.phases.size(), 1u);
      // Half of the links carry one message each, the others all.
      ASSERT_EQ(static_cast<int64_t>(flow.phases[0].loads.size()), 2 * n);
      int64_t loads = 0;
      for (const auto& [link, load] : flow.phases[0].loads) loads += load;
      EXPECT_EQ(loads, n * n);
      ExpectSeconds(TimeOf(Call("switch", kind, 1'000'000), Members(n)).occupancy,
                    others * kInsideOverhead + part * bytes / kInside, 2);
    }
  }
  EXPECT_THAT(
      std::string(
          network_->CollectiveFlow(Call("switch", CollectiveKind::kAllReduce, 4), {}, Members(16)).status().message()),
      HasSubstr("over several nodes"));
}

// A node's members send equal parts of what its switch has summed, each by its own interface.
TEST_F(FlowTest, SwitchesOverNodesInClosedForm) {
  const double bytes = 16e6;
  for (const int64_t inside : {1, 2, 8}) {
    Cluster cluster = MakeCluster(4, inside, inside);
    cluster.mutable_node_links()->set_switch_reduces(true);
    cluster.mutable_fabric()->set_reduces(ALL_SWITCHES);
    cluster.mutable_fabric()->set_reduce_latency_seconds(1e-6);
    const int64_t n = 4 * inside;
    Make(n, cluster);
    const double parts = static_cast<double>(inside);
    const double latency = 1e-6 + (inside > 1 ? 2 * kInsideLatency : 0);
    const double up = inside > 1 ? bytes / kInside : 0;
    ExpectSeconds(TimeOf(Call("switch", CollectiveKind::kAllReduce, 4'000'000), Members(n)).occupancy,
                  latency + kNicOverhead + std::max(up, bytes / (parts * kNic)), 8);
    for (const CollectiveKind kind : {CollectiveKind::kAllGather, CollectiveKind::kReduceScatter}) {
      const double others = static_cast<double>(n - 1);
      const double out = 3.0 / 4 * bytes / (parts * kNic);
      const double posted = std::max(inside > 1 ? others * kInsideOverhead : 0, 3 * parts * kNicOverhead);
      ExpectSeconds(TimeOf(Call("switch", kind, 4'000'000), Members(n)).occupancy,
                    latency + posted + std::max(others / static_cast<double>(n) * up, out), 8);
    }
  }
}

// What passes each link of a tree, told by hand: below each leaf two nodes, and one sum goes up from it.
TEST_F(FlowTest, ALeafPassesOneSumOn) {
  Cluster cluster = MakeCluster(6, 1, 1);
  Fabric& fabric = *cluster.mutable_fabric();
  fabric.set_kind(FAT_TREE);
  fabric.set_nodes_per_switch(2);
  fabric.set_oversubscription(2);
  fabric.set_reduces(ALL_SWITCHES);
  Make(6, cluster);
  const auto loads = [&](CollectiveKind kind) {
    const Flow flow = FlowOf(Call("switch", kind, 6'000'000), Members(6));
    EXPECT_EQ(flow.phases.size(), 1u);
    std::map<int32_t, int> count;
    // 6 interfaces out and in, 3 leaves up and down.
    EXPECT_EQ(flow.phases[0].loads.size(), 18u);
    for (const auto& [link, load] : flow.phases[0].loads) ++count[load];
    return count;
  };
  EXPECT_THAT(loads(CollectiveKind::kAllReduce), ElementsAre(Pair(1, 18)));
  // Out of a node go sums for 5 others and one comes in; out of a leaf for 4, and 2 come in.
  EXPECT_THAT(loads(CollectiveKind::kReduceScatter), ElementsAre(Pair(1, 6), Pair(2, 3), Pair(4, 3), Pair(5, 6)));
  EXPECT_THAT(loads(CollectiveKind::kAllGather), ElementsAre(Pair(1, 6), Pair(2, 3), Pair(4, 3), Pair(5, 6)));
  // An uplink carries what an interface does, though two nodes are below: a ring would not notice the switch.
  ExpectSeconds(TimeOf(Call("switch", CollectiveKind::kAllReduce, 6'000'000), Members(6)).occupancy,
                kNicOverhead + 24e6 / kNic, 4);
  fabric.set_oversubscription(4);
  Make(6, cluster);
  ExpectSeconds(TimeOf(Call("switch", CollectiveKind::kAllReduce, 6'000'000), Members(6)).occupancy,
                kNicOverhead + 2 * 24e6 / kNic, 4);
  // Below one leaf no uplink matters.
  const Flow below = FlowOf(Call("switch", CollectiveKind::kAllReduce, 6'000'000), Members(2));
  EXPECT_EQ(below.phases[0].loads.size(), 4u);
}

// Of random trees: every sum is followed from the members that contribute to the one that owns it.
TEST_F(FlowTest, LoadsOfSwitchesAreThoseOfSumsThatAreFollowed) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 40; ++round) {
    const int64_t below = 1 + static_cast<int64_t>(random() % 3), leaves = 1 + static_cast<int64_t>(random() % 3);
    const int64_t inside = 1 + static_cast<int64_t>(random() % 3), nodes = below * leaves, n = nodes * inside;
    if (nodes < 2) continue;
    Cluster cluster = MakeCluster(nodes, inside, inside);
    cluster.mutable_node_links()->set_switch_reduces(true);
    Fabric& fabric = *cluster.mutable_fabric();
    fabric.set_kind(random() % 2 == 0 ? FAT_TREE : RAIL_OPTIMISED);
    fabric.set_nodes_per_switch(below);
    fabric.set_oversubscription(1);
    fabric.set_reduces(ALL_SWITCHES);
    Make(n, cluster);
    SCOPED_TRACE("round " + std::to_string(round));
    // By kind of link and its number: parts of chunks. Every chunk goes in as many parts as a node has members.
    std::map<std::string, int64_t> up, down;
    for (int64_t owner = 0; owner < n; ++owner) {
      for (int64_t part = 0; part < inside; ++part) {
        const std::string by = " of part " + std::to_string(part);
        std::set<int64_t> summed_leaves;
        for (int64_t node = 0; node < nodes; ++node) {
          if (node == owner / inside) continue;
          ++up["node " + std::to_string(node) + by];
          if (node / below != owner / inside / below) summed_leaves.insert(node / below);
        }
        for (const int64_t leaf : summed_leaves) ++up["leaf " + std::to_string(leaf) + by];
        if (!summed_leaves.empty()) ++down["leaf " + std::to_string(owner / inside / below) + by];
        ++down["node " + std::to_string(owner / inside) + by];
      }
      // Inside its node a member sends what others own, and receives its own.
      if (inside == 1) continue;
      up["device " + std::to_string(owner)] += inside * (n - 1);
      down["device " + std::to_string(owner)] += inside;
    }
    const auto loads = [&](CollectiveKind kind) {
      std::multiset<int64_t> all;
      const Flow flow = FlowOf(Call("switch", kind, n * 1000), Members(n));
      for (const auto& [link, load] : flow.phases[0].loads) all.insert(load);
      return all;
    };
    std::multiset<int64_t> expected;
    for (const auto& [link, load] : up) expected.insert(load);
    for (const auto& [link, load] : down) expected.insert(load);
    EXPECT_EQ(loads(CollectiveKind::kReduceScatter), expected);
    // A gather is the same backwards; of an all-reduce every link carries the buffer once.
    EXPECT_EQ(loads(CollectiveKind::kAllGather), expected);
    const std::multiset<int64_t> sum = loads(CollectiveKind::kAllReduce);
    EXPECT_EQ(sum.size(), expected.size());
    EXPECT_EQ(static_cast<int64_t>(sum.count(1)), static_cast<int64_t>(sum.size()) - (inside > 1 ? 2 * n : 0));
  }
}

TEST_F(FlowTest, GroupsHaveOneLatency) {
  Make(16, MakeCluster(2, 8, 8));
  for (const CollectiveEntry& entry : Collectives()) {
    if (entry.in_switch()) continue;
    for (const CollectiveKind kind : kCollectiveKinds) {
      EXPECT_EQ(FlowOf(Call(std::string(entry.name), kind, 100), Members(16)).latency, FromSeconds(kNicLatency));
      EXPECT_EQ(FlowOf(Call(std::string(entry.name), kind, 100), Members(8)).latency, FromSeconds(kInsideLatency));
    }
  }
}

TEST_F(FlowTest, LargeGroupsLoadTheirEndsExactly) {
  // More members than are told one by one; one link out and one in each.
  Make(600, MakeCluster(600, 1, 1));
  const Flow flow = FlowOf(Call("direct", CollectiveKind::kAllReduce, 10), Members(600));
  ASSERT_EQ(flow.phases.size(), 1u);
  EXPECT_EQ(flow.phases[0].loads.size(), 1200u);
  for (const auto& [link, load] : flow.phases[0].loads) EXPECT_EQ(load, 599);
}

TEST_F(FlowTest, GroupsOfOneAndNoBytesAreFree) {
  Make(1, Cluster());
  EXPECT_EQ(TimeOf(Call("ring", CollectiveKind::kAllReduce, 10), {0}), TransferTime{});
  Make(4, MakeCluster(1, 4, 0));
  const auto empty = network_->Transfer(0, 1, 0);
  ASSERT_TRUE(empty.ok());
  ExpectSeconds(empty->occupancy, kInsideOverhead, 0);
}

TEST_F(FlowTest, HugeSizesSaturate) {
  Make(4, MakeCluster(1, 4, 0));
  CollectiveCall call = Call("ring", CollectiveKind::kAllReduce, INT64_MAX);
  call.parts[0].element_bytes = 24;
  EXPECT_EQ(TimeOf(call, Members(4)).occupancy.ps, int64_t{1} << 62);
}

TEST_F(FlowTest, WhatTheClusterLacksIsNamed) {
  Cluster cluster = MakeCluster(2, 4, 0);
  Make(8, cluster);
  EXPECT_THAT(std::string(network_->Transfer(0, 4, 1).status().message()), HasSubstr("cluster.nics_per_node"));
  EXPECT_TRUE(network_->Transfer(0, 1, 1).ok());
  cluster.mutable_intra_node()->set_bytes_per_second(0);
  Make(8, cluster);
  EXPECT_THAT(
      std::string(
          network_->CollectiveFlow(Call("ring", CollectiveKind::kAllReduce, 4), {}, Members(4)).status().message()),
      HasSubstr("cluster.intra_node.bytes_per_second"));
  Make(9, cluster);
  EXPECT_EQ(network_->Transfer(0, 1, 1).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(network_->LinkCapacities().empty());
}

}  // namespace
}  // namespace weft
