#include "planner/search/layer_runs.h"

#include <string>
#include <vector>

#include "compiler/models/load_model.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/graph_row.h"

namespace weft::planner {
namespace {

using testing::ElementsAre;

ModelGraph Load(const std::string& name) { return *LoadModel(name); }

int32_t Layers(const ModelGraph& model) { return model.ops().rbegin()->layer() + 1; }

// Returns a model of `blocks` equal blocks between an embedding and a head.
std::vector<LayerRun> Blocks(int32_t blocks) { return {{0, 1}, {1, blocks}, {blocks + 1, 1}}; }

TEST(LayerRuns, BlocksAreOneRun) {
  for (const char* name : {"gpt2", "llama-3.1-8b", "bert-base", "qwen2-7b"}) {
    const ModelGraph model = Load(name);
    EXPECT_EQ(RunsOfLayers(model), Blocks(Layers(model) - 2)) << name;
  }
}

TEST(LayerRuns, EveryLayerIsInOneRun) {
  for (const char* name : {"gpt2-tiny", "llama-tiny", "bert-tiny", "unet-tiny", "unet-1b", "mistral-7b"}) {
    const ModelGraph model = Load(name);
    int32_t next = 0;
    for (const LayerRun& run : RunsOfLayers(model)) {
      EXPECT_EQ(run.first, next) << name;
      EXPECT_GE(run.layers, 1) << name;
      next += run.layers;
    }
    EXPECT_EQ(next, Layers(model)) << name;
  }
}

TEST(LayerRuns, ALayerThatDiffersEndsARun) {
  ModelGraph model = Load("gpt2");
  // Change one attribute of one op of layer 5.
  for (GraphOp& op : *model.mutable_ops()) {
    if (op.layer() == 5 && op.kind() == "layer_norm") op.mutable_attributes()->set_epsilon(0.5);
  }
  EXPECT_THAT(RunsOfLayers(model),
              ElementsAre(LayerRun{0, 1}, LayerRun{1, 4}, LayerRun{5, 1}, LayerRun{6, 7}, LayerRun{13, 1}));
}

TEST(LayerRuns, AParameterOfTwoLayersKeepsThemApart) {
  ModelGraph model = Load("gpt2");
  std::string shared;
  for (GraphOp& op : *model.mutable_ops()) {
    if (op.kind() != "layer_norm" || op.name().find("ln_1") == std::string::npos) continue;
    if (op.layer() == 3) shared = op.inputs(1);
    if (op.layer() == 6) op.set_inputs(1, shared);
  }
  EXPECT_THAT(RunsOfLayers(model), ElementsAre(LayerRun{0, 1}, LayerRun{1, 2}, LayerRun{3, 1}, LayerRun{4, 2},
                                               LayerRun{6, 1}, LayerRun{7, 6}, LayerRun{13, 1}));
}

TEST(LayerRuns, AShortenedModelIsAModelOfFewerBlocks) {
  for (const char* name : {"gpt2", "llama-3.1-8b", "bert-base", "unet-1b", "unet-tiny"}) {
    const ModelGraph model = Load(name);
    const std::vector<LayerRun> runs = RunsOfLayers(model);
    for (const int32_t most : {1, 2, 3}) {
      const ModelGraph shortened = ShortenRuns(model, runs, most);
      EXPECT_TRUE(kernels::ValidateModelGraph(shortened).ok())
          << name << ": " << kernels::ValidateModelGraph(shortened);
      int32_t layers = 0;
      for (const LayerRun& run : runs) layers += std::min(run.layers, most);
      EXPECT_EQ(Layers(shortened), layers) << name;
      // The layers that are left still form the same runs, up to their length.
      const std::vector<LayerRun> left = RunsOfLayers(shortened);
      ASSERT_EQ(left.size(), runs.size()) << name;
      for (size_t i = 0; i < runs.size(); ++i) EXPECT_EQ(left[i].layers, std::min(runs[i].layers, most)) << name;
    }
  }
}

TEST(LayerRuns, ShorteningToTheLongestRunChangesNothing) {
  const ModelGraph model = Load("gpt2");
  EXPECT_EQ(ShortenRuns(model, RunsOfLayers(model), 12).SerializeAsString(), model.SerializeAsString());
}

}  // namespace
}  // namespace weft::planner
