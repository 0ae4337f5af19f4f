#include "proto/content.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/recipe.pb.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

// The quick way for ASCII and the slow one say the same: NUL bytes and bytes that are not UTF-8 at every place.
TEST(Content, StringProblemAtEveryPlace) {
  for (size_t size = 0; size < 20; ++size) {
    for (const std::string& start : {std::string(), std::string("é")}) {
      std::string text = start + std::string(size, 'a');
      EXPECT_EQ(StringProblem(text), "") << size;
      for (size_t i = start.size(); i < text.size(); ++i) {
        text[i] = '\0';
        EXPECT_EQ(StringProblem(text), "a NUL byte in a string") << size << " " << i;
        text[i] = '\xff';
        EXPECT_EQ(StringProblem(text), "invalid UTF-8") << size << " " << i;
        text[i] = 'a';
      }
    }
  }
}

TEST(Content, CheckContentNamesTheField) {
  Recipe recipe;
  recipe.mutable_lr()->set_decay("cosine");
  EXPECT_EQ(CheckContent(recipe, "recipe"), absl::OkStatus());
  recipe.mutable_lr()->set_decay(std::string("co\0sine", 7));
  EXPECT_EQ(CheckContent(recipe, "recipe").message(), "recipe.lr.decay: a NUL byte in a string");
  recipe.mutable_lr()->set_decay("cosine");
  recipe.set_weight_rounding(static_cast<decltype(recipe.weight_rounding())>(99));
  EXPECT_THAT(std::string(CheckContent(recipe, "recipe").message()), HasSubstr("recipe.weight_rounding = 99 is no "));
}

}  // namespace
}  // namespace weft
