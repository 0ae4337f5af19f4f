// The pass weft-shard: turns the whole graph into the graph of one rank of the axes x, y and z. Each op has its own
// sharding rule (ir/sharding_rules.cc). This pass applies the rules one after the other, and records in the weft.tensor
// ops how each tensor was cut.
#include "compiler/passes/passes.h"
#include "ir/sharder.h"
#include "llvm/ADT/STLExtras.h"

namespace weft {

#define GEN_PASS_DEF_SHARD
#include "compiler/passes/passes.h.inc"

namespace {

struct ShardPass : impl::ShardBase<ShardPass> {
  using ShardBase::ShardBase;

  void runOnOperation() override {
    if (x == 1 && y == 1 && z == 1) return;
    mlir::ModuleOp module = getOperation();
    auto graphs = llvm::to_vector(module.getOps<ir::GraphOp>());
    if (graphs.size() != 1) {
      module.emitOpError() << "[shard_graph_c1] must have one weft.graph, but has " << graphs.size();
      return signalPassFailure();
    }
    if (x < 1 || y < 1 || z < 1 || (sequenceParallel && y > 1)) {
      module.emitOpError()
          << "[shard_graph_c2] axes must have at least one rank, and y one with sequence-parallel; got "
          << "x = " << x.getValue() << ", y = " << y.getValue() << ", z = " << z.getValue();
      return signalPassFailure();
    }
    ir::TensorParallel sizes;
    sizes.x = x;
    sizes.y = y;
    sizes.z = z;
    sizes.sequence_parallel = sequenceParallel;
    sizes.sequence = sequence;
    sizes.algorithm = collective;
    std::vector<mlir::RankedTensorType> types;
    auto tensors = llvm::to_vector(module.getOps<ir::TensorOp>());
    for (ir::TensorOp tensor : tensors) types.push_back(mlir::cast<mlir::RankedTensorType>(tensor.getType()));
    ir::Sharder sharder(sizes, types, &getContext());
    FindRuns(graphs.front(), sharder);
    if (mlir::failed(Rewrite(graphs.front(), sharder))) return signalPassFailure();
    for (auto [tensor, parts] : llvm::zip(tensors, sharder.tensors())) Describe(tensor, parts, sharder);
  }

 private:
  // Finds, for each value, the number of runs that its columns are divided into. The readers of a value decide this.
  // Going backward through the ops, each op passes the number for its result on to its operands.
  static void FindRuns(ir::GraphOp graph, ir::Sharder& sharder) {
    for (mlir::Operation& op : llvm::reverse(graph.getBody().front())) {
      auto shardable = mlir::dyn_cast<ir::ShardableInterface>(op);
      if (!shardable || op.getNumResults() == 0) continue;
      const int64_t of_result = sharder.WantedRuns(op.getResult(0));
      for (mlir::OpOperand& operand : op.getOpOperands()) {
        sharder.WantRuns(operand.get(), shardable.runsOfOperand(operand.getOperandNumber(), of_result));
      }
    }
  }

  static mlir::LogicalResult Rewrite(ir::GraphOp graph, ir::Sharder& sharder) {
    mlir::Block& block = graph.getBody().front();
    ir::PartLayout whole;
    whole.whole_columns = true;
    for (mlir::BlockArgument argument : block.getArguments()) sharder.SetPart(argument, argument, whole);
    llvm::SmallVector<mlir::Operation*> ops;
    for (mlir::Operation& op : block.without_terminator()) ops.push_back(&op);
    for (mlir::Operation* op : ops) {
      if (mlir::isa<ir::ParameterOp>(op)) continue;
      auto shardable = mlir::dyn_cast<ir::ShardableInterface>(op);
      if (!shardable) return op->emitOpError("[shard_graph_c3] has no rule for how it is split over x, y and z");
      sharder.Begin(op);
      if (mlir::failed(shardable.shard(sharder))) return mlir::failure();
      sharder.End();
    }
    for (mlir::OpOperand& operand : block.getTerminator()->getOpOperands()) operand.set(sharder.Part(operand.get()));
    for (mlir::Operation* op : llvm::reverse(ops)) op->erase();
    return mlir::success();
  }

  void Describe(ir::TensorOp tensor, const ir::TensorParts& parts, const ir::Sharder& sharder) {
    mlir::Builder builder(&getContext());
    if (sharder.PartOf(parts) != parts.whole) tensor.setPadded(parts.whole.getShape());
    llvm::SmallVector<mlir::NamedAttribute> cuts;
    for (const ir::TensorCut& cut : parts.cuts) {
      cuts.push_back(
          builder.getNamedAttr(ir::NameOf(cut.axis), builder.getDenseI64ArrayAttr({cut.dimension, cut.runs})));
    }
    if (!cuts.empty()) tensor.setCutsAttr(builder.getDictionaryAttr(cuts));
    if (parts.range_over_z) {
      const mlir::ArrayAttr over_z = builder.getStrArrayAttr({"z"});
      tensor.setRangesAttr(over_z);
      tensor.setGradRangesAttr(over_z);
      tensor.setStateRangesAttr(over_z);
    }
    llvm::SmallVector<llvm::StringRef> partial;
    if (parts.partial_over_x) partial.push_back("x");
    if (z > 1 && !parts.range_over_z) partial.push_back("z");
    if (!partial.empty()) tensor.setPartialAttr(builder.getStrArrayAttr(partial));
    tensor.setTypeAttr(mlir::TypeAttr::get(sharder.PartOf(parts)));
  }
};

}  // namespace
}  // namespace weft
