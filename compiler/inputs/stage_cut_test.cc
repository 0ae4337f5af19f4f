#include "compiler/inputs/stage_cut.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "compiler/compile_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

ModelGraph Llama(int layers, int vocabulary, int kv_heads) {
  auto graph = ImportHuggingFaceConfig(
      absl::StrCat(R"({"model_type": "llama", "vocab_size": )", vocabulary,
                   R"(, "hidden_size": 16, "num_attention_heads": 4, "num_key_value_heads": )", kv_heads,
                   R"(, "intermediate_size": 64, "max_position_embeddings": 16, "num_hidden_layers": )", layers, "}"),
      "tiny");
  EXPECT_TRUE(graph.ok()) << graph.status();
  return graph.value_or(ModelGraph());
}

TEST(LayersPerStage, EvenWhereItComesOut) {
  EXPECT_THAT(LayersPerStage(8, 4), ElementsAre(3, 2, 2, 3));
  EXPECT_THAT(LayersPerStage(22, 8), ElementsAre(3, 3, 3, 3, 3, 3, 3, 3));
  EXPECT_THAT(LayersPerStage(9, 4), ElementsAre(3, 3, 2, 3));
  EXPECT_THAT(LayersPerStage(2, 4), ElementsAre(1, 1, 1, 1));
  EXPECT_THAT(LayersPerStage(3, 4), ElementsAre(1, 1, 1, 2));
  EXPECT_THAT(LayersPerStage(5, 1), ElementsAre(7));
  for (int64_t blocks = 1; blocks < 30; ++blocks) {
    for (int64_t stages = 1; stages <= blocks + 2; ++stages) {
      int64_t sum = 0;
      for (int32_t layers : LayersPerStage(blocks, stages)) {
        EXPECT_GE(layers, 1) << blocks << " " << stages;
        sum += layers;
      }
      EXPECT_EQ(sum, blocks + 2);
    }
  }
}

TEST(LayersByWeights, TheHeadCounts) {
  // A block has 4 x 16 x 16 + 3 x 16 x 64 = 4096 parameters, and the head 16 x 1024, the same as four blocks. With 16
  // blocks, 10 blocks are not more than half of 16 + 4, so the first stage takes one more.
  EXPECT_THAT(LayersByWeights(Llama(16, 1024, 4), 2), ElementsAre(12, 6));
  EXPECT_THAT(LayersByWeights(Llama(16, 1024, 4), 1), ElementsAre(18));
  EXPECT_THAT(LayersByWeights(Llama(15, 1024, 4), 2), ElementsAre(11, 6));
  // Heads that share keys and values count as if each had its own.
  EXPECT_THAT(LayersByWeights(Llama(15, 1024, 1), 2), ElementsAre(11, 6));
  // A head with more than a stage's share leaves a stage without layers.
  EXPECT_THAT(LayersByWeights(Llama(15, 32768, 4), 3), IsEmpty());
  EXPECT_THAT(LayersByWeights(Llama(1, 128, 4), 4), IsEmpty());
  EXPECT_THAT(LayersByWeights(ModelGraph(), 1), IsEmpty());
}

std::vector<int32_t> Cut(const std::string& runtime, const std::string& plan, const ModelGraph& model) {
  return StageCutOf(Parse<Runtime>(runtime), model, Parse<Recipe>("global_batch_sequences: 8 microbatch_sequences: 1"),
                    Parse<Plan>(plan + " mesh { axes { name: 'pipe' size: 4 } }"));
}

TEST(StageCut, IsTheRuntimesWhereThePlanIsSilent) {
  const ModelGraph model = Llama(8, 512, 4);
  EXPECT_THAT(Cut("stage_cut: BY_BLOCKS", "", model), ElementsAre(3, 2, 2, 3));
  EXPECT_THAT(Cut("stage_cut: BY_WEIGHTS", "", model), ElementsAre(4, 3, 2, 1));
  EXPECT_THAT(Cut("stage_cut: BY_BLOCKS", "schedule { name: 'interleaved' virtual_stages: 2 }", model),
              ElementsAre(2, 1, 1, 1, 1, 1, 1, 2));
  EXPECT_THAT(Cut("", "", model), IsEmpty());
  EXPECT_THAT(Cut("stage_cut: BY_BLOCKS", "partition { layers_per_stage: [2, 2, 2, 4] }", model), IsEmpty());
  EXPECT_THAT(Cut("stage_cut: BY_BLOCKS", "", Llama(1, 1024, 4)), IsEmpty());
}

TEST(StageCut, VShapedSchedulesCutByCost) {
  for (const char* schedule : {"zb-v", "chimera", "no such"}) {
    EXPECT_THAT(Cut("stage_cut: BY_BLOCKS", absl::StrCat("schedule { name: '", schedule, "' }"), Llama(8, 1024, 4)),
                IsEmpty())
        << schedule;
  }
}

TEST(StageCut, LeavesAStatedPartitionAlone) {
  const ModelGraph model = Llama(8, 512, 4);
  const Runtime runtime = Parse<Runtime>("stage_cut: BY_BLOCKS");
  const Recipe recipe = Parse<Recipe>("global_batch_sequences: 8 microbatch_sequences: 1");
  Plan plan = Parse<Plan>("mesh { axes { name: 'pipe' size: 4 } }");
  EXPECT_THAT(CutStagesAs(runtime, model, recipe, &plan), ElementsAre(3, 2, 2, 3));
  EXPECT_THAT(plan.partition().layers_per_stage(), ElementsAre(3, 2, 2, 3));
  plan = Parse<Plan>("mesh { axes { name: 'pipe' size: 4 } } partition { layers_per_stage: [2, 2, 2, 4] }");
  EXPECT_THAT(CutStagesAs(runtime, model, recipe, &plan), IsEmpty());
  EXPECT_THAT(plan.partition().layers_per_stage(), ElementsAre(2, 2, 2, 4));
  // If costs decide, the partition is not set at all.
  plan.clear_partition();
  EXPECT_THAT(CutStagesAs(Runtime(), model, recipe, &plan), IsEmpty());
  EXPECT_FALSE(plan.has_partition());
}

}  // namespace
}  // namespace weft
