#include "proto/io/text_fields.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/plan.pb.h"
#include "proto/recipe.pb.h"

namespace weft {
namespace {

using ::testing::StartsWith;

// Returns the problem as "LINE:COLUMN MESSAGE", both counted from 0; "" if there is none.
std::string Found(const std::string& text, const google::protobuf::Descriptor* type, bool accepted = false) {
  const std::optional<TextProblem> problem = FirstTextProblem(text, *type, accepted);
  return problem.has_value() ? absl::StrCat(problem->line, ":", problem->column, " ", problem->message) : "";
}

std::string FoundInPlan(const std::string& text) { return Found(text, Plan::descriptor()); }
std::string FoundInRecipe(const std::string& text) { return Found(text, Recipe::descriptor()); }

TEST(FirstTextProblem, RightTextHasNone) {
  for (const bool accepted : {false, true}) {
    EXPECT_EQ(Found("# all kinds\nmesh { axes { name: \"x\" 'y' size: 0x10 } axes: < size: 10 > }\n"
                    "precision { compute: FP32 params: 3 }; step_barrier: true, recompute { layers: [1, 2] layers: 3 }",
                    Plan::descriptor(), accepted),
              "");
    EXPECT_EQ(Found("lr { peak: 1.5f min: -0 } clip_norm: 1e3 adamw { beta1: inf } seed: 18446744073709551615\n"
                    "steps: -9223372036854775808",
                    Recipe::descriptor(), accepted),
              "");
  }
}

TEST(FirstTextProblem, NamesTheFieldAndTheNearest) {
  EXPECT_THAT(FoundInPlan("\n  mehs { }"), StartsWith("1:2 unknown field 'mehs' of Plan; nearest: 'mesh'; known: "));
  EXPECT_THAT(FoundInPlan("mesh { axes { } axes { naem: 'x' } }"),
              StartsWith("0:23 unknown field 'naem' of MeshAxis, plan.mesh.axes[1]; nearest: 'name'"));
  EXPECT_THAT(FoundInPlan("precision {\n compute: FP31\n}"),
              StartsWith("1:10 plan.precision.compute = 'FP31' is unknown; nearest: 'FP32'; known: FP16, BF16, TF32"));
  EXPECT_THAT(FoundInPlan("precision { compute: FP8 }"), testing::HasSubstr("--runtime=NAME-fp8"));
  EXPECT_EQ(FoundInPlan("recompute { layers: [1, 2] layers: 2147483648 }"),
            "0:35 plan.recompute.layers[2] = '2147483648' must be an integer of 32 bits; nearest: 2147483647");
  EXPECT_EQ(FoundInPlan("recompute { layers: [1, -9999999999] }"),
            "0:24 plan.recompute.layers[1] = '-9999999999' must be an integer of 32 bits; nearest: -2147483648");
  EXPECT_EQ(FoundInRecipe("seed: -1"), "0:6 recipe.seed = '-1' must be an integer from 0 to 2^64-1; nearest: 0");
  EXPECT_EQ(FoundInPlan("send_buffers: 3000000000"),
            "0:14 plan.send_buffers = '3000000000' must be an integer of 32 bits; nearest: 2147483647");
  EXPECT_EQ(FoundInPlan("step_barrier: yes"), "0:14 plan.step_barrier = 'yes' must be true or false");
  EXPECT_EQ(FoundInPlan("step_barrier: 2"), "0:14 plan.step_barrier = '2' must be true or false");
  EXPECT_EQ(FoundInRecipe("lr { decay: cosine }"), "0:12 recipe.lr.decay = 'cosine' must be a text in double quotes");
  EXPECT_EQ(FoundInRecipe("lr { peak: fast }"), "0:11 recipe.lr.peak = 'fast' must be a finite number");
  EXPECT_EQ(FoundInRecipe("lr { peak: 0x10 }"), "0:11 recipe.lr.peak = '0x10' must be a decimal number");
  EXPECT_THAT(FoundInRecipe("lr: 5"), StartsWith("0:4 recipe.lr has fields of its own: lr { ... } with peak, "));
}

TEST(FirstTextProblem, ChecksOnlyRepeatsAndNumbersOfAcceptedText) {
  const auto recipe = [](const std::string& text) { return Found(text, Recipe::descriptor(), true); };
  EXPECT_EQ(recipe("steps: 0\n steps: 2"), "1:1 field 'steps' is given twice");
  EXPECT_EQ(recipe("lr { peak: 1 min: 0 peak: 2 }"), "0:20 field 'peak' is given twice");
  const std::string range = " must be a number that a double can hold: 0, or a magnitude from 5e-324 to 1.79e+308";
  EXPECT_EQ(recipe("lr { peak: 1e-400 }"), "0:11 recipe.lr.peak = '1e-400'" + range);
  EXPECT_EQ(recipe("lr { peak: -1e400f }"), "0:11 recipe.lr.peak = '-1e400f'" + range);
  const std::string digits = "1" + std::string(310, '0');
  EXPECT_THAT(recipe("lr { peak: " + digits + " }"), StartsWith("0:11 recipe.lr.peak = '1000"));
  EXPECT_EQ(recipe("lr { peak: 0e-400 }"), "");
}

TEST(FirstTextProblem, IntegersHaveNoZeroInFront) {
  for (const bool accepted : {false, true}) {
    EXPECT_EQ(Found("mesh { axes { size: 010 } }", Plan::descriptor(), accepted),
              "0:20 plan.mesh.axes[0].size = '010' must be an integer of 64 bits without a 0 in front; nearest: 10");
    EXPECT_EQ(Found("send_buffers: -07", Plan::descriptor(), accepted),
              "0:14 plan.send_buffers = '-07' must be an integer of 32 bits without a 0 in front; nearest: -7");
  }
}

// The test covers enum values and bools that are given as numbers too.
TEST(FirstTextProblem, NumbersOfValuesHaveNoZeroInFront) {
  for (const bool accepted : {false, true}) {
    const auto plan = [&](const std::string& text) { return Found(text, Plan::descriptor(), accepted); };
    EXPECT_THAT(plan("precision { compute: 02 }"),
                StartsWith("0:21 plan.precision.compute = '02' is unknown; known: FP16, BF16, TF32"));
    EXPECT_THAT(plan("precision { compute: -02 }"), StartsWith("0:21 plan.precision.compute = '-02' is unknown; "));
    EXPECT_EQ(plan("step_barrier: 01"), "0:14 plan.step_barrier = '01' must be true or false");
    EXPECT_EQ(plan("step_barrier: 00"), "0:14 plan.step_barrier = '00' must be true or false");
    for (const char* right : {"precision { compute: 2 }", "precision { compute: 0x2 }", "step_barrier: 0",
                              "step_barrier: 1", "step_barrier: 0x1"}) {
      EXPECT_EQ(plan(right), "") << right;
    }
  }
}

TEST(FirstTextProblem, LeavesSyntaxErrorsToTheParser) {
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += "mesh {";
  for (const std::string& text : {std::string("mesh"), std::string("mesh {"), std::string("mesh { axes { name:"),
                                  std::string("5: 6"), std::string("send_buffers 5"), std::string("}"), std::string(),
                                  std::string("mesh { axes ["), std::string("\"open")}) {
    FirstTextProblem(text, *Plan::descriptor(), true);
    EXPECT_EQ(FoundInPlan(text).find("unknown"), std::string::npos) << text;
  }
  EXPECT_THAT(FoundInPlan(deep), StartsWith("0:6 unknown field 'mesh' of Mesh"));
}

}  // namespace
}  // namespace weft
