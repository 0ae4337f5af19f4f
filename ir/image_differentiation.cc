// Derivatives of the kernels of image models.
#include "ir/checks.h"
#include "ir/gradients.h"
#include "ir/graph_ops.h"

namespace weft::ir {

namespace {

using Gradients = llvm::SmallVector<mlir::Value>;
using Requests = llvm::ArrayRef<GradientRequest>;

// The type of the gradient from a kernel that cannot add to an init. Deliver adds the init afterwards.
mlir::RankedTensorType Plain(const GradientRequest& request, mlir::Value operand) {
  return request.init ? mlir::cast<mlir::RankedTensorType>(operand.getType()) : request.type;
}

}  // namespace

Gradients Conv2dOp::buildBackward(mlir::OpBuilder& builder, llvm::ArrayRef<mlir::Value> resultGrads,
                                  Requests requests) {
  Gradients gradients(requests.size());
  mlir::Value dy = resultGrads[0];
  if (!dy) return gradients;
  if (requests[0].type) {
    gradients[0] =
        builder.create<Conv2dBackwardOp>(getLoc(), requests[0].type, dy, getWeight(), requests[0].init, getHeightAttr(),
                                         getWidthAttr(), getKernelSizeAttr(), getStrideAttr());
  }
  if (requests[1].type) {
    gradients[1] =
        builder.create<Conv2dBackwardWeightOp>(getLoc(), requests[1].type, dy, getX(), requests[1].init,
                                               getHeightAttr(), getWidthAttr(), getKernelSizeAttr(), getStrideAttr());
  }
  if (getBias() && requests[2].type) {
    gradients[2] = builder.create<BiasGradientOp>(getLoc(), requests[2].type, dy, requests[2].init);
  }
  return gradients;
}

Gradients GroupNormOp::buildBackward(mlir::OpBuilder& builder, llvm::ArrayRef<mlir::Value> resultGrads,
                                     Requests requests) {
  Gradients gradients(3);
  mlir::Value dy = resultGrads[0];
  if (!dy) return gradients;
  if (requests[0].type) {
    gradients[0] = builder.create<GroupNormBackwardOp>(getLoc(), requests[0].type, dy, getX(), getGamma(), getMean(),
                                                       getRstd(), requests[0].init, getGroupsAttr(), getSequenceAttr());
  }
  const GradientRequest& gamma = requests[1];
  const GradientRequest& beta = requests[2];
  if (!gamma.type && !beta.type) return gradients;
  // One kernel makes both gradients. It adds to the inits of both or of none. If only one gradient has an init, the
  // init is added afterwards.
  mlir::Type gamma_type = gamma.type ? gamma.type : getGamma().getType();
  mlir::Type beta_type = beta.type ? beta.type : getBeta().getType();
  bool in_place = gamma.init && beta.init;
  auto both = builder.create<GroupNormBackwardWeightOp>(
      getLoc(), gamma_type, beta_type, dy, getX(), getMean(), getRstd(), in_place ? gamma.init : mlir::Value(),
      in_place ? beta.init : mlir::Value(), getGroupsAttr(), getSequenceAttr());
  auto deliver = [&](mlir::Value gradient, const GradientRequest& request) -> mlir::Value {
    if (!request.type) return {};
    return in_place ? gradient : Deliver(builder, getLoc(), gradient, request);
  };
  gradients[1] = deliver(both.getDgamma(), gamma);
  gradients[2] = deliver(both.getDbeta(), beta);
  return gradients;
}

Gradients ConcatColumnsOp::buildBackward(mlir::OpBuilder& builder, llvm::ArrayRef<mlir::Value> resultGrads,
                                         Requests requests) {
  Gradients gradients(2);
  if (!resultGrads[0]) return gradients;
  const mlir::Value operands[] = {getA(), getB()};
  for (int i = 0; i < 2; ++i) {
    if (!requests[i].type) continue;
    mlir::Value slice = builder.create<SliceColumnsOp>(getLoc(), Plain(requests[i], operands[i]), resultGrads[0],
                                                       builder.getI64IntegerAttr(i == 0 ? 0 : Dim(getA(), 1)));
    gradients[i] = Deliver(builder, getLoc(), slice, requests[i]);
  }
  return gradients;
}

Gradients SliceColumnsOp::buildBackward(mlir::OpBuilder& builder, llvm::ArrayRef<mlir::Value> resultGrads,
                                        Requests requests) {
  Gradients gradients(requests.size());
  mlir::Value dy = resultGrads[0];
  if (!dy) return gradients;
  const auto matrix = [&](int64_t rows, int64_t columns) {
    return mlir::RankedTensorType::get({rows, columns},
                                       mlir::cast<mlir::RankedTensorType>(dy.getType()).getElementType());
  };
  const mlir::IntegerAttr zero = builder.getI64IntegerAttr(0);
  if (getPart()) {
    if (!requests[1].type) return gradients;
    const mlir::NamedAttribute own = {getOverAttr().begin()->getName(), builder.getI64IntegerAttr(Dim(getPart(), 1))};
    mlir::Value slice = builder.create<SliceColumnsOp>(getLoc(), Plain(requests[1], getPart()), dy, mlir::Value(),
                                                       getFirstColumnAttr(), zero, builder.getDictionaryAttr(own),
                                                       mlir::DictionaryAttr(), zero, mlir::StringAttr());
    gradients[1] = Deliver(builder, getLoc(), slice, requests[1]);
    return gradients;
  }
  if (!requests[0].type) return gradients;
  if (getOverAttr()) {
    auto all = builder.create<GroupAllGatherOp>(
        getLoc(), mlir::TypeRange{matrix(getMembers() * Dim(dy, 0), Dim(dy, 1))}, dy, getOverAttr(), getMembersAttr(),
        PurposeAttr::get(getContext(), Purpose::Tensor), getAlgorithmAttr(), builder.getUnitAttr(), mlir::UnitAttr());
    mlir::Value columns = builder.create<SliceColumnsOp>(
        getLoc(), Plain(requests[0], getX()), all.getOutputs()[0], mlir::Value(), zero, getMembersAttr(),
        builder.getDictionaryAttr({}), mlir::DictionaryAttr(), zero, mlir::StringAttr());
    gradients[0] = Deliver(builder, getLoc(), columns, requests[0]);
    return gradients;
  }
  // Add columns of zeros on both sides.
  const int64_t before = getFirstColumn(), after = Dim(getX(), 1) - before - Dim(dy, 1);
  mlir::Value columns = dy;
  for (const bool behind : {false, true}) {
    const int64_t count = behind ? after : before;
    if (count == 0) continue;
    mlir::Value zeros = builder.create<FillOp>(getLoc(), matrix(Dim(dy, 0), count), llvm::APFloat(0.0));
    columns = builder.create<ConcatColumnsOp>(getLoc(), matrix(Dim(dy, 0), Dim(columns, 1) + count),
                                              behind ? columns : zeros, behind ? zeros : columns);
  }
  gradients[0] = Deliver(builder, getLoc(), columns, requests[0]);
  return gradients;
}

Gradients UpsampleOp::buildBackward(mlir::OpBuilder& builder, llvm::ArrayRef<mlir::Value> resultGrads,
                                    Requests requests) {
  if (!resultGrads[0] || !requests[0].type) return Gradients(1);
  mlir::Value dx = builder.create<UpsampleBackwardOp>(getLoc(), Plain(requests[0], getX()), resultGrads[0],
                                                      getHeightAttr(), getWidthAttr());
  return {Deliver(builder, getLoc(), dx, requests[0])};
}

Gradients AddPerSampleOp::buildBackward(mlir::OpBuilder& builder, llvm::ArrayRef<mlir::Value> resultGrads,
                                        Requests requests) {
  Gradients gradients(2);
  if (!resultGrads[0]) return gradients;
  if (requests[0].type) gradients[0] = Deliver(builder, getLoc(), resultGrads[0], requests[0]);
  if (requests[1].type) {
    mlir::Value sum =
        builder.create<SumPerSampleOp>(getLoc(), Plain(requests[1], getE()), resultGrads[0], getSequenceAttr());
    gradients[1] = Deliver(builder, getLoc(), sum, requests[1]);
  }
  return gradients;
}

Gradients ScaleShiftOp::buildBackward(mlir::OpBuilder& builder, llvm::ArrayRef<mlir::Value> resultGrads,
                                      Requests requests) {
  Gradients gradients(2);
  mlir::Value dy = resultGrads[0];
  if (!dy) return gradients;
  if (requests[0].type) {
    mlir::Value dx =
        builder.create<ScaleShiftBackwardOp>(getLoc(), Plain(requests[0], getX()), dy, getE(), getSequenceAttr());
    gradients[0] = Deliver(builder, getLoc(), dx, requests[0]);
  }
  if (requests[1].type) {
    mlir::Value de =
        builder.create<ScaleShiftBackwardSampleOp>(getLoc(), Plain(requests[1], getE()), dy, getX(), getSequenceAttr());
    gradients[1] = Deliver(builder, getLoc(), de, requests[1]);
  }
  return gradients;
}

Gradients SquaredErrorOp::buildBackward(mlir::OpBuilder& builder, llvm::ArrayRef<mlir::Value>, Requests requests) {
  Gradients gradients(3);
  if (!requests[0].type) return gradients;
  mlir::Value gradient = builder.create<SquaredErrorBackwardOp>(
      getLoc(), Plain(requests[0], getPrediction()), getPrediction(), getTarget(), mlir::Value(), getLossWeightAttr());
  gradients[0] = Deliver(builder, getLoc(), gradient, requests[0]);
  return gradients;
}

}  // namespace weft::ir
