// Tests the flows of collectives in which switches sum or multicast.
#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "simulator/network/flow_testing.h"

namespace weft::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

// Data moves up and down at the same time: every link of a member is used once.
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
      // Half of the links carry one message each, the others n - 1 each.
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

// The members of a node send equal parts of what its switch has summed, each through its own interface.
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

// Loads of each link of a tree, calculated by hand. Two nodes are below each leaf, and one sum goes up from the leaf.
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
    // 6 interfaces have a link out and a link in, and 3 leaves have a link up and a link down.
    EXPECT_EQ(flow.phases[0].loads.size(), 18u);
    for (const auto& [link, load] : flow.phases[0].loads) ++count[load];
    return count;
  };
  EXPECT_THAT(loads(CollectiveKind::kAllReduce), ElementsAre(Pair(1, 18)));
  // Each node sends the sums for 5 other nodes and receives one sum. Each leaf sends the sums for 4 nodes and receives
  // 2.
  EXPECT_THAT(loads(CollectiveKind::kReduceScatter), ElementsAre(Pair(1, 6), Pair(2, 3), Pair(4, 3), Pair(5, 6)));
  EXPECT_THAT(loads(CollectiveKind::kAllGather), ElementsAre(Pair(1, 6), Pair(2, 3), Pair(4, 3), Pair(5, 6)));
  // An uplink has the capacity of one interface, although two nodes are below. It carries only one sum, so nothing
  // waits.
  ExpectSeconds(TimeOf(Call("switch", CollectiveKind::kAllReduce, 6'000'000), Members(6)).occupancy,
                kNicOverhead + 24e6 / kNic, 4);
  fabric.set_oversubscription(4);
  Make(6, cluster);
  ExpectSeconds(TimeOf(Call("switch", CollectiveKind::kAllReduce, 6'000'000), Members(6)).occupancy,
                kNicOverhead + 2 * 24e6 / kNic, 4);
  // Members below one leaf use no uplink.
  const Flow below = FlowOf(Call("switch", CollectiveKind::kAllReduce, 6'000'000), Members(2));
  EXPECT_EQ(below.phases[0].loads.size(), 4u);
}

// On random trees, follows every sum from the members that contribute to the member that owns it.
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
    // Number of parts of chunks that each link carries, by the link's name. Every chunk is cut into as many parts as a
    // node has members.
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
      // Inside its node, a member sends what others own and receives what it owns.
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
    // An all-gather loads the links as a reduce-scatter does, in the opposite direction. In an all-reduce, every link
    // carries the buffer once.
    EXPECT_EQ(loads(CollectiveKind::kAllGather), expected);
    const std::multiset<int64_t> sum = loads(CollectiveKind::kAllReduce);
    EXPECT_EQ(sum.size(), expected.size());
    EXPECT_EQ(static_cast<int64_t>(sum.count(1)), static_cast<int64_t>(sum.size()) - (inside > 1 ? 2 * n : 0));
  }
}

}  // namespace
}  // namespace weft::sim
