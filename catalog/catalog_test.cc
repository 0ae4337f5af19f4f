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

}  // namespace
}  // namespace weft
