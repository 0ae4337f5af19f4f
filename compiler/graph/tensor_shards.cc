#include "compiler/graph/tensor_shards.h"

#include <algorithm>
#include <set>

namespace weft {

bool IsSharded(const ir::TensorParallel& sizes) { return sizes.x > 1 || sizes.y > 1 || sizes.z > 1; }

ShardOptions OptionsOfShard(const ir::TensorParallel& sizes, int64_t sequence_length) {
  ShardOptions options;
  options.x = sizes.x;
  options.y = sizes.y;
  options.z = sizes.z;
  options.sequenceParallel = sizes.sequence_parallel;
  options.collective = sizes.algorithm;
  options.sequence = sequence_length;
  return options;
}

ShardStatesOptions OptionsOfShardStates(const StateShards& zero, const std::string& algorithm) {
  ShardStatesOptions options;
  options.stage = zero.stage;
  options.members = zero.members;
  options.block = zero.block;
  options.collective = algorithm;
  options.keptLayers = zero.kept_layers;
  return options;
}

namespace {

Shard ShardOf(ir::TensorOp tensor, mlir::ArrayAttr ranges) {
  Shard shard;
  std::vector<DimensionCut> cuts;
  if (mlir::DictionaryAttr by_axis = tensor.getCutsAttr()) {
    for (mlir::NamedAttribute entry : by_axis) {
      auto what = mlir::cast<mlir::DenseI64ArrayAttr>(entry.getValue());
      DimensionCut& cut = cuts.emplace_back();
      cut.set_dimension(static_cast<int32_t>(what[0]));
      cut.set_axis(entry.getName().str());
      if (what[1] > 1) cut.set_runs(what[1]);
    }
  }
  std::stable_sort(cuts.begin(), cuts.end(),
                   [](const DimensionCut& a, const DimensionCut& b) { return a.dimension() < b.dimension(); });
  for (const DimensionCut& cut : cuts) *shard.add_dimensions() = cut;
  for (mlir::StringAttr axis : ranges.getAsRange<mlir::StringAttr>()) {
    RangeCut& cut = *shard.add_ranges();
    cut.set_axis(axis.str());
    if (cut.axis() == "data") cut.set_block(tensor.getDataBlock());
  }
  return shard;
}

}  // namespace

void DescribeShards(mlir::ModuleOp module, SegmentSet* set) {
  std::set<std::string> norm_axes;
  for (ir::TensorOp tensor : module.getOps<ir::TensorOp>()) {
    TensorShards& shards = set->shards.emplace_back();
    shards.param = ShardOf(tensor, tensor.getRanges());
    shards.grad = ShardOf(tensor, tensor.getGradRanges());
    shards.state = ShardOf(tensor, tensor.getStateRanges());
    const auto& grad_ranges = shards.grad.ranges();
    const auto over_data =
        std::find_if(grad_ranges.begin(), grad_ranges.end(), [](const RangeCut& cut) { return cut.axis() == "data"; });
    // If each backward scatters the gradient, the gradient is already summed over the replicas that share its parts.
    if (over_data == grad_ranges.end()) {
      shards.sync_axes.push_back("data");
    } else if (over_data->block() > 0) {
      shards.sync_axes.push_back(kOverGroups);
    }
    for (mlir::StringAttr axis : tensor.getPartial().getAsRange<mlir::StringAttr>()) {
      shards.sync_axes.push_back(axis.str());
    }
    // Norms are computed from the part of the gradient that the optimizer reads.
    for (const DimensionCut& cut : shards.state.dimensions()) norm_axes.insert(cut.axis());
    for (const RangeCut& cut : shards.state.ranges()) norm_axes.insert(cut.axis());
  }
  set->norm_axes.assign(norm_axes.begin(), norm_axes.end());
}

}  // namespace weft
