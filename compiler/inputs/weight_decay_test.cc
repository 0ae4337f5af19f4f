#include "compiler/inputs/weight_decay.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/parse_text.h"

namespace weft {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(WeightDecay, AStarIsAnyRunOfCharacters) {
  for (const char* pattern : {"h.0.bias", "*", "h.*", "*.bias", "h*0*s", "**", "h.0.bias*"}) {
    EXPECT_TRUE(MatchesPattern(pattern, "h.0.bias")) << pattern;
  }
  for (const char* pattern : {"", "h.0", "*.bia", "h*1*", "h.0.biass", "bias*"}) {
    EXPECT_FALSE(MatchesPattern(pattern, "h.0.bias")) << pattern;
  }
  EXPECT_TRUE(MatchesPattern("", ""));
  EXPECT_TRUE(MatchesPattern("*", ""));
}

TEST(WeightDecay, MatricesDecayUnlessARecipeSaysOtherwise) {
  const auto matrix = Parse<GraphParameter>("name: 'h.0.qkv.weight' shape: [ 4, 4 ]");
  const auto vector = Parse<GraphParameter>("name: 'h.0.ln.weight' shape: 4");
  const Recipe plain;
  EXPECT_EQ(WeightDecayOf(plain, matrix), 0.1);
  EXPECT_EQ(WeightDecayOf(plain, vector), 0);
  const auto sgd = Parse<Recipe>("sgd { weight_decay: 0.3 }");
  EXPECT_EQ(WeightDecayOf(sgd, matrix), 0.3);
  EXPECT_EQ(WeightDecayOf(sgd, vector), 0);
  // The first override that matches decides.
  const auto adamw = Parse<Recipe>(
      "adamw { weight_decay: 0.2 overrides { pattern: '*.ln.*' weight_decay: 0.5 } overrides { pattern: '*' } }");
  EXPECT_EQ(WeightDecayOf(adamw, vector), 0.5);
  EXPECT_EQ(WeightDecayOf(adamw, matrix), 0);
}

TEST(WeightDecay, APatternThatMatchesNothingIsRefused) {
  const auto model = Parse<ModelGraph>("name: 'm' parameters { name: 'h.0.qkv.weight' } parameters { name: 'wte' }");
  const auto check = [&](const std::string& patterns) {
    return std::string(CheckDecayOverrides(model, Parse<Recipe>("adamw { " + patterns + " }")).message());
  };
  EXPECT_EQ(check(""), "");
  EXPECT_EQ(check("overrides { pattern: '*.weight' } overrides { pattern: 'wte' }"), "");
  EXPECT_THAT(check("overrides { pattern: 'wte' } overrides { pattern: 'qkv' }"),
              AllOf(HasSubstr("recipe.adamw.overrides[1].pattern = 'qkv' matches no tensor of model 'm'"),
                    HasSubstr("; nearest: '*qkv*'")));
  EXPECT_THAT(check("overrides { pattern: 'wtf' }"), HasSubstr("; nearest: 'wte'"));
  EXPECT_THAT(check("overrides { pattern: '*.bias' }"),
              AllOf(testing::Not(HasSubstr("nearest")), HasSubstr("look like 'h.0.qkv.weight'")));
}

}  // namespace
}  // namespace weft
