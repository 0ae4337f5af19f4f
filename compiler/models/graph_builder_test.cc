#include "compiler/models/graph_builder.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/graph_row.h"

namespace weft {
namespace {

using ::testing::ElementsAre;

class Tiny : public GraphBuilder {
 public:
  Tiny() : GraphBuilder("tiny", 8, 16) {}

  // An embedding, `blocks` products of width 4, and a head that reuses the embedding's table.
  ModelGraph Build(int64_t blocks) {
    const std::string table = Weight("table", {8, 4}, 0.02);
    HasVocabularyRows();
    const std::string tokens = Op("tokens", "tokens", {});
    return Layers(
        Op("embedding", "embedding", {tokens, table}), blocks,
        [this](int64_t block, const std::string& x) {
          const std::string name = "block." + std::to_string(block);
          return Linear(name, name, x, 4, 4, 0.02, block == 1);
        },
        [&](const std::string& x) { Loss("head", {x, table}); });
  }
};

std::vector<std::string> LayersOf(const ModelGraph& graph) {
  std::vector<std::string> out;
  for (const GraphOp& op : graph.ops()) out.push_back(op.name() + " " + std::to_string(op.layer()));
  return out;
}

TEST(GraphBuilder, EmbeddingsBlocksAndHeadAreLayers) {
  const ModelGraph graph = Tiny().Build(2);
  EXPECT_THAT(LayersOf(graph),
              ElementsAre("tokens 0", "embedding 0", "block.0 1", "block.1 2", "head 3", "targets 3", "loss 3"));
  EXPECT_EQ(graph.loss(), "loss");
  EXPECT_TRUE(kernels::ValidateModelGraph(graph).ok()) << kernels::ValidateModelGraph(graph);
}

TEST(GraphBuilder, EachBlockReadsTheOneBefore) {
  const ModelGraph graph = Tiny().Build(2);
  EXPECT_THAT(graph.ops(2).inputs(), ElementsAre("embedding", "block.0.weight"));
  EXPECT_THAT(graph.ops(3).inputs(), ElementsAre("block.0", "block.1.weight", "block.1.bias"));
  EXPECT_THAT(graph.ops(4).inputs(), ElementsAre("block.1", "table"));
}

TEST(GraphBuilder, WithoutBlocksTheHeadFollowsTheEmbedding) {
  const ModelGraph graph = Tiny().Build(0);
  EXPECT_THAT(LayersOf(graph), ElementsAre("tokens 0", "embedding 0", "head 1", "targets 1", "loss 1"));
  EXPECT_THAT(graph.ops(2).inputs(), ElementsAre("embedding", "table"));
}

// x W^T with W [to, from]; HasVocabularyRows applies to the parameter added last.
TEST(GraphBuilder, ParametersHaveTheExtentsThatTheirOpsTake) {
  GraphBuilder builder("one", 8, 16);
  const std::string x = builder.Op("x", "tokens", {});
  EXPECT_EQ(builder.Linear("wide", "w", x, 3, 5, 0.5, true), "wide");
  builder.HasVocabularyRows();
  const ModelGraph graph =
      builder.Layers("wide", 0, [](int64_t, const std::string& y) { return y; }, [](const std::string&) {});
  ASSERT_EQ(graph.parameters_size(), 2);
  EXPECT_EQ(graph.parameters(0).name(), "w.weight");
  EXPECT_THAT(graph.parameters(0).shape(), ElementsAre(5, 3));
  EXPECT_EQ(graph.parameters(0).init().normal(), 0.5);
  EXPECT_FALSE(graph.parameters(0).vocabulary_rows());
  EXPECT_THAT(graph.parameters(1).shape(), ElementsAre(5));
  EXPECT_TRUE(graph.parameters(1).vocabulary_rows());
  EXPECT_TRUE(graph.ops(1).attributes().transpose_b());
  // An op without attributes has no attributes message.
  EXPECT_FALSE(graph.ops(0).has_attributes());
}

}  // namespace
}  // namespace weft
