#include "proto/io/content.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/plan.pb.h"
#include "proto/recipe.pb.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

// The fast path for ASCII and the slow path agree on NUL bytes and bytes that are not UTF-8, at every place.
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
  EXPECT_THAT(std::string(CheckContent(recipe, "recipe").message()),
              HasSubstr("recipe.weight_rounding = 99 is not a value of "));
}

const google::protobuf::FieldDescriptor& Field(const google::protobuf::Descriptor* type, const char* name) {
  return *type->FindFieldByName(name);
}

TEST(Content, IntegersBeyondAFieldHaveANearest) {
  const auto& steps = Field(Recipe::descriptor(), "steps");
  EXPECT_EQ(AllowedIntegers(steps), "an integer of 64 bits");
  EXPECT_EQ(NearestInteger(steps, "9223372036854775808"), "; nearest: 9223372036854775807");
  EXPECT_EQ(NearestInteger(steps, "-9999999999999999999999"), "; nearest: -9223372036854775808");
  EXPECT_EQ(NearestInteger(steps, "many"), "");
  EXPECT_EQ(NearestInteger(steps, "-"), "");
  const auto& seed = Field(Recipe::descriptor(), "seed");
  EXPECT_EQ(AllowedIntegers(seed), "an integer from 0 to 2^64-1");
  EXPECT_EQ(NearestInteger(seed, "-1"), "; nearest: 0");
  const auto& buffers = Field(Plan::descriptor(), "send_buffers");
  EXPECT_EQ(AllowedIntegers(buffers), "an integer of 32 bits");
  EXPECT_EQ(NearestInteger(buffers, "-3000000000"), "; nearest: -2147483648");
}

TEST(Content, IntegersHaveNoZeroInFront) {
  for (const char* given : {"00", "01", "-007", "0100"}) EXPECT_TRUE(HasLeadingZero(given)) << given;
  for (const char* given : {"0", "-0", "10", "0x10", "", "-", "0.5"}) EXPECT_FALSE(HasLeadingZero(given)) << given;
  const auto& buffers = Field(Plan::descriptor(), "send_buffers");
  EXPECT_EQ(NearestInteger(buffers, "0100"), " without a 0 in front; nearest: 100");
  EXPECT_EQ(NearestInteger(buffers, "-07"), " without a 0 in front; nearest: -7");
  EXPECT_EQ(NearestInteger(buffers, "00"), " without a 0 in front; nearest: 0");
  EXPECT_EQ(NearestInteger(buffers, "03000000000"), " without a 0 in front");
  EXPECT_EQ(NearestInteger(Field(Recipe::descriptor(), "seed"), "-07"), " without a 0 in front");
}

TEST(Content, TypesOfEightBitsAreOfRuntimes) {
  const auto& compute = Field(Precision::descriptor(), "compute");
  EXPECT_THAT(KnownValues(compute), testing::ElementsAre("FP16", "BF16", "TF32", "FP32", "FP64"));
  EXPECT_THAT(KnownValues(Field(Precision::descriptor(), "grads")),
              testing::ElementsAre("FP16", "BF16", "FP32", "FP64"));
  for (const char* eight : {"FP8", "fp8_e4m3", "Float8"}) {
    EXPECT_THAT(EnumHelp(compute, eight), HasSubstr("--runtime=NAME-fp8")) << eight;
    EXPECT_THAT(EnumHelp(compute, eight), testing::Not(HasSubstr("nearest"))) << eight;
  }
  EXPECT_THAT(EnumHelp(compute, "FP31"), HasSubstr("; nearest: 'FP32'; known: FP16, BF16, TF32, FP32, FP64"));
  EXPECT_THAT(EnumHelp(Field(Plan::descriptor(), "attention"), "FP8"), testing::Not(HasSubstr("runtime")));
}

}  // namespace
}  // namespace weft
