#include "compiler/rewrite/validation_segments.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/parse_text.h"

namespace weft {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A program of one rank. Segment 0 updates a weight by its gradient, then clears the gradient. Segment 1 computes the
// norm; unless it `clips`, segment 0 computes the norm too. Buffers: 0 norms, 1 factor, 2 weight, 3 gradient, whose
// lifetime ends with the update.
Program OneRank(bool clips) {
  const std::string norm = "steps { name: 'norm' kernel: NORM_TOTAL inputs: 0 outputs: 1 } ";
  const auto value = [](int operand, const char* dtype) {
    return absl::StrCat("operands { access: READ_WRITE bytes: 8 } values { operand: ", operand, " dtype: ", dtype,
                        " shape: 2 } ");
  };
  const std::string values = absl::StrCat(value(0, "FP64"), value(1, "FP32"), value(2, "FP32"), value(3, "FP32"));
  return Parse<Program>(
      absl::StrCat("segments { name: 'rank0.optimizer' ", values, clips ? "" : norm,
                   "steps { name: 'update' kernel: SGD_STEP inputs: 2 inputs: 3 inputs: 1 outputs: 2 } "
                   "steps { name: 'clear' kernel: FILL outputs: 3 } } ",
                   "segments { name: 'rank0.clip' ", values, norm, "} ",
                   R"(templates { device_arena_bytes: 1000
           buffers { name: "norms" role: NORMS dtype: FP64 shape: 2 bytes: 16 persistent: true }
           buffers { name: "factor" dtype: FP32 shape: 2 bytes: 8 persistent: true }
           buffers { name: "weight" role: PARAM dtype: FP32 shape: 2 bytes: 8 persistent: true }
           buffers { name: "gradient" role: GRAD dtype: FP32 shape: 2 bytes: 8 }
           body { id: 0 kind: SCALE_GRADIENTS segment: 1 operands: [0, 1, 2, 3] }
           body { id: 1 kind: OPTIMIZER_STEP segment: 0 operands: [0, 1, 2, 3] releases: 3 } })"));
}

std::vector<std::string> Steps(const Program& program, const AddedSegment& added) {
  std::vector<std::string> names;
  for (const Step& step : program.segments(added.index).steps()) names.push_back(step.name());
  return names;
}

TEST(ValidationSegmentsTest, SplitsTheOptimizersStepsIntoSegments) {
  Program program = OneRank(false);
  Template& t = *program.mutable_templates(0);
  const auto made = MakeValidationSegments({.optimizer = 1}, &program, &t);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(program.segments(made->validate.index).name(), "rank0.validate");
  EXPECT_THAT(Steps(program, made->validate), ElementsAre("norm"));
  EXPECT_THAT(made->validate.operands, ElementsAre(0, 1));
  EXPECT_THAT(Steps(program, made->clear), ElementsAre("clear"));
  EXPECT_THAT(made->clear.operands, ElementsAre(3));
  // `settle` clears the norms too.
  EXPECT_EQ(Steps(program, made->settle).size(), 2u);
  EXPECT_THAT(made->settle.operands, ElementsAre(3, 0));
  EXPECT_THAT(Steps(program, {.index = 0, .operands = {}}), ElementsAre("update"));
  EXPECT_THAT(t.body(1).operands(), ElementsAre(2, 3, 1));
  // Updates are never taken back here, so no state is kept.
  EXPECT_EQ(made->keep.index, -1);
  EXPECT_EQ(made->restore.index, -1);
  EXPECT_EQ(t.buffers_size(), 4);
  EXPECT_EQ(t.device_arena_bytes(), 1000);
  EXPECT_THAT(t.body(1).releases(), ElementsAre(3));
}

TEST(ValidationSegmentsTest, KeepsACopyOfWeightsThatMayBeRestored) {
  Program program = OneRank(true);
  Template& t = *program.mutable_templates(0);
  const auto made =
      MakeValidationSegments({.optimizer = 1, .clip = 0, .repairs = true, .evaluation_bytes = 2000}, &program, &t);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_THAT(Steps(program, made->validate), ElementsAre("norm"));
  // The copy of the weight is new. It lies after the evaluation program's bytes and the gradient, which persists
  // because a repeated update reads it again.
  ASSERT_EQ(t.buffers_size(), 5);
  EXPECT_EQ(t.buffers(4).name(), "kept weight");
  EXPECT_EQ(t.buffers(4).role(), KEPT_WEIGHT);
  EXPECT_EQ(t.buffers(3).offset(), 2048);
  EXPECT_TRUE(t.buffers(3).persistent());
  EXPECT_THAT(t.body(1).releases(), IsEmpty());
  EXPECT_EQ(t.buffers(4).offset(), 2304);
  EXPECT_EQ(t.device_arena_bytes(), 2312);
  EXPECT_THAT(made->keep.operands, ElementsAre(2, 4));
  EXPECT_THAT(made->restore.operands, ElementsAre(4, 2));
  for (const AddedSegment* copy : {&made->keep, &made->restore}) {
    ASSERT_EQ(program.segments(copy->index).steps_size(), 1);
    EXPECT_EQ(program.segments(copy->index).operands(0).access(), READ);
    EXPECT_EQ(program.segments(copy->index).operands(1).access(), WRITE);
  }
}

TEST(ValidationSegmentsTest, SaysWhatIsNotThere) {
  Program program = OneRank(true);
  const auto no_norm = MakeValidationSegments({.optimizer = 1}, &program, program.mutable_templates(0));
  EXPECT_EQ(no_norm.status(), absl::InvalidArgumentError("has no step that computes the norm of the gradients"));
  program = OneRank(false);
  program.mutable_segments(0)->mutable_steps()->RemoveLast();
  program.mutable_templates(0)->mutable_buffers(1)->set_role(LOSSES);
  const auto no_clear = MakeValidationSegments({.optimizer = 1}, &program, program.mutable_templates(0));
  EXPECT_EQ(no_clear.status(), absl::InvalidArgumentError("has no gradient to make zero on this rank"));
}

}  // namespace
}  // namespace weft
