// The "tiles" cost model: products and attention by shape, everything else by bytes, with the device's `tiles` figures.
//
//   product   [m x k] [k x n], b of them, with tiles of r rows and c columns on M multiprocessors:
//             waves = ceil(b ceil(m / r) ceil(n / c) / M)
//             compute = min over tiles of  waves * 2 r c (k + half_depth) / (peak / M * fraction)
//             So a shape that fills its last tile and wave badly is slow, and so is a shallow one, whose tiles spend
//             their time on filling the pipeline and on writing results.
//   attention of a fused kernel: a multiprocessor takes `attention_rows` queries of a head at a time,
//             units = b ceil(sequence / attention_rows),   waves = ceil(units / M)
//             compute = visible * flops / (peak * attention_fraction) * waves * M / units
//             visible = the part of the scores that the mask leaves, if the device skips the others.
//   memory    (bytes + half_bytes) / (memory_bytes_per_second * memory_fraction)
//   time      launch + max(compute, memory)
//
// Beside collectives (device_load.h), waves run on the multiprocessors that are left, each as fast as ever, and memory
// has the bandwidth that is left. If the cluster states the duration, the model returns that (stated_cost.h).
//
// Example: 2048 x 4608 x 12288 on 108 multiprocessors in tiles of 256 x 128 are 288 tiles in 3 waves. The last wave is
// two thirds full, so the product runs at 0.89 of the rate of full waves.
//
// Sources: NVIDIA, "Matrix multiplication background user's guide" (tile and wave quantization). The model has the
// structure of NeuSight (Lee et al. 2025, arXiv:2407.13853). Dao 2023, arXiv:2307.08691, sec. 3.2 (attention in blocks
// of rows).
#include <algorithm>
#include <cmath>
#include <optional>

#include "proto/util/status.h"
#include "simulator/cost/cost_model.h"
#include "simulator/cost/device_load.h"
#include "simulator/cost/stated_cost.h"

namespace weft::sim {
namespace {

double Blocks(int64_t extent, int32_t size) { return std::ceil(static_cast<double>(extent) / size); }

// Returns the part of the scores that a causal mask and a window leave.
double Visible(const StepAttributes& attributes) {
  if (!attributes.causal()) return 1;
  const double s = static_cast<double>(attributes.sequence());
  const double window = attributes.window() > 0 ? std::min(s, static_cast<double>(attributes.window())) : s;
  return (window * s - window * (window - 1) / 2) / (s * s);
}

double AttentionSeconds(const Step& step, const StepShapes& shapes, double peak, const TileFigures& figures,
                        int64_t multiprocessors) {
  const double units = static_cast<double>(shapes.batch) * Blocks(shapes.rows, figures.attention_rows());
  const double waves = std::ceil(units / static_cast<double>(multiprocessors));
  const double fraction =
      step.kernel() == ATTENTION ? figures.attention_fraction() : figures.attention_backward_fraction();
  const double visible = figures.skips_masked() ? Visible(step.attributes()) : 1;
  return visible * static_cast<double>(step.work().flops()) / (peak * fraction) * waves * figures.multiprocessors() /
         units;
}

double ProductSeconds(const Step& step, const StepShapes& shapes, double peak, const TileFigures& figures,
                      int64_t multiprocessors) {
  const double volume = 2.0 * static_cast<double>(shapes.rows) * static_cast<double>(shapes.columns) *
                        static_cast<double>(shapes.depth) * static_cast<double>(shapes.batch);
  // Some kernels compute several products, e.g. the gradients of both factors.
  const double products = std::max(1.0, std::round(static_cast<double>(step.work().flops()) / volume));
  const double depth = static_cast<double>(shapes.depth) + figures.half_depth();
  double best = 0;
  for (const Tile& tile : figures.tiles()) {
    const double tiles =
        static_cast<double>(shapes.batch) * Blocks(shapes.rows, tile.rows()) * Blocks(shapes.columns, tile.columns());
    const double waves = std::ceil(tiles / static_cast<double>(multiprocessors));
    const double rate = peak / figures.multiprocessors() * tile.fraction();
    const double seconds = waves * 2.0 * tile.rows() * tile.columns() * depth / rate;
    if (best == 0 || seconds < best) best = seconds;
  }
  return products * best;
}

}  // namespace

absl::StatusOr<Time> TilesCost(const Step& step, const StepShapes& shapes, ActionKind kind, int index,
                               const Cluster& cluster, const CostOptions& options) {
  WEFT_ASSIGN_OR_RETURN(const std::optional<Time> stated, StatedCost(step, shapes, cluster, options.collectives));
  if (stated) return *stated;
  const Device& device = cluster.device();
  const TileFigures& figures = device.tiles();
  if (!device.has_tiles() || figures.multiprocessors() < 1 || figures.attention_rows() < 1 || figures.tiles().empty()) {
    return MissingFigure(step, "device.tiles", "it predicts by shape; the cost model roofline does not need it");
  }
  const RemainingDevice left = RemainingBeside(device, options.collectives);
  double compute = 0;
  if (step.work().flops() > 0) {
    WEFT_ASSIGN_OR_RETURN(const double peak, PeakOf(step, device));
    const bool fused = step.kernel() == ATTENTION || step.kernel() == ATTENTION_BACKWARD;
    if (shapes.rows > 0 && shapes.columns > 0 && shapes.depth > 0 && shapes.batch > 0) {
      compute = fused ? AttentionSeconds(step, shapes, peak, figures, left.multiprocessors)
                      : ProductSeconds(step, shapes, peak, figures, left.multiprocessors);
    } else {
      // If the shape is not known, use the rate of the first tile.
      compute = static_cast<double>(step.work().flops()) / (peak * left.compute * figures.tiles(0).fraction());
    }
  }
  double memory = 0;
  if (step.work().bytes() > 0) {
    const double rate = device.memory_bytes_per_second() * left.memory * figures.memory_fraction();
    if (!(rate > 0)) return MissingFigure(step, "device.memory_bytes_per_second", "the step moves bytes");
    memory = (static_cast<double>(step.work().bytes()) + figures.half_bytes()) / rate;
  }
  return FromSeconds(device.launch_seconds() + std::max(compute, memory));
}

}  // namespace weft::sim
