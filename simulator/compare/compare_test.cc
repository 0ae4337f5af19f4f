#include "simulator/compare/compare.h"

#include <string>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/io/program_file.h"

namespace weft::sim {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kSecond = 1'000'000'000'000;

// A program of two ranks with one template: a forward of two steps, and a send.
Program TestProgram() {
  Program program;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"pb(
        name: "p"
        mesh { axes { name: "data" size: 2 } }
        segments {
          steps { name: "a" }
          steps { name: "b" }
        }
        templates {
          name: "t"
          body { id: 1 kind: FORWARD name: "F s0 m0" operands: 0 }
          body { id: 2 kind: SEND name: "send" }
        }
      )pb",
      &program));
  return program;
}

void AddEvent(RankTrace* rank, int repetition, int action, int step, int stream, int64_t start, int64_t finish) {
  TraceEvent* event = rank->add_events();
  event->set_repetition(repetition);
  event->set_action(action);
  event->set_step(step);
  event->set_stream(stream);
  event->set_ready_ps(start * kSecond);
  event->set_start_ps(start * kSecond);
  event->set_end_ps(finish * kSecond);
  event->set_finish_ps(finish * kSecond);
}

// A trace of one rank. A repetition has a forward with steps at 0-3 and 3-4, and a send at 2-6, all times `scale`.
// Repetitions start `period` apart.
Trace TestTrace(const char* origin, int64_t scale, int repetitions, int64_t period) {
  Trace trace;
  trace.set_origin(origin);
  trace.set_program_name("p");
  trace.set_repetitions(repetitions);
  RankTrace* rank = trace.add_ranks();
  rank->set_template_name("t");
  rank->add_streams("compute");
  rank->add_streams("send");
  for (int k = 0; k < repetitions; ++k) {
    AddEvent(rank, k, 1, 0, 0, k * period, k * period + 3 * scale);
    AddEvent(rank, k, 1, 1, 0, k * period + 3 * scale, k * period + 4 * scale);
    AddEvent(rank, k, 2, 0, 1, k * period + 2 * scale, k * period + 6 * scale);
  }
  return trace;
}

TEST(SummarizeTrace, AddsUp) {
  const Trace trace = TestTrace("measured", 1, 3, 10);
  ASSERT_EQ(ValidateTrace(trace), absl::OkStatus());
  const TraceReport report = SummarizeTrace(trace);
  EXPECT_EQ(report.makespan_seconds(), 26);
  EXPECT_EQ(report.iteration_seconds(), 10);
  ASSERT_EQ(report.per_rank_size(), 1);
  EXPECT_EQ(report.per_rank(0).busy_seconds(), 4);
  EXPECT_EQ(report.per_rank(0).exposed_communication_seconds(), 2);
  EXPECT_DOUBLE_EQ(report.per_rank(0).idle_seconds(), 8.0 / 3);
}

TEST(SummarizeTrace, OneRepetitionHasItsMakespanAsPeriod) {
  EXPECT_EQ(SummarizeTrace(TestTrace("simulated", 1, 1, 10)).iteration_seconds(), 6);
}

TEST(CompareTraces, ActionByAction) {
  const Program program = TestProgram();
  const Trace simulated = TestTrace("simulated", 1, 1, 10), measured = TestTrace("measured", 2, 3, 12);
  ASSERT_EQ(ValidateTogether(simulated, program), absl::OkStatus());
  ASSERT_EQ(ValidateTogether(measured, program), absl::OkStatus());
  const absl::StatusOr<ComparisonReport> report = CompareTraces(simulated, measured, &program);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->iteration_error(), -0.5);
  ASSERT_EQ(report->actions_size(), 2);
  EXPECT_EQ(report->actions(0).name(), "F s0 m0");
  EXPECT_EQ(report->actions(0).first_seconds(), 4);
  EXPECT_EQ(report->actions(0).second_seconds(), 8);
  EXPECT_EQ(report->actions(1).kind(), "SEND");
  EXPECT_EQ(report->actions(1).first_start_seconds(), 2);
  EXPECT_EQ(report->actions(1).second_start_seconds(), 4);
  ASSERT_EQ(report->kinds_size(), 2);
  EXPECT_EQ(report->kinds(0).kind(), "FORWARD");
  EXPECT_EQ(report->kinds(0).second_seconds(), 8);
  // Without the program there are no names and no kinds.
  EXPECT_EQ(CompareTraces(simulated, measured, nullptr)->actions(0).name(), "t action 1");
}

// One slow repetition among many does not move a median.
TEST(CompareTraces, OutliersDoNotCount) {
  Trace trace = TestTrace("measured", 1, 5, 10);
  trace.mutable_ranks(0)->mutable_events(12)->set_finish_ps(49 * kSecond);
  const ComparisonReport report = *CompareTraces(trace, TestTrace("measured", 1, 1, 10), nullptr);
  EXPECT_EQ(report.actions(0).first_seconds(), 4);
}

TEST(CompareTraces, RefusesTracesOfDifferentPrograms) {
  Trace first = TestTrace("simulated", 1, 1, 10), second = TestTrace("measured", 1, 1, 10);
  second.mutable_ranks(0)->mutable_events()->RemoveLast();
  EXPECT_THAT(std::string(CompareTraces(first, second, nullptr).status().message()),
              HasSubstr("action 2 of rank 0 is missing in the measured trace"));
  EXPECT_THAT(std::string(CompareTraces(second, first, nullptr).status().message()),
              HasSubstr("action 2 of rank 0 is missing in the measured trace"));
  first.set_program_crc(1);
  second.set_program_crc(2);
  EXPECT_THAT(std::string(CompareTraces(first, second, nullptr).status().message()), HasSubstr("different programs"));
}

TEST(ValidateTogether, RefusesWhatTheProgramDoesNotHave) {
  const Program program = TestProgram();
  Trace trace = TestTrace("measured", 1, 1, 10);
  trace.set_program_crc(ProgramCrc(program));
  EXPECT_EQ(ValidateTogether(trace, program), absl::OkStatus());
  trace.mutable_ranks(0)->mutable_events(2)->set_step(1);
  EXPECT_THAT(std::string(ValidateTogether(trace, program).message()), HasSubstr("step 1 of action 2 on rank 0"));
  trace.mutable_ranks(0)->mutable_events(2)->set_action(3);
  EXPECT_FALSE(ValidateTogether(trace, program).ok());
  trace.mutable_ranks(0)->set_rank(2);
  EXPECT_THAT(std::string(ValidateTogether(trace, program).message()), HasSubstr("the trace has rank 2"));
  trace.set_program_crc(trace.program_crc() + 1);
  EXPECT_THAT(std::string(ValidateTogether(trace, program).message()), HasSubstr("with CRC"));
}

TEST(ValidateTrace, RefusesNonsense) {
  const auto message = [](const Trace& trace) { return std::string(ValidateTrace(trace).message()); };
  EXPECT_THAT(message({}), HasSubstr("no events"));
  Trace trace = TestTrace("measured", 1, 1, 10);
  trace.mutable_ranks(0)->mutable_events(0)->set_stream(2);
  EXPECT_THAT(message(trace), HasSubstr("rank 0, events[0].stream = 2; the rank has 2 streams"));
  trace = TestTrace("measured", 1, 1, 10);
  trace.mutable_ranks(0)->mutable_events(0)->set_end_ps(-1);
  EXPECT_THAT(message(trace), HasSubstr("must ascend"));
  trace = TestTrace("measured", 1, 1, 10);
  trace.set_repetitions(0);
  EXPECT_THAT(message(trace), HasSubstr(".repetition = 0; the trace has 0"));
  trace.set_repetitions(INT32_MAX);
  EXPECT_THAT(message(trace), HasSubstr("only 3 events"));
  trace.set_repetitions(-1);
  EXPECT_THAT(message(trace), HasSubstr("must not be negative"));
  trace = TestTrace("measured", 1, 1, 10);
  *trace.add_ranks() = trace.ranks(0);
  EXPECT_THAT(message(trace), HasSubstr("ranks must ascend"));
}

}  // namespace
}  // namespace weft::sim
