#include "ir/sharder.h"

#include <algorithm>
#include <tuple>

#include "ir/checks.h"
#include "llvm/ADT/STLExtras.h"

namespace weft::ir {

namespace {

mlir::RankedTensorType TypeOf(mlir::Value value) { return mlir::cast<mlir::RankedTensorType>(value.getType()); }

int64_t Elements(mlir::RankedTensorType type) {
  int64_t elements = 1;
  for (int64_t extent : type.getShape()) elements = SaturatingMultiply(elements, extent);
  return elements;
}

}  // namespace

llvm::StringRef NameOf(ShardAxis axis) { return axis == ShardAxis::kX ? "x" : axis == ShardAxis::kY ? "y" : "z"; }

mlir::RankedTensorType TensorParts::range(int64_t parts) const {
  return mlir::RankedTensorType::get({Elements(block) / parts}, block.getElementType());
}

mlir::RankedTensorType Sharder::PartOf(const TensorParts& tensor) const {
  return tensor.range_over_z ? tensor.range(sizes_.z) : tensor.block;
}

Sharder::Sharder(const TensorParallel& sizes, const std::vector<mlir::RankedTensorType>& tensors,
                 mlir::MLIRContext* context)
    : sizes_(sizes), builder_(context) {
  for (mlir::RankedTensorType type : tensors) {
    tensors_.emplace_back();
    tensors_.back().whole = tensors_.back().block = type;
  }
}

void Sharder::Begin(mlir::Operation* op) {
  op_ = op;
  before_ = op->getPrevNode();
  builder_.setInsertionPoint(op);
  auto name = op->getAttrOfType<mlir::StringAttr>(kNameAttr);
  name_ = name ? name.str() : op->getName().stripDialect().str();
}

void Sharder::End() {
  mlir::Operation* made = before_ ? before_->getNextNode() : &op_->getBlock()->front();
  mlir::Attribute layer = op_->getAttr(kLayerAttr);
  for (; made != op_; made = made->getNextNode()) {
    if (layer) made->setAttr(kLayerAttr, layer);
    if (!made->hasAttr(kNameAttr) && !mlir::isa<ParameterOp>(made)) {
      made->setAttr(kNameAttr, builder_.getStringAttr(name_));
    }
  }
}

PartLayout Sharder::residual() const {
  PartLayout layout;
  layout.rows_over_x = splits_rows();
  return layout;
}

void Sharder::WantRuns(mlir::Value whole, int64_t runs) {
  int64_t& wanted = wanted_runs_[whole];
  wanted = std::max(wanted, runs);
}

int64_t Sharder::WantedRuns(mlir::Value whole) const { return std::max<int64_t>(1, wanted_runs_.lookup(whole)); }

bool Sharder::SameLayout(const PartLayout& a, const PartLayout& b) const {
  if (a.rows_over_x != b.rows_over_x || IsCut(a) != IsCut(b)) return false;
  return !IsCut(a) || (a.columns == b.columns && a.runs == b.runs);
}

mlir::LogicalResult Sharder::ExpectRuns(const PartLayout& layout, int64_t runs, llvm::StringRef what) {
  if (!IsCut(layout) || layout.runs == runs) return mlir::success();
  return Error("shard_c6") << what << " needs its columns in " << runs << (runs == 1 ? " run" : " runs side by side")
                           << ", because axis " << NameOf(layout.columns) << " cuts them; it has " << layout.runs;
}

mlir::InFlightDiagnostic Sharder::Error(llvm::StringRef id) {
  mlir::InFlightDiagnostic error = op_->emitOpError() << "[" << id << "] ";
  error << "'" << name_ << "': ";
  return error;
}

mlir::FailureOr<int64_t> Sharder::Divide(int64_t extent, ShardAxis axis, llvm::StringRef what) {
  const int64_t parts = size(axis);
  if (extent % parts == 0) return extent / parts;
  return Error("shard_c1") << extent << " " << what << " cannot be cut over axis " << NameOf(axis)
                           << " of plan.mesh, which has size " << parts
                           << "; nearest valid: " << NearestDivisors(extent, parts);
}

mlir::FailureOr<mlir::RankedTensorType> Sharder::PartType(mlir::RankedTensorType whole, const PartLayout& layout) {
  llvm::SmallVector<int64_t> shape(whole.getShape());
  mlir::FailureOr<int64_t> rows = Divide(shape[0], ShardAxis::kZ, "rows");
  if (mlir::failed(rows)) return mlir::failure();
  if (layout.rows_over_x) {
    rows = Divide(*rows, ShardAxis::kX, "rows");
    if (mlir::failed(rows)) return mlir::failure();
  }
  shape[0] = *rows;
  if (shape.size() > 1 && !layout.whole_columns) {
    mlir::FailureOr<int64_t> columns = Divide(shape.back() / layout.runs, layout.columns, "columns");
    if (mlir::failed(columns)) return mlir::failure();
    shape.back() = *columns * layout.runs;
  }
  return mlir::RankedTensorType::get(shape, whole.getElementType());
}

mlir::DictionaryAttr Sharder::Shift(ShardAxis axis, int64_t stride) {
  if (size(axis) == 1) return {};
  return builder_.getDictionaryAttr(builder_.getNamedAttr(NameOf(axis), builder_.getI64IntegerAttr(stride)));
}

mlir::DictionaryAttr Sharder::Over(ShardAxis axis) {
  return builder_.getDictionaryAttr(builder_.getNamedAttr(NameOf(axis), builder_.getDenseI64ArrayAttr({})));
}

mlir::Value Sharder::Gather(mlir::Value part, ShardAxis axis, llvm::StringRef name) {
  llvm::SmallVector<int64_t> shape(TypeOf(part).getShape());
  shape[0] *= size(axis);
  auto type = mlir::RankedTensorType::get(shape, TypeOf(part).getElementType());
  return Named(builder_.create<GroupAllGatherOp>(loc(), mlir::TypeRange{type}, part, Over(axis), size(axis),
                                                 Purpose::Tensor, algorithm(), true, false),
               "." + name)
      .getOutputs()[0];
}

mlir::Value Sharder::FanOut(mlir::Value whole, ShardAxis axis) {
  mlir::Value part = Part(whole);
  const bool gather = LayoutOf(whole).rows_over_x;
  if (!gather && size(axis) == 1) return part;
  auto layer = op_->getAttrOfType<mlir::IntegerAttr>(kLayerAttr);
  mlir::Value& fan = fans_[{whole.getAsOpaquePointer(), axis, layer ? layer.getInt() : -1}];
  if (fan) return fan;
  if (gather) {
    fan = Gather(part, ShardAxis::kX, "gather_rows");
  } else {
    fan = Named(
        builder_.create<FanOutOp>(loc(), part.getType(), part, Over(axis), size(axis), Purpose::Tensor, algorithm()),
        ".fan_out");
  }
  return fan;
}

mlir::Value Sharder::Sum(mlir::Value partial, ShardAxis axis, const PartLayout& to) {
  if (size(axis) == 1) return partial;
  if (!to.rows_over_x) {
    return Named(builder_.create<GroupAllReduceOp>(loc(), mlir::TypeRange{partial.getType()}, partial, Over(axis),
                                                   size(axis), Purpose::Tensor, algorithm(), true, false),
                 ".all_reduce")
        .getOutputs()[0];
  }
  llvm::SmallVector<int64_t> shape(TypeOf(partial).getShape());
  shape[0] /= size(axis);
  auto type = mlir::RankedTensorType::get(shape, TypeOf(partial).getElementType());
  return Named(builder_.create<GroupReduceScatterOp>(loc(), mlir::TypeRange{type}, partial, mlir::ValueRange(),
                                                     Over(axis), size(axis), Purpose::Tensor, algorithm(), true, false),
               ".scatter_rows")
      .getOutputs()[0];
}

std::optional<ShardAxis> Sharder::AxisOfEarlierUse(mlir::Value parameter, int32_t dimension) const {
  const size_t index = parameter.getDefiningOp<ParameterOp>().getTensor();
  if (index >= tensors_.size()) return std::nullopt;
  for (const TensorCut& cut : tensors_[index].cuts) {
    if (cut.dimension == dimension) return cut.axis;
  }
  return std::nullopt;
}

mlir::FailureOr<mlir::Value> Sharder::Parameter(mlir::Value whole, llvm::ArrayRef<TensorCut> cuts, bool of_split_rows) {
  auto parameter = whole.getDefiningOp<ParameterOp>();
  if (!parameter) return Error("shard_c2") << "an operand must be a parameter to be cut with the layout of another";
  const size_t index = parameter.getTensor();
  if (index >= tensors_.size()) return Error("shard_c3") << "reads tensor " << index << ", which is not declared";
  TensorParts& tensor = tensors_[index];
  TensorParts wanted = tensor;
  wanted.cuts.clear();
  llvm::SmallVector<int64_t> shape(tensor.whole.getShape());
  for (TensorCut cut : cuts) {
    if (size(cut.axis) == 1) continue;
    const bool filter = shape.size() > 2;
    const llvm::StringRef what = cut.dimension == 0 ? (filter ? "output channels" : "rows of a weight")
                                                    : (filter ? "input channels" : "columns of a weight");
    mlir::FailureOr<int64_t> extent = Divide(shape[cut.dimension] / cut.runs, cut.axis, what);
    if (mlir::failed(extent)) return mlir::failure();
    shape[cut.dimension] = *extent * cut.runs;
    wanted.cuts.push_back(cut);
  }
  llvm::sort(wanted.cuts, [](const TensorCut& a, const TensorCut& b) { return a.dimension < b.dimension; });
  wanted.block = mlir::RankedTensorType::get(shape, tensor.whole.getElementType());
  const int64_t z = size(ShardAxis::kZ);
  wanted.range_over_z = z > 1 && shape.size() > 1;
  if (tensor.seen && tensor.cuts != wanted.cuts) {
    return Error("shard_c4") << "reads a parameter that another place of the model needs to be cut differently over x "
                                "and y; this model can be split over z and data";
  }
  if (wanted.range_over_z && Elements(wanted.block) % z != 0) {
    return Error("shard_c5") << "the rank's " << ShapeText(shape)
                             << " elements of a weight cannot be cut over axis z of "
                             << "plan.mesh, which has size " << z
                             << "; nearest valid: " << NearestDivisors(Elements(wanted.block), z);
  }
  wanted.partial_over_x |= of_split_rows && splits_rows();
  wanted.seen = true;
  tensor = std::move(wanted);
  mlir::Value part =
      builder_.create<ParameterOp>(whole.getLoc(), PartOf(tensor), parameter.getTensor(), parameter.getUse());
  if (!tensor.range_over_z) return part;
  auto gather = builder_.create<GroupAllGatherOp>(loc(), mlir::TypeRange{tensor.block}, part, Over(ShardAxis::kZ), z,
                                                  Purpose::GatherWeights, algorithm(), true, false);
  return Named(gather, ".gather").getOutputs()[0];
}

}  // namespace weft::ir
