// Splits each op of a model over x, y and z (docs/tensor_parallelism.md).
#include "ir/checks.h"
#include "ir/sharder.h"
#include "llvm/ADT/STLExtras.h"
#include "mlir/IR/IRMapping.h"

namespace weft::ir {

namespace {

mlir::RankedTensorType TypeOf(mlir::Value value) { return mlir::cast<mlir::RankedTensorType>(value.getType()); }

mlir::RankedTensorType WithShape(mlir::RankedTensorType type, llvm::ArrayRef<int64_t> shape) {
  return mlir::RankedTensorType::get(shape, type.getElementType());
}

}  // namespace

// Clones the op on the parts of its operands, which must all be cut alike.
mlir::LogicalResult ShardElementByElement(mlir::Operation* op, Sharder& sharder) {
  PartLayout layout;
  layout.whole_columns = true;
  mlir::IRMapping map;
  bool first = true;
  for (mlir::Value operand : op->getOperands()) {
    if (Sharder::IsParameter(operand)) {
      return sharder.Error("shard_c7") << "reads a parameter, but has no rule for how it is cut over x, y and z";
    }
    if (!first && !sharder.SameLayout(layout, sharder.LayoutOf(operand))) {
      return sharder.Error("shard_c8") << "its operands are cut differently over x and y; this model can be split over "
                                          "z and data";
    }
    if (first) layout = sharder.LayoutOf(operand);
    first = false;
    map.map(operand, sharder.Part(operand));
  }
  mlir::Operation* part = sharder.builder().clone(*op, map);
  for (auto [whole, made] : llvm::zip(op->getResults(), part->getResults())) {
    mlir::FailureOr<mlir::RankedTensorType> type = sharder.PartType(TypeOf(whole), layout);
    if (mlir::failed(type)) return mlir::failure();
    made.setType(*type);
    sharder.SetPart(whole, made, layout);
  }
  return mlir::success();
}

// Operand b is the output of a residual branch. If the columns of a and b are cut over different axes, a moves to the
// axis of b. If the columns of b are whole, b is cut like a instead. If the rows of either operand are cut over x,
// neither moves.
mlir::LogicalResult AddOp::shard(Sharder& sharder) {
  const PartLayout a = sharder.LayoutOf(getA()), b = sharder.LayoutOf(getB());
  if (sharder.Part(getA()) && sharder.Part(getB()) && !sharder.SameLayout(a, b) && !a.rows_over_x && !b.rows_over_x) {
    if (mlir::failed(b.whole_columns ? sharder.MoveColumns(getB(), a.columns)
                                     : sharder.MoveColumns(getA(), b.columns))) {
      return mlir::failure();
    }
  }
  return ShardElementByElement(*this, sharder);
}

mlir::LogicalResult EmbeddingOp::shard(Sharder& sharder) {
  auto table = sharder.Parameter(getTable(), {{0, ShardAxis::kX, 1}, {1, ShardAxis::kY, 1}});
  if (mlir::failed(table)) return mlir::failure();
  mlir::Value tokens = sharder.Part(getTokens());
  mlir::DictionaryAttr shift = sharder.Shift(ShardAxis::kX, Dim(*table, 0));
  mlir::Value rows = sharder.builder().create<EmbeddingOp>(
      getLoc(), WithShape(getType(), {Dim(tokens, 0), Dim(*table, 1)}), tokens, *table, shift);
  // The op gives zeros for tokens whose rows of the table are on other ranks, so the sum over x gives the embedding.
  const PartLayout layout = sharder.residual();
  if (layout.rows_over_x && mlir::failed(sharder.Divide(Dim(tokens, 0), ShardAxis::kX, "rows"))) {
    return mlir::failure();
  }
  sharder.SetPart(getResult(), sharder.Sum(rows, ShardAxis::kX, layout), layout);
  return mlir::success();
}

mlir::LogicalResult PositionEmbeddingOp::shard(Sharder& sharder) {
  const PartLayout layout = sharder.residual();
  auto table = sharder.Parameter(getTable(), {{1, ShardAxis::kY, 1}}, layout.rows_over_x);
  auto type = sharder.PartType(getType(), layout);
  if (mlir::failed(table) || mlir::failed(type)) return mlir::failure();
  mlir::DictionaryAttr shift;
  if (layout.rows_over_x) shift = sharder.Shift(ShardAxis::kX, type->getDimSize(0));
  mlir::Value part = sharder.builder().create<PositionEmbeddingOp>(getLoc(), *type, *table, getSequenceAttr(), shift);
  sharder.SetPart(getResult(), part, layout);
  return mlir::success();
}

int64_t MatmulOp::runsOfOperand(unsigned, int64_t) { return 0; }

// Returns the axis that cuts the columns of a product. If the product has a partner (ColumnsOfPartner), it is the
// partner's axis. Otherwise, if an earlier use has cut the weight, the axis follows from that cut. Otherwise it is the
// axis that does not cut the input's columns.
static ShardAxis ColumnsOfProduct(Sharder& sharder, MatmulOp op) {
  if (std::optional<ShardAxis> partner = ColumnsOfPartner(sharder, op.getResult())) return *partner;
  const int32_t rows = op.getTransposeB() ? 1 : 0;
  if (std::optional<ShardAxis> axis = sharder.AxisOfEarlierUse(op.getB(), rows)) return OtherAxis(*axis);
  if (std::optional<ShardAxis> axis = sharder.AxisOfEarlierUse(op.getB(), 1 - rows)) return *axis;
  return OtherAxis(sharder.LayoutOf(op.getA()).columns);
}

// `d` cuts the columns of the product. `c`, the other axis, cuts the columns of the input and so the rows of the
// weight. If the input's columns are whole, `c` cuts neither.
mlir::LogicalResult MatmulOp::shard(Sharder& sharder) {
  if (getTransposeA() || getInit() || Sharder::IsParameter(getA()) || !Sharder::IsParameter(getB())) {
    return sharder.Error("shard_c9") << "only products of an activation and a parameter can be cut over x, y and z";
  }
  PartLayout in = sharder.LayoutOf(getA());
  const ShardAxis d = ColumnsOfProduct(sharder, *this);
  const ShardAxis c = OtherAxis(d);
  if (in.columns == d && !in.whole_columns) {
    if (mlir::failed(sharder.MoveColumns(getA(), c))) return mlir::failure();
    in = sharder.LayoutOf(getA());
  }
  PartLayout out;
  out.columns = d;
  out.runs = sharder.WantedRuns(getResult());
  out.rows_over_x = d == ShardAxis::kY && sharder.splits_rows();
  const int32_t rows = getTransposeB() ? 1 : 0;
  llvm::SmallVector<TensorCut> cuts = {{1 - rows, d, out.runs}};
  if (!in.whole_columns) cuts.push_back({rows, c, in.runs});
  auto weight = sharder.Parameter(getB(), cuts);
  if (mlir::failed(weight)) return mlir::failure();
  mlir::Value bias;
  if (getBias()) {
    auto cut = sharder.Parameter(getBias(), {{0, d, out.runs}}, out.rows_over_x);
    if (mlir::failed(cut)) return mlir::failure();
    bias = *cut;
  }
  mlir::Value a = sharder.FanOut(getA(), d);
  if (out.rows_over_x && mlir::failed(sharder.Divide(Dim(a, 0), ShardAxis::kX, "rows"))) return mlir::failure();
  const bool partial = sharder.IsCut(in);
  auto type = WithShape(getType(), {Dim(a, 0), Dim(*weight, 1 - rows)});
  mlir::Value product = sharder.builder().create<MatmulOp>(getLoc(), type, a, *weight, partial ? mlir::Value() : bias,
                                                           mlir::Value(), false, getTransposeB(), getTf32());
  if (partial) {
    product = sharder.Sum(product, c, out);
    if (bias) {
      product = sharder.Named(sharder.builder().create<BiasAddOp>(getLoc(), product.getType(), product, bias), ".bias");
    }
  }
  sharder.SetPart(getResult(), product, out);
  return mlir::success();
}

mlir::LogicalResult ShardNorm(Sharder& sharder, mlir::Operation* op, mlir::Value x, mlir::Value gamma, mlir::Value beta,
                              mlir::FloatAttr epsilon) {
  const PartLayout layout = sharder.LayoutOf(x);
  mlir::Value part = sharder.Part(x);
  const TensorCut cut = {0, layout.columns, layout.runs};
  auto gamma_part = sharder.Parameter(gamma, {cut}, layout.rows_over_x);
  if (mlir::failed(gamma_part)) return mlir::failure();
  mlir::Value beta_part;
  if (beta) {
    auto made = sharder.Parameter(beta, {cut}, layout.rows_over_x);
    if (mlir::failed(made)) return mlir::failure();
    beta_part = *made;
  }
  mlir::OpBuilder& builder = sharder.builder();
  PartLayout of_rows = layout;
  of_rows.whole_columns = true;
  if (sharder.size(layout.columns) == 1) {
    // The rank has whole rows, so the op runs on the rank's parts without a collective.
    mlir::IRMapping map;
    map.map(x, part);
    map.map(gamma, *gamma_part);
    if (beta) map.map(beta, beta_part);
    mlir::Operation* made = builder.clone(*op, map);
    for (auto [whole, result] : llvm::zip(op->getResults(), made->getResults())) {
      auto type = sharder.PartType(TypeOf(whole), layout);
      if (mlir::failed(type)) return mlir::failure();
      result.setType(*type);
      sharder.SetPart(whole, result, TypeOf(whole).getRank() > 1 ? layout : of_rows);
    }
    return mlir::success();
  }
  const bool squares_only = !beta;
  mlir::Type statistics = StatisticsType(x);
  const int64_t rows = Dim(part, 0);
  auto of_part = mlir::RankedTensorType::get({rows, squares_only ? 1 : 2}, statistics);
  mlir::Value partial =
      sharder.Named(builder.create<NormPartialOp>(op->getLoc(), of_part, part, squares_only), ".partial");
  mlir::Value all = sharder.Gather(partial, layout.columns, "gather_statistics");
  auto vector = mlir::RankedTensorType::get({rows}, statistics);
  auto combined =
      sharder.Named(builder.create<NormCombineOp>(op->getLoc(), squares_only ? mlir::Type() : mlir::Type(vector),
                                                  vector, all, epsilon, builder.getI64IntegerAttr(Dim(x, 1)),
                                                  squares_only ? builder.getUnitAttr() : mlir::UnitAttr()),
                    ".statistics");
  mlir::Value result = builder.create<NormApplyOp>(
      op->getLoc(), part.getType(), part, *gamma_part, beta_part, combined.getMean(), combined.getRstd(),
      squares_only ? builder.getUnitAttr() : mlir::UnitAttr(), builder.getI64IntegerAttr(Dim(x, 1)),
      sharder.Over(layout.columns), builder.getI64IntegerAttr(sharder.size(layout.columns)),
      builder.getStringAttr(sharder.algorithm()));
  sharder.SetPart(op->getResult(0), result, layout);
  for (mlir::Value unread : op->getResults().drop_front()) {
    if (!unread.use_empty()) return sharder.Error("shard_c10") << "only its derivative may read statistics of a norm";
  }
  return mlir::success();
}

mlir::LogicalResult LayerNormOp::shard(Sharder& sharder) {
  return ShardNorm(sharder, *this, getX(), getGamma(), getBeta(), getEpsilonAttr());
}

mlir::LogicalResult RmsNormOp::shard(Sharder& sharder) {
  return ShardNorm(sharder, *this, getX(), getGamma(), mlir::Value(), getEpsilonAttr());
}

// Columns may be cut only between heads.
mlir::LogicalResult RopeOp::shard(Sharder& sharder) {
  const PartLayout layout = sharder.LayoutOf(getX());
  if (mlir::failed(sharder.ExpectRuns(layout, 1, "the rotated input")) ||
      mlir::failed(sharder.Divide(Dim(getX(), 1) / getHeadSizeAttr().getInt(), layout.columns, "heads"))) {
    return mlir::failure();
  }
  if (layout.rows_over_x) {
    return sharder.Error("shard_c15") << "rotation needs whole sequences, but its rows are split over x";
  }
  return ShardElementByElement(*this, sharder);
}

mlir::LogicalResult CrossEntropyOp::shard(Sharder& sharder) {
  const PartLayout layout = sharder.LayoutOf(getLogits());
  if (mlir::failed(sharder.ExpectRuns(layout, 1, "logits"))) return mlir::failure();
  if (layout.rows_over_x) {
    return sharder.Error("shard_c12") << "the loss needs the logits of whole sequences, but rows are split over x";
  }
  mlir::Value logits = sharder.Part(getLogits());
  mlir::Value targets = sharder.Part(getTargets());
  mlir::Value losses = sharder.Part(getLosses());
  mlir::OpBuilder& builder = sharder.builder();
  const int64_t rows = Dim(logits, 0);
  mlir::Type element = getLse().getType().getElementType();
  auto lse_type = mlir::RankedTensorType::get({rows}, element);
  PartLayout of_rows;
  of_rows.whole_columns = true;
  mlir::Value lse, result;
  if (sharder.size(layout.columns) == 1) {
    auto loss = builder.create<CrossEntropyOp>(getLoc(), lse_type, losses.getType(), logits, targets, losses,
                                               getVocabularyAttr(), getLossWeightAttr());
    lse = loss.getLse();
    result = loss.getNewLosses();
  } else {
    mlir::DictionaryAttr shift = sharder.Shift(layout.columns, Dim(logits, 1));
    auto pair = mlir::RankedTensorType::get({rows, 2}, element);
    mlir::Value partial = sharder.Named(
        builder.create<CrossEntropyPartialOp>(getLoc(), pair, logits, targets, getVocabularyAttr(), shift), ".partial");
    mlir::Value all = sharder.Gather(partial, layout.columns, "gather");
    auto loss = builder.create<CrossEntropyCombineOp>(getLoc(), lse_type, losses.getType(), all, targets, logits,
                                                      losses, getLossWeightAttr(), getVocabularyAttr(), shift);
    lse = loss.getLse();
    result = loss.getNewLosses();
  }
  sharder.SetPart(getLse(), lse, of_rows);
  sharder.SetPart(getNewLosses(), result, of_rows);
  return mlir::success();
}

}  // namespace weft::ir
