#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "verifier/testing/schedule_program.h"
#include "verifier/testing/tiny_program.h"
#include "verifier/verify.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

// One stage runs all forwards and then all backwards, and the first forward waits for the last backward.
Program ThatWaitsForItself(int microbatches) {
  ScheduleSpec spec;
  spec.placement = {{0}};
  spec.tied = false;
  spec.order.emplace_back();
  for (const char* kind : {"F", "B"}) {
    for (int m = 0; m < microbatches; ++m) {
      absl::StrAppend(&spec.order[0], spec.order[0].empty() ? "" : " ", kind, "0.", m);
    }
  }
  spec.lane.assign(microbatches, 0);
  Program program = ScheduleProgram(spec);
  // With one stage the program is no complete training step, but its lists are sound.
  EXPECT_TRUE(FindViolations(program, {.completeness = false}).empty());
  AddDep(&program, 0, "F s0 m0", absl::StrCat("B s0 m", microbatches - 1));
  return program;
}

// The actions that the finding names, from the first around the cycle to the first again.
std::vector<std::string> Cycle(const Program& program) {
  const std::vector<Finding> findings = FindViolations(program);
  EXPECT_EQ(findings.size(), 1u);
  if (findings.size() != 1) return {};
  EXPECT_EQ(findings[0].rule, "P13.deadlock");
  const std::string start = "a waits for b): ";
  const size_t begin = findings[0].message.find(start);
  EXPECT_NE(begin, std::string::npos) << findings[0].message;
  return absl::StrSplit(findings[0].message.substr(begin + start.size()), " -> ");
}

TEST(Deadlock, NamesAllActionsOfAShortCycle) {
  const std::vector<std::string> cycle = Cycle(ThatWaitsForItself(2));
  ASSERT_GE(cycle.size(), 4u);
  EXPECT_EQ(cycle.front(), cycle.back());
  for (const std::string& action : cycle) EXPECT_THAT(action, HasSubstr("'"));
}

TEST(Deadlock, CutsALongCycleInTheMiddle) {
  const std::vector<std::string> shorter = Cycle(ThatWaitsForItself(8)), longer = Cycle(ThatWaitsForItself(16));
  for (const std::vector<std::string>* cycle : {&shorter, &longer}) {
    ASSERT_EQ(cycle->size(), 8u);
    EXPECT_EQ(cycle->front(), cycle->back());
    EXPECT_THAT((*cycle)[4], testing::MatchesRegex("\\.\\.\\. [0-9]+ more"));
  }
  EXPECT_NE(shorter[4], longer[4]);
}

}  // namespace
}  // namespace weft
