// Splits the ops of image models over x, y and z (docs/tensor_parallelism.md, "Images").
#include <optional>

#include "ir/checks.h"
#include "ir/sharder.h"
#include "llvm/ADT/STLExtras.h"
#include "mlir/IR/IRMapping.h"

namespace weft::ir {

namespace {

// True if each rank gets whole groups of a norm from every run of columns.
bool GroupsDivide(int64_t groups, int64_t runs, int64_t size) { return groups % (runs * size) == 0; }

// True if all readers of a concatenation accept its two halves as separate runs.
bool ReadersTakeTwoRuns(mlir::Value concatenation, int64_t size) {
  return llvm::all_of(concatenation.getUsers(), [&](mlir::Operation* user) {
    auto norm = mlir::dyn_cast<GroupNormOp>(user);
    return norm ? GroupsDivide(norm.getGroupsAttr().getInt(), 2, size) : mlir::isa<Conv2dOp>(user);
  });
}

PartLayout Whole() {
  PartLayout layout;
  layout.whole_columns = true;
  return layout;
}

}  // namespace

std::optional<ShardAxis> ColumnsOfPartner(Sharder& sharder, mlir::Value rows_of_samples) {
  for (mlir::Operation* user : rows_of_samples.getUsers()) {
    mlir::Value x;
    if (auto add = mlir::dyn_cast<AddPerSampleOp>(user); add && add.getE() == rows_of_samples) x = add.getX();
    if (auto scale = mlir::dyn_cast<ScaleShiftOp>(user); scale && scale.getE() == rows_of_samples) x = scale.getX();
    if (x && sharder.Part(x) && !sharder.LayoutOf(x).whole_columns) return sharder.LayoutOf(x).columns;
  }
  return std::nullopt;
}

int64_t Conv2dOp::runsOfOperand(unsigned, int64_t) { return 0; }

// Shards the convolution like a product (MatmulOp::shard); the weight's input channels are its dimension 1.
mlir::LogicalResult Conv2dOp::shard(Sharder& sharder) {
  if (Sharder::IsParameter(getX()) || !Sharder::IsParameter(getWeight())) {
    return sharder.Error("shard_c16") << "only a convolution of an activation with a parameter can be cut over x and y";
  }
  const PartLayout in = sharder.LayoutOf(getX());
  if (in.rows_over_x)
    return sharder.Error("shard_c17") << "a convolution needs whole images, but rows are split over x";
  PartLayout out;
  out.columns = OtherAxis(in.columns);
  out.runs = sharder.WantedRuns(getResult());
  // Images have few channels, so every rank computes all columns of the values that the loss compares.
  out.whole_columns = llvm::any_of(getResult().getUsers(), llvm::IsaPred<SquaredErrorOp>);
  llvm::SmallVector<TensorCut> of_weight, of_bias;
  if (!out.whole_columns) {
    of_weight.push_back({0, out.columns, out.runs});
    of_bias.push_back({0, out.columns, out.runs});
  }
  if (!in.whole_columns) of_weight.push_back({1, in.columns, in.runs});
  auto weight = sharder.Parameter(getWeight(), of_weight);
  if (mlir::failed(weight)) return mlir::failure();
  mlir::Value bias;
  if (getBias()) {
    auto cut = sharder.Parameter(getBias(), of_bias);
    if (mlir::failed(cut)) return mlir::failure();
    bias = *cut;
  }
  auto type = sharder.PartType(getType(), out);
  if (mlir::failed(type)) return mlir::failure();
  mlir::Value x = out.whole_columns ? sharder.Part(getX()) : sharder.FanOut(getX(), out.columns);
  const bool partial = sharder.IsCut(in);
  mlir::OpBuilder& builder = sharder.builder();
  mlir::Value product = builder.create<Conv2dOp>(getLoc(), *type, x, *weight, partial ? mlir::Value() : bias,
                                                 getHeightAttr(), getWidthAttr(), getKernelSizeAttr(), getStrideAttr());
  if (partial) {
    product = sharder.Sum(product, in.columns, out);
    if (bias) product = sharder.Named(builder.create<BiasAddOp>(getLoc(), *type, product, bias), ".bias");
  }
  sharder.SetPart(getResult(), product, out);
  return mlir::success();
}

mlir::LogicalResult GroupNormOp::shard(Sharder& sharder) {
  const PartLayout layout = sharder.LayoutOf(getX());
  if (layout.rows_over_x)
    return sharder.Error("shard_c17") << "a norm of groups needs whole images, but rows are split over x";
  int64_t groups = getGroupsAttr().getInt();
  llvm::SmallVector<TensorCut> cuts;
  if (sharder.IsCut(layout)) {
    auto own = sharder.Divide(groups, layout.columns, "groups of a norm");
    if (mlir::failed(own)) return mlir::failure();
    if (!GroupsDivide(groups, layout.runs, sharder.size(layout.columns))) {
      return sharder.ExpectRuns(layout, 1, "the input of a norm of groups");
    }
    groups = *own;
    cuts.push_back({0, layout.columns, layout.runs});
  }
  auto gamma = sharder.Parameter(getGamma(), cuts);
  if (mlir::failed(gamma)) return mlir::failure();
  auto beta = sharder.Parameter(getBeta(), cuts);
  if (mlir::failed(beta)) return mlir::failure();
  mlir::Value x = sharder.Part(getX());
  auto statistics = mlir::RankedTensorType::get({Dim(x, 0) / getSequenceAttr().getInt(), groups},
                                                getMean().getType().getElementType());
  auto part = sharder.builder().create<GroupNormOp>(getLoc(), x.getType(), statistics, statistics, x, *gamma, *beta,
                                                    sharder.builder().getI64IntegerAttr(groups), getSequenceAttr(),
                                                    getEpsilonAttr());
  PartLayout of_groups = layout;
  of_groups.runs = 1;
  sharder.SetPart(getResult(), part.getResult(), layout);
  sharder.SetPart(getMean(), part.getMean(), of_groups);
  sharder.SetPart(getRstd(), part.getRstd(), of_groups);
  return mlir::success();
}

int64_t ConcatColumnsOp::runsOfOperand(unsigned, int64_t) { return 1; }

// Two values with equally many columns lie side by side as two runs, if all readers accept that. Otherwise both are
// gathered, so that a rank gets consecutive columns of the whole.
mlir::LogicalResult ConcatColumnsOp::shard(Sharder& sharder) {
  const PartLayout first = sharder.LayoutOf(getA());
  if (!sharder.IsCut(first) && sharder.IsCut(sharder.LayoutOf(getB()))) {
    if (mlir::failed(sharder.MoveColumns(getB(), OtherAxis(sharder.LayoutOf(getB()).columns)))) return mlir::failure();
  }
  PartLayout layout = first;
  if (!first.whole_columns && mlir::failed(sharder.MoveColumns(getB(), first.columns))) return mlir::failure();
  mlir::OpBuilder& builder = sharder.builder();
  const auto concat = [&](mlir::Value a, mlir::Value b) -> mlir::Value {
    auto type = mlir::RankedTensorType::get({Dim(a, 0), Dim(a, 1) + Dim(b, 1)}, getType().getElementType());
    return builder.create<ConcatColumnsOp>(getLoc(), type, a, b);
  };
  if (!sharder.IsCut(layout)) {
    sharder.SetPart(getResult(), concat(sharder.Part(getA()), sharder.Part(getB())), layout);
    return mlir::success();
  }
  const PartLayout second = sharder.LayoutOf(getB());
  if (Dim(getA(), 1) == Dim(getB(), 1) && layout.runs == 1 && second.runs == 1 &&
      ReadersTakeTwoRuns(getResult(), sharder.size(layout.columns))) {
    layout.runs = 2;
    sharder.SetPart(getResult(), concat(sharder.Part(getA()), sharder.Part(getB())), layout);
    return mlir::success();
  }
  auto a = sharder.WholeColumns(getA());
  auto b = sharder.WholeColumns(getB());
  if (mlir::failed(a) || mlir::failed(b)) return mlir::failure();
  auto part = sharder.TakeColumns(concat(*a, *b), layout.columns);
  if (mlir::failed(part)) return mlir::failure();
  layout.runs = 1;
  sharder.SetPart(getResult(), *part, layout);
  return mlir::success();
}

mlir::LogicalResult AddPerSampleOp::shard(Sharder& sharder) {
  const PartLayout layout = sharder.LayoutOf(getX());
  if (!layout.whole_columns && mlir::failed(sharder.MoveColumns(getE(), layout.columns))) return mlir::failure();
  return ShardElementByElement(*this, sharder);
}

// Operand 1 has two runs: scales and shifts.
int64_t ScaleShiftOp::runsOfOperand(unsigned index, int64_t) { return index == 1 ? 2 : 1; }

mlir::LogicalResult ScaleShiftOp::shard(Sharder& sharder) {
  const PartLayout of_e = sharder.LayoutOf(getE());
  if (mlir::failed(sharder.ExpectRuns(of_e, 2, "scales and shifts"))) return mlir::failure();
  if (!of_e.whole_columns && mlir::failed(sharder.MoveColumns(getX(), of_e.columns))) return mlir::failure();
  PartLayout layout = sharder.LayoutOf(getX()), wanted = of_e;
  wanted.runs = 1;
  if (!sharder.SameLayout(layout, wanted)) {
    return sharder.Error("shard_c18") << "scales and shifts must be cut like the values that they apply to";
  }
  auto part = sharder.builder().create<ScaleShiftOp>(getLoc(), sharder.Part(getX()).getType(), sharder.Part(getX()),
                                                     sharder.Part(getE()), getSequenceAttr());
  sharder.SetPart(getResult(), part, layout);
  return mlir::success();
}

mlir::LogicalResult SquaredErrorOp::shard(Sharder& sharder) {
  auto prediction = sharder.WholeColumns(getPrediction());
  auto target = sharder.WholeColumns(getTarget());
  if (mlir::failed(prediction) || mlir::failed(target)) return mlir::failure();
  mlir::Value losses = sharder.Part(getLosses());
  auto part = sharder.builder().create<SquaredErrorOp>(getLoc(), losses.getType(), *prediction, *target, losses,
                                                       getSequenceAttr(), getLossWeightAttr());
  sharder.SetPart(getNewLosses(), part, Whole());
  return mlir::success();
}

}  // namespace weft::ir
