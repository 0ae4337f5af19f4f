#include "planner/presets/four_d_model.h"

#include <algorithm>
#include <vector>

#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

constexpr double kInside = 80e9, kBetween = 90e9;

TEST(FourDModel, BandwidthsAreThoseOfEquation10) {
  struct Case {
    FourDGrid grid;
    int64_t node;
    double x, y, z, data;
  };
  const Case cases[] = {
      // x and y stay inside a node. Four groups of z leave a node, one per device.
      {{2, 2, 4, 2}, 4, kInside, kInside, kBetween / 4, kBetween / 4},
      // A single group per node has all the bandwidth of the node.
      {{1, 1, 8, 2}, 4, kInside, kInside, kBetween, kBetween / 4},
      {{8, 1, 1, 2}, 4, kBetween, kBetween / 4, kBetween / 4, kBetween / 4},
      {{2, 4, 1, 1}, 4, kInside, kBetween / 2, kBetween / 4, kBetween / 4},
      {{2, 2, 2, 2}, 1, kBetween, kBetween, kBetween, kBetween},
      {{2, 2, 2, 2}, 16, kInside, kInside, kInside, kInside},
      {{3, 2, 1, 1}, 4, kInside, kBetween / 3, kBetween / 4, kBetween / 4},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(testing::Message() << c.grid.x << " " << c.grid.y << " " << c.grid.z << " " << c.grid.data << " on "
                                    << c.node);
    const FourDBandwidths b = PlacementAwareBandwidths(c.grid, c.node, kInside, kBetween);
    if (c.grid.x > 1) {
      EXPECT_DOUBLE_EQ(b.x, c.x);
    }
    if (c.grid.y > 1) {
      EXPECT_DOUBLE_EQ(b.y, c.y);
    }
    if (c.grid.z > 1) {
      EXPECT_DOUBLE_EQ(b.z, c.z);
    }
    if (c.grid.data > 1) {
      EXPECT_DOUBLE_EQ(b.data, c.data);
    }
  }
  const FourDBandwidths huge =
      PlacementAwareBandwidths({int64_t{1} << 62, 4, int64_t{1} << 62, 2}, 4, kInside, kBetween);
  EXPECT_DOUBLE_EQ(huge.data, kBetween / 4);
}

TEST(FourDModel, LayerByHand) {
  // k = 6, n = 10, m = 8, e = 2, and all links have one byte per second.
  const FourDBandwidths one = PlacementAgnosticBandwidths(1);
  const FourDLayer layer = {.inputs = 6, .outputs = 10};
  EXPECT_DOUBLE_EQ(FourDLayerSeconds(layer, {}, 8, 2, one), 0);
  // Equations 4 and 5: (4-1)/4 of 60 elements, twice.
  EXPECT_DOUBLE_EQ(FourDLayerSeconds(layer, {1, 1, 4, 1}, 8, 2, one), 2 * 2 * 45.0);
  // Equation 6: twice half of m n.
  EXPECT_DOUBLE_EQ(FourDLayerSeconds(layer, {1, 2, 1, 1}, 8, 2, one), 2 * 80.0);
  // Equation 7: twice half of m k.
  EXPECT_DOUBLE_EQ(FourDLayerSeconds(layer, {2, 1, 1, 1}, 8, 2, one), 2 * 48.0);
  // Equation 8.
  EXPECT_DOUBLE_EQ(FourDLayerSeconds(layer, {1, 1, 1, 2}, 8, 2, one), 2 * 60.0);
  // All axes at once, each with its own rate.
  const FourDBandwidths rates = {1, 2, 4, 8};
  const double straight = 2 * 2 * (60.0 / 4 / 2) / 4 + 2 * (80.0 / 4) / 2 + 2 * (48.0 / 4) / 1 + 2 * (60.0 / 8) / 8;
  EXPECT_DOUBLE_EQ(FourDLayerSeconds(layer, {2, 2, 2, 2}, 8, 2, rates), straight);
  // A transposed layer swaps x and y: the output is summed over x.
  const double transposed = 2 * 2 * (60.0 / 4 / 2) / 4 + 2 * (80.0 / 4) / 1 + 2 * (48.0 / 4) / 2 + 2 * (60.0 / 8) / 8;
  EXPECT_DOUBLE_EQ(FourDLayerSeconds({6, 10, true}, {2, 2, 2, 2}, 8, 2, rates), transposed);
  EXPECT_DOUBLE_EQ(FourDSeconds({layer, {6, 10, true}}, {2, 2, 2, 2}, 8, 2, rates), straight + transposed);
}

TEST(FourDModel, CountsOfTheProgram) {
  const FourDBandwidths one = PlacementAgnosticBandwidths(1);
  const FourDCounts counts = FourDCountsOfProgram();
  // Two gathers and a scatter; outputs are summed twice, inputs once; gradients have twice the bytes.
  EXPECT_DOUBLE_EQ(FourDLayerSeconds({6, 10}, {1, 1, 4, 1}, 8, 2, one, counts), 2 * 3 * 45.0);
  EXPECT_DOUBLE_EQ(FourDLayerSeconds({6, 10}, {1, 2, 1, 1}, 8, 2, one, counts), 2 * 2 * 80.0);
  EXPECT_DOUBLE_EQ(FourDLayerSeconds({6, 10}, {2, 1, 1, 1}, 8, 2, one, counts), 2 * 48.0);
  EXPECT_DOUBLE_EQ(FourDLayerSeconds({6, 10}, {1, 1, 1, 2}, 8, 2, one, counts), 2 * 2 * 60.0);
  // A block and the head; transposed layers have inputs and outputs swapped.
  const std::vector<FourDLayer> block = {{8, 24}, {8, 8, true}, {8, 32}, {32, 8, true}, {8, 50}};
  const std::vector<FourDLayer> expected = {{8, 24}, {8, 8, true}, {8, 32}, {8, 32, true}};
  EXPECT_EQ(FourDLayersOfProgram(block), expected);
  EXPECT_TRUE(FourDLayersOfProgram({}).empty());
}

// The time that the authors' program gives for a block of GPT-20B, written out for each axis. Outputs are summed twice:
// those of straight layers over y (3h and 4h), those of transposed layers over x (h and, by the program, 4h). The
// gradients of inputs are summed once (h each).
TEST(FourDModel, BlockOfTheProgram) {
  const double h = 7168, m = 65536, e = 2;
  const std::vector<FourDLayer> block = {
      {7168, 3 * 7168}, {7168, 7168, true}, {7168, 4 * 7168}, {4 * 7168, 7168, true}, {7168, 50257}};
  const auto seconds = [&](const FourDGrid& grid) {
    return FourDSeconds(FourDLayersOfProgram(block), grid, m, e, PlacementAgnosticBandwidths(1),
                        FourDCountsOfProgram());
  };
  EXPECT_DOUBLE_EQ(seconds({1, 2, 1, 1}), (2 * 7 + 2) * h * m * e);
  EXPECT_DOUBLE_EQ(seconds({2, 1, 1, 1}), (2 * 5 + 2) * h * m * e);
  EXPECT_DOUBLE_EQ(seconds({1, 1, 2, 1}), 3 * 12 * h * h / 2 * e);
  EXPECT_DOUBLE_EQ(seconds({1, 1, 1, 2}), 2 * 12 * h * h * e);
}

TEST(FourDModel, LayersOfAGraphAlternate) {
  ModelGraph graph;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"pb(
        name: "block"
        parameters { name: "table" shape: 50 shape: 8 }
        parameters { name: "qkv" shape: 8 shape: 24 }
        parameters { name: "proj" shape: 8 shape: 8 }
        parameters { name: "up" shape: 32 shape: 8 }
        parameters { name: "down" shape: 32 shape: 8 }
        ops { kind: "tokens" outputs: "ids" }
        ops { kind: "embedding" inputs: "ids" inputs: "table" outputs: "x" }
        ops { kind: "matmul" inputs: "x" inputs: "qkv" outputs: "a" }
        ops { kind: "attention" inputs: "a" outputs: "b" }
        ops { kind: "matmul" inputs: "b" inputs: "proj" outputs: "c" }
        ops { kind: "add" inputs: "c" inputs: "x" outputs: "d" }
        ops {
          kind: "matmul"
          inputs: "d"
          inputs: "up"
          outputs: "e"
          attributes { transpose_b: true }
        }
        ops { kind: "gelu" inputs: "e" outputs: "f" }
        ops { kind: "matmul" inputs: "f" inputs: "down" outputs: "g" }
        ops {
          kind: "matmul"
          inputs: "g"
          inputs: "table"
          outputs: "logits"
          attributes { transpose_b: true }
        }
      )pb",
      &graph));
  const auto layers = FourDLayers(graph);
  ASSERT_TRUE(layers.ok()) << layers.status();
  const std::vector<FourDLayer> expected = {
      {8, 24, false}, {8, 8, true}, {8, 32, false}, {32, 8, true}, {8, 50, false}};
  EXPECT_EQ(*layers, expected);
  graph.set_image_size(8);
  EXPECT_EQ(FourDLayers(graph).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(FourDModel, ClusterWithoutTheFigure) {
  Cluster cluster;
  cluster.set_name("bare");
  cluster.set_devices_per_node(4);
  cluster.mutable_intra_node()->set_bytes_per_second(kInside);
  EXPECT_TRUE(PlacementAwareBandwidths({2, 2, 1, 1}, cluster).ok());
  const auto crossing = PlacementAwareBandwidths({2, 2, 2, 1}, cluster);
  EXPECT_EQ(crossing.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(crossing.status().message().find("inter_node.bytes_per_second"), std::string::npos);
  cluster.mutable_inter_node()->set_bytes_per_second(22.5e9);
  cluster.set_nics_per_node(4);
  EXPECT_DOUBLE_EQ(PlacementAwareBandwidths({2, 1, 8, 1}, cluster)->z, 45e9);
}

}  // namespace
}  // namespace weft
