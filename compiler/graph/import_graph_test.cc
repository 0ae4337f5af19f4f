#include "compiler/graph/import_graph.h"

#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/models/import_hf.h"
#include "compiler/segments/training.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/graph_ops.h"
#include "mlir/IR/MLIRContext.h"
#include "tests/parse_text.h"

namespace weft {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ImportGraphTest : public testing::Test {
 protected:
  ImportGraphTest() {
    context_.loadDialect<ir::WeftDialect>();
    model_ = *ImportHuggingFaceConfig(
        R"({"model_type": "gpt2", "vocab_size": 300, "n_positions": 16, "n_embd": 8, "n_layer": 2, "n_head": 2})", "m");
    recipe_ = Parse<Recipe>("sequence_length: 16 global_batch_sequences: 8 microbatch_sequences: 2");
    for (auto set : {&Precision::set_compute, &Precision::set_params, &Precision::set_grads, &Precision::set_reduce,
                     &Precision::set_master, &Precision::set_moments}) {
      (options_.precision.*set)(FP32);
    }
  }

  ImportedGraph Import() {
    auto imported = ImportGraph(&context_, model_, recipe_, options_);
    EXPECT_TRUE(imported.ok()) << imported.status();
    return imported.ok() ? *std::move(imported) : ImportedGraph();
  }
  std::string Error() {
    const absl::Status status = ImportGraph(&context_, model_, recipe_, options_).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  }
  // Returns the error if only `change` is applied to the model, the recipe or the options.
  std::string ErrorWith(const std::function<void()>& change) {
    const auto before = std::make_tuple(model_, recipe_, options_);
    change();
    std::string error = Error();
    std::tie(model_, recipe_, options_) = before;
    return error;
  }
  // Weight decay of the tensor with this name.
  double DecayOf(const ImportedGraph& imported, const std::string& name) {
    for (const LogicalTensor& tensor : imported.tensors) {
      if (tensor.name() == name) return tensor.weight_decay();
    }
    ADD_FAILURE() << "no tensor " << name;
    return -1;
  }

  mlir::MLIRContext context_{mlir::MLIRContext::Threading::DISABLED};
  ModelGraph model_;
  Recipe recipe_;
  ImportOptions options_;
};

TEST_F(ImportGraphTest, ATensorForEveryParameter) {
  for (const int64_t shards : {1, 2, 3, 8}) {
    options_.vocabulary_shards = shards;
    ImportedGraph imported = Import();
    ASSERT_EQ(static_cast<int>(imported.tensors.size()), model_.parameters_size());
    int index = 0;
    for (ir::TensorOp op : imported.module->getOps<ir::TensorOp>()) {
      const GraphParameter& parameter = model_.parameters(index);
      const LogicalTensor& tensor = imported.tensors[index];
      SCOPED_TRACE(parameter.name());
      EXPECT_EQ(tensor.name(), parameter.name());
      EXPECT_EQ(op.getSymName().str(), parameter.name());
      EXPECT_EQ(static_cast<int>(op.getIndex()), index++);
      EXPECT_EQ(op.getUses(), static_cast<uint32_t>(tensor.uses()));
      // Every parameter has one use, except the embedding, which the head reads too.
      EXPECT_EQ(tensor.uses(), absl::StrContains(parameter.name(), "wte") ? 2 : 1);
      const std::vector<int64_t> shape(parameter.shape().begin(), parameter.shape().end());
      std::vector<int64_t> padded = shape;
      if (parameter.vocabulary_rows()) {
        // The vocabulary is padded to the smallest number that gives every rank an equal and aligned part.
        EXPECT_GE(tensor.padded_shape(0), 300);
        EXPECT_LT(tensor.padded_shape(0), 300 + kVocabularyAlignment * shards);
        EXPECT_EQ(tensor.padded_shape(0) % (kVocabularyAlignment * shards), 0);
        padded[0] = tensor.padded_shape(0);
      }
      EXPECT_EQ(std::vector<int64_t>(tensor.shape().begin(), tensor.shape().end()), shape);
      EXPECT_EQ(std::vector<int64_t>(tensor.padded_shape().begin(), tensor.padded_shape().end()), padded);
      EXPECT_EQ(mlir::cast<mlir::RankedTensorType>(op.getType()).getShape(), llvm::ArrayRef<int64_t>(padded));
    }
    EXPECT_EQ(index, model_.parameters_size());
  }
}

TEST_F(ImportGraphTest, TypesAreThoseOfThePrecision) {
  options_.precision.set_compute(BF16);
  options_.precision.set_params(FP16);
  options_.precision.set_master(FP64);
  ImportedGraph imported = Import();
  for (ir::TensorOp op : imported.module->getOps<ir::TensorOp>()) {
    EXPECT_TRUE(mlir::cast<mlir::RankedTensorType>(op.getType()).getElementType().isF16());
  }
  int products = 0;
  imported.module->walk([&](ir::MatmulOp op) {
    ++products;
    EXPECT_TRUE(mlir::cast<mlir::RankedTensorType>(op->getResult(0).getType()).getElementType().isBF16());
  });
  EXPECT_GT(products, 4);
  const auto training = GetTraining(*imported.module);
  ASSERT_TRUE(mlir::succeeded(training));
  EXPECT_TRUE(training->master.isF64());
  EXPECT_TRUE(training->grads.isF32());
}

// There is one loss for each microbatch of a repetition.
TEST_F(ImportGraphTest, LossesOfAllMicrobatches) {
  for (const auto& [microbatch, steps, losses] :
       {std::tuple{2, 0, 4}, std::tuple{8, 0, 1}, std::tuple{0, 0, 8}, std::tuple{2, 3, 12}}) {
    recipe_.set_microbatch_sequences(microbatch);
    options_.steps_per_repetition = steps;
    ImportedGraph imported = Import();
    ir::GraphOp graph = *imported.module->getOps<ir::GraphOp>().begin();
    const auto type = mlir::cast<mlir::RankedTensorType>(graph.getBody().getArgument(0).getType());
    EXPECT_EQ(type.getDimSize(0), losses);
    EXPECT_TRUE(type.getElementType().isF64());
    EXPECT_EQ(GetTraining(*imported.module)->asynchronous, steps > 0);
  }
}

TEST_F(ImportGraphTest, DecayIsOfMatricesUnlessAPatternSaysOtherwise) {
  const ImportedGraph plain = Import();
  for (const LogicalTensor& tensor : plain.tensors) {
    EXPECT_EQ(tensor.weight_decay(), tensor.shape_size() >= 2 ? 0.1 : 0) << tensor.name();
  }
  recipe_ = Parse<Recipe>("sequence_length: 16 global_batch_sequences: 8 sgd { weight_decay: 0.25 }");
  for (const LogicalTensor& tensor : Import().tensors) {
    EXPECT_EQ(tensor.weight_decay(), tensor.shape_size() >= 2 ? 0.25 : 0) << tensor.name();
  }
}

TEST_F(ImportGraphTest, TheFirstPatternThatMatchesDecides) {
  std::string weight, bias, other;
  for (const GraphParameter& parameter : model_.parameters()) {
    if (absl::StrContains(parameter.name(), "h.0.") && absl::EndsWith(parameter.name(), "c_attn.weight"))
      weight = parameter.name();
    if (absl::StrContains(parameter.name(), "h.0.") && absl::EndsWith(parameter.name(), "c_attn.bias"))
      bias = parameter.name();
    if (absl::StrContains(parameter.name(), "h.1.") && absl::EndsWith(parameter.name(), "c_attn.weight"))
      other = parameter.name();
  }
  const std::pair<std::string, bool> patterns[] = {
      {weight, true},
      {"*", true},
      {"**", true},
      {"*c_attn.weight", true},
      {"*h.0.*.weight", true},
      {"*h.0*attn*weight*", true},
      {absl::StrCat(weight, "*"), true},
      // Here the matcher must step back to the last star more than once.
      {"*t*t*t", true},
      {"", false},
      {"c_attn.weight", false},
      {"*c_attn.weigh", false},
      {"*h.1.*", false},
      {absl::StrCat(weight, "?"), false},
      {"*weight*weight", false},
  };
  for (const auto& [pattern, matches] : patterns) {
    recipe_.clear_adamw();
    DecayOverride& given = *recipe_.mutable_adamw()->add_overrides();
    given.set_pattern(pattern);
    given.set_weight_decay(0.5);
    EXPECT_EQ(DecayOf(Import(), weight), matches ? 0.5 : 0.1) << pattern;
  }
  *recipe_.mutable_adamw() = Parse<AdamW>(
      "weight_decay: 0.3 overrides { pattern: '*.bias' weight_decay: 0.2 } overrides { pattern: '*h.0.*' } "
      "overrides { pattern: '*c_attn*' weight_decay: 0.4 }");
  const ImportedGraph imported = Import();
  EXPECT_EQ(DecayOf(imported, bias), 0.2);
  EXPECT_EQ(DecayOf(imported, weight), 0);
  EXPECT_EQ(DecayOf(imported, other), 0.4);
}

// GPT-2's residual projections start with smaller values. They still do when the recipe states the deviation.
TEST_F(ImportGraphTest, TheLargestDeviationIsThatOfTheRecipe) {
  const ImportedGraph plain = Import();
  recipe_.mutable_init()->set_normal(0.5);
  const ImportedGraph given = Import();
  double largest = 0;
  int smaller = 0;
  for (size_t i = 0; i < plain.tensors.size(); ++i) {
    const LogicalTensor &before = plain.tensors[i], &after = given.tensors[i];
    EXPECT_EQ(after.init_constant(), before.init_constant());
    EXPECT_DOUBLE_EQ(after.init_normal(), before.init_normal() * 0.5 / 0.02) << after.name();
    largest = std::max(largest, after.init_normal());
    smaller += after.init_normal() > 0 && after.init_normal() < 0.4;
  }
  EXPECT_DOUBLE_EQ(largest, 0.5);
  EXPECT_EQ(smaller, 4);
}

// Returns (site, probability) for the ops that drop values, in model order.
std::vector<std::pair<int, double>> SitesOf(ImportedGraph imported) {
  std::vector<std::pair<int, double>> sites;
  imported.module->walk([&](mlir::Operation* op) {
    if (auto dropout = mlir::dyn_cast<ir::DropoutOp>(op)) {
      sites.push_back({dropout.getDropoutSite(), dropout.getDropout().convertToDouble()});
    } else if (auto attention = mlir::dyn_cast<ir::AttentionOp>(op)) {
      sites.push_back({attention.getDropoutSite(), attention.getDropout().convertToDouble()});
    }
  });
  return sites;
}

TEST_F(ImportGraphTest, SitesOfDropoutAreNumberedInModelOrder) {
  recipe_.set_dropout(0.25);
  // One site for the embedding, and three for each block.
  const auto with = SitesOf(Import());
  ASSERT_EQ(with.size(), 7u);
  for (size_t i = 0; i < with.size(); ++i) EXPECT_EQ(with[i], std::pair(static_cast<int>(i), 0.25));
  // Without dropout the attention ops remain, but their sites drop nothing.
  recipe_.set_dropout(0);
  EXPECT_THAT(SitesOf(Import()), ElementsAre(std::pair(0, 0.0), std::pair(0, 0.0)));
  recipe_.set_dropout(0.25);
  options_.evaluation = true;
  ImportedGraph evaluation = Import();
  EXPECT_FALSE((*evaluation.module)->hasAttr("weft.training"));
  EXPECT_THAT(SitesOf(std::move(evaluation)), ElementsAre(std::pair(0, 0.0), std::pair(0, 0.0)));
}

TEST_F(ImportGraphTest, TrainingIsThatOfTheRecipe) {
  const auto training = [&] {
    ImportedGraph imported = Import();
    return *GetTraining(*imported.module);
  };
  Training read = training();
  EXPECT_TRUE(read.adamw);
  EXPECT_EQ(read.beta1, 0.9);
  EXPECT_EQ(read.beta2, 0.95);
  EXPECT_EQ(read.epsilon, 1e-8);
  EXPECT_EQ(read.clip_norm, 1);
  EXPECT_FALSE(read.scaled());
  recipe_ = Parse<Recipe>(
      "sequence_length: 16 global_batch_sequences: 8 sgd { momentum: 0.5 } clip_norm: 0 weight_rounding: STOCHASTIC");
  options_.loss_scale.set_fixed(64);
  read = training();
  EXPECT_FALSE(read.adamw);
  EXPECT_EQ(read.momentum, 0.5);
  EXPECT_EQ(read.clip_norm, 0);
  EXPECT_TRUE(read.stochastic_rounding);
  EXPECT_EQ(read.loss_scale, 64);
  EXPECT_FALSE(read.dynamic());
  // A loss scale that grows starts at its own initial value.
  options_.loss_scale.set_initial(1024);
  options_.loss_scale.set_growth_interval(10);
  read = training();
  EXPECT_EQ(read.loss_scale, 1024);
  EXPECT_EQ(read.growth_interval, 10);
}

TEST_F(ImportGraphTest, SettingsThatAreWrongAreNamed) {
  EXPECT_THAT(ErrorWith([&] { options_.precision.set_moments(INT32); }),
              HasSubstr("precision.moments is INT32; allowed: FP64, FP32, BF16, FP16"));
  EXPECT_THAT(ErrorWith([&] { options_.precision.clear_compute(); }),
              HasSubstr("precision.compute is DTYPE_UNSPECIFIED"));
  for (const int64_t sequences : {int64_t{3}, int64_t{16}, std::numeric_limits<int64_t>::max()}) {
    EXPECT_THAT(ErrorWith([&] { recipe_.set_microbatch_sequences(sequences); }),
                HasSubstr(absl::StrCat("microbatch_sequences = ", sequences)));
  }
  for (const int64_t length : {int64_t{0}, int64_t{-1}, std::numeric_limits<int64_t>::min()}) {
    EXPECT_THAT(ErrorWith([&] { recipe_.set_sequence_length(length); }),
                HasSubstr(absl::StrCat("sequence_length = ", length)));
  }
  EXPECT_THAT(ErrorWith([&] { recipe_.set_global_batch_sequences(0); }), HasSubstr("must be positive"));
  EXPECT_THAT(ErrorWith([&] { recipe_.set_sequence_length(17); }),
              HasSubstr("recipe.sequence_length = 17 is more than the model's maximum of 16 positions"));
  // The number of losses overflows.
  EXPECT_THAT(ErrorWith([&] {
                recipe_.set_global_batch_sequences(int64_t{1} << 62);
                options_.steps_per_repetition = 8;
              }),
              AllOf(HasSubstr("global_batch_sequences = 4611686018427387904"), HasSubstr("8 steps")));
  EXPECT_THAT(ErrorWith([&] { model_.set_vocabulary(0); }), HasSubstr("vocabulary is 0"));
}

TEST_F(ImportGraphTest, ParametersThatAreWrongAreNamed) {
  const std::string name = model_.parameters(2).name();
  const auto with = [&](const std::function<void(GraphParameter&)>& change) {
    return ErrorWith([&] { change(*model_.mutable_parameters(2)); });
  };
  EXPECT_THAT(with([](GraphParameter& p) { p.clear_shape(); }),
              AllOf(HasSubstr("parameter '" + name + "'"), HasSubstr("has 0 dimensions, allowed: 1 to 4")));
  EXPECT_THAT(with([](GraphParameter& p) { p.mutable_shape()->Resize(5, 1); }), HasSubstr("has 5 dimensions"));
  EXPECT_THAT(with([](GraphParameter& p) { p.set_shape(0, 0); }), HasSubstr("positive extents"));
  EXPECT_THAT(with([](GraphParameter& p) {
                p.mutable_shape()->Resize(3, 1);
                for (int i = 0; i < 3; ++i) p.set_shape(i, std::numeric_limits<int64_t>::max());
              }),
              HasSubstr("at most 2^56 elements"));
  EXPECT_THAT(with([](GraphParameter& p) { p.set_vocabulary_rows(true); }),
              HasSubstr("has vocabulary_rows, but 8 rows; it needs one for each token, 300"));
  EXPECT_THAT(with([&](GraphParameter& p) { p.set_name(model_.parameters(0).name()); }), HasSubstr("must be unique"));
  EXPECT_THAT(with([](GraphParameter& p) { p.clear_name(); }), HasSubstr("must be unique and not empty"));
  EXPECT_THAT(ErrorWith([&] {
                *model_.add_parameters() = model_.parameters(2);
                model_.mutable_parameters()->rbegin()->set_name("idle");
              }),
              HasSubstr("parameter 'idle' is read by no op"));
}

TEST_F(ImportGraphTest, TheLossIsTheLastOpsOutput) {
  EXPECT_THAT(ErrorWith([&] { model_.set_loss("nothing"); }),
              HasSubstr("loss 'nothing' must be the output of the last cross_entropy or squared_error op"));
  EXPECT_THAT(ErrorWith([&] { model_.set_loss(model_.ops(0).outputs(0)); }),
              HasSubstr("must be the output of the last"));
  // The graph has two losses.
  EXPECT_THAT(ErrorWith([&] {
                GraphOp second = model_.ops(model_.ops_size() - 1);
                second.set_name("again");
                second.set_outputs(0, "second loss");
                *model_.add_ops() = second;
                model_.set_loss("second loss");
              }),
              HasSubstr("has more than one loss"));
}

}  // namespace
}  // namespace weft
