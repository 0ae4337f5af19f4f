// The "agnostic" network against equations 1 to 3 of the 4D paper.
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "simulator/network/network_model.h"

namespace weft::sim {
namespace {

using ::testing::HasSubstr;

class AgnosticTest : public ::testing::Test {
 protected:
  void Make(int64_t ranks, const std::string& text) {
    mesh_.Clear();
    mesh_.add_axes()->set_name("data");
    mesh_.mutable_axes(0)->set_size(ranks);
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &cluster_)) << text;
    network_ = (*FindNetworkModel("agnostic"))->make(mesh_, cluster_);
  }
  absl::StatusOr<TransferTime> Ring(CollectiveKind kind, int64_t elements, const std::vector<int64_t>& members,
                                    const std::string& algorithm = "ring") {
    const CollectiveCall call = {
        .kind = kind, .algorithm = *FindCollective(algorithm), .parts = {{.elements = elements, .element_bytes = 4}}};
    return network_->Collective(call, {AxisPart{.kind = AxisPart::kAll, .size = 0, .listed = {}}}, members);
  }

  Mesh mesh_;
  Cluster cluster_;
  std::unique_ptr<NetworkModel> network_;
};

TEST_F(AgnosticTest, OneBandwidthWhereverRanksAre) {
  Make(8, R"(nodes: 2 devices_per_node: 4 nics_per_node: 4 intra_node { bytes_per_second: 1e12 }
    inter_node { bytes_per_second: 1e10 })");
  // 4 MB at 40 GB/s: a ring of G = 4 members moves (G-1)/G of the bytes in 75 us, and an all-reduce takes twice as
  // long.
  for (const std::vector<int64_t>& members : {std::vector<int64_t>{0, 1, 2, 3}, std::vector<int64_t>{0, 2, 4, 6}}) {
    EXPECT_EQ(Ring(CollectiveKind::kAllGather, 1'000'000, members)->occupancy.ps, 75'000'000);
    EXPECT_EQ(Ring(CollectiveKind::kReduceScatter, 1'000'000, members)->occupancy.ps, 75'000'000);
    EXPECT_EQ(Ring(CollectiveKind::kAllReduce, 1'000'000, members)->occupancy.ps, 150'000'000);
  }
  EXPECT_EQ(network_->Transfer(0, 1, 4'000'000)->occupancy.ps, 100'000'000);
  EXPECT_EQ(network_->Transfer(0, 7, 4'000'000)->occupancy.ps, 100'000'000);
  EXPECT_EQ(*Ring(CollectiveKind::kAllReduce, 1, {3}), TransferTime{});
}

TEST_F(AgnosticTest, OneNodeHasOnlyWhatIsInside) {
  Make(4, "nodes: 1 devices_per_node: 4 intra_node { bytes_per_second: 1e12 latency_seconds: 1e-6 }");
  EXPECT_EQ(network_->Transfer(0, 1, 4'000'000)->occupancy.ps, 4'000'000);
  EXPECT_EQ(network_->Transfer(0, 1, 4'000'000)->latency.ps, 1'000'000);
}

TEST_F(AgnosticTest, ASwitchSumsOnOneNodeOnly) {
  const auto why = [&] {
    return std::string(Ring(CollectiveKind::kAllReduce, 8, {0, 1}, "switch").status().message());
  };
  Make(4, "nodes: 1 devices_per_node: 4 intra_node { bytes_per_second: 1e12 }");
  EXPECT_THAT(why(), HasSubstr("cluster.node_links.switch_reduces = true (it is false)"));
  Make(4, "nodes: 1 devices_per_node: 4 intra_node { bytes_per_second: 1e12 } node_links { switch_reduces: true }");
  EXPECT_EQ(why(), "");
  // Ranks 0 and 1 share a node, but this network ignores nodes.
  Make(8, R"(nodes: 2 devices_per_node: 4 nics_per_node: 4 inter_node { bytes_per_second: 1e10 })");
  EXPECT_THAT(why(), HasSubstr("switch_reduces = true (it is false)"));
  cluster_.mutable_node_links()->set_switch_reduces(true);
  EXPECT_THAT(why(), HasSubstr("with cluster.nodes = 2: the switch of each node sums, but network 'agnostic' does not "
                               "know which ranks share a node; nearest valid: --network=analytic"));
}

TEST_F(AgnosticTest, MissingFiguresAreNamed) {
  const auto error = [&] { return std::string(network_->Transfer(0, 1, 1).status().message()); };
  Make(4, "nodes: 2 devices_per_node: 2 nics_per_node: 1");
  EXPECT_THAT(error(), HasSubstr("cluster.inter_node.bytes_per_second"));
  Make(4, "nodes: 2 devices_per_node: 2 inter_node { bytes_per_second: 1 }");
  EXPECT_THAT(error(), HasSubstr("cluster.nics_per_node"));
  Make(2, "nodes: 1 devices_per_node: 2");
  EXPECT_THAT(error(), HasSubstr("cluster.intra_node.bytes_per_second"));
  EXPECT_THAT(std::string(Ring(CollectiveKind::kAllReduce, 1, {0, 1}).status().message()), HasSubstr("intra_node"));
}

}  // namespace
}  // namespace weft::sim
