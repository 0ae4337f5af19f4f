// The pass weft-shard-states: ZeRO. Cuts the parameters that weft-shard leaves, their gradients and the optimizer
// states over data replicas, as the ZeRO stage requires. If the number of replicas does not divide the elements of a
// tensor, the size of a part is rounded up and the last parts are filled with zeros. Source: Rajbhandari et al. 2020,
// arXiv:1910.02054.
#include <map>
#include <string>

#include "compiler/passes/passes.h"
#include "compiler/segments/state_shards.h"
#include "compiler/segments/tensor_room.h"
#include "ir/graph_ops.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"

namespace weft {

#define GEN_PASS_DEF_SHARDSTATES
#include "compiler/passes/passes.h.inc"

namespace {

constexpr llvm::StringLiteral kAxis = "data";

struct ShardStatesPass : impl::ShardStatesBase<ShardStatesPass> {
  using ShardStatesBase::ShardStatesBase;

  void runOnOperation() override {
    mlir::ModuleOp module = getOperation();
    if (stage < 0 || stage > 3 || members < 1 || (block != 0 && block.getValue() != members.getValue())) {
      module.emitOpError() << "[shard_states_c1] stage must be 0 to 3, members at least 1, and block 0 or members; got "
                           << "stage = " << stage.getValue() << ", members = " << members.getValue()
                           << ", block = " << block.getValue();
      return signalPassFailure();
    }
    if (stage == 0 || members == 1) return;
    FindKept();
    for (ir::TensorOp tensor : module.getOps<ir::TensorOp>()) Cut(tensor);
    if (stage == 1) return;
    for (ir::GraphOp graph : module.getOps<ir::GraphOp>()) {
      if (mlir::failed(BringTogether(graph))) return signalPassFailure();
    }
  }

 private:
  // Number of elements in a part. All parts have the same size; the last ones are padded with zeros.
  int64_t PartOf(int64_t elements) const { return (elements + members.getValue() - 1) / members.getValue(); }

  mlir::RankedTensorType Part(ir::TensorOp tensor) const {
    auto type = mlir::cast<mlir::RankedTensorType>(tensor.getType());
    return mlir::RankedTensorType::get({PartOf(type.getNumElements())}, type.getElementType());
  }

  static mlir::ArrayAttr CutFurther(mlir::ArrayAttr ranges) {
    llvm::SmallVector<mlir::Attribute> more(ranges.begin(), ranges.end());
    more.push_back(mlir::StringAttr::get(ranges.getContext(), kAxis));
    return mlir::ArrayAttr::get(ranges.getContext(), more);
  }

  void Cut(ir::TensorOp tensor) {
    const mlir::RankedTensorType part = Part(tensor);
    mlir::TypeAttr type = mlir::TypeAttr::get(part);
    if (block > 0) tensor.setDataBlock(block.getValue());
    tensor.setStateRangesAttr(CutFurther(tensor.getStateRanges()));
    if (stage >= 2) tensor.setGradRangesAttr(CutFurther(tensor.getGradRanges()));
    if (stage == 3 && !kept_.contains(tensor.getIndex())) {
      if (!tensor.getPadded()) {
        tensor.setPadded(mlir::cast<mlir::RankedTensorType>(tensor.getType()).getShape());
      }
      tensor.setRangesAttr(CutFurther(tensor.getRanges()));
      tensor.setTypeAttr(type);
      return;
    }
    tensor.setStateTypeAttr(type);
    if (stage >= 2) tensor.setGradTypeAttr(type);
    const int64_t all = part.getNumElements() * members.getValue();
    if (all != mlir::cast<mlir::RankedTensorType>(tensor.getType()).getNumElements()) SetPaddedElements(tensor, all);
  }

  // Finds the tensors whose gathered values are kept by all layers that read them.
  void FindKept() {
    kept_.clear();
    llvm::DenseSet<int64_t> given_up;
    for (ir::GraphOp graph : getOperation().getOps<ir::GraphOp>()) {
      for (auto parameter : graph.getBody().front().getOps<ir::ParameterOp>()) {
        auto layer = parameter->getAttrOfType<mlir::IntegerAttr>(ir::kLayerAttr);
        const bool keeps = layer && llvm::is_contained(*keptLayers, static_cast<int32_t>(layer.getInt()));
        (keeps ? kept_ : given_up).insert(parameter.getTensor());
      }
    }
    for (int64_t tensor : given_up) kept_.erase(tensor);
  }

  // Moves the parameters of a layer to the place of its first parameter. If the rank holds only parts of some
  // parameters of the layer, one message can then gather all of them. In the backward, one message carries the
  // gradients of these parameters, and another message carries the gradients of the layer's other parameters.
  mlir::LogicalResult BringTogether(ir::GraphOp graph) {
    std::map<int64_t, llvm::SmallVector<ir::ParameterOp>> by_layer;
    for (auto parameter : graph.getBody().front().getOps<ir::ParameterOp>()) {
      auto layer = parameter->getAttrOfType<mlir::IntegerAttr>(ir::kLayerAttr);
      if (!layer) return parameter.emitOpError("[shard_states_c3] needs a `layer`");
      by_layer[layer.getInt()].push_back(parameter);
    }
    for (auto& [layer, parameters] : by_layer) {
      for (auto [before, parameter] : llvm::zip(parameters, llvm::drop_begin(parameters))) {
        parameter->moveAfter(before);
      }
      mlir::OpBuilder builder(&getContext());
      builder.setInsertionPointAfter(parameters.back());
      for (const bool whole : {false, true}) {
        llvm::SmallVector<mlir::Value> inputs;
        llvm::SmallVector<mlir::Type> types;
        for (ir::ParameterOp parameter : parameters) {
          if (IsWhole(parameter) != whole) continue;
          inputs.push_back(parameter.getResult());
          types.push_back(parameter.getType());
        }
        if (inputs.empty()) continue;
        mlir::Operation* made = whole ? Scatter(builder, inputs, types) : Gather(builder, inputs, types);
        made->setAttr(ir::kLayerAttr, parameters.front()->getAttr(ir::kLayerAttr));
        made->setAttr(ir::kNameAttr, builder.getStringAttr(NameOfLayerSteps(layer)));
        for (auto [input, result] : llvm::zip(inputs, made->getResults())) input.replaceAllUsesExcept(result, made);
      }
    }
    return mlir::success();
  }

  // True if forward and backward read the parameter in the form in which the rank holds it, so that no gather is
  // needed.
  bool IsWhole(ir::ParameterOp parameter) const { return stage != 3 || kept_.contains(parameter.getTensor()); }

  mlir::Operation* Gather(mlir::OpBuilder& builder, llvm::ArrayRef<mlir::Value> inputs,
                          llvm::ArrayRef<mlir::Type> types) {
    for (mlir::Value input : inputs) {
      auto type = mlir::cast<mlir::RankedTensorType>(input.getType());
      input.setType(mlir::RankedTensorType::get({PartOf(type.getNumElements())}, type.getElementType()));
    }
    return builder.create<ir::GroupAllGatherOp>(inputs.front().getLoc(), mlir::TypeRange(types), inputs, Over(),
                                                members.getValue(), ir::Purpose::GatherWeights,
                                                llvm::StringRef(collective.getValue()), true, false);
  }

  mlir::Operation* Scatter(mlir::OpBuilder& builder, llvm::ArrayRef<mlir::Value> inputs,
                           llvm::ArrayRef<mlir::Type> types) {
    return builder.create<ir::CutGradientsOp>(inputs.front().getLoc(), mlir::TypeRange(types), inputs, Over(),
                                              members.getValue(), llvm::StringRef(collective.getValue()));
  }

  mlir::DictionaryAttr Over() {
    mlir::Builder builder(&getContext());
    mlir::Attribute who = builder.getDenseI64ArrayAttr({});
    if (block > 0)
      who = builder.getDictionaryAttr(builder.getNamedAttr("block", builder.getI64IntegerAttr(block.getValue())));
    return builder.getDictionaryAttr(builder.getNamedAttr(kAxis, who));
  }

  // Indices of the tensors that all their layers keep (FindKept).
  llvm::DenseSet<int64_t> kept_;
};

}  // namespace
}  // namespace weft
