// Tests ops whose attributes depend on the recipe: masked tokens, windows, rotary positions by length.
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "compiler/graph/import_graph.h"
#include "compiler/models/import_hf.h"
#include "gtest/gtest.h"
#include "ir/graph_ops.h"
#include "mlir/IR/MLIRContext.h"

namespace weft {
namespace {

class ImportOpsTest : public testing::Test {
 protected:
  ImportOpsTest() { context_.loadDialect<ir::WeftDialect>(); }

  void Import(const std::string& config, int64_t sequence) {
    absl::StatusOr<ModelGraph> model = ImportHuggingFaceConfig(config, "m");
    ASSERT_TRUE(model.ok()) << model.status();
    Recipe recipe;
    recipe.set_sequence_length(sequence);
    recipe.set_global_batch_sequences(8);
    recipe.set_microbatch_sequences(2);
    ImportOptions options;
    for (auto set : {&Precision::set_compute, &Precision::set_params, &Precision::set_grads, &Precision::set_reduce,
                     &Precision::set_master, &Precision::set_moments}) {
      (options.precision.*set)(FP32);
    }
    absl::StatusOr<ImportedGraph> imported = ImportGraph(&context_, *model, recipe, options);
    ASSERT_TRUE(imported.ok()) << imported.status();
    module_ = std::move(imported->module);
  }

  template <typename Op>
  Op First() {
    Op first;
    module_->walk([&](Op op) {
      if (!first) first = op;
    });
    EXPECT_TRUE(first);
    return first;
  }

  mlir::MLIRContext context_{mlir::MLIRContext::Threading::DISABLED};
  mlir::OwningOpRef<mlir::ModuleOp> module_;
};

std::string Llama(const std::string& fields) {
  return absl::StrCat(R"({"model_type": "mistral", "vocab_size": 300, "hidden_size": 32, "intermediate_size": 88,
    "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64, )",
                      fields, "}");
}

constexpr char kBert[] = R"({"model_type": "bert", "vocab_size": 300, "hidden_size": 32, "intermediate_size": 64,
    "num_hidden_layers": 1, "num_attention_heads": 4, "max_position_embeddings": 64, "mask_token_id": 7})";

// round(0.15 * S) tokens are masked, at least one. The loss is divided by their number.
TEST_F(ImportOpsTest, MaskedTokens) {
  for (const auto& [sequence, masked] : {std::pair{64, 10}, std::pair{16, 2}, std::pair{3, 1}, std::pair{1, 1}}) {
    Import(kBert, sequence);
    auto tokens = First<ir::LoadTokensOp>();
    auto targets = First<ir::LoadTargetsOp>();
    EXPECT_EQ(tokens.getMasked(), masked);
    EXPECT_EQ(targets.getMasked(), masked);
    EXPECT_EQ(tokens.getMaskToken(), 7);
    EXPECT_EQ(targets.getVocabulary(), 300);
    EXPECT_EQ(First<ir::CrossEntropyOp>().getLossWeight().convertToDouble(), 1.0 / (8 * masked));
  }
  Import(Llama("\"sliding_window\": 4"), 16);
  EXPECT_EQ(First<ir::LoadTokensOp>().getMasked(), 0);
  EXPECT_EQ(First<ir::CrossEntropyOp>().getLossWeight().convertToDouble(), 1.0 / (8 * 16));
}

// All token types read row 0.
TEST_F(ImportOpsTest, TokenTypes) {
  Import(kBert, 16);
  int types = 0;
  module_->walk([&](ir::PositionEmbeddingOp op) { types += op.getSequence() == 1; });
  EXPECT_EQ(types, 1);
}

TEST_F(ImportOpsTest, WindowsThatHideNothingAreNone) {
  for (const auto& [sequence, window] : {std::pair{16, 9}, std::pair{10, 9}, std::pair{9, 0}, std::pair{4, 0}}) {
    Import(Llama("\"sliding_window\": 9"), sequence);
    EXPECT_EQ(First<ir::AttentionOp>().getWindow(), window) << sequence;
    EXPECT_EQ(First<ir::AttentionOp>().getKvHeads(), 2);
  }
}

TEST_F(ImportOpsTest, DynamicRopeFollowsTheLength) {
  const std::string config = Llama(R"("rope_scaling": {"type": "dynamic", "factor": 4.0})");
  for (int64_t sequence : {16, 64, 65, 256}) {
    Import(config, sequence);
    auto rope = First<ir::RopeOp>();
    // Dynamic NTK as published: for more than P positions, the base is base * (factor * L / P - (factor - 1))^(d / (d -
    // 2)).
    const double length = std::max<double>(64, static_cast<double>(sequence));
    EXPECT_NEAR(rope.getBase().convertToDouble(), 10000 * std::pow(4.0 * length / 64 - 3, 8.0 / 6), 1e-6) << sequence;
    EXPECT_EQ(rope.getFactor().convertToDouble(), 0);
    EXPECT_EQ(rope.getSequence(), sequence);
  }
}

}  // namespace
}  // namespace weft
