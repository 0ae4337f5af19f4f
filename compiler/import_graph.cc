#include "compiler/import_graph.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/diagnostic_status.h"
#include "compiler/training.h"
#include "ir/graph_ops.h"
#include "mlir/IR/Verifier.h"
#include "proto/status.h"
#include "proto/suggest.h"
#include "proto/units.h"

namespace weft {

namespace {

// Whether `name` matches `pattern`, in which '*' stands for any run of characters. Linear in the lengths' product.
bool Matches(absl::string_view pattern, absl::string_view name) {
  size_t p = 0;
  size_t n = 0;
  size_t star = absl::string_view::npos;
  size_t resume = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = n;
    } else if (p < pattern.size() && pattern[p] == name[n]) {
      ++p;
      ++n;
    } else if (star != absl::string_view::npos) {
      p = star + 1;
      n = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

// Decay applies to tensors with two or more dimensions, unless a pattern of the recipe says otherwise.
double WeightDecay(const Recipe& recipe, const GraphParameter& parameter) {
  bool matrix = parameter.shape_size() >= 2;
  if (recipe.has_sgd()) return matrix ? recipe.sgd().weight_decay() : 0;
  for (const DecayOverride& exception : recipe.adamw().overrides()) {
    if (Matches(exception.pattern(), parameter.name())) return exception.weight_decay();
  }
  if (!matrix) return 0;
  return recipe.adamw().has_weight_decay() ? recipe.adamw().weight_decay() : 0.1;
}

Training TrainingOf(mlir::MLIRContext* context, const Recipe& recipe, const ImportOptions& options) {
  Training training;
  training.accumulation = options.accumulation == EXACT ? EXACT : IN_ORDER;
  training.clip_norm = recipe.has_clip_norm() ? recipe.clip_norm() : 1.0;
  training.grads = TypeOfDType(context, options.precision.grads());
  training.master = TypeOfDType(context, options.precision.master());
  training.moments = TypeOfDType(context, options.precision.moments());
  training.adamw = !recipe.has_sgd();
  if (training.adamw) {
    const AdamW& adamw = recipe.adamw();
    training.beta1 = adamw.has_beta1() ? adamw.beta1() : 0.9;
    training.beta2 = adamw.has_beta2() ? adamw.beta2() : 0.95;
    training.epsilon = adamw.has_epsilon() ? adamw.epsilon() : 1e-8;
  } else {
    training.momentum = recipe.sgd().momentum();
  }
  training.asynchronous = options.steps_per_repetition > 0;
  return training;
}

class Importer {
 public:
  Importer(mlir::MLIRContext* context, const ModelGraph& graph, const Recipe& recipe, const ImportOptions& options)
      : context_(context), graph_(graph), recipe_(recipe), options_(options), builder_(context) {}

  absl::StatusOr<ImportedGraph> Run();

 private:
  absl::Status CheckSettings();
  absl::Status AddTensors();
  absl::Status AddOp(const GraphOp& op);

  template <typename... Parts>
  absl::Status Bad(const Parts&... parts) const {
    return absl::InvalidArgumentError(absl::StrCat("model graph: ", where_, parts...));
  }

  // Input `index` of `op`: an earlier op's output, or one more use of a parameter. `rank` is what it must have.
  absl::StatusOr<mlir::Value> Input(const GraphOp& op, int index, int rank);
  absl::Status CheckArity(const GraphOp& op, int least, int most);

  mlir::RankedTensorType Activation(int64_t columns) { return mlir::RankedTensorType::get({rows_, columns}, compute_); }
  static int64_t Dim(mlir::Value value, unsigned index) {
    return mlir::cast<mlir::RankedTensorType>(value.getType()).getDimSize(index);
  }
  double DropoutProbability() const { return !options_.evaluation && recipe_.has_dropout() ? recipe_.dropout() : 0.0; }

  mlir::MLIRContext* context_;
  const ModelGraph& graph_;
  const Recipe& recipe_;
  const ImportOptions& options_;
  mlir::OpBuilder builder_;
  // "op 'h.0.mlp': ", for messages.
  std::string where_;
  int64_t rows_ = 0;
  int64_t batches_ = 0;
  mlir::Type compute_;
  mlir::Type params_;
  mlir::Type statistics_;
  // Losses of the microbatches, threaded through the ops that write them.
  mlir::Value losses_;
  std::map<std::string, mlir::Value> values_;
  std::map<std::string, int> parameters_;
  std::vector<LogicalTensor> tensors_;
  int32_t sites_ = 0;
  // Trace name and layer of ops, by op.
  std::string name_;
  int32_t layer_ = 0;
};

absl::Status Importer::CheckSettings() {
  auto check = [&](DType dtype, const char* name) {
    if (dtype == FP64 || dtype == FP32 || dtype == BF16 || dtype == FP16) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("precision.", name, " is ", DType_Name(dtype), "; allowed: FP64, FP32, BF16, FP16"));
  };
  const Precision& precision = options_.precision;
  WEFT_RETURN_IF_ERROR(check(precision.compute(), "compute"));
  WEFT_RETURN_IF_ERROR(check(precision.params(), "params"));
  WEFT_RETURN_IF_ERROR(check(precision.grads(), "grads"));
  WEFT_RETURN_IF_ERROR(check(precision.master(), "master"));
  WEFT_RETURN_IF_ERROR(check(precision.moments(), "moments"));
  int64_t sequences = std::max<int64_t>(1, recipe_.microbatch_sequences());
  std::optional<int64_t> rows = ElementCount({sequences, recipe_.sequence_length()});
  if (!rows || *rows <= 0 || recipe_.global_batch_sequences() <= 0 ||
      recipe_.global_batch_sequences() % sequences != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "recipe: sequence_length = ", recipe_.sequence_length(),
        ", global_batch_sequences = ", recipe_.global_batch_sequences(), " and microbatch_sequences = ", sequences,
        " must be positive, and the global batch a multiple of the microbatch"));
  }
  if (graph_.maximum_positions() > 0 && recipe_.sequence_length() > graph_.maximum_positions()) {
    return absl::InvalidArgumentError(absl::StrCat("recipe.sequence_length = ", recipe_.sequence_length(),
                                                   " is more than the model's maximum of ", graph_.maximum_positions(),
                                                   " positions"));
  }
  if (graph_.vocabulary() <= 0) return Bad("vocabulary is ", graph_.vocabulary(), ", must be positive");
  rows_ = *rows;
  batches_ = recipe_.global_batch_sequences() / sequences * std::max(1, options_.steps_per_repetition);
  compute_ = TypeOfDType(context_, precision.compute());
  params_ = TypeOfDType(context_, precision.params());
  statistics_ = compute_.isF64() ? compute_ : builder_.getF32Type();
  return absl::OkStatus();
}

absl::Status Importer::AddTensors() {
  // The recipe's standard deviation stands for the largest of the graph's; the others keep their ratio to it.
  double largest = 0;
  for (const GraphParameter& parameter : graph_.parameters()) largest = std::max(largest, parameter.init().normal());
  double factor = 1;
  if (recipe_.init().has_normal() && largest > 0) factor = recipe_.init().normal() / largest;
  for (int i = 0; i < graph_.parameters_size(); ++i) {
    const GraphParameter& parameter = graph_.parameters(i);
    where_ = absl::StrCat("parameter ", Quoted(parameter.name()), ": ");
    LogicalTensor tensor;
    tensor.set_name(parameter.name());
    *tensor.mutable_shape() = parameter.shape();
    *tensor.mutable_padded_shape() = parameter.shape();
    if (parameter.shape_size() < 1 || parameter.shape_size() > 2) {
      return Bad("has ", parameter.shape_size(), " dimensions, allowed: 1 or 2");
    }
    std::optional<int64_t> elements = ElementCount(parameter.shape());
    if (!elements || *elements <= 0 || *elements > (int64_t{1} << 56)) {
      return Bad("shape [", absl::StrJoin(parameter.shape(), ","),
                 "] must have positive extents and at most 2^56 elements");
    }
    if (parameter.vocabulary_rows()) {
      if (parameter.shape(0) != graph_.vocabulary()) {
        return Bad("has vocabulary_rows, but ", parameter.shape(0), " rows; the vocabulary is ", graph_.vocabulary());
      }
      tensor.set_padded_shape(0, RoundUp(parameter.shape(0), kVocabularyAlignment));
    }
    tensor.set_init_normal(parameter.init().normal() * factor);
    tensor.set_init_constant(parameter.init().constant());
    tensor.set_weight_decay(WeightDecay(recipe_, parameter));
    if (parameter.name().empty() || !parameters_.emplace(parameter.name(), i).second) {
      return Bad("names must be unique and not empty");
    }
    tensors_.push_back(std::move(tensor));
  }
  where_.clear();
  return absl::OkStatus();
}

absl::Status Importer::CheckArity(const GraphOp& op, int least, int most) {
  if (op.inputs_size() < least || op.inputs_size() > most) {
    return Bad("has ", op.inputs_size(), " inputs, kind ", op.kind(), " takes ", least,
               least == most ? "" : absl::StrCat(" to ", most));
  }
  if (op.outputs_size() != 1) return Bad("has ", op.outputs_size(), " outputs, must have 1");
  return absl::OkStatus();
}

absl::StatusOr<mlir::Value> Importer::Input(const GraphOp& op, int index, int rank) {
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

absl::Status Importer::AddOp(const GraphOp& op) {
  where_ = absl::StrCat("op ", Quoted(op.name()), ": ");
  if (values_.empty() && op.layer() != 0) return Bad("is the first op and must be in layer 0, not ", op.layer());
  if (op.layer() < layer_) return Bad("layer ", op.layer(), " comes after layer ", layer_, "; layers must ascend");
  if (op.layer() > layer_ + 1) return Bad("layer ", op.layer(), " comes after layer ", layer_, "; none may be skipped");
  layer_ = op.layer();
  const std::string& kind = op.kind();
  mlir::Location loc = mlir::NameLoc::get(builder_.getStringAttr(op.name()));
  const OpAttributes& a = op.attributes();
  mlir::Type i64 = builder_.getI64Type();
  mlir::IntegerAttr sequence = builder_.getIntegerAttr(i64, recipe_.sequence_length());
  mlir::RankedTensorType statistics = mlir::RankedTensorType::get({rows_}, statistics_);
  mlir::RankedTensorType ids = mlir::RankedTensorType::get({rows_}, builder_.getI32Type());
  mlir::Value result;
  if (kind == "tokens" || kind == "targets") {
    WEFT_RETURN_IF_ERROR(CheckArity(op, 0, 0));
    result = kind == "tokens" ? builder_.create<ir::LoadTokensOp>(loc, ids).getResult()
                              : builder_.create<ir::LoadTargetsOp>(loc, ids).getResult();
  } else if (kind == "embedding") {
    WEFT_RETURN_IF_ERROR(CheckArity(op, 2, 2));
    WEFT_ASSIGN_OR_RETURN(mlir::Value tokens, Input(op, 0, 1));
    WEFT_ASSIGN_OR_RETURN(mlir::Value table, Input(op, 1, 2));
    result = builder_.create<ir::EmbeddingOp>(loc, Activation(Dim(table, 1)), tokens, table);
  } else if (kind == "position_embedding") {
    WEFT_RETURN_IF_ERROR(CheckArity(op, 1, 1));
    WEFT_ASSIGN_OR_RETURN(mlir::Value table, Input(op, 0, 2));
    result = builder_.create<ir::PositionEmbeddingOp>(loc, Activation(Dim(table, 1)), table, sequence);
  } else if (kind == "add") {
    WEFT_RETURN_IF_ERROR(CheckArity(op, 2, 2));
    WEFT_ASSIGN_OR_RETURN(mlir::Value left, Input(op, 0, 2));
    WEFT_ASSIGN_OR_RETURN(mlir::Value right, Input(op, 1, 2));
    result = builder_.create<ir::AddOp>(loc, Activation(Dim(left, 1)), left, right, mlir::Value());
  } else if (kind == "matmul") {
    WEFT_RETURN_IF_ERROR(CheckArity(op, 2, 3));
    WEFT_ASSIGN_OR_RETURN(mlir::Value x, Input(op, 0, 2));
    WEFT_ASSIGN_OR_RETURN(mlir::Value weight, Input(op, 1, 2));
    mlir::Value bias;
    if (op.inputs_size() == 3) {
      WEFT_ASSIGN_OR_RETURN(bias, Input(op, 2, 1));
    }
    result = builder_.create<ir::MatmulOp>(loc, Activation(Dim(weight, a.transpose_b() ? 0 : 1)), x, weight, bias,
                                           mlir::Value(), false, a.transpose_b());
  } else if (kind == "layer_norm") {
    WEFT_RETURN_IF_ERROR(CheckArity(op, 3, 3));
    WEFT_ASSIGN_OR_RETURN(mlir::Value x, Input(op, 0, 2));
    WEFT_ASSIGN_OR_RETURN(mlir::Value gamma, Input(op, 1, 1));
    WEFT_ASSIGN_OR_RETURN(mlir::Value beta, Input(op, 2, 1));
    result = builder_
                 .create<ir::LayerNormOp>(loc, Activation(Dim(x, 1)), statistics, statistics, x, gamma, beta,
                                          builder_.getF64FloatAttr(a.epsilon()))
                 .getResult();
  } else if (kind == "gelu") {
    WEFT_RETURN_IF_ERROR(CheckArity(op, 1, 1));
    WEFT_ASSIGN_OR_RETURN(mlir::Value x, Input(op, 0, 2));
    result = builder_.create<ir::GeluOp>(loc, x.getType(), x, a.tanh_approximation());
  } else if (kind == "attention") {
    WEFT_RETURN_IF_ERROR(CheckArity(op, 1, 1));
    WEFT_ASSIGN_OR_RETURN(mlir::Value qkv, Input(op, 0, 2));
    int64_t d = Dim(qkv, 1) / 3;
    if (a.heads() <= 0 || Dim(qkv, 1) % 3 != 0 || d % a.heads() != 0) {
      return Bad("heads = ", a.heads(), " must divide a third of the input's ", Dim(qkv, 1), " columns");
    }
    double scale = a.scale() != 0 ? a.scale() : 1 / std::sqrt(static_cast<double>(d / a.heads()));
    result =
        builder_
            .create<ir::AttentionOp>(loc, Activation(d), mlir::RankedTensorType::get({rows_, a.heads()}, statistics_),
                                     qkv, builder_.getIntegerAttr(i64, a.heads()), sequence,
                                     a.causal() ? builder_.getUnitAttr() : mlir::UnitAttr(),
                                     builder_.getF64FloatAttr(scale), builder_.getF64FloatAttr(DropoutProbability()),
                                     builder_.getI32IntegerAttr(DropoutProbability() > 0 ? sites_ : 0))
            .getResult();
    ++sites_;
  } else if (kind == "dropout") {
    WEFT_RETURN_IF_ERROR(CheckArity(op, 1, 1));
    WEFT_ASSIGN_OR_RETURN(mlir::Value x, Input(op, 0, 2));
    result = x;
    if (DropoutProbability() > 0) {
      result = builder_.create<ir::DropoutOp>(loc, x.getType(), x, builder_.getF64FloatAttr(DropoutProbability()),
                                              builder_.getI32IntegerAttr(sites_));
    }
    ++sites_;
  } else if (kind == "cross_entropy") {
    WEFT_RETURN_IF_ERROR(CheckArity(op, 2, 2));
    WEFT_ASSIGN_OR_RETURN(mlir::Value logits, Input(op, 0, 2));
    WEFT_ASSIGN_OR_RETURN(mlir::Value targets, Input(op, 1, 1));
    double tokens =
        static_cast<double>(recipe_.global_batch_sequences()) * static_cast<double>(recipe_.sequence_length());
    auto loss = builder_.create<ir::CrossEntropyOp>(loc, statistics, losses_.getType(), logits, targets, losses_,
                                                    builder_.getIntegerAttr(i64, graph_.vocabulary()),
                                                    builder_.getF64FloatAttr(1 / tokens));
    result = losses_ = loss.getNewLosses();
  } else {
    return Bad("unknown kind ", Quoted(kind),
               NameHelp(kind, {"tokens", "targets", "embedding", "position_embedding", "add", "matmul", "layer_norm",
                               "gelu", "attention", "dropout", "cross_entropy"}));
  }
  if (parameters_.count(op.outputs(0)) > 0 || !values_.emplace(op.outputs(0), result).second) {
    return Bad("writes ", Quoted(op.outputs(0)), ", which exists already");
  }
  mlir::Operation* made = result.getDefiningOp();
  // An op that was left out has made nothing.
  if (!made->hasAttr(ir::kNameAttr)) {
    made->setAttr(ir::kNameAttr, builder_.getStringAttr(op.name()));
    made->setAttr(ir::kLayerAttr, builder_.getI32IntegerAttr(layer_));
  }
  return absl::OkStatus();
}

absl::StatusOr<ImportedGraph> Importer::Run() {
  WEFT_RETURN_IF_ERROR(CheckSettings());
  WEFT_RETURN_IF_ERROR(AddTensors());
  mlir::Location unknown = builder_.getUnknownLoc();
  ImportedGraph imported;
  imported.module = mlir::ModuleOp::create(unknown);
  mlir::ModuleOp module = *imported.module;
  builder_.setInsertionPointToEnd(module.getBody());
  std::string name = graph_.name().empty() ? "model" : graph_.name();
  auto graph = builder_.create<ir::GraphOp>(unknown, name);
  mlir::Block& block = graph.getBody().emplaceBlock();
  losses_ = block.addArgument(mlir::RankedTensorType::get({batches_}, builder_.getF64Type()), unknown);
  builder_.setInsertionPointToEnd(&block);
  for (const GraphOp& op : graph_.ops()) WEFT_RETURN_IF_ERROR(AddOp(op));
  where_.clear();
  auto loss = values_.find(graph_.loss());
  if (loss == values_.end() || loss->second != losses_ || mlir::isa<mlir::BlockArgument>(losses_)) {
    return Bad("loss ", Quoted(graph_.loss()), " must be the output of the last cross_entropy op");
  }
  if (losses_.getDefiningOp<ir::CrossEntropyOp>().getLosses() != block.getArgument(0)) {
    return Bad("has more than one cross_entropy op, may have one");
  }
  builder_.create<ir::YieldOp>(unknown, losses_);

  builder_.setInsertionPointToStart(module.getBody());
  for (auto [index, tensor] : llvm::enumerate(tensors_)) {
    if (tensor.uses() == 0) return Bad("parameter ", Quoted(tensor.name()), " is read by no op");
    llvm::SmallVector<int64_t> padded(tensor.padded_shape().begin(), tensor.padded_shape().end());
    llvm::SmallVector<int64_t> shape(tensor.shape().begin(), tensor.shape().end());
    builder_.create<ir::TensorOp>(unknown, tensor.name(), static_cast<uint32_t>(index), shape,
                                  mlir::RankedTensorType::get(padded, params_), tensor.uses(),
                                  llvm::APFloat(tensor.weight_decay()));
  }
  if (!options_.evaluation) SetTraining(module, TrainingOf(context_, recipe_, options_));
  DiagnosticCollector collector(context_);
  WEFT_RETURN_IF_ERROR(collector.ToStatus(mlir::verify(module)));
  imported.tensors = std::move(tensors_);
  return imported;
}

}  // namespace

absl::StatusOr<ImportedGraph> ImportGraph(mlir::MLIRContext* context, const ModelGraph& graph, const Recipe& recipe,
                                          const ImportOptions& options) {
  return Importer(context, graph, recipe, options).Run();
}

}  // namespace weft
