// Tests the grammar of RFC 8259, the places of errors, and which numbers are whole. Tests of MessageToJson and of specs
// as JSON are in json_test.cc and io_test.cc.
#include "proto/io/json_value.h"

#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Refusal(absl::string_view text) {
  const absl::StatusOr<JsonValue> value = ParseJson(text, "f");
  EXPECT_FALSE(value.ok()) << text;
  return std::string(value.status().message());
}

JsonValue Value(absl::string_view text) {
  const absl::StatusOr<JsonValue> value = ParseJson(text, "f");
  EXPECT_TRUE(value.ok()) << text << ": " << value.status();
  return value.ok() ? *value : JsonValue();
}

TEST(JsonValue, KindsAndPlaces) {
  const JsonValue all = Value("\n { \"a\": [1, true,\n null, \"x\"], \"b\": {} } \t\r\n");
  EXPECT_EQ(all.kind, JsonValue::Kind::kObject);
  EXPECT_EQ(all.line, 2);
  EXPECT_EQ(all.column, 2);
  EXPECT_THAT(all.names, ElementsAre("a", "b"));
  ASSERT_NE(all.Find("a"), nullptr);
  EXPECT_EQ(all.Find("c"), nullptr);
  const std::vector<JsonValue>& list = all.Find("a")->elements;
  ASSERT_EQ(list.size(), 4u);
  EXPECT_EQ(list[0].Int64(), 1);
  EXPECT_TRUE(list[1].boolean);
  EXPECT_EQ(list[2].kind, JsonValue::Kind::kNull);
  EXPECT_EQ(list[2].line, 3);
  EXPECT_EQ(list[2].column, 2);
  EXPECT_EQ(list[3].text, "x");
  EXPECT_TRUE(all.Find("b")->is_object());
  EXPECT_EQ(JsonKindName(list[3].kind), "a string");
  // A byte order mark does not count as a column.
  EXPECT_EQ(Value("\xef\xbb\xbf[]").column, 1);
}

TEST(JsonValue, RefusesInvalidJson) {
  EXPECT_EQ(Refusal(""), "f:1:1: expected a value, got end of file");
  EXPECT_EQ(Refusal("[1,]"), "f:1:4: expected a value, got ']'");
  EXPECT_EQ(Refusal("[1 2]"), "f:1:4: expected ',' or ']', got '2'");
  EXPECT_EQ(Refusal("{\"a\" 1}"), "f:1:6: expected ':' after a member name, got '1'");
  EXPECT_EQ(Refusal("{a: 1}"), "f:1:2: expected a member name in double quotes, got 'a'");
  EXPECT_EQ(Refusal("{\"a\": 1,}"), "f:1:9: expected a member name in double quotes, got '}'");
  EXPECT_EQ(Refusal("{\"a\": 1\n\"b\": 2}"), "f:2:1: expected ',' or '}', got '\"'");
  EXPECT_EQ(Refusal("1 1"), "f:1:3: unexpected '1' after the end of the value");
  EXPECT_THAT(Refusal("nul"), HasSubstr("true, false or null"));
  EXPECT_THAT(Refusal("True"), HasSubstr("expected a value, got 'T'"));
  EXPECT_THAT(Refusal("NaN"), HasSubstr("expected a value, got 'N'"));
  // The error is at the second of the two members.
  EXPECT_EQ(Refusal("{\"a\": 1, \"b\": 2,\n \"a\": 3}"), "f:2:2: member 'a' is given twice");
  EXPECT_EQ(Refusal("[\"\xff\"]"), "f:1:3: invalid UTF-8");
}

TEST(JsonValue, Numbers) {
  for (const char* text : {"-", "01", "1.", ".5", "1e", "1e+", "+1", "0x10", "--1", "1.e5"}) {
    EXPECT_FALSE(ParseJson(text, "f").ok()) << text;
  }
  EXPECT_EQ(Refusal("[01]"), "f:1:3: a number must not have a leading 0");
  // All digits are kept.
  EXPECT_EQ(Value("9223372036854775807").Int64(), INT64_MAX);
  EXPECT_EQ(Value("-9223372036854775808").Int64(), INT64_MIN);
  EXPECT_EQ(Value("9223372036854775808").Int64(), std::nullopt);
  EXPECT_EQ(Value("18446744073709551615").Uint64(), UINT64_MAX);
  EXPECT_EQ(Value("18446744073709551616").Uint64(), std::nullopt);
  EXPECT_EQ(Value("-1").Uint64(), std::nullopt);
  // Other forms of whole numbers are accepted as far as a double is exact.
  EXPECT_EQ(Value("3.0").Int64(), 3);
  EXPECT_EQ(Value("-3e2").Int64(), -300);
  EXPECT_EQ(Value("12.5e1").Uint64(), 125u);
  EXPECT_EQ(Value("3.5").Int64(), std::nullopt);
  EXPECT_EQ(Value("9007199254740992.0").Int64(), int64_t{1} << 53);
  EXPECT_EQ(Value("9007199254740994.0").Int64(), std::nullopt);
  EXPECT_EQ(Value("\"3\"").Int64(), std::nullopt);
  EXPECT_EQ(Value("1e308").Double(), 1e308);
  // A number that overflows is refused, and so is one that underflows, because it is not 0.
  EXPECT_EQ(Value("1e309").Double(), std::nullopt);
  EXPECT_EQ(Value("-1e309").Double(), std::nullopt);
  EXPECT_EQ(Value("1e-400").Double(), std::nullopt);
  EXPECT_EQ(Value("0e-400").Double(), 0);
  EXPECT_EQ(Value("true").Double(), std::nullopt);
}

TEST(JsonValue, Strings) {
  EXPECT_EQ(Value(R"("\"\\\/\b\f\n\r\tq")").text, "\"\\/\b\f\n\r\tq");
  EXPECT_EQ(Value(R"("\u0041\u00e9\u20ac")").text, "A\xc3\xa9\xe2\x82\xac");
  EXPECT_EQ(Value(R"("\uD83D\ude00")").text, "\xf0\x9f\x98\x80");
  EXPECT_EQ(Value(R"("\u0000")").text, std::string(1, '\0'));
  EXPECT_THAT(Refusal(R"("\ud83d")"), HasSubstr("a high surrogate must be followed by a low one"));
  EXPECT_THAT(Refusal(R"("\ud83d\u0041")"), HasSubstr("a high surrogate must be followed by a low one"));
  EXPECT_THAT(Refusal(R"("\ude00")"), HasSubstr("a low surrogate without a high one"));
  EXPECT_THAT(Refusal(R"("\u12g4")"), HasSubstr("expected four hexadecimal digits after \\u, got 'g'"));
  EXPECT_THAT(Refusal(R"("\x41")"), HasSubstr("unknown escape: backslash and 'x'"));
  EXPECT_THAT(Refusal("\"a\nb\""), HasSubstr("f:1:3: control character in a string"));
  // The error is where the string began, not where the file ends.
  EXPECT_EQ(Refusal("[1,\n  \"abc"), "f:2:3: this string has no closing quote");
  EXPECT_EQ(Refusal("\"\\"), "f:1:3: unknown escape: backslash and end of file");
}

TEST(JsonValue, DepthHasALimit) {
  const auto nested = [](int levels) { return std::string(levels, '[') + std::string(levels, ']'); };
  EXPECT_TRUE(ParseJson(nested(101), "f").ok());
  EXPECT_THAT(Refusal(nested(102)), HasSubstr("more than 100 levels of nesting"));
  EXPECT_THAT(Refusal(std::string(1'000'000, '[')), HasSubstr("more than 100 levels of nesting"));
}

// This document ends with a brace, so no prefix of it is a document. Damaged text is refused or read; it never crashes
// the reader.
TEST(JsonValue, PrefixesAndDamage) {
  const std::string text = R"({"a": [1, -2.5e3, "x\u00e9\n"], "b": {"c": null, "d": [true, false]}})";
  for (size_t i = 0; i < text.size(); ++i) EXPECT_FALSE(ParseJson(text.substr(0, i), "f").ok()) << i;
  std::mt19937 random(5);
  int read = 0;
  for (int i = 0; i < 2000; ++i) {
    std::string damaged = text;
    damaged[random() % damaged.size()] = static_cast<char>(random() % 256);
    read += ParseJson(damaged, "f").ok();
  }
  // Damage to digits and letters often gives another document that can be read; most other damage does not.
  EXPECT_GT(read, 0);
  EXPECT_LT(read, 1500);
}

}  // namespace
}  // namespace weft
