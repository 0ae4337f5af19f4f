// Imports one op of a model graph as an op of the dialect.
#include <algorithm>
#include <array>
#include <cmath>

#include "absl/strings/ascii.h"
#include "compiler/graph/graph_importer.h"
#include "google/protobuf/descriptor.h"
#include "ir/graph_ops.h"
#include "kernels/attributes.h"
#include "proto/util/status.h"
#include "proto/util/suggest.h"

namespace weft {
namespace {

using kernels::Symbol;

// The extent of each symbol that the shapes of a row name; 0 if the extent is not known.
using Extents = std::array<int64_t, static_cast<size_t>(Symbol::kSymbols)>;

int64_t& At(Extents& extents, Symbol symbol) { return extents[static_cast<size_t>(symbol)]; }

int64_t ExtentOf(const kernels::Dim& dim, Extents& extents) {
  int64_t sum = 0;
  for (const kernels::Term& term : dim.terms) {
    int64_t product = 1;
    for (const kernels::Factor& factor : term.factors) {
      const int64_t x = factor.symbol == Symbol::kNone ? factor.number : At(extents, factor.symbol);
      product = factor.divides ? product / x : product * x;
    }
    sum += product;
  }
  return sum;
}

// For each dimension that is a single symbol, sets the symbol's extent to the extent of the dimension.
void Bind(const kernels::Shape& shape, llvm::ArrayRef<int64_t> dims, Extents& extents) {
  for (size_t i = 0; i < shape.dims.size(); ++i) {
    const auto& terms = shape.dims[i].terms;
    if (terms.size() != 1 || terms[0].factors.size() != 1 || terms[0].factors[0].symbol == Symbol::kNone) continue;
    At(extents, terms[0].factors[0].symbol) = dims[i];
  }
}

}  // namespace

absl::Status GraphImporter::CheckCounts(const GraphOp& op, const kernels::GraphRow& row) {
  const int most = static_cast<int>(row.inputs.size());
  const int least = static_cast<int>(
      std::count_if(row.inputs.begin(), row.inputs.end(), [](const auto& operand) { return !operand.optional; }));
  if (op.inputs_size() < least || op.inputs_size() > most) {
    return Bad("has ", op.inputs_size(), " inputs, kind ", op.kind(), " takes ", least,
               least == most ? "" : absl::StrCat(" to ", most));
  }
  if (op.outputs_size() != 1) return Bad("has ", op.outputs_size(), " outputs; it must have 1");
  return absl::OkStatus();
}

absl::StatusOr<mlir::IntegerAttr> GraphImporter::Side(mlir::Value value) {
  const int64_t rows = RowsOfSample(value);
  auto side = static_cast<int64_t>(std::lround(std::sqrt(static_cast<double>(rows))));
  if (side * side == rows) return I64(side);
  return Bad("needs square images, but the input has ", rows, " positions per sample");
}

absl::StatusOr<mlir::Value> GraphImporter::Input(const GraphOp& op, int index, int rank) {
  const std::string& name = op.inputs(index);
  mlir::Value value;
  if (auto found = values_.find(name); found != values_.end()) {
    value = found->second;
  } else if (auto parameter = parameters_.find(name); parameter != parameters_.end()) {
    LogicalTensor& tensor = tensors_[parameter->second];
    llvm::SmallVector<int64_t> shape(tensor.padded_shape().begin(), tensor.padded_shape().end());
    auto use =
        builder_.create<ir::ParameterOp>(mlir::NameLoc::get(builder_.getStringAttr(name)),
                                         mlir::RankedTensorType::get(shape, params_), parameter->second, tensor.uses());
    use->setAttr(ir::kLayerAttr, builder_.getI32IntegerAttr(layer_));
    tensor.set_uses(tensor.uses() + 1);
    value = use;
  } else {
    return Bad("reads ", Quoted(name), ", which is neither a parameter nor an earlier op's output");
  }
  if (mlir::cast<mlir::RankedTensorType>(value.getType()).getRank() != rank) {
    return Bad("input ", index, " ", Quoted(name), " must have ", rank, rank == 1 ? " dimension" : " dimensions");
  }
  return value;
}

absl::Status GraphImporter::AddOp(const GraphOp& op) {
  where_ = absl::StrCat("op ", Quoted(op.name()), ": ");
  if (values_.empty() && op.layer() != 0) return Bad("is the first op and must be in layer 0, not ", op.layer());
  if (op.layer() < layer_) return Bad("layer ", op.layer(), " comes after layer ", layer_, "; layers must ascend");
  if (op.layer() > layer_ + 1)
    return Bad("layer ", op.layer(), " comes after layer ", layer_, "; layers must not skip a number");
  layer_ = op.layer();
  const kernels::GraphRow* row = kernels::FindGraphRow(op.kind());
  if (row == nullptr) return Bad("unknown kind ", Quoted(op.kind()));
  WEFT_RETURN_IF_ERROR(CheckCounts(op, *row));
  WEFT_ASSIGN_OR_RETURN(const mlir::Value result, Result(op, *row));
  if (parameters_.count(op.outputs(0)) > 0 || !values_.emplace(op.outputs(0), result).second) {
    return Bad("writes ", Quoted(op.outputs(0)), ", which exists already");
  }
  mlir::Operation* made = result.getDefiningOp();
  // If the op was left out, its result comes from an earlier op, which already has a name.
  if (!made->hasAttr(ir::kNameAttr)) {
    made->setAttr(ir::kNameAttr, builder_.getStringAttr(op.name()));
    made->setAttr(ir::kLayerAttr, builder_.getI32IntegerAttr(layer_));
  }
  return absl::OkStatus();
}

absl::StatusOr<mlir::Value> GraphImporter::Result(const GraphOp& op, const kernels::GraphRow& row) {
  switch (row.kernel) {
    case LOAD_TOKENS:
    case LOAD_TARGETS:
      return Load(op);
    case MATMUL:
      return Matmul(op);
    case ROPE:
      return Rope(op);
    case ATTENTION:
      return Attention(op);
    case DROPOUT:
      return Dropout(op);
    case CONV2D:
      return Conv2d(op);
    case CROSS_ENTROPY:
      return CrossEntropy(op);
    case SQUARED_ERROR:
      return SquaredError(op);
    default:
      return RowOp(op, row);
  }
}

absl::StatusOr<mlir::Value> GraphImporter::RowOp(const GraphOp& op, const kernels::GraphRow& row) {
  const kernels::KernelRow& kernel = kernels::RowOf(row.kernel);
  mlir::OperationState state(LocationOf(op), absl::StrCat("weft.", absl::AsciiStrToLower(Kernel_Name(row.kernel))));
  Extents extents{};
  At(extents, Symbol::rows) = At(extents, Symbol::pixels) = rows_;
  At(extents, Symbol::samples) = sequences_;
  At(extents, Symbol::channels) = graph_.image_channels();
  At(extents, Symbol::columns) = op.attributes().columns();
  At(extents, Symbol::groups) = op.attributes().groups();
  int64_t sequence = recipe_.sequence_length();
  for (int i = 0; i < op.inputs_size(); ++i) {
    const kernels::GraphOperand& operand = row.inputs[i];
    WEFT_ASSIGN_OR_RETURN(mlir::Value value,
                          Input(op, i, std::max<int>(1, static_cast<int>(operand.shape.dims.size()))));
    Bind(operand.shape, mlir::cast<mlir::RankedTensorType>(value.getType()).getShape(), extents);
    if (i == 0 && operand.kind == kernels::Kind::kActivation) sequence = RowsOfSample(value);
    state.addOperands(value);
  }
  // A type_embedding reads row 0 of its table for every token. This is the same as an embedding of positions for
  // sequences of one token.
  if (op.kind() == "type_embedding") sequence = 1;
  At(extents, Symbol::sequence) = sequence;
  if (row.output.kind == kernels::Kind::kTimes) {
    state.addTypes(mlir::RankedTensorType::get({sequences_}, builder_.getI32Type()));
  } else {
    const auto& dims = row.output.shape.dims;
    state.addTypes(Activation(ExtentOf(dims[0], extents), ExtentOf(dims[1], extents)));
  }
  // The further outputs are statistics, which backwards read.
  for (size_t i = 1; i < kernel.outputs.size(); ++i) {
    llvm::SmallVector<int64_t> shape;
    for (const kernels::Dim& dim : kernel.outputs[i].shape.dims) shape.push_back(ExtentOf(dim, extents));
    state.addTypes(mlir::RankedTensorType::get(shape, statistics_));
  }
  WEFT_RETURN_IF_ERROR(AddAttributes(op, kernel, sequence, state));
  return mlir::Value(builder_.create(state)->getResult(0));
}

absl::Status GraphImporter::AddAttributes(const GraphOp& op, const kernels::KernelRow& kernel, int64_t sequence,
                                          mlir::OperationState& state) {
  const OpAttributes& a = op.attributes();
  for (const kernels::AttributeRule& rule : kernel.attributes) {
    const char* name = kernels::kAttributes[static_cast<int>(rule.attribute)].name;
    const auto* field = OpAttributes::descriptor()->FindFieldByName(name);
    if (rule.attribute == Symbol::sequence) {
      state.addAttribute(name, I64(sequence));
    } else if (rule.attribute == Symbol::height || rule.attribute == Symbol::width) {
      WEFT_ASSIGN_OR_RETURN(const mlir::IntegerAttr side, Side(state.operands[0]));
      state.addAttribute(name, side);
    } else if (rule.attribute == Symbol::timestep_scale) {
      state.addAttribute(name, F64(a.timestep_scale() == 0 ? 1 : a.timestep_scale()));
    } else if (field == nullptr) {
      continue;  // Only passes set this attribute.
    } else if (field->cpp_type() == field->CPPTYPE_DOUBLE) {
      state.addAttribute(name, F64(a.GetReflection()->GetDouble(a, field)));
    } else if (field->cpp_type() == field->CPPTYPE_INT64) {
      state.addAttribute(name, I64(a.GetReflection()->GetInt64(a, field)));
    } else if (a.GetReflection()->GetBool(a, field)) {
      state.addAttribute(name, builder_.getUnitAttr());
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<mlir::Value> GraphImporter::Matmul(const GraphOp& op) {
  WEFT_ASSIGN_OR_RETURN(mlir::Value x, Input(op, 0, 2));
  WEFT_ASSIGN_OR_RETURN(mlir::Value weight, Input(op, 1, 2));
  mlir::Value bias;
  if (op.inputs_size() == 3) {
    WEFT_ASSIGN_OR_RETURN(bias, Input(op, 2, 1));
  }
  const bool transpose_b = op.attributes().transpose_b();
  return builder_
      .create<ir::MatmulOp>(LocationOf(op), Activation(Dim(x, 0), Dim(weight, transpose_b ? 0 : 1)), x, weight, bias,
                            mlir::Value(), false, transpose_b, options_.precision.compute() == TF32)
      .getResult();
}

absl::StatusOr<mlir::Value> GraphImporter::Dropout(const GraphOp& op) {
  WEFT_ASSIGN_OR_RETURN(mlir::Value x, Input(op, 0, 2));
  const int32_t site = sites_++;
  if (DropoutProbability() <= 0) return x;
  const mlir::DictionaryAttr whole = builder_.getDictionaryAttr({});
  return builder_
      .create<ir::DropoutOp>(LocationOf(op), x.getType(), x, F64(DropoutProbability()),
                             builder_.getI32IntegerAttr(site), /*column_shift=*/whole, /*row_shift=*/whole,
                             /*whole_columns=*/I64(0), I64(graph_.image_size() > 0 ? RowsOfSample(x) : 0),
                             /*heads=*/I64(0))
      .getResult();
}

absl::StatusOr<mlir::Value> GraphImporter::Conv2d(const GraphOp& op) {
  WEFT_ASSIGN_OR_RETURN(mlir::Value x, Input(op, 0, 2));
  const GraphParameter* filter = FindParameter(op.inputs(1));
  if (filter == nullptr) return Bad("input 1 ", Quoted(op.inputs(1)), " must be a parameter");
  WEFT_ASSIGN_OR_RETURN(mlir::Value weight, Input(op, 1, filter->shape_size()));
  mlir::Value bias;
  if (op.inputs_size() == 3) {
    WEFT_ASSIGN_OR_RETURN(bias, Input(op, 2, 1));
  }
  WEFT_ASSIGN_OR_RETURN(const mlir::IntegerAttr side, Side(x));
  const int64_t stride = std::max<int64_t>(1, op.attributes().stride()), out = (side.getInt() - 1) / stride + 1;
  const int64_t kernel = filter->shape_size() == 4 ? filter->shape(3) : 1;
  return builder_
      .create<ir::Conv2dOp>(LocationOf(op), Activation(sequences_ * out * out, Dim(weight, 0)), x, weight, bias, side,
                            side, I64(kernel), I64(stride))
      .getResult();
}

absl::StatusOr<mlir::Value> GraphImporter::SquaredError(const GraphOp& op) {
  WEFT_ASSIGN_OR_RETURN(mlir::Value x, Input(op, 0, 2));
  WEFT_ASSIGN_OR_RETURN(mlir::Value other, Input(op, 1, 2));
  const double elements = static_cast<double>(recipe_.global_batch_sequences()) * static_cast<double>(RowsOfSample(x)) *
                          static_cast<double>(Dim(x, 1));
  losses_ = builder_
                .create<ir::SquaredErrorOp>(LocationOf(op), losses_.getType(), x, other, losses_, I64(RowsOfSample(x)),
                                            F64(1 / elements))
                .getResult();
  return losses_;
}

absl::StatusOr<mlir::Value> GraphImporter::Load(const GraphOp& op) {
  const OpAttributes& a = op.attributes();
  mlir::Location loc = LocationOf(op);
  mlir::RankedTensorType ids = mlir::RankedTensorType::get({rows_}, builder_.getI32Type());
  mlir::IntegerAttr masked = I64(0), mask_token = I64(0), vocabulary = I64(0);
  if (a.masked_fraction() > 0) {
    const double wanted = std::round(a.masked_fraction() * static_cast<double>(recipe_.sequence_length()));
    masked = I64(std::clamp<int64_t>(static_cast<int64_t>(wanted), 1, recipe_.sequence_length()));
    mask_token = I64(a.mask_token());
    vocabulary = I64(graph_.vocabulary());
  }
  if (op.kind() == "tokens") {
    return builder_.create<ir::LoadTokensOp>(loc, ids, masked, mask_token, vocabulary).getResult();
  }
  return builder_.create<ir::LoadTargetsOp>(loc, ids, masked, mask_token, vocabulary).getResult();
}

absl::StatusOr<mlir::Value> GraphImporter::Rope(const GraphOp& op) {
  WEFT_ASSIGN_OR_RETURN(mlir::Value x, Input(op, 0, 2));
  const OpAttributes& a = op.attributes();
  double base = a.base(), factor = a.factor();
  if (a.dynamic_positions() > 0) {
    // A sequence longer than `positions` rotates with a larger base. All sequences of a run are equally long.
    const double length = static_cast<double>(recipe_.sequence_length());
    const double size = static_cast<double>(a.head_size()), positions = static_cast<double>(a.dynamic_positions());
    if (length > positions) base *= std::pow(factor * length / positions - (factor - 1), size / (size - 2));
    factor = 0;
  }
  return builder_
      .create<ir::RopeOp>(LocationOf(op), x.getType(), x, I64(recipe_.sequence_length()), I64(a.head_size()), F64(base),
                          F64(a.magnitude() == 0 ? 1 : a.magnitude()), F64(factor), F64(a.ramp_low()),
                          F64(a.ramp_high()), F64(a.ramp_positions()), mlir::UnitAttr())
      .getResult();
}

absl::StatusOr<mlir::Value> GraphImporter::Attention(const GraphOp& op) {
  WEFT_ASSIGN_OR_RETURN(mlir::Value q, Input(op, 0, 2));
  llvm::SmallVector<mlir::Value> kv;
  for (int i = 1; i < op.inputs_size(); ++i) {
    WEFT_ASSIGN_OR_RETURN(mlir::Value value, Input(op, i, 2));
    kv.push_back(value);
  }
  const OpAttributes& a = op.attributes();
  const int64_t d = Dim(q, 1) / (kv.empty() ? 3 : 1);
  if (a.heads() <= 0 || (kv.empty() && Dim(q, 1) % 3 != 0) || d % a.heads() != 0) {
    return Bad("heads = ", a.heads(), kv.empty() ? " must divide a third of the input's " : " must divide q's ",
               Dim(q, 1), " columns");
  }
  const double scale = a.scale() != 0 ? a.scale() : 1 / std::sqrt(static_cast<double>(d / a.heads()));
  // A window that hides no token counts as no window.
  const int64_t window = a.window() < recipe_.sequence_length() ? a.window() : 0;
  const int32_t site = sites_++;
  return builder_
      .create<ir::AttentionOp>(
          LocationOf(op), Activation(Dim(q, 0), d), mlir::RankedTensorType::get({Dim(q, 0), a.heads()}, statistics_), q,
          kv, I64(a.heads()), I64(RowsOfSample(q)), a.causal() ? builder_.getUnitAttr() : mlir::UnitAttr(), F64(scale),
          F64(DropoutProbability()), builder_.getI32IntegerAttr(DropoutProbability() > 0 ? site : 0), I64(a.kv_heads()),
          I64(window), /*column_shift=*/builder_.getDictionaryAttr({}), /*whole_columns=*/I64(0),
          a.qkv_by_head() ? builder_.getUnitAttr() : mlir::UnitAttr())
      .getResult();
}

absl::StatusOr<mlir::Value> GraphImporter::CrossEntropy(const GraphOp& op) {
  WEFT_ASSIGN_OR_RETURN(mlir::Value logits, Input(op, 0, 2));
  WEFT_ASSIGN_OR_RETURN(mlir::Value targets, Input(op, 1, 1));
  int64_t valid = recipe_.sequence_length();
  if (auto load = targets.getDefiningOp<ir::LoadTargetsOp>(); load && load.getMasked() > 0) valid = load.getMasked();
  const double tokens = static_cast<double>(recipe_.global_batch_sequences()) * static_cast<double>(valid);
  auto loss = builder_.create<ir::CrossEntropyOp>(LocationOf(op), mlir::RankedTensorType::get({rows_}, statistics_),
                                                  losses_.getType(), logits, targets, losses_, I64(graph_.vocabulary()),
                                                  F64(1 / tokens));
  losses_ = loss.getNewLosses();
  return losses_;
}

}  // namespace weft
