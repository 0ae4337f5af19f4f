#include "compiler/graph/import_graph.h"

#include <algorithm>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/graph/graph_importer.h"
#include "compiler/inputs/weight_decay.h"
#include "compiler/segments/diagnostic_status.h"
#include "compiler/segments/training.h"
#include "ir/graph_ops.h"
#include "mlir/IR/Verifier.h"
#include "proto/util/status.h"
#include "proto/util/suggest.h"
#include "proto/util/units.h"

namespace weft {

namespace {

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
  training.stochastic_rounding = recipe.weight_rounding() == STOCHASTIC;
  training.growth_interval = options.loss_scale.growth_interval();
  training.loss_scale = training.dynamic() ? options.loss_scale.initial() : options.loss_scale.fixed();
  return training;
}

}  // namespace

absl::Status GraphImporter::CheckSettings() {
  auto check = [&](DType dtype, const char* name) {
    if (dtype == FP64 || dtype == FP32 || dtype == BF16 || dtype == FP16) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("precision.", name, " is ", DType_Name(dtype), "; allowed: FP64, FP32, BF16, FP16"));
  };
  const Precision& precision = options_.precision;
  // If the program's products are in TF32, its values are stored in FP32.
  const DType stored = precision.compute() == TF32 ? FP32 : precision.compute();
  WEFT_RETURN_IF_ERROR(check(stored, "compute"));
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
  if (graph_.image_size() > 0 && recipe_.sequence_length() != graph_.image_size() * graph_.image_size()) {
    return absl::InvalidArgumentError(absl::StrCat("recipe.sequence_length = ", recipe_.sequence_length(),
                                                   " must be the number of pixels of an image, ",
                                                   graph_.image_size() * graph_.image_size()));
  }
  if (graph_.vocabulary() <= 0 && graph_.image_size() == 0)
    return Bad("vocabulary is ", graph_.vocabulary(), "; it must be positive");
  sequences_ = sequences;
  rows_ = *rows;
  const int32_t steps = std::max(1, options_.steps_per_repetition);
  const std::optional<int64_t> batches = ElementCount({recipe_.global_batch_sequences() / sequences, steps});
  if (!batches) {
    return absl::InvalidArgumentError(absl::StrCat("recipe.global_batch_sequences = ", recipe_.global_batch_sequences(),
                                                   " makes too many microbatches of ", sequences, " sequences in the ",
                                                   steps, steps == 1 ? " step" : " steps",
                                                   " of a repetition; allowed: at most 2^62"));
  }
  batches_ = *batches;
  compute_ = TypeOfDType(context_, stored);
  params_ = TypeOfDType(context_, precision.params());
  statistics_ = compute_.isF64() ? compute_ : builder_.getF32Type();
  return absl::OkStatus();
}

absl::Status GraphImporter::AddTensors() {
  // The recipe's standard deviation replaces the graph's largest; the others keep their ratio to the largest.
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
    if (parameter.shape_size() < 1 || parameter.shape_size() > 4) {
      return Bad("has ", parameter.shape_size(), " dimensions, allowed: 1 to 4");
    }
    std::optional<int64_t> elements = ElementCount(parameter.shape());
    if (!elements || *elements <= 0 || *elements > (int64_t{1} << 56)) {
      return Bad("shape [", absl::StrJoin(parameter.shape(), ","),
                 "] must have positive extents and at most 2^56 elements");
    }
    if (parameter.vocabulary_rows()) {
      if (parameter.shape(0) != graph_.vocabulary()) {
        return Bad("has vocabulary_rows, but ", parameter.shape(0), " rows; it needs one for each token, ",
                   graph_.vocabulary());
      }
      tensor.set_padded_shape(0, RoundUp(parameter.shape(0), kVocabularyAlignment * options_.vocabulary_shards));
    }
    tensor.set_init_normal(parameter.init().normal() * factor);
    tensor.set_init_constant(parameter.init().constant());
    tensor.set_weight_decay(WeightDecayOf(recipe_, parameter));
    if (parameter.name().empty() || !parameters_.emplace(parameter.name(), i).second) {
      return Bad("names must be unique and not empty");
    }
    tensors_.push_back(std::move(tensor));
  }
  where_.clear();
  return absl::OkStatus();
}

absl::StatusOr<ImportedGraph> GraphImporter::Run() {
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
    return Bad("loss ", Quoted(graph_.loss()), " must be the output of the last cross_entropy or squared_error op");
  }
  if (!llvm::is_contained(losses_.getDefiningOp()->getOperands(), block.getArgument(0))) {
    return Bad("has more than one loss; allowed: one");
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

absl::StatusOr<ImportedGraph> ImportGraph(mlir::MLIRContext* context, const ModelGraph& graph, const Recipe& recipe,
                                          const ImportOptions& options) {
  return GraphImporter(context, graph, recipe, options).Run();
}

}  // namespace weft
