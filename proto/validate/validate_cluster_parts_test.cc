#include "proto/validate/validate_cluster_parts.h"

#include <string>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

// Returns a cluster with two nodes of four devices and two interfaces, and with `parts`.
Cluster With(const std::string& parts) {
  Cluster cluster;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "nodes: 2 devices_per_node: 4 nics_per_node: 2 device { name: 'd' } " + parts, &cluster))
      << parts;
  return cluster;
}

std::string Links(const std::string& parts) { return std::string(ValidateNodeLinks(With(parts)).message()); }
std::string Fabric(const std::string& parts) { return std::string(ValidateFabric(With(parts)).message()); }
std::string Others(const std::string& parts) { return std::string(ValidateOthers(With(parts)).message()); }
std::string Placed(const std::string& parts) { return std::string(ValidatePlacement(With(parts)).message()); }
std::string Noisy(const std::string& parts) {
  return std::string(ValidateNoise(With("noise { " + parts + " }").noise()).message());
}

std::string Reliable(const std::string& parts) {
  return std::string(ValidateReliability(With("reliability { " + parts + " }")).message());
}

TEST(ClusterParts, LinksHaveABandwidth) {
  Link link;
  EXPECT_THAT(std::string(ValidateLink("a", link).message()),
              HasSubstr("a.bytes_per_second = 0 must be finite and gr"));
  link.set_bytes_per_second(1);
  EXPECT_TRUE(ValidateLink("a", link).ok());
  link.set_latency_seconds(-1);
  EXPECT_THAT(std::string(ValidateLink("a", link).message()), HasSubstr("a.latency_seconds = -1"));
}

TEST(ClusterParts, LinksInsideANode) {
  const std::string link = "link { bytes_per_second: 1 } ";
  EXPECT_EQ(Links(""), "");
  EXPECT_EQ(Links("node_links { direct { first: 0 second: 3 " + link +
                  "} devices_per_bridge: 2 bridge { "
                  "bytes_per_second: 1 } }"),
            "");
  EXPECT_THAT(Links("node_links { direct { first: 0 second: 4 " + link + "} }"),
              HasSubstr("cluster.node_links.direct[0].second = 4 must be at most 3"));
  EXPECT_THAT(Links("node_links { direct { first: 1 second: 1 } }"), HasSubstr("different from first"));
  EXPECT_THAT(
      Links("node_links { direct { first: 1 second: 2 " + link + "} direct { first: 2 second: 1 " + link + "} }"),
      HasSubstr("cluster.node_links.direct[1] links devices 2 and 1, but another row links them too"));
  EXPECT_THAT(Links("node_links { bridge { bytes_per_second: 1 } }"), HasSubstr("devices_per_bridge is missing"));
  EXPECT_THAT(Links("node_links { devices_per_bridge: 2 }"), HasSubstr("bridge is missing"));
  EXPECT_THAT(Links("node_links { all_pairs: true switch_reduces: true }"), HasSubstr("there is no switch"));
}

TEST(ClusterParts, EveryKindOfFabricHasItsOwnFigures) {
  EXPECT_EQ(Fabric(""), "");
  EXPECT_EQ(Fabric("fabric { kind: FAT_TREE nodes_per_switch: 1 }"), "");
  EXPECT_EQ(Fabric("fabric { kind: TORUS torus: [ 2, 1 ] }"), "");
  EXPECT_THAT(Fabric("fabric { kind: FAT_TREE }"), HasSubstr("nodes_per_switch is missing"));
  EXPECT_THAT(Fabric("fabric { hop_latency_seconds: 1 }"), HasSubstr("hop_latency_seconds = 1 must be 0"));
  EXPECT_THAT(Fabric("fabric { kind: TORUS }"), HasSubstr("cluster.fabric.torus is missing"));
  EXPECT_THAT(Fabric("fabric { kind: TORUS torus: [ 2, 2 ] }"), HasSubstr("torus = 2 x 2 must multiply to the nodes"));
  EXPECT_EQ(Fabric("fabric { kind: DRAGONFLY nodes_per_switch: 1 torus: [ 2, 4 ] }"),
            "cluster.fabric.torus = [2, 4] must be left out: a fabric of kind DRAGONFLY is not a torus");
  EXPECT_THAT(Fabric("fabric { kind: DRAGONFLY nodes_per_switch: 1 reduces: ALL_SWITCHES }"),
              HasSubstr("reduces = ALL_SWITCHES must be NO_SWITCHES"));
  EXPECT_THAT(Fabric("fabric { reduce_latency_seconds: 1 }"), HasSubstr("no switch of the fabric sums"));
}

TEST(ClusterParts, ChecksDevicesAndInterfacesThatDiffer) {
  EXPECT_EQ(Others("other_devices { nodes: 1 devices: [ 0, 3 ] speed: 0.5 } other_interfaces { nodes: 0 down: true }"),
            "");
  EXPECT_THAT(Others("other_devices { nodes: 2 }"),
              HasSubstr("cluster.other_devices[0].nodes[0] = 2 must be at least 0 and at most 1: cluster.nodes = 2"));
  EXPECT_THAT(Others("other_devices { devices: [ 1, 1 ] }"), HasSubstr("devices[1] = 1 is listed twice"));
  EXPECT_THAT(Others("other_devices { speed: 1e7 }"), HasSubstr("speed = 1e+07 must be at least 1e-06"));
  EXPECT_THAT(Others("other_interfaces { fraction: 0 }"), HasSubstr("fraction = 0 must be greater than 0"));
  EXPECT_THAT(Others("other_interfaces { fraction: 0.5 down: true }"), HasSubstr("left out if down is true"));
}

TEST(ClusterParts, PlacementsNameDevicesThatThereAreOnce) {
  EXPECT_EQ(Placed("placement { nodes: [ 1, 0 ] devices: [ 3, 0 ] }"), "");
  EXPECT_EQ(Placed("placement { devices_of_ranks: [ 7, 0, 3 ] }"), "");
  EXPECT_THAT(Placed("placement { devices_of_ranks: [ 7, 8 ] }"), HasSubstr("devices_of_ranks[1] = 8 must be"));
  EXPECT_THAT(Placed("placement { devices_of_ranks: [ 7, 7 ] }"), HasSubstr("devices_of_ranks[1] = 7 is listed twice"));
  EXPECT_THAT(Placed("placement { devices: 0 devices_of_ranks: 7 }"),
              HasSubstr("cluster.placement.devices must be empty with devices_of_ranks"));
}

TEST(ClusterParts, NoiseIsStatedInProbabilities) {
  EXPECT_EQ(Noisy("device_speed_deviation: 0.1 straggler_probability: 1 straggler_slowdown: 2"), "");
  EXPECT_THAT(Noisy("step_deviation: 1"), HasSubstr("cluster.noise.step_deviation = 1 must be at least 0 and less"));
  EXPECT_THAT(Noisy("straggler_probability: 0.5"), HasSubstr("straggler_slowdown = 0 must be at least 1"));
  EXPECT_THAT(Noisy("slow_interface_probability: 0.5"),
              HasSubstr("slow_interface_fraction = 0 must be greater than 0"));
}

TEST(ClusterParts, ReliabilityHasRatesAndABandwidth) {
  const std::string least = "failures_per_node_year: 1 checkpoint_bytes_per_second: 1e9 ";
  EXPECT_EQ(std::string(ValidateReliability(With("")).message()), "");
  EXPECT_EQ(Reliable(least), "");
  EXPECT_EQ(Reliable(least + "background_stop_seconds: 0 spare_nodes: 0 repair_seconds: 60 restart_seconds: 9"), "");
  EXPECT_THAT(Reliable("checkpoint_bytes_per_second: 1e9"),
              HasSubstr("failures_per_device_year = 0 must be greater than 0 if failures_per_node_year is 0"));
  EXPECT_THAT(Reliable(least + "failures_per_device_year: -1"), HasSubstr("failures_per_device_year = -1"));
  EXPECT_THAT(Reliable("failures_per_node_year: nan"), HasSubstr("failures_per_node_year = nan"));
  EXPECT_THAT(Reliable("failures_per_node_year: 1"), HasSubstr("checkpoint_bytes_per_second = 0 must be"));
  EXPECT_THAT(Reliable(least + "restart_seconds: inf"), HasSubstr("restart_seconds = inf"));
  EXPECT_THAT(Reliable(least + "background_stop_seconds: -1"), HasSubstr("background_stop_seconds = -1"));
  EXPECT_THAT(Reliable(least + "spare_nodes: 3 repair_seconds: 1"), HasSubstr("spare_nodes = 3 must be at most 2"));
  EXPECT_THAT(Reliable(least + "spare_nodes: 1"), HasSubstr("repair_seconds = 0 must be"));
  EXPECT_THAT(Reliable(least + "repair_seconds: 1"), HasSubstr("spare_nodes is missing"));
}

}  // namespace
}  // namespace weft
