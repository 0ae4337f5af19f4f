#include "simulator/report/report_text.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/parse_text.h"

namespace weft::sim {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// A report of two ranks.
SimulationReport TwoRanks() {
  return Parse<SimulationReport>(R"(
    runtime: "weft" program: "tiny" cluster: "here" network: "flow" cost: "tiles" ranks: 2
    iteration_seconds: 0.008 makespan_seconds: 0.01 tokens_per_second: 128000 tokens_per_second_per_device: 64000
    mfu: 0.5 mfu_causal: 0.4 bubble_ratio: 0.25 fits: true
    planned_bytes: 3072 live_peak_bytes: 2048 device_bytes: 4096 capacity_bytes: 8192
    memory { class: "parameter" planned_bytes: 1024 bytes_at_peak: 512 }
    sent { purpose: "tensor" bytes: 8192 }
    bounds { compute_seconds: 0.002 costed_seconds: 0.004 communication_seconds: 0.001 }
    per_rank { rank: 0 busy_seconds: 0.006 exposed_communication_seconds: 0.001 idle_seconds: 0.004
      live_peak_bytes: 2048 planned_bytes: 3072 peak_activations: 1.5
      idle_causes { cause: "waiting for forward input" seconds: 0.001 }
      idle_causes { cause: "end of step" seconds: 0.003 } }
    per_rank { rank: 1 busy_seconds: 0.008 idle_seconds: 0.002 live_peak_bytes: 1024 planned_bytes: 3072
      peak_activations: 1
      idle_causes { cause: "end of step" seconds: 0.001 }
      idle_causes { cause: "waiting for gathered weights" seconds: 0.001 } })");
}

TEST(ReportTextTest, OneRankIsOne) {
  SimulationReport one = TwoRanks();
  one.set_ranks(1);
  EXPECT_NE(ReportToText(one).find("tiny on here, 1 rank (cost"), std::string::npos);
}

TEST(ReportTextTest, AllOfAPlainReport) {
  EXPECT_EQ(ReportToText(TwoRanks()),
            R"(runtime weft: tiny on here, 2 ranks (cost tiles, network flow)

  iteration                 8.000 ms
  one step alone           10.000 ms
  bubble ratio                25.0 %
  tokens/s                    128000
  tokens/s per device          64000
  MFU (attention in full)     50.0 %
  MFU (causal)                40.0 %
  HFU (with recompute)             -

  no iteration is shorter than                             time  of this one
  computation at dense peak and full memory bandwidth  2.000 ms       25.0 %
  computation as it is costed                          4.000 ms       50.0 %
  bytes sent, at the full bandwidth of all links       1.000 ms       12.5 %

memory per device: 3.0 KiB planned + 1.0 KiB reserved of 8.0 KiB, fits; live peak 2.0 KiB
  class        arena  at peak
  parameter  1.0 KiB    512 B

  idle compute, mean per rank        time  of the step
  end of step                    2.000 ms       20.0 %
  waiting for forward input     500.00 us        5.0 %
  waiting for gathered weights  500.00 us        5.0 %

  sent, mean per rank    bytes
  tensor               4.0 KiB

  rank      busy  exposed communication      idle  activations  live peak  planned
  0     6.000 ms               1.000 ms  4.000 ms          1.5    2.0 KiB  3.0 KiB
  1     8.000 ms                      0  2.000 ms            1    1.0 KiB  3.0 KiB
)");
}

TEST(ReportTextTest, ALivePeakAboveThePlanIsExplained) {
  SimulationReport report = TwoRanks();
  EXPECT_THAT(ReportToText(report), Not(HasSubstr("live longer")));
  report.set_live_peak_bytes(4096);
  report.set_runtime("megatron");
  EXPECT_THAT(ReportToText(report),
              HasSubstr("fits; live peak 4.0 KiB\n"
                        "  live peak: the plan's own buffers, which live longer because of the order of actions in "
                        "runtime megatron; planned + reserved decides whether it fits\n"));
}

// A runtime may leave out buffers of the plan, so it may need less memory than planned. Also, the rank whose device has
// the least memory left may not be the rank that needs the most.
TEST(ReportTextTest, LessThanPlannedMayBeTaken) {
  SimulationReport report = TwoRanks();
  report.set_device_bytes(2048);
  report.set_runtime("megatron");
  EXPECT_THAT(ReportToText(report),
              HasSubstr("memory per device: 3.0 KiB planned, 2.0 KiB taken of 8.0 KiB, fits; live peak 2.0 KiB\n"
                        "  taken: on the rank whose device has the least headroom, under runtime megatron; planned: on "
                        "the fullest rank\n"));
  report.set_live_peak_bytes(4096);
  EXPECT_THAT(ReportToText(report), HasSubstr("taken decides whether it fits\n"));
}

TEST(ReportTextTest, StatesByHowMuchAProgramDoesNotFit) {
  SimulationReport report = TwoRanks();
  report.set_fits(false);
  report.set_device_bytes(9216);
  report.set_planned_bytes(8192);
  EXPECT_THAT(ReportToText(report), HasSubstr("reserved of 8.0 KiB, DOES NOT FIT; live peak 2.0 KiB\n"
                                              "  exceeds the capacity by 1.0 KiB\n"));
  // The program may run out of host memory rather than device memory.
  report.set_device_bytes(4096);
  report.set_planned_host_bytes(2048);
  report.set_host_capacity_bytes(1024);
  EXPECT_THAT(ReportToText(report), HasSubstr("host memory per node: 2.0 KiB planned of 1.0 KiB, DOES NOT FIT\n"));
  EXPECT_THAT(ReportToText(report), Not(HasSubstr("exceeds")));
  report.set_host_capacity_bytes(0);
  EXPECT_THAT(ReportToText(report), HasSubstr("host memory per node: 2.0 KiB planned\n"));
}

// Rule P14: one repetition of the body may contain several training steps.
TEST(ReportTextTest, RepetitionsOfSeveralStepsAreSaid) {
  SimulationReport report = TwoRanks();
  report.set_steps_per_repetition(4);
  const std::string text = ReportToText(report);
  EXPECT_THAT(text, HasSubstr("  iteration, 4 steps "));
  EXPECT_THAT(text, HasSubstr("  one iteration alone "));
  EXPECT_THAT(text, HasSubstr("of one iteration alone\n"));
  report.set_steps_per_repetition(1);
  EXPECT_THAT(ReportToText(report), HasSubstr("  iteration, 1 step "));
}

TEST(ReportTextTest, ShowsRequestedSections) {
  SimulationReport report = TwoRanks();
  *report.add_critical_kinds() = Parse<CriticalKind>(R"(kind: "FORWARD" seconds: 0.005)");
  *report.add_critical_actions() =
      Parse<CriticalAction>(R"(rank: 1 action: 7 name: "F0" start_seconds: 0.002 seconds: 0.003)");
  *report.add_what_if() = Parse<WhatIf>(R"(change: "nic=2x" iteration_seconds: 0.004 gain: 1)");
  *report.mutable_noise() = Parse<NoiseReport>("runs: 3 seed: 9 p10: 0.008 p50: 0.009 p90: 0.012 mean: 0.01");
  const std::string text = ReportToText(report);
  EXPECT_THAT(text, HasSubstr("  critical path of the step alone      time   of it\n"
                              "  FORWARD                          5.000 ms  50.0 %\n"));
  EXPECT_THAT(text, HasSubstr("  its longest actions  rank  action     start      time\n"
                              "  F0                      1       7  2.000 ms  3.000 ms\n"));
  EXPECT_THAT(text, HasSubstr("  what if  iteration  faster by\n"
                              "  nic=2x    4.000 ms    100.0 %\n"));
  EXPECT_THAT(text, HasSubstr("  iteration of 3 runs, seed 9       time  longer\n"
                              "  10th percentile               8.000 ms   0.0 %\n"
                              "  median                        9.000 ms  12.5 %\n"
                              "  90th percentile              12.000 ms  50.0 %\n"
                              "  mean                         10.000 ms  25.0 %\n"));
}

TEST(ReportTextTest, VerboseHasAColumnForEveryRankAndARowForEveryCause) {
  EXPECT_THAT(ReportToText(TwoRanks()), Not(HasSubstr("idle compute, by rank")));
  EXPECT_THAT(ReportToText(TwoRanks(), /*verbose=*/true),
              HasSubstr("  idle compute, by rank           rank 0    rank 1\n"
                        "  waiting for forward input     1.000 ms         0\n"
                        "  end of step                   3.000 ms  1.000 ms\n"
                        "  waiting for gathered weights         0  1.000 ms\n"));
}

TEST(ReportTextTest, ManyRanksAreLeftToJson) {
  SimulationReport report = TwoRanks();
  for (int rank = 2; rank < 40; ++rank) {
    *report.add_per_rank() = report.per_rank(1);
    report.mutable_per_rank(rank)->set_rank(rank);
  }
  const std::string text = ReportToText(report, /*verbose=*/true);
  EXPECT_THAT(text, HasSubstr("\n  31 "));
  EXPECT_THAT(text, Not(HasSubstr("\n  32 ")));
  EXPECT_THAT(text, HasSubstr("  ... and 8 more ranks (in the JSON report)\n"));
  // The text shows ranks in blocks of eight, and only the first 32.
  EXPECT_THAT(text, HasSubstr("rank 23\n"));
  EXPECT_THAT(text, Not(HasSubstr("rank 32")));
}

}  // namespace
}  // namespace weft::sim
