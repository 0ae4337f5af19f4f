#include "proto/io/json_reader.h"

#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/protobuf/util/message_differencer.h"
#include "google/protobuf/wrappers.pb.h"
#include "gtest/gtest.h"
#include "proto/plan.pb.h"
#include "proto/recipe.pb.h"

namespace weft {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

template <typename T>
absl::Status Read(const std::string& text, T* message) {
  return ReadJson(text, "file", message);
}

std::string ErrorOf(const absl::Status& status) { return std::string(status.message()); }

// Both ends of the field's range are accepted, as numbers and as strings. The next number beyond each end is refused,
// and the error names the nearest valid number.
template <typename Wrapper, typename Integer>
void ExpectEnds() {
  using Limits = std::numeric_limits<Integer>;
  const auto text = [](const std::string& value) { return absl::StrCat("{\"value\": ", value, "}"); };
  for (const Integer end : {Limits::min(), Limits::max()}) {
    for (const std::string& value : {absl::StrCat(end), absl::StrCat("\"", end, "\"")}) {
      Wrapper message;
      const absl::Status status = Read(text(value), &message);
      EXPECT_TRUE(status.ok()) << status;
      EXPECT_EQ(message.value(), end);
    }
  }
  Wrapper message;
  const std::string least = absl::StrCat(Limits::min()), most = absl::StrCat(Limits::max());
  // None of these numbers ends in 9, so increasing the last digit gives the next number beyond the range.
  const auto beyond = [](std::string number) {
    ++number.back();
    return number;
  };
  EXPECT_THAT(ErrorOf(Read(text(beyond(most)), &message)), HasSubstr("; nearest: " + most));
  EXPECT_THAT(ErrorOf(Read(text(Limits::min() == 0 ? "-1" : beyond(least)), &message)),
              HasSubstr("; nearest: " + least));
  EXPECT_THAT(ErrorOf(Read(text("1.5"), &message)), HasSubstr("value: expected an integer"));
}

TEST(JsonReader, IntegersFitTheirFields) {
  ExpectEnds<google::protobuf::Int32Value, int32_t>();
  ExpectEnds<google::protobuf::Int64Value, int64_t>();
  ExpectEnds<google::protobuf::UInt32Value, uint32_t>();
  ExpectEnds<google::protobuf::UInt64Value, uint64_t>();
}

// Integers in strings must be written as JSON numbers: no blanks, no plus, no leading 0.
TEST(JsonReader, IntegersInStringsAreWrittenAsNumbers) {
  Plan plan;
  const auto said = [&](const std::string& value) {
    return ErrorOf(Read(absl::StrCat("{\"send_buffers\": \"", value, "\"}"), &plan));
  };
  EXPECT_EQ(
      said("010"),
      "file:1:18: plan.send_buffers: expected an integer of 32 bits without a 0 in front, got '010'; nearest: 10");
  for (const char* value : {"+10", " 10", "10 ", "-+1", "0x10", "1e1", "--1", "-", ""}) {
    EXPECT_THAT(said(value), StartsWith("file:1:18: plan.send_buffers: expected an integer of 32 bits")) << value;
  }
  EXPECT_EQ(said("-10"), "");
  EXPECT_EQ(plan.send_buffers(), -10);
}

TEST(JsonReader, EveryKindOfField) {
  Recipe recipe;
  ASSERT_TRUE(Read("{\"sequence_length\": 1024, \"globalBatchSequences\": \"8\", \"dropout\": 0.5, \"seed\": null, "
                   "\"lr\": {\"peak\": 1e-3, \"decay\": \"cosine\"}, "
                   "\"adamw\": {\"overrides\": [{}, {}]}}",
                   &recipe)
                  .ok());
  EXPECT_EQ(recipe.sequence_length(), 1024);
  EXPECT_EQ(recipe.global_batch_sequences(), 8);
  EXPECT_EQ(recipe.dropout(), 0.5);
  EXPECT_EQ(recipe.lr().peak(), 1e-3);
  EXPECT_EQ(recipe.lr().decay(), "cosine");
  EXPECT_EQ(recipe.adamw().overrides_size(), 2);
  Plan plan;
  ASSERT_TRUE(
      Read("{\"step_barrier\": true, \"precision\": {\"compute\": \"BF16\"}, \"recompute\": {\"layers\": [2, 1]}}",
           &plan)
          .ok());
  EXPECT_TRUE(plan.step_barrier());
  EXPECT_EQ(plan.precision().compute(), BF16);
  EXPECT_THAT(plan.recompute().layers(), testing::ElementsAre(2, 1));
}

// JSON accepts enum names in any case, as settings do.
TEST(JsonReader, EnumsAreReadInAnyCase) {
  Plan plan;
  ASSERT_TRUE(
      Read("{\"recompute\": {\"mode\": \"fit\"}, \"schedule\": {\"scaling\": \"forward-doubling\"}}", &plan).ok());
  EXPECT_EQ(plan.recompute().mode(), Recompute::FIT);
  EXPECT_EQ(plan.schedule().scaling(), PlanSchedule::FORWARD_DOUBLING);
  EXPECT_THAT(ErrorOf(Read("{\"recompute\": {\"mode\": \"fitt\"}}", &plan)), HasSubstr("nearest: 'FIT'"));
}

TEST(JsonReader, ReplacesEarlierContents) {
  Recipe recipe;
  recipe.set_sequence_length(7);
  ASSERT_TRUE(Read("{}", &recipe).ok());
  EXPECT_EQ(recipe.ByteSizeLong(), 0u);
}

// Null counts as absent, but a field that is given twice is still a mistake.
TEST(JsonReader, NothingIsGivenTwice) {
  Recipe recipe;
  EXPECT_THAT(ErrorOf(Read("{\"clip_norm\": null, \"clipNorm\": 1}", &recipe)),
              StartsWith("file:1:33: recipe.clip_norm: given twice"));
  EXPECT_THAT(ErrorOf(Read("{\"adamw\": {},\n \"sgd\": {}}", &recipe)),
              StartsWith("file:2:9: recipe.sgd: another member of 'optimizer' is given"));
  EXPECT_TRUE(Read("{\"adamw\": null, \"sgd\": {}}", &recipe).ok());
  EXPECT_TRUE(recipe.has_sgd());
}

constexpr char kPlan[] =
    "{\"mesh\": {\"axes\": [{\"name\": \"data\", \"size\": 4}, {\"name\": \"pipe\", \"size\": 2}]}, \"schedule\": "
    "{\"name\": \"1f1b\"}, \"precision\": {\"compute\": \"BF16\"}, \"recompute\": {\"layers\": [1, 20]}}";

TEST(JsonReader, APartOfAFileIsRefused) {
  const std::string whole = kPlan;
  Plan plan;
  ASSERT_TRUE(Read(whole, &plan).ok());
  for (size_t size = 0; size < whole.size(); ++size) {
    const absl::Status status = Read(whole.substr(0, size), &plan);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << size;
    EXPECT_THAT(ErrorOf(status), StartsWith("file:")) << size;
  }
}

// If one byte of the text changes, reading gives another plan or an error that names the place. The change is never
// ignored, unless it replaces one blank by another.
TEST(JsonReader, AnotherByteIsSeen) {
  const std::string whole = kPlan;
  Plan plan;
  ASSERT_TRUE(Read(whole, &plan).ok());
  for (size_t at = 0; at < whole.size(); ++at) {
    if (whole[at] == ' ') continue;
    for (const char c : {'\0', '"', '7', '[', '}', ',', 'e', '\xff', '\\'}) {
      if (c == whole[at]) continue;
      std::string other = whole;
      other[at] = c;
      Plan read;
      const absl::Status status = Read(other, &read);
      if (status.ok()) {
        EXPECT_FALSE(google::protobuf::util::MessageDifferencer::Equals(plan, read)) << other;
      } else {
        EXPECT_THAT(ErrorOf(status), StartsWith("file:1:")) << other;
      }
    }
  }
}

}  // namespace
}  // namespace weft
