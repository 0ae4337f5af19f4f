// Registration, verifiers and costs of kernels of image models. Their derivatives are in image_differentiation.cc.
#include <cmath>

#include "ir/checks.h"
#include "ir/graph_ops.h"
#include "mlir/IR/Builders.h"

#define GET_OP_CLASSES
#include "ir/image_ops.cc.inc"

namespace weft::ir {

void WeftDialect::registerImageOps() {
  addOperations<
#define GET_OP_LIST
#include "ir/image_ops.cc.inc"
      >();
}

namespace {

constexpr int64_t kLargestSide = int64_t{1} << 15;

// Checks that `rows`, the number of rows per sample, divides the rows of `value`.
mlir::LogicalResult ExpectSamples(mlir::Operation* op, llvm::StringRef id, mlir::Value value, int64_t rows) {
  return Expect(op, rows > 0 && Dim(value, 0) % rows == 0, id,
                "sequence = " + llvm::Twine(rows) + " must divide the " + llvm::Twine(Dim(value, 0)) + " rows");
}

mlir::LogicalResult ExpectDiffusionSteps(mlir::Operation* op, llvm::StringRef id, int64_t steps) {
  return Expect(op, steps >= 1 && steps <= (int64_t{1} << 20), id,
                "diffusion_steps must be between 1 and 2^20, got " + llvm::Twine(steps));
}

// True if the sides of an image are positive and so small that their product does not overflow.
bool SidesOk(int64_t height, int64_t width) {
  return height > 0 && width > 0 && height <= kLargestSide && width <= kLargestSide;
}

// A convolution with a square filter: height and width of its input, side of the filter, and stride.
struct Convolution {
  int64_t height, width, side, stride;

  int64_t inputs_per_sample() const { return height * width; }
  int64_t outputs_per_sample() const { return ((height - 1) / stride + 1) * ((width - 1) / stride + 1); }
};

mlir::LogicalResult CheckConvolution(mlir::Operation* op, const Convolution& c, mlir::Value x, mlir::Value weight,
                                     mlir::Value y) {
  if (!SidesOk(c.height, c.width) || Dim(x, 0) % c.inputs_per_sample() != 0) {
    return op->emitOpError() << "[convolution_c1] height x width = " << c.height << " x " << c.width
                             << " must be positive, at most 2^15 each, and divide the " << Dim(x, 0)
                             << " rows of the convolution's input";
  }
  if (c.side < 1 || c.side % 2 == 0 || c.side > kLargestSide || c.stride < 1 || c.stride > kLargestSide) {
    return op->emitOpError() << "[convolution_c2] kernel_size = " << c.side << " must be odd and stride = " << c.stride
                             << " positive";
  }
  llvm::SmallVector<int64_t> filter = {Dim(y, 1), Dim(x, 1), c.side, c.side};
  if (c.side == 1 && ShapeOf(weight).size() == 3) filter.pop_back();
  if (mlir::failed(ExpectShape(op, "convolution_c3", "weight (outputs x inputs x side x side)", weight, filter))) {
    return mlir::failure();
  }
  const int64_t rows = Dim(x, 0) / c.inputs_per_sample() * c.outputs_per_sample();
  return ExpectShape(op, "convolution_c4", "the convolution's output (positions x outputs)", y, {rows, Dim(y, 1)});
}

template <typename Op>
Convolution ConvolutionOf(Op op) {
  return {op.getHeightAttr().getInt(), op.getWidthAttr().getInt(), op.getKernelSizeAttr().getInt(),
          op.getStrideAttr().getInt()};
}

int64_t ConvolutionFlops(mlir::Value y, mlir::Value x, int64_t side) {
  int64_t terms = SaturatingMultiply(SaturatingMultiply(2, Dim(x, 1)), SaturatingMultiply(side, side));
  return SaturatingMultiply(terms, SaturatingMultiply(Dim(y, 0), Dim(y, 1)));
}

// The checks that group_norm and its derivatives have in common.
mlir::LogicalResult CheckGroups(mlir::Operation* op, mlir::Value x, mlir::Value mean, mlir::Value rstd, int64_t groups,
                                int64_t rows) {
  if (groups < 1 || Dim(x, 1) % groups != 0) {
    return op->emitOpError() << "[groups_c1] groups = " << groups << " must divide the " << Dim(x, 1) << " columns";
  }
  if (mlir::failed(ExpectSamples(op, "groups_c2", x, rows))) return mlir::failure();
  const int64_t samples = Dim(x, 0) / rows;
  if (mlir::failed(ExpectShape(op, "groups_c3", "mean (samples x groups)", mean, {samples, groups})) ||
      mlir::failed(ExpectShape(op, "groups_c3", "rstd (samples x groups)", rstd, {samples, groups})) ||
      mlir::failed(ExpectStatistics(op, "groups_c4", "mean", mean, x)) ||
      mlir::failed(ExpectStatistics(op, "groups_c4", "rstd", rstd, x))) {
    return mlir::failure();
  }
  return mlir::success();
}

// Checks that `e` has a row of `columns` elements for each sample of x.
mlir::LogicalResult CheckPerSample(mlir::Operation* op, mlir::Value x, mlir::Value e, int64_t columns, int64_t rows) {
  if (mlir::failed(ExpectSamples(op, "per_sample_c1", x, rows))) return mlir::failure();
  return ExpectShape(op, "per_sample_c2", "the rows per sample", e, {Dim(x, 0) / rows, columns});
}

}  // namespace

mlir::LogicalResult LoadTimestepsOp::verify() {
  return ExpectDiffusionSteps(*this, "load_timesteps_c1", getDiffusionStepsAttr().getInt());
}

mlir::LogicalResult LoadNoisyImageOp::verify() {
  if (mlir::failed(ExpectSamples(*this, "load_noisy_image_c1", getImage(), getSequenceAttr().getInt()))) {
    return mlir::failure();
  }
  return ExpectDiffusionSteps(*this, "load_noisy_image_c2", getDiffusionStepsAttr().getInt());
}

mlir::LogicalResult LoadNoiseOp::verify() {
  return ExpectSamples(*this, "load_noise_c1", getNoise(), getSequenceAttr().getInt());
}

mlir::LogicalResult TimestepEmbeddingOp::verify() {
  if (mlir::failed(ExpectShape(*this, "timestep_embedding_c1", "result (a row per time)", getResult(),
                               {Dim(getTimesteps(), 0), Dim(getResult(), 1)}))) {
    return mlir::failure();
  }
  double scale = getTimestepScale().convertToDouble();
  return Expect(*this, scale > 0 && std::isfinite(scale), "timestep_embedding_c2",
                "timestep_scale must be positive and finite, got " + llvm::Twine(std::to_string(scale)));
}

mlir::LogicalResult Conv2dOp::verify() {
  if (mlir::failed(CheckConvolution(*this, ConvolutionOf(*this), getX(), getWeight(), getResult()))) {
    return mlir::failure();
  }
  return ExpectShape(*this, "conv2d_c1", "bias (columns of the result)", getBias(), {Dim(getResult(), 1)});
}

int64_t Conv2dOp::flops() { return ConvolutionFlops(getResult(), getX(), getKernelSizeAttr().getInt()); }

mlir::LogicalResult Conv2dBackwardOp::verify() {
  if (mlir::failed(CheckConvolution(*this, ConvolutionOf(*this), getDx(), getWeight(), getDy()))) {
    return mlir::failure();
  }
  return ExpectType(*this, "conv2d_backward_c1", "init (like the result)", getInit(), getType());
}

int64_t Conv2dBackwardOp::flops() { return ConvolutionFlops(getDy(), getDx(), getKernelSizeAttr().getInt()); }

mlir::LogicalResult Conv2dBackwardWeightOp::verify() {
  if (mlir::failed(CheckConvolution(*this, ConvolutionOf(*this), getX(), getDweight(), getDy()))) {
    return mlir::failure();
  }
  return ExpectType(*this, "conv2d_backward_weight_c1", "init (like the result)", getInit(), getType());
}

int64_t Conv2dBackwardWeightOp::flops() { return ConvolutionFlops(getDy(), getX(), getKernelSizeAttr().getInt()); }

mlir::LogicalResult GroupNormOp::verify() {
  int64_t columns = Dim(getX(), 1);
  if (mlir::failed(
          CheckGroups(*this, getX(), getMean(), getRstd(), getGroupsAttr().getInt(), getSequenceAttr().getInt())) ||
      mlir::failed(ExpectShape(*this, "group_norm_c1", "gamma (columns of x)", getGamma(), {columns})) ||
      mlir::failed(ExpectShape(*this, "group_norm_c1", "beta (columns of x)", getBeta(), {columns})) ||
      mlir::failed(ExpectShape(*this, "group_norm_c2", "result (like x)", getResult(), ShapeOf(getX())))) {
    return mlir::failure();
  }
  double epsilon = getEpsilon().convertToDouble();
  return Expect(*this, epsilon > 0 && std::isfinite(epsilon), "group_norm_c3",
                "epsilon must be positive and finite, got " + llvm::Twine(std::to_string(epsilon)));
}

mlir::LogicalResult GroupNormBackwardOp::verify() {
  if (mlir::failed(
          CheckGroups(*this, getX(), getMean(), getRstd(), getGroupsAttr().getInt(), getSequenceAttr().getInt())) ||
      mlir::failed(
          ExpectShape(*this, "group_norm_backward_c1", "gamma (columns of x)", getGamma(), {Dim(getX(), 1)})) ||
      mlir::failed(ExpectShape(*this, "group_norm_backward_c2", "dy (like x)", getDy(), ShapeOf(getX()))) ||
      mlir::failed(ExpectShape(*this, "group_norm_backward_c2", "result (like x)", getDx(), ShapeOf(getX())))) {
    return mlir::failure();
  }
  return ExpectType(*this, "group_norm_backward_c3", "init (like the result)", getInit(), getType());
}

mlir::LogicalResult GroupNormBackwardWeightOp::verify() {
  int64_t columns = Dim(getX(), 1);
  if (mlir::failed(
          CheckGroups(*this, getX(), getMean(), getRstd(), getGroupsAttr().getInt(), getSequenceAttr().getInt())) ||
      mlir::failed(ExpectShape(*this, "group_norm_backward_weight_c1", "dy (like x)", getDy(), ShapeOf(getX()))) ||
      mlir::failed(
          ExpectShape(*this, "group_norm_backward_weight_c2", "dgamma (columns of x)", getDgamma(), {columns})) ||
      mlir::failed(
          ExpectShape(*this, "group_norm_backward_weight_c2", "dbeta (columns of x)", getDbeta(), {columns}))) {
    return mlir::failure();
  }
  if (!getInitGamma() != !getInitBeta()) {
    return emitOpError("[group_norm_backward_weight_c3] must take an init for both results or for none");
  }
  if (mlir::failed(ExpectType(*this, "group_norm_backward_weight_c4", "init of gamma (like the result)", getInitGamma(),
                              getDgamma().getType()))) {
    return mlir::failure();
  }
  return ExpectType(*this, "group_norm_backward_weight_c4", "init of beta (like the result)", getInitBeta(),
                    getDbeta().getType());
}

mlir::LogicalResult ConcatColumnsOp::verify() {
  if (mlir::failed(
          ExpectShape(*this, "concat_columns_c1", "b (rows of a)", getB(), {Dim(getA(), 0), Dim(getB(), 1)}))) {
    return mlir::failure();
  }
  return ExpectShape(*this, "concat_columns_c2", "result (columns of a and b)", getResult(),
                     {Dim(getA(), 0), Dim(getA(), 1) + Dim(getB(), 1)});
}

mlir::LogicalResult SliceColumnsOp::verify() {
  const int64_t first = getFirstColumnAttr().getInt(), groups = std::max<int64_t>(1, getGroupsAttr().getInt());
  if (getGroupsAttr().getInt() < 0 || Dim(getX(), 0) % groups != 0) {
    return emitOpError() << "[slice_columns_c3] groups = " << getGroupsAttr().getInt() << " must divide x's "
                         << Dim(getX(), 0) << " rows";
  }
  const int64_t columns = SaturatingMultiply(groups, Dim(getX(), 1));
  if (first < 0 || first > columns - Dim(getResult(), 1)) {
    return emitOpError() << "[slice_columns_c1] the result takes " << Dim(getResult(), 1) << " columns from column "
                         << first << " on, but groups x columns of x = " << columns;
  }
  if (mlir::failed(CheckShift(*this, "slice_columns_c4", "column_shift", getColumnShiftAttr()))) return mlir::failure();
  if (getOverAttr() && (getOverAttr().size() != 1 || getMembersAttr().getInt() < 2 || !getAlgorithmAttr())) {
    return emitOpError(
        "[slice_columns_c5] `over` must name one axis, and come with at least two members and an algorithm");
  }
  if (getPart() && (!getOverAttr() || groups != getMembersAttr().getInt())) {
    return emitOpError(
        "[slice_columns_c6] can take a part only of gathered columns, which need `over` and one group per member");
  }
  if (mlir::failed(ExpectShape(*this, "slice_columns_c7", "part (one of the groups)", getPart(),
                               {Dim(getX(), 0) / groups, Dim(getX(), 1)}))) {
    return mlir::failure();
  }
  return ExpectShape(*this, "slice_columns_c2", "result (rows of x)", getResult(),
                     {Dim(getX(), 0) / groups, Dim(getResult(), 1)});
}

int64_t SliceColumnsOp::bytes() { return SaturatingMultiply(2, BytesOfTensor(getType())); }

mlir::LogicalResult UpsampleOp::verify() {
  int64_t height = getHeightAttr().getInt();
  int64_t width = getWidthAttr().getInt();
  if (!SidesOk(height, width) || Dim(getX(), 0) % (height * width) != 0) {
    return emitOpError() << "[upsample_c1] height x width = " << height << " x " << width
                         << " must be positive, at most 2^15 each, and divide x's " << Dim(getX(), 0) << " rows";
  }
  return ExpectShape(*this, "upsample_c2", "result (four rows for each of x)", getResult(),
                     {SaturatingMultiply(4, Dim(getX(), 0)), Dim(getX(), 1)});
}

mlir::LogicalResult UpsampleBackwardOp::verify() {
  int64_t height = getHeightAttr().getInt();
  int64_t width = getWidthAttr().getInt();
  if (!SidesOk(height, width) || Dim(getDx(), 0) % (height * width) != 0) {
    return emitOpError() << "[upsample_backward_c1] height x width = " << height << " x " << width
                         << " must be positive, at most 2^15 each, and divide the result's " << Dim(getDx(), 0)
                         << " rows";
  }
  return ExpectShape(*this, "upsample_backward_c2", "dy (four rows for each of the result)", getDy(),
                     {SaturatingMultiply(4, Dim(getDx(), 0)), Dim(getDx(), 1)});
}

mlir::LogicalResult AddPerSampleOp::verify() {
  if (mlir::failed(CheckPerSample(*this, getX(), getE(), Dim(getX(), 1), getSequenceAttr().getInt()))) {
    return mlir::failure();
  }
  return ExpectShape(*this, "add_per_sample_c1", "result (like x)", getResult(), ShapeOf(getX()));
}

mlir::LogicalResult SumPerSampleOp::verify() {
  return CheckPerSample(*this, getDy(), getResult(), Dim(getDy(), 1), getSequenceAttr().getInt());
}

mlir::LogicalResult ScaleShiftOp::verify() {
  if (mlir::failed(CheckPerSample(*this, getX(), getE(), 2 * Dim(getX(), 1), getSequenceAttr().getInt()))) {
    return mlir::failure();
  }
  return ExpectShape(*this, "scale_shift_c1", "result (like x)", getResult(), ShapeOf(getX()));
}

mlir::LogicalResult ScaleShiftBackwardOp::verify() {
  if (mlir::failed(CheckPerSample(*this, getDy(), getE(), 2 * Dim(getDy(), 1), getSequenceAttr().getInt()))) {
    return mlir::failure();
  }
  return ExpectShape(*this, "scale_shift_backward_c1", "result (like dy)", getDx(), ShapeOf(getDy()));
}

mlir::LogicalResult ScaleShiftBackwardSampleOp::verify() {
  if (mlir::failed(CheckPerSample(*this, getDy(), getDe(), 2 * Dim(getDy(), 1), getSequenceAttr().getInt()))) {
    return mlir::failure();
  }
  return ExpectShape(*this, "scale_shift_backward_sample_c1", "x (like dy)", getX(), ShapeOf(getDy()));
}

mlir::LogicalResult SquaredErrorOp::verify() {
  if (mlir::failed(ExpectSamples(*this, "squared_error_c1", getPrediction(), getSequenceAttr().getInt())) ||
      mlir::failed(ExpectShape(*this, "squared_error_c2", "target (like the prediction)", getTarget(),
                               ShapeOf(getPrediction())))) {
    return mlir::failure();
  }
  return ExpectType(*this, "squared_error_c3", "new_losses (like losses)", getNewLosses(), getLosses().getType());
}

mlir::LogicalResult SquaredErrorBackwardOp::verify() {
  if (getScale() &&
      mlir::failed(ExpectShape(*this, "squared_error_backward_c3", "scale (rule P11)", getScale(), {3}))) {
    return mlir::failure();
  }
  if (mlir::failed(ExpectShape(*this, "squared_error_backward_c1", "target (like the prediction)", getTarget(),
                               ShapeOf(getPrediction())))) {
    return mlir::failure();
  }
  return ExpectShape(*this, "squared_error_backward_c2", "result (like the prediction)", getDprediction(),
                     ShapeOf(getPrediction()));
}

}  // namespace weft::ir
