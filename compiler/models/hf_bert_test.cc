// Tests BERT configs: names, shapes and attributes of the imported graphs, and which configs are refused.
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "compiler/models/hf_activation.h"
#include "compiler/models/hf_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr char kBert[] = R"({
  "model_type": "bert", "architectures": ["BertForMaskedLM"], "vocab_size": 300, "hidden_size": 32,
  "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 64,
  "type_vocab_size": 2, "hidden_act": "gelu", "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.2,
  "layer_norm_eps": 1e-12, "initializer_range": 0.02, "pad_token_id": 0, "position_embedding_type": "absolute",
  "classifier_dropout": null, "gradient_checkpointing": false, "use_cache": true
})";

std::string Replace(const std::string& from, const std::string& to) { return weft::Replace(kBert, from, to); }
std::string With(const std::string& field) { return Replace("{\n", "{\n" + field + ",\n"); }

TEST(HfBertTest, NamesShapesAndAttributes) {
  const ModelGraph graph = Import(kBert);
  std::map<std::string, GraphParameter> parameters;
  for (const GraphParameter& parameter : graph.parameters()) parameters[parameter.name()] = parameter;
  // 5 parameters in the embeddings, 16 per block, 5 in the head, which reuses the embedding.
  EXPECT_EQ(graph.parameters_size(), 5 + 2 * 16 + 5);
  EXPECT_THAT(parameters["bert.embeddings.word_embeddings.weight"].shape(), ElementsAre(300, 32));
  EXPECT_THAT(parameters["bert.embeddings.position_embeddings.weight"].shape(), ElementsAre(64, 32));
  EXPECT_THAT(parameters["bert.embeddings.token_type_embeddings.weight"].shape(), ElementsAre(2, 32));
  EXPECT_THAT(parameters["bert.embeddings.LayerNorm.bias"].shape(), ElementsAre(32));
  EXPECT_THAT(parameters["bert.encoder.layer.1.attention.self.query.weight"].shape(), ElementsAre(32, 32));
  EXPECT_THAT(parameters["bert.encoder.layer.1.attention.output.dense.bias"].shape(), ElementsAre(32));
  EXPECT_THAT(parameters["bert.encoder.layer.1.intermediate.dense.weight"].shape(), ElementsAre(128, 32));
  EXPECT_THAT(parameters["bert.encoder.layer.1.output.LayerNorm.weight"].shape(), ElementsAre(32));
  EXPECT_THAT(parameters["cls.predictions.transform.dense.weight"].shape(), ElementsAre(32, 32));
  EXPECT_THAT(parameters["cls.predictions.bias"].shape(), ElementsAre(300));
  EXPECT_TRUE(parameters["cls.predictions.bias"].vocabulary_rows());
  EXPECT_EQ(parameters["bert.encoder.layer.1.output.dense.weight"].init().normal(), 0.02);

  EXPECT_EQ(Op(graph, "tokens").attributes().masked_fraction(), 0.15);
  EXPECT_EQ(Op(graph, "targets").attributes().mask_token(), 103);
  const OpAttributes& attention = Op(graph, "layer.0.attention.self").attributes();
  EXPECT_FALSE(attention.causal());
  EXPECT_EQ(attention.heads(), 4);
  EXPECT_EQ(attention.kv_heads(), 4);
  EXPECT_EQ(attention.dropout(), 0.2);
  EXPECT_EQ(Op(graph, "embeddings.dropout").attributes().dropout(), 0.1);
  EXPECT_EQ(Op(graph, "layer.1.output.dropout").attributes().dropout(), 0.1);
  EXPECT_FALSE(Op(graph, "layer.1.intermediate.act").attributes().tanh_approximation());
  EXPECT_EQ(Op(graph, "layer.1.output.norm").attributes().epsilon(), 1e-12);
  // Post-norm: a block's output is normed, and its residual sum adds a dropout output and a normed value.
  EXPECT_THAT(Op(graph, "layer.1.output.residual").inputs(),
              ElementsAre("layer.1.output.dropout", "layer.1.attention.output.norm"));
  EXPECT_THAT(
      Op(graph, "predictions.decoder").inputs(),
      ElementsAre("predictions.transform.norm", "bert.embeddings.word_embeddings.weight", "cls.predictions.bias"));
  EXPECT_EQ(Op(graph, "embeddings.words").layer(), 0);
  EXPECT_EQ(Op(graph, "layer.1.output.norm").layer(), 2);
  EXPECT_EQ(Op(graph, "predictions.decoder").layer(), 3);
}

TEST(HfBertTest, VariantsChangeTheGraph) {
  EXPECT_EQ(Op(Import(With("\"mask_token_id\": 7")), "tokens").attributes().mask_token(), 7);
  EXPECT_EQ(Op(Import(With("\"tie_word_embeddings\": false")), "predictions.decoder").inputs(1),
            "cls.predictions.decoder.weight");
  for (const Activation& activation : Activations()) {
    const std::string name = absl::StrCat("\"", activation.name, "\"");
    const ModelGraph graph = Import(name == "\"gelu\"" ? kBert : Replace("\"gelu\"", name));
    for (const char* op : {"layer.1.intermediate.act", "predictions.transform.act"}) {
      EXPECT_EQ(Op(graph, op).kind(), activation.kind) << name;
      EXPECT_EQ(Op(graph, op).attributes().tanh_approximation(), activation.tanh_approximation) << name;
    }
  }
}

TEST(HfBertTest, RefusesByName) {
  EXPECT_THAT(Error(Replace("\"vocab_size\": 300", "\"vocab_size\": 100")), HasSubstr("mask_token_id = (not set)"));
  EXPECT_THAT(Error(With("\"mask_token_id\": 300")),
              HasSubstr("mask_token_id = 300; a token of the vocabulary of 300"));
  EXPECT_THAT(Error(With("\"mask_token_id\": 1.5")), HasSubstr("mask_token_id = 1.5"));
  EXPECT_THAT(Error(With("\"is_decoder\": true")), HasSubstr("is_decoder = true"));
  EXPECT_THAT(Error(Replace("absolute", "relative_key")), HasSubstr("position_embedding_type = 'relative_key'"));
  EXPECT_THAT(Error(Replace("BertForMaskedLM", "BertForPreTraining")), HasSubstr("'BertForMaskedLM' is supported"));
  EXPECT_THAT(Error(Replace("\"gelu\"", "\"relu\"")), HasSubstr("hidden_act = 'relu'"));
  EXPECT_THAT(Error(Replace("\"num_attention_heads\": 4", "\"num_attention_heads\": 5")),
              HasSubstr("it must divide hidden_size = 32"));
  EXPECT_THAT(Error(With("\"directionality\": \"uni\"")), HasSubstr("directionality = 'uni'"));
  EXPECT_THAT(Error(With("\"mask_token\": 3")), HasSubstr("did you mean mask_token_id?"));
}

}  // namespace
}  // namespace weft
