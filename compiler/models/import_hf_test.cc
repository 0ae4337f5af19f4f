#include "compiler/models/import_hf.h"

#include <cmath>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "compiler/models/hf_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/graph_row.h"

namespace weft {
namespace {

using testing::HasSubstr;

constexpr char kSmall[] = R"({
  "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 300, "n_positions": 64, "n_ctx": 64,
  "n_embd": 32, "n_head": 4, "n_layer": 2, "n_inner": null, "activation_function": "gelu_new", "resid_pdrop": 0.1,
  "embd_pdrop": 0.2, "attn_pdrop": 0.3, "layer_norm_epsilon": 1e-05, "initializer_range": 0.02,
  "summary_type": "cls_index", "summary_use_proj": true, "summary_activation": null, "summary_first_dropout": 0.1,
  "summary_proj_to_labels": true, "bos_token_id": 1, "eos_token_id": 1, "use_cache": true,
  "task_specific_params": {"text-generation": {"do_sample": true}}, "torch_dtype": "float32",
  "transformers_version": "4.40.0"
})";

// kSmall with one field added in front. The reader must accept the field or say why it does not.
std::string With(const std::string& field) { return absl::StrReplaceAll(kSmall, {{"{\n", "{\n" + field + ",\n"}}); }
std::string Replace(const std::string& from, const std::string& to) { return weft::Replace(kSmall, from, to); }

const GraphParameter& Parameter(const ModelGraph& graph, const std::string& name) {
  for (const GraphParameter& parameter : graph.parameters()) {
    if (parameter.name() == name) return parameter;
  }
  ADD_FAILURE() << "no parameter " << name;
  return GraphParameter::default_instance();
}

TEST(ImportHfTest, SmallModelIsValidAndHonorsEveryField) {
  auto graph = ImportHuggingFaceConfig(kSmall, "small");
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_TRUE(kernels::ValidateModelGraph(*graph).ok()) << kernels::ValidateModelGraph(*graph);
  EXPECT_EQ(graph->name(), "small");
  EXPECT_EQ(graph->vocabulary(), 300);
  EXPECT_EQ(graph->maximum_positions(), 64);
  // 2 embeddings, 12 parameters per block, 2 in the last norm; the head reuses the embedding.
  EXPECT_EQ(graph->parameters_size(), 2 + 2 * 12 + 2);
  const int64_t d = 32;
  EXPECT_EQ(Elements(*graph), 300 * d + 64 * d + 2 * (12 * d * d + 13 * d) + 2 * d);
  EXPECT_EQ(Op(*graph, "drop").attributes().dropout(), 0.2);
  EXPECT_EQ(Op(*graph, "h.0.attn.attention").attributes().dropout(), 0.3);
  EXPECT_EQ(Op(*graph, "h.1.mlp.dropout").attributes().dropout(), 0.1);
  EXPECT_EQ(Op(*graph, "h.0.ln_1").attributes().epsilon(), 1e-5);
  EXPECT_EQ(Op(*graph, "h.0.attn.attention").attributes().heads(), 4);
  EXPECT_TRUE(Op(*graph, "h.0.attn.attention").attributes().causal());
  EXPECT_DOUBLE_EQ(Op(*graph, "h.1.attn.attention").attributes().scale(), 1 / std::sqrt(8.0));
  EXPECT_TRUE(Op(*graph, "h.0.mlp.act").attributes().tanh_approximation());
  EXPECT_EQ(Op(*graph, "lm_head").inputs(1), "transformer.wte.weight");
  EXPECT_TRUE(Op(*graph, "lm_head").attributes().transpose_b());
  EXPECT_TRUE(Parameter(*graph, "transformer.wte.weight").vocabulary_rows());
  EXPECT_THAT(Parameter(*graph, "transformer.h.0.attn.c_attn.weight").shape(), testing::ElementsAre(32, 96));
  EXPECT_THAT(Parameter(*graph, "transformer.h.0.mlp.c_fc.weight").shape(), testing::ElementsAre(32, 128));
  EXPECT_EQ(Parameter(*graph, "transformer.h.0.attn.c_attn.weight").init().normal(), 0.02);
  EXPECT_EQ(Parameter(*graph, "transformer.h.0.attn.c_proj.weight").init().normal(), 0.02 / std::sqrt(4.0));
  EXPECT_EQ(Parameter(*graph, "transformer.h.1.mlp.c_proj.weight").init().normal(), 0.02 / std::sqrt(4.0));
  EXPECT_EQ(Parameter(*graph, "transformer.ln_f.weight").init().constant(), 1);
}

TEST(ImportHfTest, LayersAreEmbeddingBlocksAndHead) {
  auto graph = ImportHuggingFaceConfig(kSmall, "small");
  ASSERT_TRUE(graph.ok());
  EXPECT_EQ(Op(*graph, "wte").layer(), 0);
  EXPECT_EQ(Op(*graph, "drop").layer(), 0);
  EXPECT_EQ(Op(*graph, "h.0.ln_1").layer(), 1);
  EXPECT_EQ(Op(*graph, "h.1.mlp.residual").layer(), 2);
  EXPECT_EQ(Op(*graph, "ln_f").layer(), 3);
  EXPECT_EQ(Op(*graph, "targets").layer(), 3);
  EXPECT_EQ(Op(*graph, "loss").layer(), 3);
}

TEST(ImportHfTest, VariantsChangeTheGraph) {
  auto untied = ImportHuggingFaceConfig(With(R"("tie_word_embeddings": false)"), "m");
  ASSERT_TRUE(untied.ok()) << untied.status();
  EXPECT_EQ(Op(*untied, "lm_head").inputs(1), "lm_head.weight");
  EXPECT_TRUE(Parameter(*untied, "lm_head.weight").vocabulary_rows());
  auto exact = ImportHuggingFaceConfig(Replace("gelu_new", "gelu"), "m");
  ASSERT_TRUE(exact.ok());
  EXPECT_FALSE(Op(*exact, "h.0.mlp.act").attributes().tanh_approximation());
  auto inner = ImportHuggingFaceConfig(Replace("\"n_inner\": null", "\"n_inner\": 48"), "m");
  ASSERT_TRUE(inner.ok());
  EXPECT_THAT(Parameter(*inner, "transformer.h.0.mlp.c_proj.weight").shape(), testing::ElementsAre(48, 32));
  auto unscaled = ImportHuggingFaceConfig(With(R"("scale_attn_weights": false)"), "m");
  ASSERT_TRUE(unscaled.ok());
  EXPECT_EQ(Op(*unscaled, "h.1.attn.attention").attributes().scale(), 1);
  auto inverse = ImportHuggingFaceConfig(With(R"("scale_attn_by_inverse_layer_idx": true)"), "m");
  ASSERT_TRUE(inverse.ok());
  EXPECT_DOUBLE_EQ(Op(*inverse, "h.1.attn.attention").attributes().scale(), 1 / std::sqrt(8.0) / 2);
}

TEST(ImportHfTest, RefusesByName) {
  EXPECT_THAT(Error(With(R"("n_layers": 3)")), testing::AllOf(HasSubstr("n_layers"), HasSubstr("n_layer?")));
  EXPECT_THAT(Error(Replace("\"gpt2\"", "\"gpt3\"")),
              HasSubstr("model_type = 'gpt3'; weft has no importer for it; nearest: 'gpt2'; known: gpt2, llama"));
  // The config names another family than its architecture.
  EXPECT_THAT(Error(Replace("\"gpt2\"", "\"llama\"")),
              HasSubstr("architectures = 'GPT2LMHeadModel'; 'LlamaForCausalLM'"));
  EXPECT_THAT(Error(Replace("GPT2LMHeadModel", "GPT2ForSequenceClassification")), HasSubstr("architectures"));
  EXPECT_THAT(Error(Replace("gelu_new", "relu")),
              HasSubstr("activation_function = 'relu'; supported: 'gelu', 'gelu_new'"));
  EXPECT_THAT(Error(Replace("\"n_head\": 4", "\"n_head\": 5")), HasSubstr("n_head = 5; it must divide n_embd = 32"));
  EXPECT_THAT(Error(Replace("\"n_ctx\": 64", "\"n_ctx\": 32")), HasSubstr("n_ctx = 32"));
  EXPECT_THAT(Error(With(R"("add_cross_attention": true)")), HasSubstr("add_cross_attention = true"));
  EXPECT_THAT(Error(With(R"("is_encoder_decoder": true)")), HasSubstr("is_encoder_decoder"));
  EXPECT_THAT(Error(With(R"("pruned_heads": {"0": [1]})")), HasSubstr("pruned_heads"));
  EXPECT_THAT(Error(With(R"("chunk_size_feed_forward": 8)")), HasSubstr("chunk_size_feed_forward"));
}

TEST(ImportHfTest, RefusesImpossibleValues) {
  for (const char* value : {"0", "-1", "2.5", "1e30", "\"12\"", "true", "[3]", "{}", "null"}) {
    EXPECT_THAT(Error(Replace("\"n_layer\": 2", absl::StrCat("\"n_layer\": ", value))), HasSubstr("n_layer")) << value;
    EXPECT_THAT(Error(Replace("\"vocab_size\": 300", absl::StrCat("\"vocab_size\": ", value))),
                HasSubstr("vocab_size"));
  }
  for (const char* value : {"1", "-0.1", "\"0.1\"", "true"}) {
    EXPECT_THAT(Error(Replace("\"resid_pdrop\": 0.1", absl::StrCat("\"resid_pdrop\": ", value))),
                HasSubstr("resid_pdrop"));
  }
  EXPECT_THAT(Error(Replace("1e-05", "0")), HasSubstr("layer_norm_epsilon"));
  EXPECT_THAT(Error(With(R"("tie_word_embeddings": 1)")), HasSubstr("tie_word_embeddings = 1; true or false"));
  EXPECT_THAT(Error("[1]"), HasSubstr("JSON"));
  EXPECT_THAT(Error("{\"model_type\": "), HasSubstr("JSON:1:16: expected a value"));
  EXPECT_THAT(Error(""), HasSubstr("JSON:1:1: expected a value"));
  EXPECT_THAT(Error("{}"), HasSubstr("model_type = (not set); it is required"));
  EXPECT_THAT(Error(R"({"hidden_size": 128})"),
              HasSubstr("model_type = (not set); it is required, because it selects the importer; known: gpt2, llama, "
                        "mistral"));
  EXPECT_THAT(Error(R"({"n_embd": 128})"), HasSubstr("vocab_size"));
  EXPECT_THAT(Error(R"({"architectures": ["GPT2LMHeadModel"]})"), HasSubstr("vocab_size"));
  EXPECT_THAT(Error(With(R"("quantization_config": {"bits": 4}, "a_word": 1)")),
              HasSubstr("quantization_config = an object; quantized weights cannot be trained; remove the field"));
  EXPECT_THAT(Error(With(R"("n_layer": 3)")), HasSubstr("n_layer"));  // given twice
}

TEST(ImportHfTest, NullFieldsCountAsAbsent) {
  auto plain = ImportHuggingFaceConfig(kSmall, "m");
  ASSERT_TRUE(plain.ok()) << plain.status();
  // Fields that are refused with some values, fields that are refused with any value, and optional fields.
  for (const char* field : {"quantization_config", "pruned_heads", "chunk_size_feed_forward", "is_encoder_decoder",
                            "a_word", "scale_attn_by_inverse_layer_idx", "reorder_and_upcast_attn"}) {
    auto graph = ImportHuggingFaceConfig(With(absl::StrCat("\"", field, "\": null")), "m");
    ASSERT_TRUE(graph.ok()) << graph.status();
    EXPECT_EQ(graph->SerializeAsString(), plain->SerializeAsString()) << field;
  }
  for (const char* field : {"\"architectures\": [\"GPT2LMHeadModel\"]", "\"n_ctx\": 64", "\"resid_pdrop\": 0.1"}) {
    const std::string name(field, std::string(field).find(':') + 1);
    auto graph = ImportHuggingFaceConfig(Replace(field, name + " null"), "m");
    ASSERT_TRUE(graph.ok()) << graph.status();
    EXPECT_EQ(graph->SerializeAsString(), plain->SerializeAsString()) << field;
  }
}

TEST(ImportHfTest, AModelHasOneArchitecture) {
  const std::string two = "\"GPT2LMHeadModel\", \"LlamaForCausalLM\"";
  EXPECT_THAT(Error(Replace("\"GPT2LMHeadModel\"", two)),
              HasSubstr("architectures = 'GPT2LMHeadModel', 'LlamaForCausalLM'; a model must have one architecture; "
                        "'GPT2LMHeadModel' is"));
  // Without a model_type it is not clear which of the two architectures is meant.
  EXPECT_THAT(Error(absl::StrCat("{\"architectures\": [", two, "]}")), HasSubstr("a model must have one"));
  EXPECT_THAT(Error(Replace("[\"GPT2LMHeadModel\"]", "\"GPT2LMHeadModel\"")),
              HasSubstr("architectures = 'GPT2LMHeadModel'; a list is allowed"));
  EXPECT_TRUE(ImportHuggingFaceConfig(Replace("\"GPT2LMHeadModel\"", ""), "m").ok());
}

TEST(ImportHfTest, EveryPrefixIsRefused) {
  std::string text = kSmall;
  for (size_t length = 0; length + 1 < text.size(); ++length) {
    EXPECT_FALSE(ImportHuggingFaceConfig(text.substr(0, length), "m").ok()) << length;
  }
}

TEST(ImportHfTest, TellsConfigsFromGraphs) {
  EXPECT_TRUE(IsHuggingFaceConfig(kSmall));
  EXPECT_FALSE(IsHuggingFaceConfig(R"({"name": "m", "ops": []})"));
  EXPECT_FALSE(IsHuggingFaceConfig("name: 'm'"));
}

}  // namespace
}  // namespace weft
