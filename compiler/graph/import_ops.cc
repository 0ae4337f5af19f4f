// Imports one op of a model graph as an op of the dialect.
#include <algorithm>
#include <cmath>

#include "compiler/graph/graph_importer.h"
#include "ir/graph_ops.h"
#include "proto/util/status.h"
#include "proto/util/suggest.h"

namespace weft {

absl::Status GraphImporter::CheckArity(const GraphOp& op, int least, int most) {
  if (op.inputs_size() < least || op.inputs_size() > most) {
    return Bad("has ", op.inputs_size(), " inputs, kind ", op.kind(), " takes ", least,
               least == most ? "" : absl::StrCat(" to ", most));
  }
  if (op.outputs_size() != 1) return Bad("has ", op.outputs_size(), " outputs, must have 1");
  return absl::OkStatus();
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
  if (op.layer() > layer_ + 1) return Bad("layer ", op.layer(), " comes after layer ", layer_, "; none may be skipped");
  layer_ = op.layer();
  const std::string& kind = op.kind();
  mlir::Location loc = mlir::NameLoc::get(builder_.getStringAttr(op.name()));
  const OpAttributes& a = op.attributes();
  mlir::IntegerAttr sequence = I64(recipe_.sequence_length());
  mlir::RankedTensorType statistics = mlir::RankedTensorType::get({rows_}, statistics_);
  mlir::Value result;
  if (kind == "tokens" || kind == "targets") {
    WEFT_ASSIGN_OR_RETURN(result, Load(op));
  } else if (kind == "embedding") {
    WEFT_RETURN_IF_ERROR(CheckArity(op, 2, 2));
    WEFT_ASSIGN_OR_RETURN(mlir::Value tokens, Input(op, 0, 1));
    WEFT_ASSIGN_OR_RETURN(mlir::Value table, Input(op, 1, 2));
    result = builder_.create<ir::EmbeddingOp>(loc, Activation(Dim(table, 1)), tokens, table);
  } else if (kind == "position_embedding") {
    WEFT_RETURN_IF_ERROR(CheckArity(op, 1, 1));
    WEFT_ASSIGN_OR_RETURN(mlir::Value table, Input(op, 0, 2));
    result = builder_.create<ir::PositionEmbeddingOp>(loc, Activation(Dim(table, 1)), table, sequence);
  } else if (kind == "type_embedding") {
    WEFT_RETURN_IF_ERROR(CheckArity(op, 1, 1));
    WEFT_ASSIGN_OR_RETURN(mlir::Value table, Input(op, 0, 2));
    // Reads row 0 everywhere, like the positions of sequences that are one token long.
    result = builder_.create<ir::PositionEmbeddingOp>(loc, Activation(Dim(table, 1)), table, I64(1));
  } else if (kind == "add") {
    WEFT_RETURN_IF_ERROR(CheckArity(op, 2, 2));
    WEFT_ASSIGN_OR_RETURN(mlir::Value left, Input(op, 0, 2));
    WEFT_ASSIGN_OR_RETURN(mlir::Value right, Input(op, 1, 2));
    result = builder_.create<ir::AddOp>(loc, left.getType(), left, right, mlir::Value());
  } else if (kind == "matmul") {
    WEFT_RETURN_IF_ERROR(CheckArity(op, 2, 3));
    WEFT_ASSIGN_OR_RETURN(mlir::Value x, Input(op, 0, 2));
    WEFT_ASSIGN_OR_RETURN(mlir::Value weight, Input(op, 1, 2));
    mlir::Value bias;
    if (op.inputs_size() == 3) {
      WEFT_ASSIGN_OR_RETURN(bias, Input(op, 2, 1));
    }
    result =
        builder_.create<ir::MatmulOp>(loc, Activation(Dim(x, 0), Dim(weight, a.transpose_b() ? 0 : 1)), x, weight, bias,
                                      mlir::Value(), false, a.transpose_b(), options_.precision.compute() == TF32);
  } else if (kind == "layer_norm") {
    WEFT_RETURN_IF_ERROR(CheckArity(op, 3, 3));
    WEFT_ASSIGN_OR_RETURN(mlir::Value x, Input(op, 0, 2));
    WEFT_ASSIGN_OR_RETURN(mlir::Value gamma, Input(op, 1, 1));
    WEFT_ASSIGN_OR_RETURN(mlir::Value beta, Input(op, 2, 1));
    result = builder_
                 .create<ir::LayerNormOp>(loc, Activation(Dim(x, 1)), statistics, statistics, x, gamma, beta,
                                          F64(a.epsilon()))
                 .getResult();
  } else if (kind == "rms_norm") {
    WEFT_RETURN_IF_ERROR(CheckArity(op, 2, 2));
    WEFT_ASSIGN_OR_RETURN(mlir::Value x, Input(op, 0, 2));
    WEFT_ASSIGN_OR_RETURN(mlir::Value gamma, Input(op, 1, 1));
    result =
        builder_.create<ir::RmsNormOp>(loc, Activation(Dim(x, 1)), statistics, x, gamma, F64(a.epsilon())).getResult();
  } else if (kind == "rope") {
    WEFT_ASSIGN_OR_RETURN(result, Rope(op));
  } else if (kind == "gelu") {
    WEFT_RETURN_IF_ERROR(CheckArity(op, 1, 1));
    WEFT_ASSIGN_OR_RETURN(mlir::Value x, Input(op, 0, 2));
    result = builder_.create<ir::GeluOp>(loc, x.getType(), x, a.tanh_approximation());
  } else if (kind == "swiglu") {
    WEFT_RETURN_IF_ERROR(CheckArity(op, 2, 2));
    WEFT_ASSIGN_OR_RETURN(mlir::Value gate, Input(op, 0, 2));
    WEFT_ASSIGN_OR_RETURN(mlir::Value up, Input(op, 1, 2));
    result = builder_.create<ir::SwigluOp>(loc, gate.getType(), gate, up);
  } else if (kind == "attention") {
    WEFT_ASSIGN_OR_RETURN(result, Attention(op));
  } else if (kind == "dropout") {
    WEFT_RETURN_IF_ERROR(CheckArity(op, 1, 1));
    WEFT_ASSIGN_OR_RETURN(mlir::Value x, Input(op, 0, 2));
    result = x;
    if (DropoutProbability() > 0) {
      const mlir::DictionaryAttr whole = builder_.getDictionaryAttr({});
      result = builder_.create<ir::DropoutOp>(
          loc, x.getType(), x, F64(DropoutProbability()), builder_.getI32IntegerAttr(sites_), /*column_shift=*/whole,
          /*row_shift=*/whole, /*whole_columns=*/I64(0), I64(graph_.image_size() > 0 ? RowsOfSample(x) : 0),
          /*heads=*/I64(0));
    }
    ++sites_;
  } else if (kind == "cross_entropy") {
    WEFT_ASSIGN_OR_RETURN(result, CrossEntropy(op));
  } else {
    WEFT_ASSIGN_OR_RETURN(result, ImageOp(op));
    // Validate accepts only known kinds.
    if (!result) return Bad("unknown kind ", Quoted(kind));
  }
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

absl::StatusOr<mlir::Value> GraphImporter::Load(const GraphOp& op) {
  WEFT_RETURN_IF_ERROR(CheckArity(op, 0, 0));
  const OpAttributes& a = op.attributes();
  mlir::Location loc = mlir::NameLoc::get(builder_.getStringAttr(op.name()));
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
  WEFT_RETURN_IF_ERROR(CheckArity(op, 1, 1));
  WEFT_ASSIGN_OR_RETURN(mlir::Value x, Input(op, 0, 2));
  const OpAttributes& a = op.attributes();
  double base = a.base(), factor = a.factor();
  if (a.dynamic_positions() > 0) {
    // Sequences longer than that turn by a larger base. All sequences of a run are equally long.
    const double length = static_cast<double>(recipe_.sequence_length());
    const double size = static_cast<double>(a.head_size()), positions = static_cast<double>(a.dynamic_positions());
    if (length > positions) base *= std::pow(factor * length / positions - (factor - 1), size / (size - 2));
    factor = 0;
  }
  return builder_
      .create<ir::RopeOp>(mlir::NameLoc::get(builder_.getStringAttr(op.name())), x.getType(), x,
                          I64(recipe_.sequence_length()), I64(a.head_size()), F64(base),
                          F64(a.magnitude() == 0 ? 1 : a.magnitude()), F64(factor), F64(a.ramp_low()),
                          F64(a.ramp_high()), F64(a.ramp_positions()), mlir::UnitAttr())
      .getResult();
}

absl::StatusOr<mlir::Value> GraphImporter::Attention(const GraphOp& op) {
  WEFT_RETURN_IF_ERROR(CheckArity(op, 1, 3));
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
  // A window that hides nothing counts as none.
  const int64_t window = a.window() < recipe_.sequence_length() ? a.window() : 0;
  const int32_t site = sites_++;
  return builder_
      .create<ir::AttentionOp>(mlir::NameLoc::get(builder_.getStringAttr(op.name())), Activation(Dim(q, 0), d),
                               mlir::RankedTensorType::get({Dim(q, 0), a.heads()}, statistics_), q, kv, I64(a.heads()),
                               I64(RowsOfSample(q)), a.causal() ? builder_.getUnitAttr() : mlir::UnitAttr(), F64(scale),
                               F64(DropoutProbability()),
                               builder_.getI32IntegerAttr(DropoutProbability() > 0 ? site : 0), I64(a.kv_heads()),
                               I64(window), /*column_shift=*/builder_.getDictionaryAttr({}), /*whole_columns=*/I64(0),
                               a.qkv_by_head() ? builder_.getUnitAttr() : mlir::UnitAttr())
      .getResult();
}

absl::StatusOr<mlir::Value> GraphImporter::CrossEntropy(const GraphOp& op) {
  WEFT_RETURN_IF_ERROR(CheckArity(op, 2, 2));
  WEFT_ASSIGN_OR_RETURN(mlir::Value logits, Input(op, 0, 2));
  WEFT_ASSIGN_OR_RETURN(mlir::Value targets, Input(op, 1, 1));
  int64_t valid = recipe_.sequence_length();
  if (auto load = targets.getDefiningOp<ir::LoadTargetsOp>(); load && load.getMasked() > 0) valid = load.getMasked();
  const double tokens = static_cast<double>(recipe_.global_batch_sequences()) * static_cast<double>(valid);
  auto loss = builder_.create<ir::CrossEntropyOp>(mlir::NameLoc::get(builder_.getStringAttr(op.name())),
                                                  mlir::RankedTensorType::get({rows_}, statistics_), losses_.getType(),
                                                  logits, targets, losses_, I64(graph_.vocabulary()), F64(1 / tokens));
  losses_ = loss.getNewLosses();
  return losses_;
}

}  // namespace weft
