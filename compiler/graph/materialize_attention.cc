// The pass weft-materialize-attention: replaces each attention op by separate ops for scores, softmax, dropout and
// values.
#include "compiler/passes/passes.h"
#include "llvm/ADT/STLExtras.h"

namespace weft {

#define GEN_PASS_DEF_MATERIALIZEATTENTION
#include "compiler/passes/passes.h.inc"

namespace {

struct MaterializeAttentionPass : impl::MaterializeAttentionBase<MaterializeAttentionPass> {
  using MaterializeAttentionBase::MaterializeAttentionBase;

  void runOnOperation() override {
    for (auto graph : getOperation().getOps<ir::GraphOp>()) {
      for (auto attention : llvm::to_vector(graph.getBody().front().getOps<ir::AttentionOp>())) {
        if (mlir::failed(Replace(attention))) return signalPassFailure();
      }
    }
  }

 private:
  static mlir::LogicalResult Replace(ir::AttentionOp attention) {
    if (!attention.getLse().use_empty()) {
      return attention.emitOpError(
          "[materialize_attention_c1] its log-sum-exp is used, but the materialized form does not compute it");
    }
    if (!attention.getColumnShift().empty()) {
      return attention.emitOpError("[materialize_attention_c2] is split already; run the pass before weft-shard");
    }
    mlir::OpBuilder builder(attention);
    const mlir::Location loc = attention.getLoc();
    auto name = attention->getAttrOfType<mlir::StringAttr>(ir::kNameAttr);
    const auto named = [&](auto made, llvm::StringRef suffix) {
      if (name) made->setAttr(ir::kNameAttr, builder.getStringAttr(name.strref() + "." + suffix));
      if (mlir::Attribute layer = attention->getAttr(ir::kLayerAttr)) made->setAttr(ir::kLayerAttr, layer);
      return made;
    };
    mlir::Value q = attention.getQkv();
    const bool grouped = !attention.getKv().empty();
    auto type = mlir::cast<mlir::RankedTensorType>(q.getType());
    auto scores_type = mlir::RankedTensorType::get(
        {type.getDimSize(0), ir::SaturatingMultiply(attention.getHeads(), attention.getSequence())},
        type.getElementType());
    mlir::Value scores = named(builder.create<ir::AttentionScoresOp>(
                                   loc, scores_type, q, grouped ? attention.getKv()[0] : mlir::Value(),
                                   attention.getScaleAttr(), attention.getHeadsAttr(), attention.getSequenceAttr(),
                                   attention.getKvHeadsAttr(), attention.getQkvByHeadAttr()),
                               "scores");
    mlir::Value probabilities =
        named(builder.create<ir::AttentionSoftmaxOp>(loc, scores_type, scores, attention.getHeadsAttr(),
                                                     attention.getSequenceAttr(), attention.getCausalAttr(),
                                                     attention.getWindowAttr()),
              "softmax");
    if (attention.getDropout().convertToDouble() > 0) {
      const mlir::DictionaryAttr whole = builder.getDictionaryAttr({});
      probabilities = named(
          builder.create<ir::DropoutOp>(loc, scores_type, probabilities, attention.getDropoutAttr(),
                                        attention.getDropoutSiteAttr(), /*column_shift=*/whole, /*row_shift=*/whole,
                                        /*whole_columns=*/builder.getI64IntegerAttr(0), attention.getSequenceAttr(),
                                        attention.getHeadsAttr()),
          "dropout");
    }
    mlir::Value values =
        named(builder.create<ir::AttentionValuesOp>(loc, attention.getResult().getType(), probabilities,
                                                    grouped ? attention.getKv()[1] : q, attention.getHeadsAttr(),
                                                    attention.getSequenceAttr(), attention.getKvHeadsAttr(),
                                                    attention.getQkvByHeadAttr()),
              "values");
    attention.getResult().replaceAllUsesWith(values);
    attention.erase();
    return mlir::success();
  }
};

}  // namespace
}  // namespace weft
