#include "executor/interpreter/deadlines.h"

#include <string>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/io/program_file.h"

namespace weft::exec {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

Program TwoTemplates() {
  Program program;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"pb(name: "p"
           mesh { axes { name: "pipe" size: 2 } }
           templates {
             name: "first"
             pins { axis: "pipe" index: 0 }
             prologue { id: 5 }
             body { id: 0 }
             body { id: 2 }
           }
           templates {
             name: "last"
             pins { axis: "pipe" index: 1 }
             body { id: 0 }
           })pb",
      &program));
  return program;
}

Trace Predicted(const Program& program) {
  Trace trace;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"pb(origin: "simulated"
           program_name: "p"
           repetitions: 2
           ranks {
             rank: 0
             template_name: "first"
             events { repetition: 0 action: 0 ready_ps: 1000 start_ps: 1000 end_ps: 2000 finish_ps: 2000 }
             events { repetition: 0 action: 0 step: 1 ready_ps: 2000 start_ps: 2000 end_ps: 4000 finish_ps: 8000000 }
             events { repetition: 1 action: 0 ready_ps: 8000000 start_ps: 8000000 end_ps: 8001000 finish_ps: 8001000 }
             events { repetition: 0 action: 2 ready_ps: 0 start_ps: 999 end_ps: 2000000000000 finish_ps: 2000000000000 }
           })pb",
      &trace));
  trace.set_program_crc(ProgramCrc(program));
  return trace;
}

TEST(DeadlinesTest, TheLongerOfTimeoutAndTwentyTimesThePrediction) {
  const Program program = TwoTemplates();
  const auto predicted = PredictedTimes::Make(program, Predicted(program));
  ASSERT_TRUE(predicted.ok()) << predicted.status();
  // The time runs from when the first step was ready to when the last step was finished.
  EXPECT_EQ(predicted->Of(0, 0), 8000 - 1);
  EXPECT_EQ(predicted->Of(0, 2), int64_t{2} * 1000 * 1000 * 1000);
  EXPECT_EQ(predicted->Longest(), int64_t{2} * 1000 * 1000 * 1000);
  EXPECT_EQ(predicted->Of(0, 5), 0);
  EXPECT_EQ(predicted->Of(1, 0), 0);
  EXPECT_EQ(predicted->Of(7, 0), 0);
  Trace other = Predicted(program);
  other.mutable_ranks(0)->mutable_events(3)->set_finish_ps(2000000001000);
  EXPECT_EQ(predicted->Digest(), PredictedTimes::Make(program, Predicted(program))->Digest());
  EXPECT_NE(predicted->Digest(), PredictedTimes::Make(program, other)->Digest());
  EXPECT_EQ(PredictedTimes().Digest(), "none");
  // Action indices run through the lists in order: prologue, body, epilogue.
  Deadlines deadlines(program, 0, seconds(3), *predicted, /*generous=*/false);
  EXPECT_EQ(deadlines.Of(0), seconds(3));
  EXPECT_EQ(deadlines.Of(1), seconds(3));
  EXPECT_EQ(deadlines.Of(2), seconds(40));
  EXPECT_EQ(deadlines.Of(99), seconds(3));
  EXPECT_EQ(deadlines.LongestPredicted(), seconds(40));
  EXPECT_EQ(Deadlines(program, 0, seconds(3), PredictedTimes(), false).LongestPredicted(), seconds(0));
  EXPECT_EQ(deadlines.WaitDeadline(), seconds(4));
  EXPECT_EQ(deadlines.WaitDeadlineIn(2), seconds(41));
}

TEST(DeadlinesTest, TheFirstRepetitionHasMoreTime) {
  const Program program = TwoTemplates();
  const auto predicted = PredictedTimes::Make(program, Predicted(program));
  Deadlines deadlines(program, 0, milliseconds(100), *predicted, /*generous=*/true);
  EXPECT_EQ(deadlines.Of(0), seconds(1));
  EXPECT_EQ(deadlines.Of(2), seconds(400));
  EXPECT_EQ(deadlines.WaitDeadline(), seconds(2));
  EXPECT_TRUE(deadlines.in_first());
  deadlines.RepetitionIsOver(MonotonicNanoseconds());
  EXPECT_FALSE(deadlines.in_first());
  EXPECT_EQ(deadlines.Of(0), milliseconds(100));
  EXPECT_EQ(deadlines.Of(2), seconds(40));
}

TEST(DeadlinesTest, TheLongestRepetition) {
  for (const bool generous : {false, true}) {
    Deadlines deadlines(TwoTemplates(), 0, milliseconds(100), PredictedTimes(), generous);
    EXPECT_EQ(deadlines.repetitions_over(), 0);
    deadlines.Enter(RunPhase::kStepping);
    const int64_t start = MonotonicNanoseconds();
    const int64_t first = start + 3'000'000'000, second = first + 2'000'000'000, third = second + 1;
    deadlines.RepetitionIsOver(first);
    // If the first repetition is generous, as on a device that loads kernels in it, it does not count for the longest
    // one.
    if (generous) {
      EXPECT_EQ(deadlines.longest_repetition_ns(), 0);
    }
    if (!generous) {
      EXPECT_GE(deadlines.longest_repetition_ns(), 3'000'000'000);
    }
    deadlines.RepetitionIsOver(second);
    deadlines.RepetitionIsOver(third);
    EXPECT_EQ(deadlines.repetitions_over(), 3);
    if (generous) {
      EXPECT_EQ(deadlines.longest_repetition_ns(), 2'000'000'000);
    }
    // Time between steps counts for no repetition.
    const int64_t longest = deadlines.longest_repetition_ns();
    deadlines.Enter(RunPhase::kEnding);
    deadlines.Enter(RunPhase::kStepping);
    deadlines.RepetitionIsOver(MonotonicNanoseconds());
    EXPECT_EQ(deadlines.longest_repetition_ns(), longest);
  }
}

TEST(DeadlinesTest, LongTimesDoNotOverflow) {
  Program program = TwoTemplates();
  Trace trace = Predicted(program);
  trace.mutable_ranks(0)->mutable_events(3)->set_finish_ps(INT64_MAX);
  const auto predicted = PredictedTimes::Make(program, trace);
  const Deadlines deadlines(program, 0, std::chrono::nanoseconds::max(), *predicted, /*generous=*/true);
  EXPECT_GT(deadlines.Of(0), std::chrono::hours(24 * 365));
  EXPECT_GT(deadlines.Of(2), std::chrono::hours(24 * 365));
}

// The time that a run took, including its stalls, is no prediction.
TEST(DeadlinesTest, AMeasuredTraceIsRefused) {
  const Program program = TwoTemplates();
  Trace trace = Predicted(program);
  trace.set_origin("measured");
  EXPECT_EQ(PredictedTimes::Make(program, trace).status().message(),
            "the trace is measured; allowed: a trace that `weft simulate PROGRAM --trace=FILE` wrote");
  trace.clear_origin();
  EXPECT_THAT(std::string(PredictedTimes::Make(program, trace).status().message()),
              HasSubstr("the trace is not marked as simulated"));
}

TEST(DeadlinesTest, ATraceOfAnotherProgramIsRefused) {
  const Program program = TwoTemplates();
  Trace trace = Predicted(program);
  trace.set_program_crc(1);
  trace.set_program_name("other");
  EXPECT_THAT(std::string(PredictedTimes::Make(program, trace).status().message()),
              HasSubstr("the trace is of program 'other' (CRC 00000001), but the run is of 'p' (CRC "));
}

}  // namespace
}  // namespace weft::exec
