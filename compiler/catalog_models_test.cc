// Tests that every model of the catalog can be read and has the published number of parameters.
#include <cstdint>
#include <map>
#include <string>

#include "catalog/catalog.h"
#include "compiler/models/load_model.h"
#include "gtest/gtest.h"
#include "proto/util/units.h"

namespace weft {
namespace {

int64_t Elements(const ModelGraph& graph) {
  int64_t sum = 0;
  for (const GraphParameter& parameter : graph.parameters()) sum += ElementCount(parameter.shape()).value_or(0);
  return sum;
}

TEST(CatalogModelsTest, ParametersAreThePublishedOnes) {
  // Most numbers are the totals of the published safetensors files, as the model cards show them. The numbers of
  // bert-base and bert-large are for the masked-LM model, without pooler and next-sentence head. The numbers of
  // chimera-bert-48 and chimera-gpt2 are from table 4 of the Chimera paper, for chimera-bert-48 minus pooler and
  // next-sentence head.
  const std::map<std::string, int64_t> published = {
      {"gpt2", 124439808},
      {"gpt2-medium", 354823168},
      {"gpt2-large", 774030080},
      {"gpt2-xl", 1557611200},
      {"llama-2-7b", 6738415616},
      {"llama-3.1-8b", 8030261248},
      {"llama-3.1-70b", 70553706496},
      {"llama-3.1-405b", 405853388800},
      {"mistral-7b", 7241732096},
      {"qwen2-7b", 7615616512},
      {"qwen2.5-1.5b", 1543714304},
      {"qwen2.5-3b", 3085938688},
      {"qwen2.5-7b", 7615616512},
      {"bert-base", 109514298},
      {"bert-large", 335174458},
      {"chimera-bert-48", 669790012 - (1024 * 1024 + 1024) - (2 * 1024 + 2)},
      {"chimera-gpt2", 1389327360},
  };
  for (const auto& [name, parameters] : published) {
    const absl::StatusOr<ModelGraph> graph = LoadModel(name);
    ASSERT_TRUE(graph.ok()) << graph.status();
    EXPECT_EQ(Elements(*graph), parameters) << name;
  }
}

TEST(CatalogModelsTest, AllAreRead) {
  for (const std::string& name : CatalogNames("models")) {
    const absl::StatusOr<ModelGraph> graph = LoadModel(name);
    EXPECT_TRUE(graph.ok()) << graph.status();
  }
}

}  // namespace
}  // namespace weft
