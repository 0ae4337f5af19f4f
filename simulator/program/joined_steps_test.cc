#include "simulator/program/joined_steps.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/parse_text.h"

namespace weft::sim {
namespace {

using ::testing::ElementsAre;

// Two casts of ten numbers each, from operands 0 and 1 to operands 2 and 3, and eight buffers to bind to them.
Program Casts() {
  std::string text = "segments { ";
  for (int o = 0; o < 4; ++o) {
    text += "operands { bytes: " + std::string(o < 2 ? "40" : "20") + " } values { operand: " + std::to_string(o) +
            (o < 2 ? " dtype: FP32" : " dtype: BF16") + " shape: 10 } ";
  }
  for (int s = 0; s < 2; ++s) {
    text += "steps { kernel: CAST stream: COMPUTE inputs: " + std::to_string(s) + " outputs: " + std::to_string(s + 2) +
            " } ";
  }
  text +=
      "} segments { values { dtype: FP32 shape: 10 } steps { kernel: CAST stream: COMPUTE inputs: 0 outputs: 0 } } ";
  text += "templates { ";
  for (int b = 0; b < 8; ++b) text += "buffers { bytes: 40 offset: " + std::to_string(256 * b) + " } ";
  return Parse<Program>(text + "}");
}

Action Update(const std::string& operands, int segment = 0) {
  return Parse<Action>("kind: OPTIMIZER_STEP segment: " + std::to_string(segment) + " operands: [" + operands + "]");
}

TEST(JoinedStepsTest, JoinsStepsThatTheDeviceJoins) {
  const Program program = Casts();
  JoinedSteps joined(program, program.templates(0), true);
  const int32_t index = joined.IndexOf(Update("0, 1, 2, 3"));
  ASSERT_EQ(index, 0);
  EXPECT_THAT(*joined.List(index), ElementsAre(StepRange{0, 2, {{0, 1}}}));
  // A single step joins nothing. The action of a microbatch joins nothing either, because it has no updates.
  EXPECT_EQ(joined.IndexOf(Update("0", 1)), -1);
  Action forward = Update("0, 1, 2, 3");
  forward.set_kind(FORWARD);
  EXPECT_EQ(joined.IndexOf(forward), -1);
  // If the device does not join steps, there is no list.
  EXPECT_EQ(JoinedSteps(program, program.templates(0), false).IndexOf(Update("0, 1, 2, 3")), -1);
}

TEST(JoinedStepsTest, ActionsAlikeHaveOneList) {
  const Program program = Casts();
  JoinedSteps joined(program, program.templates(0), true);
  const int32_t index = joined.IndexOf(Update("0, 1, 2, 3"));
  EXPECT_EQ(joined.IndexOf(Update("4, 5, 6, 7")), index);
  // The second cast reads what the first one makes, so they are two launches. The same holds for other buffers.
  const int32_t chained = joined.IndexOf(Update("0, 2, 2, 3"));
  EXPECT_NE(chained, index);
  EXPECT_EQ(joined.IndexOf(Update("4, 6, 6, 7")), chained);
  // Both casts read the same buffer, which is no reason to wait.
  EXPECT_EQ(joined.IndexOf(Update("0, 0, 2, 3")), index);
  EXPECT_EQ(joined.IndexOf(Update("0, 1, 2, 3")), index);
}

TEST(JoinedStepsTest, ADeviceWithoutCapabilityIsNoted) {
  Program program = Casts();
  *program.mutable_templates(0)->add_body() = Update("0, 1, 2, 3");
  Device device = Parse<Device>("name: 'd' launch_seconds: 1e-6");
  EXPECT_THAT(NoteOnLaunches(program, device, 80),
              testing::AllOf(testing::StartsWith("'d' states no device.compute_capability"),
                             testing::HasSubstr("from compute capability 80 on")));
  // There is no note if no runtime joins steps, if launches take no time, or if nothing would be joined.
  EXPECT_EQ(NoteOnLaunches(program, device, 0), "");
  EXPECT_EQ(NoteOnLaunches(program, Device(), 80), "");
  EXPECT_EQ(NoteOnLaunches(Casts(), device, 80), "");
  // CPU cores have measured rates but no multiprocessors.
  device.add_kernel_rates()->set_kernel("CAST");
  EXPECT_EQ(NoteOnLaunches(program, device, 80), "");
  device.mutable_tiles()->set_multiprocessors(108);
  EXPECT_NE(NoteOnLaunches(program, device, 80), "");
  device.set_compute_capability(70);
  EXPECT_EQ(NoteOnLaunches(program, device, 80), "");
}

TEST(JoinedStepsTest, ListsStayWhereTheyAre) {
  const Program program = Casts();
  JoinedSteps joined(program, program.templates(0), true);
  const std::vector<StepRange>* list = joined.List(joined.IndexOf(Update("0, 1, 2, 3")));
  const auto lists = joined.TakeLists();
  ASSERT_EQ(lists.size(), 1u);
  EXPECT_EQ(lists[0].get(), list);
}

}  // namespace
}  // namespace weft::sim
