// The pass weft-shard-states: ZeRO. What weft-shard leaves of parameters, of their gradients and of what the optimizer
// keeps is cut over data replicas, as far as the stage says. Source: Rajbhandari et al. 2020, arXiv:1910.02054.
#include <map>
#include <numeric>
#include <string>

#include "compiler/passes.h"
#include "ir/checks.h"
#include "ir/graph_ops.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"

namespace weft {

#define GEN_PASS_DEF_SHARDSTATES
#include "compiler/passes.h.inc"

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
    cut_.clear();
    FindKept();
    for (ir::TensorOp tensor : module.getOps<ir::TensorOp>()) {
      if (mlir::failed(Cut(tensor))) return signalPassFailure();
    }
    if (stage == 1) return;
    for (ir::GraphOp graph : module.getOps<ir::GraphOp>()) {
      if (mlir::failed(BringTogether(graph))) return signalPassFailure();
    }
  }

 private:
  // Null where it stays whole: a vector of a few elements, as the bias of three channels, if it must. (In groups it
  // would be summed over all replicas, and its norm counted once on all of them, unlike anything else.)
  mlir::FailureOr<mlir::RankedTensorType> Part(ir::TensorOp tensor) {
    auto type = mlir::cast<mlir::RankedTensorType>(tensor.getType());
    const int64_t elements = type.getNumElements(), parts = members.getValue();
    if (elements % parts == 0) return mlir::RankedTensorType::get({elements / parts}, type.getElementType());
    if (tensor.getShape().size() == 1 && block == 0) return mlir::RankedTensorType();
    // What divides both may be a group. The message names fields of the plan, not the op.
    const int64_t both = std::gcd(elements, replicas.getValue());
    mlir::InFlightDiagnostic error = mlir::emitError(tensor.getLoc());
    if (block > 0) {
      error << "[shard_states_c2] plan.zero.group = " << parts << " must divide the rank's " << elements
            << " elements of parameter '" << tensor.getSymName() << "' and the " << replicas.getValue()
            << " ranks of mesh axis data; nearest valid: " << ir::NearestDivisors(both, parts);
      return error;
    }
    error << "[shard_states_c2] mesh axis data has " << parts << " ranks, which must divide the rank's " << elements
          << " elements of parameter '" << tensor.getSymName()
          << "' for plan.zero; nearest valid: " << ir::NearestDivisors(elements, parts);
    if (replicas > 0 && both > 1) error << ", or plan.zero.group = " << ir::NearestDivisors(both, parts);
    return error;
  }

  static mlir::ArrayAttr CutFurther(mlir::ArrayAttr ranges) {
    llvm::SmallVector<mlir::Attribute> more(ranges.begin(), ranges.end());
    more.push_back(mlir::StringAttr::get(ranges.getContext(), kAxis));
    return mlir::ArrayAttr::get(ranges.getContext(), more);
  }

  mlir::LogicalResult Cut(ir::TensorOp tensor) {
    mlir::FailureOr<mlir::RankedTensorType> part = Part(tensor);
    if (mlir::failed(part)) return mlir::failure();
    if (!*part) return mlir::success();
    cut_.insert(tensor.getIndex());
    mlir::TypeAttr type = mlir::TypeAttr::get(*part);
    if (block > 0) tensor.setDataBlock(block.getValue());
    tensor.setStateRangesAttr(CutFurther(tensor.getStateRanges()));
    if (stage >= 2) tensor.setGradRangesAttr(CutFurther(tensor.getGradRanges()));
    if (stage == 3 && !kept_.contains(tensor.getIndex())) {
      if (!tensor.getPadded()) {
        tensor.setPadded(mlir::cast<mlir::RankedTensorType>(tensor.getType()).getShape());
      }
      tensor.setRangesAttr(CutFurther(tensor.getRanges()));
      tensor.setTypeAttr(type);
      return mlir::success();
    }
    tensor.setStateTypeAttr(type);
    if (stage >= 2) tensor.setGradTypeAttr(type);
    return mlir::success();
  }

  // Tensors that all layers which read them keep.
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

  // One message for all parameters of a layer, where the first of them is needed; backward one for their gradients.
  mlir::LogicalResult BringTogether(ir::GraphOp graph) {
    std::map<int64_t, llvm::SmallVector<ir::ParameterOp>> by_layer;
    for (auto parameter : graph.getBody().front().getOps<ir::ParameterOp>()) {
      if (!cut_.contains(parameter.getTensor())) continue;
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
        made->setAttr(ir::kNameAttr, builder.getStringAttr("layer" + llvm::Twine(layer) + ".zero"));
        for (auto [input, result] : llvm::zip(inputs, made->getResults())) input.replaceAllUsesExcept(result, made);
      }
    }
    return mlir::success();
  }

  // Whether compute reads it as the rank has it.
  bool IsWhole(ir::ParameterOp parameter) const { return stage != 3 || kept_.contains(parameter.getTensor()); }

  mlir::Operation* Gather(mlir::OpBuilder& builder, llvm::ArrayRef<mlir::Value> inputs,
                          llvm::ArrayRef<mlir::Type> types) {
    for (mlir::Value input : inputs) {
      auto type = mlir::cast<mlir::RankedTensorType>(input.getType());
      input.setType(mlir::RankedTensorType::get({type.getNumElements() / members.getValue()}, type.getElementType()));
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

  // Indices of tensors.
  llvm::DenseSet<int64_t> cut_;
  llvm::DenseSet<int64_t> kept_;
};

}  // namespace
}  // namespace weft
