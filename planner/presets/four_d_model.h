// The communication model of Singh et al., "A 4D hybrid algorithm to scale parallel training to thousands of GPUs"
// (arXiv:2305.13525), sec. V: how long the collectives of Algorithm 1 take on axes x, y, z and data, from sizes alone.
// It ignores computation, overlap and latency, so its seconds can rank grids but not predict iterations.
//
// For a layer with weights [k x n] whose replica has m rows, with element size e, axes of X, Y, Z and D ranks, and
// rings at rates B (equations 4 to 8):
//   all-gather of W over z         e (Z-1) kn / (XYZ) / B_z
//   reduce-scatter of dW over z    e (Z-1) kn / (XYZ) / B_z
//   all-reduce of O over y         2 e (Y-1)/Y mn / (ZX) / B_y
//   all-reduce of dI over x        2 e (X-1)/X mk / (ZY) / B_x
//   all-reduce of dW over data     2 e (D-1)/D kn / (XYZ) / B_data
// A transposed layer swaps x and y; the time of a model is the sum over its layers (equation 9).
//
// The authors' own program (github.com/axonn-ai/Megatron-AxoNN, examples/comm_model.py) counts differently.
// FourDCountsOfProgram() and FourDLayersOfProgram() count as the program does; tests/papers/history.md has the rankings
// by both.
#ifndef WEFT_PLANNER_PRESETS_FOUR_D_MODEL_H_
#define WEFT_PLANNER_PRESETS_FOUR_D_MODEL_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/cluster.pb.h"
#include "proto/model_graph.pb.h"

namespace weft {

// Sizes of the axes, at least 1; x is the innermost in placement, then y, z and data.
struct FourDGrid {
  int64_t x = 1;
  int64_t y = 1;
  int64_t z = 1;
  int64_t data = 1;

  friend bool operator==(const FourDGrid&, const FourDGrid&) = default;
};

// Bytes per second between the members of each group of an axis.
struct FourDBandwidths {
  double x = 0;
  double y = 0;
  double z = 0;
  double data = 0;
};

// A product with weights. The axis that shards the inputs alternates from product to product
// (docs/tensor_parallelism.md, "Products").
struct FourDLayer {
  int64_t inputs = 0;
  int64_t outputs = 0;
  bool transposed = false;

  friend bool operator==(const FourDLayer&, const FourDLayer&) = default;
};

// How often a layer runs each collective in an iteration. The defaults are those of equation 9.
struct FourDCounts {
  double gathers = 1;
  double scatters = 1;
  double outputs = 1;
  double inputs = 1;
  double gradients = 1;
};

// Returns the counts of the authors' program. It recomputes layers, so weights are gathered twice and outputs are
// summed twice. It sums gradients of replicas in fp32, twice the bytes of an element.
FourDCounts FourDCountsOfProgram();

// Equation 10. An axis that stays within a node has `inside`, the bandwidth between the devices of a node. Any other
// axis has `between`, the bandwidth of a node to another, divided by the groups of the axis that leave the node at
// once.
FourDBandwidths PlacementAwareBandwidths(const FourDGrid& grid, int64_t devices_per_node, double inside,
                                         double between);
// Takes `inside` from the cluster's `intra_node`, and `between` from all interfaces of a node together.
// FailedPrecondition names the figure that is absent.
absl::StatusOr<FourDBandwidths> PlacementAwareBandwidths(const FourDGrid& grid, const Cluster& cluster);
// Returns the same bandwidth for all axes.
FourDBandwidths PlacementAgnosticBandwidths(double bytes_per_second);

// Products with weights in the order of the graph. Returns InvalidArgument for models of images, whose layers have
// different numbers of rows.
absl::StatusOr<std::vector<FourDLayer>> FourDLayers(const ModelGraph& model);

// Layers as the authors' program counts them. It swaps the inputs and outputs of a transposed layer, so the last
// product of a block is h x 4h instead of 4h x h, and it leaves out the last layer, the head.
std::vector<FourDLayer> FourDLayersOfProgram(std::vector<FourDLayer> layers);

// Seconds of a layer, and of all layers of a model, by equation 9. `rows` are the rows of one replica: the batch
// divided by `data`.
double FourDLayerSeconds(const FourDLayer& layer, const FourDGrid& grid, double rows, double element_bytes,
                         const FourDBandwidths& bandwidths, const FourDCounts& counts = {});
double FourDSeconds(const std::vector<FourDLayer>& layers, const FourDGrid& grid, double rows, double element_bytes,
                    const FourDBandwidths& bandwidths, const FourDCounts& counts = {});

}  // namespace weft

#endif  // WEFT_PLANNER_PRESETS_FOUR_D_MODEL_H_
