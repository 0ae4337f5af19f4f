// The verifier walks segments that are alike once. Tests that it finds the same as if it walked each segment, whatever
// is broken in one of them.
#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "proto/program.pb.h"
#include "verifier/testing/schedule_program.h"
#include "verifier/testing/split_program.h"
#include "verifier/verify.h"

namespace weft {
namespace {

// Adds two copies of each segment, which no action runs.
Program WithCopies(Program program) {
  const int segments = program.segments_size();
  for (int copy = 0; copy < 2; ++copy) {
    for (int s = 0; s < segments; ++s) {
      Segment segment = program.segments(s);
      segment.set_name(segment.name() + (copy == 0 ? " again" : " once more"));
      *program.add_segments() = std::move(segment);
    }
  }
  return program;
}

// Gives all segments of `program` different numbers of values, so that each is walked. Adds values of `whole`, which is
// `program` before it was broken; no step uses the added values.
Program Unlike(Program program, const Program& whole) {
  int most = 0;
  for (const Segment& segment : program.segments()) most = std::max(most, segment.values_size());
  for (int s = 0; s < program.segments_size(); ++s) {
    Segment& segment = *program.mutable_segments(s);
    for (int i = segment.values_size(); i < most + s; ++i) *segment.add_values() = whole.segments(s).values(0);
  }
  return program;
}

std::vector<std::string> Found(const Program& program) {
  std::vector<std::string> found;
  for (const Finding& finding : FindViolations(program)) found.push_back(std::string(finding.rule) + finding.message);
  return found;
}

// Changes one random thing in one segment.
void Break(std::mt19937_64& random, Program* program) {
  const auto below = [&](int bound) { return static_cast<int>(random() % static_cast<uint64_t>(bound)); };
  Segment& segment = *program->mutable_segments(below(program->segments_size()));
  Step& step = *segment.mutable_steps(below(segment.steps_size()));
  Value& value = *segment.mutable_values(below(segment.values_size()));
  switch (below(8)) {
    case 0:
      return step.clear_deps();
    case 1:
      return segment.mutable_operands(below(segment.operands_size()))->set_access(static_cast<Access>(1 + below(3)));
    case 2:
      return value.set_offset(segment.values(below(segment.values_size())).offset());
    case 3:
      return value.set_operand(below(segment.operands_size()));
    case 4:
      return step.set_detached(!step.detached());
    case 5:
      if (step.stream() != COLLECTIVE) step.set_stream(static_cast<StreamKind>(below(3)));
      return;
    case 6:
      return step.set_accumulate(!step.accumulate());
    default:
      if (step.stream() == COLLECTIVE) step.mutable_collective()->set_purpose(static_cast<Purpose>(1 + below(5)));
      if (step.inputs_size() > 0) step.set_inputs(0, below(segment.values_size()));
      return;
  }
}

TEST(SegmentUse, FindsFaultsInOneOfAlikeSegments) {
  const ScheduleSpec chain = {.order = {"F0.0 F0.1 B0.0 B0.1", "F1.0 F1.1 B1.0 B1.1", "F2.0 F2.1 B2.0 B2.1"},
                              .placement = {{0, 1, 2}},
                              .lane = {0, 0}};
  for (const Program& plain : {ScheduleProgram(chain), SplitProgram(), SplitProgram(false, 2, 2, 3)}) {
    const Program program = WithCopies(plain);
    ASSERT_EQ(Found(program), std::vector<std::string>());
    ASSERT_EQ(Found(Unlike(program, program)), std::vector<std::string>());
    std::mt19937_64 random(1);
    int races = 0, broken = 0;
    for (int round = 0; round < 300; ++round) {
      SCOPED_TRACE(testing::Message() << "round " << round);
      Program other = program;
      Break(random, &other);
      const std::vector<std::string> found = Found(other);
      ASSERT_EQ(found, Found(Unlike(other, program)));
      broken += !found.empty();
      for (const std::string& text : found) races += text.rfind("P2.race", 0) == 0 || text.rfind("P2.access", 0) == 0;
    }
    EXPECT_GT(broken, 50);
    EXPECT_GT(races, 10);
  }
}

}  // namespace
}  // namespace weft
