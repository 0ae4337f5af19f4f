#include "tests/accuracy/fields.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

JsonValue Parsed(const char* text) {
  const absl::StatusOr<JsonValue> value = ParseJson(text, "t.json");
  EXPECT_TRUE(value.ok()) << value.status();
  return value.value_or(JsonValue());
}

TEST(Fields, ReadsAllowedValues) {
  const JsonValue object =
      Parsed(R"({"pp": 4, "whole": 8.0, "part": 1.5, "no": null, "yes": true, "word": "w", "list": [1]})");
  Fields f(object, "plan");
  std::optional<int64_t> count;
  EXPECT_TRUE(f.Count("no", &count).ok());
  EXPECT_TRUE(f.Count("absent", &count).ok());
  EXPECT_FALSE(count);
  EXPECT_TRUE(f.Count("pp", &count).ok());
  EXPECT_EQ(count, 4);
  EXPECT_TRUE(f.Count("whole", &count).ok());
  EXPECT_EQ(count, 8);
  EXPECT_EQ(std::string(f.Count("part", &count).message()),
            "plan.part = 1.5 in line 1; allowed: a whole number from 1 to 2^40, or null");
  EXPECT_EQ(count, 8);
  std::optional<double> number;
  EXPECT_TRUE(f.Number("part", &number).ok());
  EXPECT_EQ(number, 1.5);
  EXPECT_THAT(std::string(f.Number("word", &number).message()), HasSubstr("plan.word = 'w'"));
  std::optional<bool> truth;
  EXPECT_TRUE(f.Truth("yes", &truth).ok());
  EXPECT_EQ(truth, true);
  EXPECT_FALSE(f.Truth("pp", &truth).ok());
  std::string text;
  EXPECT_TRUE(f.Text("yes", &text).ok());
  EXPECT_EQ(text, "true");
  EXPECT_FALSE(f.Text("yes", &text, /*required=*/true).ok());
  EXPECT_EQ(std::string(f.Text("no", &text, /*required=*/true).message()), "plan.no is missing; it must be a string");
  const auto list = f.Nested("list", JsonValue::Kind::kArray, true);
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_EQ((*list)->elements.size(), 1u);
  EXPECT_FALSE(f.Nested("list", JsonValue::Kind::kObject, false).ok());
  EXPECT_EQ(f.Nested("absent", JsonValue::Kind::kObject, false).value(), nullptr);
}

TEST(Fields, NamesOfOneFieldMustAgree) {
  const auto tensor = [](const char* text) -> absl::StatusOr<int64_t> {
    const JsonValue object = Parsed(text);
    Fields f(object, "plan");
    std::optional<int64_t> count;
    if (const absl::Status status = f.Count("tp", &count); !status.ok()) return status;
    std::vector<std::string> unread;
    EXPECT_TRUE(f.Rest(&unread).ok());
    EXPECT_THAT(unread, IsEmpty());
    return count.value_or(-1);
  };
  EXPECT_EQ(tensor(R"({"tensor_parallel_size": 2})").value(), 2);
  EXPECT_EQ(tensor(R"({"tp": null, "tensor_parallel": 2})").value(), 2);
  EXPECT_EQ(tensor(R"({"tp": 2, "tensor_parallel": null})").value(), 2);
  EXPECT_EQ(tensor(R"({"tp": 2, "tensor_parallel": 2.0, "tensor_parallel_size": 2})").value(), 2);
  EXPECT_EQ(std::string(tensor(R"({"tp": 2, "tensor_parallel": 4})").status().message()),
            "plan.tp = 2 and plan.tensor_parallel = 4 in line 1; allowed: one value, they are names of one field");
  // Both members are other names of the same field, and their values differ.
  EXPECT_THAT(std::string(tensor(R"({"tensor_parallel": 2, "tensor_parallel_size": 4})").status().message()),
              HasSubstr("plan.tensor_parallel = 2 and plan.tensor_parallel_size = 4"));
  EXPECT_THAT(std::string(tensor(R"({"tp": 2, "tensor_parallel": "2"})").status().message()), HasSubstr("= '2'"));
  const JsonValue words = Parsed(R"({"recompute": "full", "activation_checkpointing": true})");
  Fields f(words, "");
  std::string text;
  EXPECT_THAT(std::string(f.Text("recompute", &text).message()),
              HasSubstr("recompute = 'full' and activation_checkpointing = true"));
}

TEST(Fields, ListsUnreadFields) {
  const JsonValue object = Parsed(R"({"micro_batch": 1, "note": "", "coolant": 1, "micro_bacth": 2})");
  std::optional<int64_t> count;
  std::vector<std::string> unread;
  Fields f(object, "plan");
  EXPECT_TRUE(f.Count("micro_batch", &count).ok());
  f.Ignore({"note"});
  EXPECT_TRUE(f.Rest(&unread).ok());
  EXPECT_TRUE(f.Rest(&unread).ok());
  EXPECT_THAT(unread, ElementsAre("plan.coolant", "plan.micro_bacth"));
  // A name counts as a misspelling only if the field that it resembles is absent.
  const JsonValue slip = Parsed(R"({"micro_bacth": 2})");
  Fields g(slip, "plan");
  EXPECT_TRUE(g.Count("micro_batch", &count).ok());
  EXPECT_TRUE(g.Rest(&unread, /*slips=*/false).ok());
  EXPECT_THAT(std::string(g.Rest(&unread).message()), HasSubstr("nearest: 'micro_batch'"));
}

}  // namespace
}  // namespace weft
