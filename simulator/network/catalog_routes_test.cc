// Checks the links of the catalog's machines: every device of two nodes reaches every other device, and a ring in the
// order of the devices has the bandwidth that the machine's source states.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>

#include "gtest/gtest.h"
#include "proto/io/io.h"
#include "simulator/network/placement.h"
#include "simulator/network/topology.h"

namespace weft::sim {
namespace {

std::map<std::string, Cluster> Catalog() {
  const std::string root = std::string(std::getenv("TEST_SRCDIR")) + "/" + std::getenv("TEST_WORKSPACE");
  std::map<std::string, Cluster> clusters;
  for (const auto& file : std::filesystem::directory_iterator(root + "/catalog/clusters")) {
    if (file.path().extension() != ".textproto") continue;
    const auto cluster = ReadMessage<Cluster>(file.path().string());
    EXPECT_TRUE(cluster.ok()) << cluster.status();
    if (cluster.ok()) clusters[cluster->name()] = *cluster;
  }
  return clusters;
}

// Returns the capacity, in GB/s, of the slowest link of the ring over all devices of the first node.
int64_t RingOfANode(const Cluster& cluster) {
  const int64_t devices = cluster.devices_per_node();
  const auto placement = RankPlacement::Make(devices, cluster);
  EXPECT_TRUE(placement.ok()) << placement.status();
  const auto topology = Topology::Make(cluster, *placement);
  EXPECT_TRUE(topology.ok()) << topology.status();
  int64_t least = INT64_MAX;
  for (int64_t device = 0; device < devices; ++device) {
    const auto route = topology->Route(device, (device + 1) % devices);
    EXPECT_TRUE(route.ok()) << route.status();
    for (const int32_t link : route->links) least = std::min(least, topology->links()[link].bytes_per_second);
  }
  return least / 1'000'000'000;
}

TEST(CatalogRoutes, EveryPairOfTwoNodes) {
  const std::map<std::string, Cluster> catalog = Catalog();
  EXPECT_GE(catalog.size(), 20u);
  for (const auto& [name, cluster] : catalog) {
    SCOPED_TRACE(name);
    const int64_t ranks = cluster.devices_per_node() * std::min<int64_t>(cluster.nodes(), 2);
    const auto placement = RankPlacement::Make(ranks, cluster);
    ASSERT_TRUE(placement.ok()) << placement.status();
    const auto topology = Topology::Make(cluster, *placement);
    ASSERT_TRUE(topology.ok()) << topology.status();
    for (int64_t from = 0; from < ranks; ++from) {
      for (int64_t to = 0; to < ranks; ++to) {
        const auto route = topology->RouteOfRanks(from, to);
        ASSERT_TRUE(route.ok()) << route.status();
        EXPECT_EQ(route->links.empty(), from == to);
        EXPECT_EQ(route->latency_seconds > 0, from != to);
      }
    }
  }
}

TEST(CatalogRoutes, RingsOfANode) {
  const std::map<std::string, Cluster> catalog = Catalog();
  EXPECT_EQ(RingOfANode(catalog.at("dgx-h100")), 370);
  EXPECT_EQ(RingOfANode(catalog.at("perlmutter")), 80);
  EXPECT_EQ(RingOfANode(catalog.at("mi300x")), 48);
  // Devices are numbered along the faster links, so no slow link is on the ring.
  EXPECT_EQ(RingOfANode(catalog.at("frontier")), 75);
  EXPECT_EQ(RingOfANode(catalog.at("cloud-v100")), 40);
  // The slowest link is the one between the sockets.
  EXPECT_EQ(RingOfANode(catalog.at("summit")), 32);
  EXPECT_EQ(RingOfANode(catalog.at("lonestar6")), 16);
  EXPECT_EQ(RingOfANode(catalog.at("local-a100-nvlink-pairs")), 16);
  EXPECT_EQ(RingOfANode(catalog.at("local-a100-nvswitch")), 240);
}

// One die of an MI250X has four links to its twin, two to a second die and one to a third. A V100 has six links in all.
TEST(CatalogRoutes, LinksOfADeviceAddUp) {
  const std::map<std::string, Cluster> catalog = Catalog();
  for (const auto& [name, links] : std::map<std::string, int>{{"frontier", 7}, {"cloud-v100", 6}}) {
    const Cluster& cluster = catalog.at(name);
    const double one = name == "frontier" ? 37.5e9 : 20e9;
    for (int64_t device = 0; device < cluster.devices_per_node(); ++device) {
      double sum = 0;
      for (const DirectLink& direct : cluster.node_links().direct()) {
        if (direct.first() == device || direct.second() == device) sum += direct.link().bytes_per_second();
      }
      EXPECT_DOUBLE_EQ(sum, links * one) << name << " " << device;
    }
  }
}

}  // namespace
}  // namespace weft::sim
