#include "simulator/network/nccl_node.h"

#include <string>
#include <utility>

#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace weft::sim {
namespace {

Cluster Parse(const std::string& text) {
  Cluster cluster;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &cluster)) << text;
  return cluster;
}

TEST(PairRings, ALinkBetweenEveryTwo) {
  // Perlmutter: each of four devices has three links of 80 GB/s.
  const Cluster cluster = Parse("intra_node { bytes_per_second: 80e9 kind: NVLINK } node_links { all_pairs: true }");
  EXPECT_EQ(FindPairRings(cluster, {0, 1, 2, 3})->bytes_per_second, 240e9);
  EXPECT_EQ(FindPairRings(cluster, {0, 1, 2, 3})->kind, NVLINK);
  EXPECT_EQ(FindPairRings(cluster, {1, 3})->bytes_per_second, 80e9);
}

TEST(PairRings, PairsOfTwo) {
  // NVLink joins 0 and 1, and 2 and 3; the rest is PCIe.
  const Cluster cluster = Parse(R"pb(
    intra_node { bytes_per_second: 20e9 kind: PCIE }
    node_links {
      direct {
        first: 0
        second: 1
        link { bytes_per_second: 200e9 kind: NVLINK }
      }
      direct {
        first: 3
        second: 2
        link { bytes_per_second: 200e9 kind: NVLINK }
      }
    }
  )pb");
  EXPECT_EQ(FindPairRings(cluster, {2, 3})->bytes_per_second, 200e9);
  EXPECT_FALSE(FindPairRings(cluster, {0, 1, 2, 3}).has_value());
  EXPECT_FALSE(FindPairRings(cluster, {0, 2}).has_value());
  EXPECT_EQ(PairLink(cluster, 1, 2), nullptr);
}

TEST(PairRings, ACubeWithDiagonals) {
  // Double links form a ring over eight devices, and single links go across.
  Cluster cluster = Parse("intra_node { bytes_per_second: 12e9 kind: PCIE }");
  const auto link = [&](int64_t first, int64_t second, double bandwidth) {
    DirectLink* direct = cluster.mutable_node_links()->add_direct();
    direct->set_first(first);
    direct->set_second(second);
    direct->mutable_link()->set_bytes_per_second(bandwidth);
    direct->mutable_link()->set_kind(NVLINK);
  };
  for (int i = 0; i < 8; ++i) link(i, (i + 1) % 8, 40e9);
  for (const auto& [first, second] : {std::pair(0, 2), std::pair(0, 3), std::pair(1, 3), std::pair(1, 6),
                                      std::pair(2, 5), std::pair(4, 6), std::pair(4, 7), std::pair(5, 7)}) {
    link(first, second, 20e9);
  }
  // Each device has six links, or fewer if neighbors are left out.
  EXPECT_EQ(FindPairRings(cluster, {0, 1, 2, 3, 4, 5, 6, 7})->bytes_per_second, 120e9);
  EXPECT_EQ(FindPairRings(cluster, {0, 1, 2, 3})->bytes_per_second, 80e9);
  // Two pairs without a link between them, and a device without a link to the other three.
  EXPECT_FALSE(FindPairRings(cluster, {0, 1, 4, 5}).has_value());
  EXPECT_FALSE(FindPairRings(cluster, {0, 1, 2, 4}).has_value());
}

TEST(PairRings, ASwitchHasNone) {
  EXPECT_FALSE(FindPairRings(Parse("intra_node { bytes_per_second: 240e9 kind: NVLINK }"), {0, 1}).has_value());
}

}  // namespace
}  // namespace weft::sim
