#include "catalog/catalog.h"

#include <algorithm>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

TEST(Catalog, FilesAreSortedAndNotEmpty) {
  ASSERT_FALSE(CatalogFiles().empty());
  for (size_t i = 0; i < CatalogFiles().size(); ++i) {
    EXPECT_FALSE(CatalogFiles()[i].content.empty()) << CatalogFiles()[i].path;
    if (i > 0) {
      EXPECT_LT(CatalogFiles()[i - 1].path, CatalogFiles()[i].path);
    }
  }
}

TEST(Catalog, NamesAndFiles) {
  const std::vector<std::string> names = CatalogNames("models");
  EXPECT_THAT(names, Contains("gpt2"));
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  const absl::StatusOr<CatalogFile> file = FindInCatalog("models", "gpt2");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->path, "models/gpt2/config.json");
  EXPECT_THAT(std::string(file->content), HasSubstr("\"n_layer\": 12"));
}

TEST(Catalog, UnknownNames) {
  EXPECT_THAT(std::string(FindInCatalog("models", "gpt3").status().message()), HasSubstr("nearest: 'gpt2'"));
  EXPECT_FALSE(FindInCatalog("models", "").ok());
  EXPECT_FALSE(FindInCatalog("models", "gpt2/config.json").ok());
  EXPECT_FALSE(FindInCatalog("", "gpt2").ok());
  EXPECT_TRUE(CatalogNames("nonsense").empty());
}

TEST(Catalog, RecognizesFileNames) {
  for (const char* file : {"./gpt2", "a/b.c", "my.json", "MY.TEXTPROTO", "zb.csv", "of.mine.schedule", "x.weft"}) {
    EXPECT_TRUE(LooksLikeFile(file)) << file;
  }
  for (const char* kind : {"clusters", "models", "runtimes"}) {
    for (const std::string& name : CatalogNames(kind)) EXPECT_FALSE(LooksLikeFile(name)) << name;
  }
  for (const char* word : {"", ".", "json", "llama3.1-405b", "qwen2.5", "llm.d", "1fib"}) {
    EXPECT_FALSE(LooksLikeFile(word)) << word;
  }
}

TEST(Catalog, AWordThatIsNoFileIsASlipOfAName) {
  const absl::Status slip = CheckMeansFile("models", "model", "llama3.1-405b");
  EXPECT_EQ(slip.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(
      std::string(slip.message()),
      HasSubstr("model 'llama3.1-405b' is neither a file nor in the catalog; nearest: 'llama-3.1-405b'; known: "));
  // A text that can only be a file passes, even if the file is missing: its reader reports that.
  EXPECT_TRUE(CheckMeansFile("models", "model", "llama3.1.json").ok());
  EXPECT_TRUE(CheckMeansFile("models", "model", "./llama3.1-405b").ok());
  // The folder of the temporary files exists, so it passes.
  EXPECT_TRUE(CheckMeansFile("models", "model", testing::TempDir()).ok());
  EXPECT_TRUE(CheckMeansFile("models", "model", ".").ok());
}

}  // namespace
}  // namespace weft
