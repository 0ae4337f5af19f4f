#include "proto/io/text_reader.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"
#include "proto/io/content.h"
#include "proto/plan.pb.h"
#include "proto/program.pb.h"
#include "proto/recipe.pb.h"

namespace weft {
namespace {

using ::google::protobuf::util::MessageDifferencer;
using ::testing::HasSubstr;
using ::testing::StartsWith;

template <typename T>
std::string ErrorOf(const std::string& text) {
  T message;
  return std::string(ReadText(text, "file", &message).message());
}

constexpr char kPlan[] =
    "mesh { axes { name: \"data\" size: 4 } axes { name: \"pipe\" size: 2 } } schedule { name: \"1f1b\" } "
    "precision { compute: BF16 } recompute { layers: [1, 20] }";

TEST(TextReader, ReadsWhatIsPrinted) {
  Plan plan, again;
  ASSERT_TRUE(ReadText(kPlan, "file", &plan).ok());
  EXPECT_EQ(plan.mesh().axes(1).size(), 2);
  EXPECT_EQ(plan.precision().compute(), BF16);
  EXPECT_THAT(plan.recompute().layers(), testing::ElementsAre(1, 20));
  for (const bool one_line : {false, true}) {
    google::protobuf::TextFormat::Printer printer;
    printer.SetSingleLineMode(one_line);
    std::string text;
    ASSERT_TRUE(printer.PrintToString(plan, &text));
    ASSERT_TRUE(ReadText(text, "file", &again).ok());
    EXPECT_TRUE(MessageDifferencer::Equals(plan, again));
  }
}

// The first of two errors is reported, whether the parser or the check of fields finds it.
TEST(TextReader, TheFirstFaultIsTold) {
  EXPECT_THAT(ErrorOf<Recipe>("steps: 1\n stepz: 2\n }"), StartsWith("file:2:2: unknown field 'stepz'"));
  EXPECT_THAT(ErrorOf<Recipe>("steps: 1 }\n stepz: 2"), StartsWith("file:1:10: "));
  EXPECT_THAT(ErrorOf<Recipe>("steps: 0\n steps: 2"), StartsWith("file:2:2: "));
}

// Text protos accept enum names in any case, as settings do.
TEST(TextReader, EnumsAreReadInAnyCase) {
  Plan plan;
  const absl::Status status =
      ReadText("recompute { mode: Fit }\n\tprecision\t{ compute: bf16 master: FP32 } # fit\n zero { reshard: 'x'",
               "file", &plan);
  // The error names the place in the text as it was given.
  EXPECT_THAT(std::string(status.message()), StartsWith("file:3:18: plan.zero.reshard"));
  ASSERT_TRUE(ReadText("recompute { mode: Fit }\n\tprecision\t{ compute: bf16 master: FP32 } schedule { name: \"fit\" "
                       "scaling: forward_doubling } # fit",
                       "file", &plan)
                  .ok());
  EXPECT_EQ(plan.recompute().mode(), Recompute::FIT);
  EXPECT_EQ(plan.precision().compute(), BF16);
  EXPECT_EQ(plan.precision().master(), FP32);
  EXPECT_EQ(plan.schedule().name(), "fit");
  EXPECT_THAT(ErrorOf<Plan>("recompute { mode: fitt }"), HasSubstr("nearest: 'FIT'"));
  // A written zero is also found in a text with enum names in another case.
  EXPECT_THAT(ErrorOf<Plan>("recompute { mode: fit } schedule { waves: 0 }"),
              StartsWith("file:1:36: plan.schedule.waves"));
}

TEST(TextReader, OneOfSeveralIsGiven) {
  EXPECT_EQ(ErrorOf<Recipe>("adamw { }\nsgd { }"),
            "file:2:1: recipe.sgd: another member of 'optimizer' is given: 'adamw'");
}

// A zero that would be taken for another value is refused if it was written by hand, at any depth.
TEST(TextReader, AWrittenZeroIsNotTakenForNone) {
  EXPECT_THAT(ErrorOf<Recipe>("sequence_length: 8\n  steps: 0"), StartsWith("file:2:3: recipe.steps"));
  EXPECT_EQ(ErrorOf<Recipe>("sequence_length: 8"), "");
  EXPECT_THAT(ErrorOf<Plan>("step_barrier: true schedule { name: '1f1b' waves: 0 }"),
              StartsWith("file:1:44: plan.schedule.waves"));
}

TEST(TextReader, MessagesAreSoDeepAndNoDeeper) {
  // A program contains its evaluation program, whose type allows another one inside.
  const auto nested = [](int levels) {
    std::string text;
    for (int i = 0; i < levels; ++i) text += "evaluation { ";
    return text + "stages: 3" + std::string(levels, '}');
  };
  EXPECT_EQ(ErrorOf<Program>(nested(kMaxMessageDepth - 1)), "");
  EXPECT_THAT(ErrorOf<Program>(nested(kMaxMessageDepth + 1)), StartsWith("file:1:"));
}

// Every prefix of a file gives another plan than the whole file does, or an error that names the place.
TEST(TextReader, APartOfAFileIsNeverTheWhole) {
  const std::string whole = kPlan;
  Plan plan;
  ASSERT_TRUE(ReadText(whole, "file", &plan).ok());
  for (size_t size = 0; size < whole.size(); ++size) {
    Plan read;
    const absl::Status status = ReadText(whole.substr(0, size), "file", &read);
    if (status.ok()) {
      EXPECT_FALSE(MessageDifferencer::Equals(plan, read)) << size;
    } else {
      EXPECT_THAT(std::string(status.message()), StartsWith("file:1:")) << size;
    }
  }
}

TEST(TextReader, StringsAreTextWithoutNul) {
  EXPECT_THAT(ErrorOf<Recipe>("lr { decay: \"\\xff\" }"), HasSubstr("recipe.lr.decay: invalid UTF-8"));
  EXPECT_THAT(ErrorOf<Recipe>("lr { decay: \"a\\000b\" }"), HasSubstr("recipe.lr.decay: a NUL byte"));
}

}  // namespace
}  // namespace weft
