#include <algorithm>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "simulator/network/flow_testing.h"

namespace weft::sim {
namespace {

using ::testing::HasSubstr;

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

// Adds up the times of the rounds of the plan. A round takes the largest overhead and latency of its messages, and the
// time of the port with the most chunks. The bytes of a chunk are rounded up.
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
  // If no link is shared, the analytic network gives the same times.
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
  // Each device sends and receives 7 of 8 rings inside the node, and the eighth through its interface.
  ExpectSeconds(TimeOf(Call("ring", CollectiveKind::kAllReduce, 16'000'000), Members(16)).occupancy,
                30 * kNicOverhead + 29 * kNicLatency + 30.0 / 16 / 8 * bytes / std::min(kNic, kInside / 7));
  // One member on each of two nodes uses one interface.
  ExpectSeconds(TimeOf(Call("ring", CollectiveKind::kAllReduce, 16'000'000), {0, 8}).occupancy,
                2 * kNicOverhead + kNicLatency + bytes / kNic);
  // Eight devices share two interfaces; both are full.
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
  // Each of the two nodes below a leaf sends to two others, over uplinks that carry as much as one interface.
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
  // The group is too large for all its messages to be simulated. Each member has one link out and one link in.
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

TEST_F(FlowTest, NamesMissingClusterFields) {
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
}  // namespace weft::sim
