#include "executor/collective/collective_check.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "verifier/testing/split_program.h"

namespace weft::exec {
namespace {

using ::testing::HasSubstr;

// SplitProgram with these algorithms for its collectives between actions and within segments.
Program WithAlgorithm(const std::string& of_actions, const std::string& of_steps) {
  Program program = SplitProgram();
  for (Template& t : *program.mutable_templates()) {
    for (Action& action : *t.mutable_body()) {
      if (!action.algorithm().empty()) action.set_algorithm(of_actions);
    }
  }
  for (Segment& segment : *program.mutable_segments()) {
    for (Step& step : *segment.mutable_steps()) {
      if (step.has_collective()) step.mutable_collective()->set_algorithm(of_steps);
    }
  }
  return program;
}

std::string Refused(const Program& program, bool native) {
  const absl::Status status = CheckCollectives(program, "pigeons", native);
  EXPECT_TRUE(status.ok() || absl::IsInvalidArgument(status)) << status;
  return std::string(status.message());
}

TEST(CollectiveCheck, ASwitchNeedsATransportThatAsksIt) {
  EXPECT_EQ(Refused(WithAlgorithm("ring", "tree"), /*native=*/false), "");
  const std::string of_action = Refused(WithAlgorithm("switch", "ring"), /*native=*/false);
  EXPECT_THAT(of_action, HasSubstr("' with transport 'pigeons': collective 'switch' is done by switches"));
  EXPECT_THAT(of_action, HasSubstr("nearest valid: 'direct', 'ring'"));
  EXPECT_THAT(of_action, HasSubstr("action "));
  EXPECT_THAT(Refused(WithAlgorithm("ring", "switch"), /*native=*/false), HasSubstr(", step '"));
  EXPECT_EQ(Refused(WithAlgorithm("switch", "switch"), /*native=*/true), "");
}

TEST(CollectiveCheck, OneMemberHasNothingToSend) {
  Program program = WithAlgorithm("switch", "switch");
  for (MeshAxis& axis : *program.mutable_mesh()->mutable_axes()) axis.set_size(1);
  EXPECT_EQ(Refused(program, /*native=*/false), "");
}

TEST(CollectiveCheck, APlanHasAtMostSoManyMembers) {
  Program program = WithAlgorithm("ring", "ring");
  for (MeshAxis& axis : *program.mutable_mesh()->mutable_axes()) {
    if (axis.name() == "data") axis.set_size(2048);
  }
  EXPECT_THAT(Refused(program, /*native=*/false), HasSubstr("nearest valid: 1024"));
  EXPECT_EQ(Refused(program, /*native=*/true), "");
}

// NCCL has no sum of EXACT192, so these collectives use a plan's messages.
TEST(CollectiveCheck, ExactSumsAreMessagesOnAnyTransport) {
  Program program = WithAlgorithm("switch", "ring");
  bool is_set = false;
  for (Template& t : *program.mutable_templates()) {
    for (Action& action : *t.mutable_body()) {
      if (action.kind() != ALL_REDUCE || is_set) continue;
      t.mutable_buffers(action.sources(0))->set_dtype(EXACT192);
      is_set = true;
    }
  }
  ASSERT_TRUE(is_set);
  EXPECT_THAT(Refused(program, /*native=*/true), HasSubstr("collective 'switch' is done by switches"));
}

TEST(CollectiveCheck, TheEvaluationIsChecked) {
  Program program = WithAlgorithm("ring", "ring");
  *program.mutable_evaluation() = WithAlgorithm("ring", "switch");
  EXPECT_THAT(Refused(program, /*native=*/false), HasSubstr("collective 'switch'"));
}

}  // namespace
}  // namespace weft::exec
