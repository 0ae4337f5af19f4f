#include "executor/state/weight_names.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft::exec {
namespace {

TEST(WeightNamesTest, Canonical) {
  EXPECT_EQ(CanonicalWeightName("transformer.wte.weight"), "wte.weight");
  EXPECT_EQ(CanonicalWeightName("wte.weight"), "wte.weight");
  EXPECT_EQ(CanonicalWeightName("model.layers.0.self_attn.q_proj.weight"), "layers.0.self_attn.q_proj.weight");
  EXPECT_EQ(CanonicalWeightName("bert.embeddings.LayerNorm.gamma"), "embeddings.LayerNorm.weight");
  EXPECT_EQ(CanonicalWeightName("cls.predictions.transform.LayerNorm.beta"),
            "cls.predictions.transform.LayerNorm.bias");
  EXPECT_EQ(CanonicalWeightName("lm_head.weight"), "lm_head.weight");
  // Only one prefix is removed.
  EXPECT_EQ(CanonicalWeightName("model.model.x"), "model.x");
  EXPECT_EQ(CanonicalWeightName(""), "");
}

TEST(WeightNamesTest, NoParameters) {
  for (const char* name : {"h.11.attn.bias", "h.0.attn.masked_bias", "layers.3.self_attn.rotary_emb.inv_freq",
                           "embeddings.position_ids", "pooler.dense.bias", "cls.seq_relationship.weight"}) {
    EXPECT_TRUE(IsNoParameter(name)) << name;
  }
  for (const char* name : {"h..attn.bias", "h.x.attn.bias", "h.0.attn.c_attn.bias", "layers.3.self_attn.q_proj.bias",
                           "pooler.dense", "", "embeddings.position_embeddings.weight"}) {
    EXPECT_FALSE(IsNoParameter(name)) << name;
  }
}

TEST(WeightNamesTest, Tied) {
  EXPECT_THAT(TiedTo("lm_head.weight"), testing::ElementsAre("wte.weight", "embed_tokens.weight"));
  EXPECT_THAT(TiedTo("cls.predictions.decoder.weight"), testing::ElementsAre("embeddings.word_embeddings.weight"));
  EXPECT_THAT(TiedTo("cls.predictions.decoder.bias"), testing::ElementsAre("cls.predictions.bias"));
  EXPECT_THAT(TiedTo("wte.weight"), testing::IsEmpty());
}

}  // namespace
}  // namespace weft::exec
