#include "simulator/network/switch_reduces.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft::sim {
namespace {

using ::testing::HasSubstr;

std::string Why(const Cluster& cluster, const std::vector<int64_t>& nodes) {
  const absl::Status status = SwitchWayOf(cluster, nodes).status();
  EXPECT_TRUE(status.ok() || status.code() == absl::StatusCode::kFailedPrecondition);
  return std::string(status.message());
}

TEST(SwitchReduces, NamesWhatANodeLacks) {
  Cluster cluster;
  EXPECT_THAT(Why(cluster, {0, 0}), HasSubstr("cluster.node_links.switch_reduces = true (it is false)"));
  cluster.mutable_node_links()->set_switch_reduces(true);
  EXPECT_EQ(Why(cluster, {0, 0}), "");
  cluster.mutable_node_links()->set_devices_per_bridge(2);
  EXPECT_THAT(Why(cluster, {0, 0}), HasSubstr("devices_per_bridge must be empty"));
  EXPECT_FALSE(CheckNodeSwitchReduces(cluster).ok());
  cluster.mutable_node_links()->clear_devices_per_bridge();
  EXPECT_TRUE(CheckNodeSwitchReduces(cluster).ok());
  cluster.mutable_node_links()->add_direct()->set_second(1);
  EXPECT_THAT(Why(cluster, {0, 0}), HasSubstr("cluster.node_links.direct"));
}

TEST(SwitchReduces, NamesWhatTheFabricLacks) {
  Cluster cluster;
  EXPECT_THAT(Why(cluster, {0, 1}),
              HasSubstr("cluster.fabric.reduces = LEAF_SWITCHES or ALL_SWITCHES (it is NO_SWITCHES)"));
  cluster.mutable_fabric()->set_reduces(LEAF_SWITCHES);
  // A node with one member has nothing to sum.
  EXPECT_EQ(Why(cluster, {0, 1}), "");
  EXPECT_THAT(Why(cluster, {0, 0, 1, 1}), HasSubstr("cluster.node_links.switch_reduces = true (it is false)"));
  cluster.mutable_node_links()->set_switch_reduces(true);
  EXPECT_EQ(Why(cluster, {0, 0, 1, 1}), "");
  EXPECT_THAT(Why(cluster, {0, 0, 1, 1, 1}), HasSubstr("with 2 members on node 0 and 3 on node 1"));
  cluster.mutable_fabric()->set_kind(FAT_TREE);
  cluster.mutable_fabric()->set_nodes_per_switch(2);
  EXPECT_EQ(Why(cluster, {0, 1}), "");
  EXPECT_THAT(Why(cluster, {1, 2}), HasSubstr("cluster.fabric.reduces = ALL_SWITCHES (it is LEAF_SWITCHES)"));
  cluster.mutable_fabric()->set_reduces(ALL_SWITCHES);
  EXPECT_EQ(Why(cluster, {1, 2}), "");
}

TEST(SwitchReduces, EachSwitchOnTheWayUpTakesItsTime) {
  Cluster cluster;
  Fabric& fabric = *cluster.mutable_fabric();
  fabric.set_kind(FAT_TREE);
  fabric.set_nodes_per_switch(4);
  fabric.set_reduces(ALL_SWITCHES);
  fabric.set_reduce_latency_seconds(1e-6);
  cluster.mutable_node_links()->set_switch_reduces(true);
  const absl::StatusOr<SwitchWay> leaf = SwitchWayOf(cluster, {3, 0, 3, 0});
  ASSERT_TRUE(leaf.ok());
  EXPECT_EQ(leaf->nodes, 2);
  EXPECT_EQ(leaf->on_node, 2);
  EXPECT_EQ(leaf->latency_seconds, 1e-6);
  EXPECT_EQ(SwitchWayOf(cluster, {3, 4})->latency_seconds, 2e-6);
  EXPECT_EQ(SwitchWayOf(cluster, {3, 3})->latency_seconds, 0);
}

TEST(SwitchReduces, MessagesOfAPartOfTheMembers) {
  const auto past = [](int32_t sent, int32_t received, int64_t below) {
    const SwitchMessages messages = MessagesPast({.exchanges = {}, .sent = sent, .received = received}, 8, below);
    return std::pair(messages.out, messages.in);
  };
  EXPECT_EQ(past(1, 1, 2), std::pair(int64_t{1}, int64_t{1}));
  // The summed parts of the six other members leave, and two sums arrive. In a gather, the two directions are swapped.
  EXPECT_EQ(past(7, 1, 2), std::pair(int64_t{6}, int64_t{2}));
  EXPECT_EQ(past(1, 7, 2), std::pair(int64_t{2}, int64_t{6}));
}

}  // namespace
}  // namespace weft::sim
