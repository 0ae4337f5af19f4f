#include "compiler/models/load_model.h"

#include <filesystem>
#include <string>

#include "compiler/models/hf_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/io/io.h"

namespace weft {
namespace {

using testing::HasSubstr;

// Numbers of parameters of the published checkpoints. If the head shares its weight with the embedding, the weight
// counts once.
TEST(LoadModelTest, CatalogModelsHaveThePublishedSizes) {
  const std::pair<const char*, int64_t> kSizes[] = {
      {"gpt2", 124439808}, {"gpt2-medium", 354823168}, {"gpt2-large", 774030080}, {"gpt2-xl", 1557611200}};
  for (const auto& [name, size] : kSizes) {
    auto graph = LoadModel(name);
    ASSERT_TRUE(graph.ok()) << graph.status();
    EXPECT_EQ(graph->name(), name);
    EXPECT_EQ(Elements(*graph), size);
  }
}

TEST(LoadModelTest, ReadsGraphsAndConfigsByContent) {
  const std::string folder = testing::TempDir();
  auto tiny = LoadModel("gpt2-tiny");
  ASSERT_TRUE(tiny.ok()) << tiny.status();
  ASSERT_TRUE(WriteFileAtomic(folder + "/tiny.graph", MessageToText(*tiny)).ok());
  auto text = LoadModel(folder + "/tiny.graph");
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(text->SerializeAsString(), tiny->SerializeAsString());
  ASSERT_TRUE(WriteFileAtomic(folder + "/tiny.bin", tiny->SerializeAsString()).ok());
  auto binary = LoadModel(folder + "/tiny.bin");
  ASSERT_TRUE(binary.ok()) << binary.status();
  EXPECT_EQ(binary->SerializeAsString(), tiny->SerializeAsString());
}

TEST(LoadModelTest, AFolderIsItsConfig) {
  const std::string folder = testing::TempDir() + "/checkpoint";
  std::filesystem::create_directories(folder);
  EXPECT_EQ(LoadModel(folder).status().message(), folder + ": is a directory, not a file");
  ASSERT_TRUE(WriteFileAtomic(folder + "/config.json",
                              R"({"model_type": "gpt2", "n_layer": 2, "n_embd": 8, "n_head": 2, "n_positions": 16,
                                  "vocab_size": 64})")
                  .ok());
  for (const char* end : {"", "/", "/config.json"}) {
    auto graph = LoadModel(folder + end);
    ASSERT_TRUE(graph.ok()) << graph.status();
    EXPECT_EQ(graph->name(), "checkpoint");
  }
}

TEST(LoadModelTest, ANameOfAFileIsOneLine) {
  auto tiny = LoadModel("gpt2-tiny");
  ASSERT_TRUE(tiny.ok()) << tiny.status();
  tiny->clear_name();
  const std::string path = testing::TempDir() + "/two\nlines.graph";
  ASSERT_TRUE(WriteFileAtomic(path, tiny->SerializeAsString()).ok());
  auto named = LoadModel(path);
  ASSERT_TRUE(named.ok()) << named.status();
  EXPECT_EQ(named->name(), "two\\x0alines");
}

TEST(LoadModelTest, ErrorsNameTheSource) {
  auto unknown = LoadModel("gpt2-meduim");
  EXPECT_EQ(unknown.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(unknown.status().message()), HasSubstr("gpt2-medium"));
  // A dot alone does not make a name the name of a file; a known file ending does.
  EXPECT_THAT(std::string(LoadModel("llama3.1-405b").status().message()), HasSubstr("nearest: 'llama-3.1-405b'"));
  EXPECT_EQ(LoadModel("gpt2.json").status().message(), "gpt2.json: cannot open: No such file or directory");
  auto missing = LoadModel("./no/such/config.json");
  EXPECT_THAT(std::string(missing.status().message()), HasSubstr("./no/such/config.json"));
  const std::string path = testing::TempDir() + "/config.json";
  ASSERT_TRUE(WriteFileAtomic(path, R"({"model_type": "gpt2", "n_layer": 0})").ok());
  auto bad = LoadModel(path);
  EXPECT_THAT(std::string(bad.status().message()), testing::HasSubstr(path));
}

}  // namespace
}  // namespace weft
