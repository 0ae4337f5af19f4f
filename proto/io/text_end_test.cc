#include "proto/io/text_end.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/io/text_reader.h"
#include "proto/plan.pb.h"

namespace weft {
namespace {

// Returns the error for a plan that cannot be read.
std::string Said(const std::string& text) {
  Plan plan;
  return std::string(ReadText(text, "f", &plan).message());
}

TEST(ProblemAtEnd, NamesTheLastBracketThatIsOpen) {
  EXPECT_EQ(Said("mesh { axes { size: 2 }"), "f:1:24: the file ends, but the '{' at 1:6 has no '}'");
  EXPECT_EQ(Said("mesh {\n  axes { size: 2 \n"), "f:3:1: the file ends, but the '{' at 2:8 has no '}'");
  EXPECT_EQ(Said("mesh { axes < size: 2"), "f:1:22: the file ends, but the '<' at 1:13 has no '>'");
  EXPECT_EQ(Said("recompute { layers: [1, 2"), "f:1:26: the file ends, but the '[' at 1:21 has no ']'");
  EXPECT_EQ(Said("mesh { axes [ { size: 2 } "), "f:1:27: the file ends, but the '[' at 1:13 has no ']'");
  // Brackets in strings and comments do not count.
  EXPECT_EQ(Said("schedule { name: '}' # }\n"), "f:2:1: the file ends, but the '{' at 1:10 has no '}'");
  EXPECT_EQ(Said("mesh { axes { size:"), "f:1:20: the file ends, but the '{' at 1:13 has no '}'");
}

TEST(ProblemAtEnd, OrTheFieldThatHasNoValue) {
  EXPECT_EQ(Said("send_buffers:"), "f:1:14: the file ends after ':', but a value must follow");
  EXPECT_EQ(Said("send_buffers"), "f:1:13: the file ends after 'send_buffers', but a value must follow");
}

// If the last token itself is wrong, the tokenizer's error is reported: neither a value nor a bracket is missing.
TEST(ProblemAtEnd, IsTheParsersWhereATokenIsNoneItself) {
  EXPECT_EQ(Said("collective: \"abc"), "f:1:17: Unexpected end of string.");
  EXPECT_EQ(Said("schedule { name: \"1f1b }\n"), "f:1:25: String literals cannot cross line boundaries.");
  EXPECT_EQ(Said("schedule { name: '1f1b\\"), "f:1:24: Invalid escape sequence in string literal.");
  EXPECT_EQ(Said("mesh { axes { size: 0x"), "f:1:23: \"0x\" must be followed by hex digits.");
  EXPECT_EQ(Said("schedule { name: \"1f1b\""), "f:1:24: the file ends, but the '{' at 1:10 has no '}'");
}

TEST(ProblemAtEnd, IsOfTheEndAlone) {
  EXPECT_EQ(ProblemAtEnd("mesh { } }", 0, 9), "");
  EXPECT_EQ(ProblemAtEnd("mesh { ", 0, 5), "");
  EXPECT_THAT(Said("mesh { } }"), testing::StartsWith("f:1:10: Expected identifier"));
}

}  // namespace
}  // namespace weft
