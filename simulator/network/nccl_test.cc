// The network model "nccl": the figures that it needs, and how the placement changes its times.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "simulator/network/nccl_tuning.h"
#include "simulator/network/network_model.h"

namespace weft::sim {
namespace {

using ::testing::HasSubstr;

class NcclNetworkTest : public ::testing::Test {
 protected:
  NcclNetworkTest() {
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
        R"pb(
          nodes: 16
          devices_per_node: 8
          device { compute_capability: 80 }
          intra_node { bytes_per_second: 240e9 kind: NVLINK }
          inter_node { bytes_per_second: 22.5e9 kind: NETWORK }
          nics_per_node: 8
        )pb",
        &cluster_));
  }
  void Make(const std::vector<std::pair<std::string, int64_t>>& axes) {
    mesh_.Clear();
    for (const auto& [name, size] : axes) {
      mesh_.add_axes()->set_name(name);
      mesh_.mutable_axes(mesh_.axes_size() - 1)->set_size(size);
    }
    network_ = (*FindNetworkModel("nccl"))->make(mesh_, cluster_);
  }
  // An all-reduce over all coordinates of `axis`.
  absl::StatusOr<TransferTime> AllReduce(int axis, int64_t bytes, const std::string& algorithm = "ring") {
    GroupForm form(mesh_.axes_size());
    form[axis].kind = AxisPart::kAll;
    const CollectiveCall call = {
        .kind = CollectiveKind::kAllReduce,
        .algorithm = *FindCollective(algorithm),
        .parts = {{.elements = bytes / 4, .element_bytes = 2}, {.elements = bytes / 8, .element_bytes = 4}}};
    return network_->Collective(call, form, FormMembers(mesh_, 0, form));
  }

  Mesh mesh_;
  Cluster cluster_;
  std::unique_ptr<NetworkModel> network_;
};

TEST_F(NcclNetworkTest, TakesNcclsTimeWhateverTheProgramNames) {
  Make({{"data", 16}});
  const NcclGroup group = {.ranks = 16,
                           .nodes = 2,
                           .compute_capability = 80,
                           .nvlink = true,
                           .inside_bytes_per_second = 240e9,
                           .outside_bytes_per_second = 180e9};
  for (const int64_t bytes : {1 << 10, 1 << 20, 1 << 30}) {
    const auto [algorithm, protocol] = NcclChoice(CollectiveKind::kAllReduce, static_cast<double>(bytes), group);
    const Time expected =
        FromSeconds(*NcclSeconds(algorithm, protocol, CollectiveKind::kAllReduce, static_cast<double>(bytes), group));
    for (const std::string name : {"ring", "direct", "tree"}) {
      EXPECT_EQ(AllReduce(0, bytes, name)->occupancy, expected);
      EXPECT_EQ(AllReduce(0, bytes, name)->latency, Time{});
    }
  }
}

// If a program names the algorithm "switch", the cluster must have a switch that sums.
TEST_F(NcclNetworkTest, ASwitchThatDoesNotSumIsNotAskedFor) {
  Make({{"x", 8}, {"data", 2}});
  EXPECT_THAT(std::string(AllReduce(0, 1 << 20, "switch").status().message()),
              HasSubstr("collective 'switch' needs cluster.node_links.switch_reduces = true (it is false)"));
  cluster_.mutable_device()->set_compute_capability(90);
  cluster_.mutable_node_links()->set_switch_reduces(true);
  Make({{"x", 8}, {"data", 2}});
  const auto named = AllReduce(0, 1 << 30, "switch"), ring = AllReduce(0, 1 << 30, "ring");
  ASSERT_TRUE(named.ok() && ring.ok()) << named.status() << ring.status();
  EXPECT_EQ(named->occupancy, ring->occupancy);
  EXPECT_THAT(std::string(AllReduce(1, 1 << 20, "switch").status().message()), HasSubstr("a group over several nodes"));
}

TEST_F(NcclNetworkTest, SwitchesBetweenNodesThatSumAreUsed) {
  Make({{"x", 8}, {"data", 2}});
  const auto before = AllReduce(1, 1 << 28, "ring");
  cluster_.mutable_fabric()->set_reduces(ALL_SWITCHES);
  Make({{"x", 8}, {"data", 2}});
  const auto sums = AllReduce(1, 1 << 28, "ring"), named = AllReduce(1, 1 << 28, "switch");
  ASSERT_TRUE(before.ok() && sums.ok() && named.ok()) << before.status() << sums.status() << named.status();
  EXPECT_LE(sums->occupancy.ps, before->occupancy.ps);
  EXPECT_EQ(named->occupancy, sums->occupancy);
}

TEST_F(NcclNetworkTest, SwitchesDoNotSumForUnequalNodes) {
  // The group has ranks 0, 3, 6 and 9: three on the first node and one on the second.
  Make({{"data", 3}, {"x", 4}, {"pipe", 2}});
  const auto before = AllReduce(1, 1 << 28, "ring");
  cluster_.mutable_fabric()->set_reduces(ALL_SWITCHES);
  Make({{"data", 3}, {"x", 4}, {"pipe", 2}});
  const auto sums = AllReduce(1, 1 << 28, "ring");
  ASSERT_TRUE(before.ok() && sums.ok()) << before.status() << sums.status();
  EXPECT_EQ(sums->occupancy, before->occupancy);
  EXPECT_FALSE(AllReduce(1, 1 << 28, "switch").ok());
}

TEST_F(NcclNetworkTest, GroupsOfANodeShareItsInterfaces) {
  // Eight groups have a device on every node. They share eight interfaces, then two.
  Make({{"x", 8}, {"data", 16}});
  const int64_t bytes = int64_t{1} << 30;
  const Time alone = AllReduce(1, bytes)->occupancy;
  cluster_.set_nics_per_node(2);
  Make({{"x", 8}, {"data", 16}});
  const Time shared = AllReduce(1, bytes)->occupancy;
  EXPECT_GT(shared.ps, 3.5 * static_cast<double>(alone.ps));
  // Groups inside a node share nothing.
  EXPECT_LT(AllReduce(0, bytes)->occupancy.ps, alone.ps);
}

TEST_F(NcclNetworkTest, Transfers) {
  Make({{"pipe", 16}});
  const TransferTime inside = *network_->Transfer(0, 1, 1 << 20);
  const NcclMessage expected = NcclSend(1 << 20, 240e9, false, true);
  EXPECT_EQ(inside.occupancy, FromSeconds(expected.seconds));
  EXPECT_EQ(inside.latency, FromSeconds(expected.latency_seconds));
  EXPECT_EQ(network_->Transfer(7, 8, 1 << 20)->latency, FromSeconds(14e-6));
}

TEST_F(NcclNetworkTest, PairsOfDevicesHaveWhatJoinsThem) {
  // PCIe, except for NVLink between devices 0 and 1.
  cluster_.mutable_intra_node()->set_bytes_per_second(20e9);
  cluster_.mutable_intra_node()->set_kind(PCIE);
  DirectLink& direct = *cluster_.mutable_node_links()->add_direct();
  direct.set_second(1);
  direct.mutable_link()->set_bytes_per_second(200e9);
  direct.mutable_link()->set_kind(NVLINK);
  Make({{"x", 2}, {"data", 4}});
  EXPECT_EQ(network_->Transfer(0, 1, 1 << 20)->latency, FromSeconds(3.4e-6));
  EXPECT_EQ(network_->Transfer(1, 2, 1 << 20)->latency, FromSeconds(5.7e-6));
  NcclGroup group = {.ranks = 2, .compute_capability = 80, .nvlink = true, .inside_bytes_per_second = 200e9};
  const auto seconds = [&](int64_t bytes) {
    const auto [algorithm, protocol] = NcclChoice(CollectiveKind::kAllReduce, static_cast<double>(bytes), group);
    return FromSeconds(
        *NcclSeconds(algorithm, protocol, CollectiveKind::kAllReduce, static_cast<double>(bytes), group));
  };
  EXPECT_EQ(AllReduce(0, 1 << 24)->occupancy, seconds(1 << 24));
  group.ranks = 4;
  group.nvlink = false;
  group.inside_bytes_per_second = 20e9;
  EXPECT_EQ(AllReduce(1, 1 << 24)->occupancy, seconds(1 << 24));
}

TEST_F(NcclNetworkTest, NeedsToKnowTheDevicesAndTheirLinks) {
  cluster_.mutable_device()->clear_compute_capability();
  Make({{"data", 8}});
  EXPECT_THAT(std::string(AllReduce(0, 1024).status().message()),
              HasSubstr("cluster.device.compute_capability = 0, but network 'nccl' needs at least 60"));
  EXPECT_FALSE(network_->Transfer(0, 1, 1).ok());
  cluster_.mutable_device()->set_compute_capability(80);
  cluster_.mutable_intra_node()->clear_kind();
  Make({{"data", 8}});
  EXPECT_THAT(std::string(AllReduce(0, 1024).status().message()), HasSubstr("cluster.intra_node.kind"));
  // The kind of the links inside a node is not needed if no two members are on one node, nor for a group of one.
  Make({{"x", 8}, {"data", 2}});
  EXPECT_TRUE(AllReduce(1, 1024).ok());
  Make({{"data", 1}});
  EXPECT_EQ(*AllReduce(0, 1024), TransferTime{});
}

}  // namespace
}  // namespace weft::sim
