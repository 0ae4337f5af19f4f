#include "planner/presets/four_d_model.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace weft {
namespace {

// Share of a buffer that each member of a ring of `size` sends: (size - 1) / size.
double RingPart(int64_t size) { return static_cast<double>(size - 1) / static_cast<double>(size); }

// Zero bytes take no time, even if the bandwidth is unknown.
double Seconds(double bytes, double bytes_per_second) { return bytes > 0 ? bytes / bytes_per_second : 0; }

}  // namespace

FourDBandwidths PlacementAwareBandwidths(const FourDGrid& grid, int64_t devices_per_node, double inside,
                                         double between) {
  const int64_t sizes[] = {grid.x, grid.y, grid.z, grid.data};
  double bandwidths[4];
  devices_per_node = std::clamp<int64_t>(devices_per_node, 1, int64_t{1} << 30);
  // Ranks of the inner axes together. All values above the size of a node mean "more than a node", so the product stops
  // growing there.
  int64_t inner = 1;
  for (int axis = 0; axis < 4; ++axis) {
    const bool within = sizes[axis] <= devices_per_node / inner;
    bandwidths[axis] =
        within && inner <= devices_per_node ? inside : between / static_cast<double>(std::min(devices_per_node, inner));
    inner = sizes[axis] > devices_per_node || inner * sizes[axis] > devices_per_node ? devices_per_node + 1
                                                                                     : inner * sizes[axis];
  }
  return {bandwidths[0], bandwidths[1], bandwidths[2], bandwidths[3]};
}

absl::StatusOr<FourDBandwidths> PlacementAwareBandwidths(const FourDGrid& grid, const Cluster& cluster) {
  const int64_t per_node = std::max<int64_t>(1, cluster.devices_per_node());
  const double inside = cluster.intra_node().bytes_per_second();
  const double between =
      cluster.inter_node().bytes_per_second() * static_cast<double>(std::max<int64_t>(1, cluster.nics_per_node()));
  const FourDBandwidths bandwidths = PlacementAwareBandwidths(grid, per_node, inside, between);
  const std::pair<int64_t, double> axes[] = {
      {grid.x, bandwidths.x}, {grid.y, bandwidths.y}, {grid.z, bandwidths.z}, {grid.data, bandwidths.data}};
  for (const auto& [size, bandwidth] : axes) {
    if (size > 1 && !(bandwidth > 0)) {
      return absl::FailedPreconditionError(
          absl::StrCat("cluster '", cluster.name(), "' has no ",
                       inside > 0 ? "inter_node.bytes_per_second" : "intra_node.bytes_per_second",
                       ", which the communication model of the four axes needs"));
    }
  }
  return bandwidths;
}

FourDBandwidths PlacementAgnosticBandwidths(double bytes_per_second) {
  return {bytes_per_second, bytes_per_second, bytes_per_second, bytes_per_second};
}

absl::StatusOr<std::vector<FourDLayer>> FourDLayers(const ModelGraph& model) {
  if (model.image_size() > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("model '", model.name(),
                     "' is one of images; the communication model of the four axes is for models "
                     "whose layers all have a row per token"));
  }
  std::map<std::string, const GraphParameter*> parameters;
  for (const GraphParameter& parameter : model.parameters()) parameters[parameter.name()] = &parameter;
  // For each value, true if its columns are sharded over x, as a product that is not transposed leaves them.
  std::map<std::string, bool> over_x;
  std::vector<FourDLayer> layers;
  for (const GraphOp& op : model.ops()) {
    const bool cut_over_x = op.inputs_size() > 0 && over_x[op.inputs(0)];
    bool out_over_x = cut_over_x;
    if (op.kind() == "matmul" && op.inputs_size() > 1) {
      const auto weight = parameters.find(op.inputs(1));
      if (weight != parameters.end() && weight->second->shape_size() == 2) {
        const bool transposed_weight = op.attributes().transpose_b();
        layers.push_back({.inputs = weight->second->shape(transposed_weight ? 1 : 0),
                          .outputs = weight->second->shape(transposed_weight ? 0 : 1),
                          .transposed = cut_over_x});
        out_over_x = !cut_over_x;
      }
    }
    for (const std::string& output : op.outputs()) over_x[output] = out_over_x;
  }
  return layers;
}

FourDCounts FourDCountsOfProgram() { return {.gathers = 2, .outputs = 2, .gradients = 2}; }

std::vector<FourDLayer> FourDLayersOfProgram(std::vector<FourDLayer> layers) {
  if (!layers.empty()) layers.pop_back();
  for (FourDLayer& layer : layers) {
    if (layer.transposed) std::swap(layer.inputs, layer.outputs);
  }
  return layers;
}

double FourDLayerSeconds(const FourDLayer& layer, const FourDGrid& grid, double rows, double element_bytes,
                         const FourDBandwidths& bandwidths, const FourDCounts& counts) {
  int64_t x = grid.x, y = grid.y;
  double bandwidth_x = bandwidths.x, bandwidth_y = bandwidths.y;
  if (layer.transposed) {
    std::swap(x, y);
    std::swap(bandwidth_x, bandwidth_y);
  }
  const double k = static_cast<double>(layer.inputs), n = static_cast<double>(layer.outputs);
  const double gx = static_cast<double>(x), gy = static_cast<double>(y), gz = static_cast<double>(grid.z);
  const double gathered = RingPart(grid.z) * element_bytes * k * n / (gx * gy);
  const double output = 2 * RingPart(y) * element_bytes * rows * n / (gz * gx);
  const double input = 2 * RingPart(x) * element_bytes * rows * k / (gz * gy);
  const double gradient = 2 * RingPart(grid.data) * element_bytes * k * n / (gx * gy * gz);
  return Seconds((counts.gathers + counts.scatters) * gathered, bandwidths.z) +
         Seconds(counts.outputs * output, bandwidth_y) + Seconds(counts.inputs * input, bandwidth_x) +
         Seconds(counts.gradients * gradient, bandwidths.data);
}

double FourDSeconds(const std::vector<FourDLayer>& layers, const FourDGrid& grid, double rows, double element_bytes,
                    const FourDBandwidths& bandwidths, const FourDCounts& counts) {
  double seconds = 0;
  for (const FourDLayer& layer : layers) {
    seconds += FourDLayerSeconds(layer, grid, rows, element_bytes, bandwidths, counts);
  }
  return seconds;
}

}  // namespace weft
