#include "compiler/backward/recompute_groups.h"

#include <set>

#include "llvm/ADT/STLExtras.h"

namespace weft {
namespace {

// A stage's layers, ascending.
struct StageLayers {
  std::set<int64_t> all;
  std::set<int64_t> with_loss;
  // Layers that multiply matrices, except the layer of the loss. AxoNN's rule counts only these layers.
  std::set<int64_t> with_product;
};

StageLayers LayersOf(const StageContent& content) {
  StageLayers layers;
  for (mlir::Operation* op : content.ops) {
    const int64_t layer = op->getAttrOfType<mlir::IntegerAttr>(ir::kLayerAttr).getInt();
    layers.all.insert(layer);
    if (ir::IsLoss(op)) layers.with_loss.insert(layer);
    auto cost = mlir::dyn_cast<ir::CostInterface>(op);
    if (cost && cost.flops() > 0) layers.with_product.insert(layer);
  }
  for (int64_t layer : layers.with_loss) layers.with_product.erase(layer);
  return layers;
}

mlir::LogicalResult CheckChoice(ir::GraphOp graph, const RecomputeChoice& choice) {
  static constexpr llvm::StringRef kModes[] = {"none", "full", "selective", "layers", "every", "interval", "axonn"};
  if (!llvm::is_contained(kModes, choice.mode)) {
    return graph.emitOpError() << "[build_segments_c11] recompute is '" << choice.mode
                               << "'; known: none, full, selective, layers, every, interval, axonn";
  }
  if (choice.mode == "every" && choice.every < 1) {
    return graph.emitOpError() << "[build_segments_c12] recompute.every = " << choice.every
                               << "; it must be at least 1";
  }
  if (choice.mode == "interval" && choice.interval < 1) {
    return graph.emitOpError() << "[build_segments_c15] recompute.interval = " << choice.interval
                               << "; it must be at least 1";
  }
  return mlir::success();
}

}  // namespace

int32_t AxonnInterval(int64_t stage_layers, int64_t all_layers) {
  // Compares distances to sqrt(n) in integers: for k > b, |k - sqrt(n)| < |b - sqrt(n)| if and only if k + b < 2
  // sqrt(n).
  int64_t best = 1;
  for (int64_t k = 2; k <= stage_layers; ++k) {
    if (stage_layers % k == 0 && (k + best) * (k + best) < 4 * all_layers) best = k;
  }
  return static_cast<int32_t>(best);
}

mlir::LogicalResult ChooseRecompute(ir::GraphOp graph, const RecomputeChoice& choice,
                                    llvm::MutableArrayRef<StageContent> stages) {
  if (mlir::failed(CheckChoice(graph, choice))) return mlir::failure();
  if (choice.mode == "none") return mlir::success();
  if (choice.mode == "selective") {
    for (StageContent& content : stages) content.recomputes_probabilities = true;
    return mlir::success();
  }
  std::vector<StageLayers> layers;
  int64_t products = 0;
  for (const StageContent& content : stages) {
    layers.push_back(LayersOf(content));
    products += static_cast<int64_t>(layers.back().with_product.size());
  }
  if (choice.mode == "layers") {
    for (int64_t layer : choice.layers) {
      bool known = false;
      for (auto [content, of_stage] : llvm::zip(stages, layers)) {
        if (of_stage.all.count(layer) == 0) continue;
        content.recomputed[layer] = layer;
        known = true;
      }
      if (!known) {
        return graph.emitOpError() << "[build_segments_c13] recompute.layers names layer " << layer
                                   << "; the graph has layers 0 to " << *layers.back().all.rbegin();
      }
    }
    return mlir::success();
  }
  for (auto [content, of_stage] : llvm::zip(stages, layers)) {
    const bool grouped = choice.mode == "interval" || choice.mode == "axonn";
    const int64_t interval = choice.mode == "axonn"
                                 ? AxonnInterval(static_cast<int64_t>(of_stage.with_product.size()), products)
                                 : choice.interval;
    // Layers before the first layer with a product (for example an embedding) join the group of that layer.
    int64_t position = 0, counted = 0, group = -1;
    for (int64_t layer : of_stage.all) {
      if (of_stage.with_loss.count(layer) > 0) continue;
      if (grouped) {
        const bool product = of_stage.with_product.count(layer) > 0;
        if (group < 0 || (product && counted > 0 && counted % interval == 0)) group = layer;
        content.recomputed[layer] = group;
        counted += product;
      } else if (position++ % (choice.mode == "every" ? choice.every : 1) == 0) {
        content.recomputed[layer] = layer;
      }
    }
  }
  return mlir::success();
}

}  // namespace weft
