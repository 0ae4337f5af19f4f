#include "compiler/segments/value_rows.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/parse_text.h"

namespace weft {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Operands: 0 the input, 1 a parameter, 2 the workspace. Value 0 is in the first, value 1 in the second, all others in
// the third.
StageSegment Forward(const std::string& steps, int values = 4) {
  StageSegment forward;
  for (const ir::Role role : {ir::Role::Input, ir::Role::Param, ir::Role::Workspace}) {
    forward.operands.emplace_back().role = role;
  }
  std::string text = "name: 'f' ";
  for (int v = 0; v < values; ++v) {
    absl::StrAppend(&text, "values { name: 'v", v, "' operand: ", v < 2 ? v : 2, " } ");
  }
  forward.segment = Parse<Segment>(text + steps);
  return forward;
}

std::string Refusal(const std::string& steps) {
  const auto rows = RowsOfForward(Forward(steps));
  EXPECT_TRUE(absl::IsInvalidArgument(rows.status())) << rows.status();
  return std::string(rows.status().message());
}

TEST(ValueRowsTest, FollowFromKernelsAndRoles) {
  const auto rows =
      RowsOfForward(Forward("steps { kernel: MATMUL inputs: 0 inputs: 1 outputs: 2 } "
                            "steps { kernel: CAST inputs: 1 outputs: 3 }",
                            5));
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_THAT(*rows, ElementsAre(Rows::kPerToken, Rows::kNone, Rows::kPerToken, Rows::kNone, Rows::kUnknown));
  // Loaded values have rows per token although their step has no input. A product of two parameters has none.
  const auto loaded =
      RowsOfForward(Forward("steps { kernel: LOAD_TOKENS outputs: 2 } "
                            "steps { kernel: MATMUL inputs: 1 inputs: 1 outputs: 3 }"));
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_THAT(*loaded, ElementsAre(Rows::kPerToken, Rows::kNone, Rows::kPerToken, Rows::kNone));
}

// Value 3 is the gathered value 2 without its padding. Value 4 is made later, at the same place.
TEST(ValueRowsTest, PaddedGatherIsReadAsAnotherValue) {
  const auto rows =
      RowsOfForward(Forward("steps { kernel: GROUP_ALL_GATHER inputs: 1 outputs: 2 } "
                            "steps { kernel: MATMUL inputs: 0 inputs: 3 outputs: 4 }",
                            5));
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_THAT(*rows, ElementsAre(Rows::kPerToken, Rows::kNone, Rows::kNone, Rows::kNone, Rows::kPerToken));
}

TEST(ValueRowsTest, LossesAreNoRows) {
  const auto rows = RowsOfForward(Forward(
      "steps { kernel: LOAD_TARGETS outputs: 2 } steps { kernel: CROSS_ENTROPY inputs: 0 inputs: 2 outputs: 3 }"));
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(rows->back(), Rows::kUnknown);
}

TEST(ValueRowsTest, RefusesStepsThatMixTokensByName) {
  EXPECT_THAT(
      Refusal("steps { name: 'p' kernel: MATMUL inputs: 0 inputs: 0 outputs: 2 }"),
      HasSubstr("segment 'f', step 'p': mixes rows of different tokens, so two microbatches cannot run at once"));
  EXPECT_THAT(Refusal("steps { kernel: MATMUL inputs: 0 inputs: 1 outputs: 2 attributes { transpose_a: true } }"),
              HasSubstr("mixes rows"));
  EXPECT_THAT(Refusal("steps { kernel: MATMUL inputs: 1 inputs: 0 outputs: 2 }"), HasSubstr("mixes rows"));
  EXPECT_THAT(Refusal("steps { kernel: ADD inputs: 0 inputs: 1 outputs: 2 }"),
              HasSubstr("combines a tensor that has a row per token"));
  EXPECT_THAT(Refusal("steps { kernel: DROPOUT inputs: 1 outputs: 2 }"), HasSubstr("does not work on rows of tokens"));
  EXPECT_THAT(Refusal("steps { kernel: BIAS_GRADIENT inputs: 0 outputs: 2 }"), HasSubstr("mixes rows"));
}

TEST(ValueRowsTest, OneValueIsOneOrTheOther) {
  EXPECT_THAT(Refusal("steps { kernel: CAST inputs: 0 outputs: 2 } steps { kernel: CAST inputs: 1 outputs: 2 }"),
              HasSubstr("value 'v2' has a row per token in one step and none in another"));
}

}  // namespace
}  // namespace weft
