// Imports one op of an image model as an op of the dialect.
#include <algorithm>
#include <cmath>

#include "compiler/graph/graph_importer.h"
#include "ir/graph_ops.h"
#include "proto/util/status.h"
#include "proto/util/suggest.h"

namespace weft {

absl::StatusOr<mlir::IntegerAttr> GraphImporter::Side(mlir::Value value) {
  const int64_t rows = RowsOfSample(value);
  auto side = static_cast<int64_t>(std::lround(std::sqrt(static_cast<double>(rows))));
  if (side * side == rows) return I64(side);
  return Bad("needs square images, has ", rows, " positions per sample");
}

absl::StatusOr<mlir::Value> GraphImporter::ImageOp(const GraphOp& op) {
  mlir::Location loc = mlir::NameLoc::get(builder_.getStringAttr(op.name()));
  const std::string& kind = op.kind();
  const OpAttributes& a = op.attributes();
  const auto two = [&](mlir::Value* left, mlir::Value* right) -> absl::Status {
    WEFT_RETURN_IF_ERROR(CheckArity(op, 2, 2));
    WEFT_ASSIGN_OR_RETURN(*left, Input(op, 0, 2));
    WEFT_ASSIGN_OR_RETURN(*right, Input(op, 1, 2));
    return absl::OkStatus();
  };
  mlir::Value x, other;
  if (kind == "timesteps") {
    WEFT_RETURN_IF_ERROR(CheckArity(op, 0, 0));
    auto times = mlir::RankedTensorType::get({sequences_}, builder_.getI32Type());
    return builder_.create<ir::LoadTimestepsOp>(loc, times, I64(a.diffusion_steps())).getResult();
  }
  if (kind == "timestep_embedding") {
    WEFT_RETURN_IF_ERROR(CheckArity(op, 1, 1));
    WEFT_ASSIGN_OR_RETURN(x, Input(op, 0, 1));
    const double scale = a.timestep_scale() == 0 ? 1 : a.timestep_scale();
    return builder_.create<ir::TimestepEmbeddingOp>(loc, Activation(sequences_, a.columns()), x, F64(scale))
        .getResult();
  }
  if (kind == "noisy_image" || kind == "noise") {
    WEFT_RETURN_IF_ERROR(CheckArity(op, 0, 0));
    const mlir::IntegerAttr pixels = I64(recipe_.sequence_length());
    if (kind == "noise") {
      return builder_.create<ir::LoadNoiseOp>(loc, Activation(graph_.image_channels()), pixels).getResult();
    }
    return builder_
        .create<ir::LoadNoisyImageOp>(loc, Activation(graph_.image_channels()), pixels, I64(a.diffusion_steps()),
                                      a.cosine_schedule() ? builder_.getUnitAttr() : mlir::UnitAttr())
        .getResult();
  }
  if (kind == "conv2d") {
    WEFT_RETURN_IF_ERROR(CheckArity(op, 2, 3));
    WEFT_ASSIGN_OR_RETURN(x, Input(op, 0, 2));
    const GraphParameter* filter = FindParameter(op.inputs(1));
    if (filter == nullptr) return Bad("input 1 ", Quoted(op.inputs(1)), " must be a parameter");
    WEFT_ASSIGN_OR_RETURN(mlir::Value weight, Input(op, 1, filter->shape_size()));
    mlir::Value bias;
    if (op.inputs_size() == 3) {
      WEFT_ASSIGN_OR_RETURN(bias, Input(op, 2, 1));
    }
    WEFT_ASSIGN_OR_RETURN(const mlir::IntegerAttr side, Side(x));
    const int64_t stride = std::max<int64_t>(1, a.stride()), out = (side.getInt() - 1) / stride + 1;
    const int64_t kernel = filter->shape_size() == 4 ? filter->shape(3) : 1;
    return builder_
        .create<ir::Conv2dOp>(loc, Activation(sequences_ * out * out, Dim(weight, 0)), x, weight, bias, side, side,
                              I64(kernel), I64(stride))
        .getResult();
  }
  if (kind == "group_norm") {
    WEFT_RETURN_IF_ERROR(CheckArity(op, 3, 3));
    WEFT_ASSIGN_OR_RETURN(x, Input(op, 0, 2));
    WEFT_ASSIGN_OR_RETURN(mlir::Value gamma, Input(op, 1, 1));
    WEFT_ASSIGN_OR_RETURN(mlir::Value beta, Input(op, 2, 1));
    auto statistics = mlir::RankedTensorType::get({sequences_, a.groups()}, statistics_);
    return builder_
        .create<ir::GroupNormOp>(loc, x.getType(), statistics, statistics, x, gamma, beta, I64(a.groups()),
                                 I64(RowsOfSample(x)), F64(a.epsilon()))
        .getResult();
  }
  if (kind == "silu") {
    WEFT_RETURN_IF_ERROR(CheckArity(op, 1, 1));
    WEFT_ASSIGN_OR_RETURN(x, Input(op, 0, 2));
    return builder_.create<ir::SiluOp>(loc, x.getType(), x).getResult();
  }
  if (kind == "concat") {
    WEFT_RETURN_IF_ERROR(two(&x, &other));
    return builder_.create<ir::ConcatColumnsOp>(loc, Activation(Dim(x, 0), Dim(x, 1) + Dim(other, 1)), x, other)
        .getResult();
  }
  if (kind == "upsample") {
    WEFT_RETURN_IF_ERROR(CheckArity(op, 1, 1));
    WEFT_ASSIGN_OR_RETURN(x, Input(op, 0, 2));
    WEFT_ASSIGN_OR_RETURN(const mlir::IntegerAttr side, Side(x));
    return builder_.create<ir::UpsampleOp>(loc, Activation(4 * Dim(x, 0), Dim(x, 1)), x, side, side).getResult();
  }
  if (kind == "add_per_sample" || kind == "scale_shift") {
    WEFT_RETURN_IF_ERROR(two(&x, &other));
    const mlir::IntegerAttr rows = I64(RowsOfSample(x));
    if (kind == "scale_shift") return builder_.create<ir::ScaleShiftOp>(loc, x.getType(), x, other, rows).getResult();
    return builder_.create<ir::AddPerSampleOp>(loc, x.getType(), x, other, rows).getResult();
  }
  if (kind == "squared_error") {
    WEFT_RETURN_IF_ERROR(two(&x, &other));
    const double elements = static_cast<double>(recipe_.global_batch_sequences()) *
                            static_cast<double>(RowsOfSample(x)) * static_cast<double>(Dim(x, 1));
    losses_ = builder_
                  .create<ir::SquaredErrorOp>(loc, losses_.getType(), x, other, losses_, I64(RowsOfSample(x)),
                                              F64(1 / elements))
                  .getResult();
    return losses_;
  }
  return mlir::Value();
}

}  // namespace weft
