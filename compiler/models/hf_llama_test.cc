// Tests Llama, Mistral and Qwen2 configs: names, shapes and attributes of the imported graphs, and which configs are
// refused.
#include <cmath>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "compiler/models/hf_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr char kLlama[] = R"({
  "model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 300, "hidden_size": 32,
  "intermediate_size": 88, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
  "max_position_embeddings": 64, "hidden_act": "silu", "rms_norm_eps": 1e-05, "initializer_range": 0.02,
  "rope_theta": 500000.0, "rope_scaling": null, "attention_bias": false, "attention_dropout": 0.25, "mlp_bias": false,
  "pretraining_tp": 1, "tie_word_embeddings": false, "use_cache": true, "torch_dtype": "bfloat16"
})";
constexpr char kMistral[] = R"({
  "model_type": "mistral", "vocab_size": 300, "hidden_size": 32, "intermediate_size": 88, "num_hidden_layers": 2,
  "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64, "sliding_window": 16
})";
constexpr char kQwen2[] = R"({
  "model_type": "qwen2", "vocab_size": 300, "hidden_size": 32, "intermediate_size": 88, "num_hidden_layers": 3,
  "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64, "sliding_window": 16,
  "max_window_layers": 1, "use_sliding_window": false
})";

std::string With(const std::string& text, const std::string& field) {
  return absl::StrReplaceAll(text, {{"{\n", "{\n" + field + ",\n"}});
}
std::map<std::string, GraphParameter> Parameters(const ModelGraph& graph) {
  std::map<std::string, GraphParameter> parameters;
  for (const GraphParameter& parameter : graph.parameters()) parameters[parameter.name()] = parameter;
  return parameters;
}

TEST(HfLlamaTest, NamesShapesAndAttributes) {
  const ModelGraph graph = Import(kLlama);
  EXPECT_EQ(graph.vocabulary(), 300);
  EXPECT_EQ(graph.maximum_positions(), 64);
  auto parameters = Parameters(graph);
  // The embedding, 9 parameters per block, the last norm, the head.
  EXPECT_EQ(graph.parameters_size(), 1 + 2 * 9 + 1 + 1);
  EXPECT_THAT(parameters["model.embed_tokens.weight"].shape(), ElementsAre(300, 32));
  EXPECT_TRUE(parameters["model.embed_tokens.weight"].vocabulary_rows());
  EXPECT_THAT(parameters["model.layers.1.self_attn.q_proj.weight"].shape(), ElementsAre(32, 32));
  EXPECT_THAT(parameters["model.layers.1.self_attn.k_proj.weight"].shape(), ElementsAre(16, 32));
  EXPECT_THAT(parameters["model.layers.1.self_attn.v_proj.weight"].shape(), ElementsAre(16, 32));
  EXPECT_THAT(parameters["model.layers.0.mlp.gate_proj.weight"].shape(), ElementsAre(88, 32));
  EXPECT_THAT(parameters["model.layers.0.mlp.down_proj.weight"].shape(), ElementsAre(32, 88));
  EXPECT_THAT(parameters["model.norm.weight"].shape(), ElementsAre(32));
  EXPECT_EQ(parameters["model.layers.0.input_layernorm.weight"].init().constant(), 1);
  EXPECT_EQ(parameters["model.layers.0.mlp.up_proj.weight"].init().normal(), 0.02);
  EXPECT_EQ(parameters["model.layers.0.mlp.down_proj.weight"].init().normal(), 0.02 / std::sqrt(4.0));
  EXPECT_EQ(parameters["model.layers.0.self_attn.o_proj.weight"].init().normal(), 0.02 / std::sqrt(4.0));
  EXPECT_TRUE(parameters["lm_head.weight"].vocabulary_rows());

  const OpAttributes& attention = Op(graph, "layers.1.self_attn.attention").attributes();
  EXPECT_EQ(attention.heads(), 4);
  EXPECT_EQ(attention.kv_heads(), 2);
  EXPECT_TRUE(attention.causal());
  EXPECT_EQ(attention.window(), 0);
  EXPECT_EQ(attention.dropout(), 0.25);
  EXPECT_DOUBLE_EQ(attention.scale(), 1 / std::sqrt(8.0));
  EXPECT_THAT(Op(graph, "layers.1.self_attn.attention").inputs(),
              ElementsAre("layers.1.self_attn.q_rope", "layers.1.self_attn.k_rope", "layers.1.self_attn.v_proj"));
  const OpAttributes& rope = Op(graph, "layers.0.self_attn.k_rope").attributes();
  EXPECT_EQ(rope.head_size(), 8);
  EXPECT_EQ(rope.base(), 500000);
  EXPECT_EQ(rope.factor(), 0);
  EXPECT_EQ(Op(graph, "layers.0.input_layernorm").attributes().epsilon(), 1e-5);
  EXPECT_TRUE(Op(graph, "layers.0.self_attn.q_proj").attributes().transpose_b());
  EXPECT_EQ(Op(graph, "layers.0.self_attn.q_proj").inputs_size(), 2);
  EXPECT_EQ(Op(graph, "embed_tokens").layer(), 0);
  EXPECT_EQ(Op(graph, "layers.1.mlp.residual").layer(), 2);
  EXPECT_EQ(Op(graph, "loss").layer(), 3);
}

TEST(HfLlamaTest, VariantsChangeTheGraph) {
  const ModelGraph tied = Import(Replace(kLlama, "\"tie_word_embeddings\": false", "\"tie_word_embeddings\": true"));
  EXPECT_EQ(Op(tied, "lm_head").inputs(1), "model.embed_tokens.weight");
  const ModelGraph biased = Import(Replace(Replace(kLlama, "\"attention_bias\": false", "\"attention_bias\": true"),
                                           "\"mlp_bias\": false", "\"mlp_bias\": true"));
  auto parameters = Parameters(biased);
  EXPECT_THAT(parameters["model.layers.0.self_attn.k_proj.bias"].shape(), ElementsAre(16));
  EXPECT_THAT(parameters["model.layers.0.self_attn.o_proj.bias"].shape(), ElementsAre(32));
  EXPECT_THAT(parameters["model.layers.0.mlp.gate_proj.bias"].shape(), ElementsAre(88));
  EXPECT_EQ(biased.parameters_size(), 1 + 2 * 16 + 2);
  const ModelGraph wide = Import(With(kLlama, "\"head_dim\": 16"));
  EXPECT_THAT(Parameters(wide)["model.layers.0.self_attn.q_proj.weight"].shape(), ElementsAre(64, 32));
  EXPECT_THAT(Parameters(wide)["model.layers.0.self_attn.o_proj.weight"].shape(), ElementsAre(32, 64));
  EXPECT_DOUBLE_EQ(Op(wide, "layers.0.self_attn.attention").attributes().scale(), 0.25);
  const ModelGraph full = Import(Replace(kLlama, "\"num_key_value_heads\": 2,", ""));
  EXPECT_EQ(Op(full, "layers.0.self_attn.attention").attributes().kv_heads(), 4);
  // The architecture alone identifies the family.
  EXPECT_EQ(Import(Replace(kLlama, "\"model_type\": \"llama\",", "")).parameters_size(), 21);
}

TEST(HfLlamaTest, MistralHasWindows) {
  EXPECT_EQ(Op(Import(kMistral), "layers.1.self_attn.attention").attributes().window(), 16);
  EXPECT_EQ(Op(Import(Replace(kMistral, "\"sliding_window\": 16", "\"sliding_window\": null")),
               "layers.0.self_attn.attention")
                .attributes()
                .window(),
            0);
  // An absent field takes the default of the published code.
  EXPECT_EQ(Op(Import(Replace(kMistral, ", \"sliding_window\": 16", "")), "layers.0.self_attn.attention")
                .attributes()
                .window(),
            4096);
}

TEST(HfLlamaTest, Qwen2HasBiasesAndWindowsOfSomeLayers) {
  const ModelGraph graph = Import(kQwen2);
  auto parameters = Parameters(graph);
  EXPECT_THAT(parameters["model.layers.0.self_attn.q_proj.bias"].shape(), ElementsAre(32));
  EXPECT_THAT(parameters["model.layers.0.self_attn.v_proj.bias"].shape(), ElementsAre(16));
  EXPECT_EQ(parameters.count("model.layers.0.self_attn.o_proj.bias"), 0);
  EXPECT_EQ(Op(graph, "layers.2.self_attn.attention").attributes().window(), 0);
  const std::string used = Replace(kQwen2, "\"use_sliding_window\": false", "\"use_sliding_window\": true");
  EXPECT_EQ(Op(Import(used), "layers.0.self_attn.attention").attributes().window(), 0);
  EXPECT_EQ(Op(Import(used), "layers.1.self_attn.attention").attributes().window(), 16);
  const std::string types = "\"layer_types\": [\"sliding_attention\", \"full_attention\", \"full_attention\"]";
  EXPECT_EQ(Op(Import(With(used, types)), "layers.0.self_attn.attention").attributes().window(), 16);
  EXPECT_EQ(Op(Import(With(used, types)), "layers.1.self_attn.attention").attributes().window(), 0);
  EXPECT_THAT(Error(With(kQwen2, types)),
              HasSubstr("layer_types[0] = 'sliding_attention'; it needs use_sliding_window"));
  EXPECT_THAT(Error(With(used, "\"layer_types\": [\"full_attention\"]")), HasSubstr("a list of 3 names"));
  EXPECT_THAT(Error(With(used, "\"layer_types\": [\"a\", \"full_attention\", \"full_attention\"]")),
              HasSubstr("layer_types[0] = 'a'"));
  EXPECT_THAT(Error(With(kQwen2, "\"use_mrope\": true")), HasSubstr("use_mrope = true"));
}

TEST(HfLlamaTest, RefusesByName) {
  EXPECT_THAT(Error(Replace(kLlama, "silu", "gelu")), HasSubstr("hidden_act = 'gelu'; supported: 'silu', 'swish'"));
  EXPECT_THAT(Error(Replace(kLlama, "\"num_key_value_heads\": 2", "\"num_key_value_heads\": 3")),
              HasSubstr("num_key_value_heads = 3; it must divide num_attention_heads = 4"));
  EXPECT_THAT(Error(Replace(kLlama, "\"num_attention_heads\": 4", "\"num_attention_heads\": 6")),
              HasSubstr("num_attention_heads = 6; it must divide hidden_size = 32"));
  EXPECT_THAT(Error(With(kLlama, "\"head_dim\": 7")), HasSubstr("head_dim = 7; rotary positions need an even number"));
  EXPECT_THAT(Error(Replace(kLlama, "\"pretraining_tp\": 1", "\"pretraining_tp\": 2")),
              HasSubstr("pretraining_tp = 2"));
  EXPECT_THAT(Error(With(kLlama, "\"sliding_window\": 16")),
              HasSubstr("'sliding_window' is not a known field of a Llama"));
  EXPECT_THAT(Error(With(kMistral, "\"mlp_bias\": false")), HasSubstr("'mlp_bias' is not a known field of a Mistral"));
  EXPECT_THAT(Error(With(kLlama, "\"quantization_config\": {}")), HasSubstr("quantization_config"));
  EXPECT_THAT(Error(With(kLlama, "\"hidden_sizes\": 32")), HasSubstr("did you mean hidden_size?"));
  EXPECT_THAT(Error(With(kLlama, "\"is_encoder_decoder\": true")), HasSubstr("is_encoder_decoder = true"));
  for (const char* value : {"0", "-1", "2.5", "1e30", "\"12\"", "true", "[3]", "{}", "null"}) {
    for (const char* field : {"hidden_size\": 32", "num_hidden_layers\": 2", "vocab_size\": 300"}) {
      const std::string name(field, std::string(field).find('"'));
      EXPECT_THAT(Error(Replace(kLlama, absl::StrCat("\"", field), absl::StrCat("\"", name, "\": ", value))),
                  HasSubstr(name));
    }
  }
  EXPECT_THAT(Error(Replace(kLlama, "1e-05", "0")), HasSubstr("rms_norm_eps"));
  EXPECT_THAT(Error(Replace(kLlama, "0.25", "1")), HasSubstr("attention_dropout"));
  EXPECT_THAT(Error(Replace(kLlama, "500000.0", "1")), HasSubstr("rope_theta = 1;"));
}

}  // namespace
}  // namespace weft
