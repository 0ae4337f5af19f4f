#include "simulator/compare/programs.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/parse_text.h"

namespace weft::sim {
namespace {

// Two ranks. A step takes 10 s in steady state and 9 s in isolation. The ranks are busy for 6 and 7 s; of the 6 s of
// rank 0, 1 s is lost because collectives slow it down.
SimulatedProgram First() {
  return {"a.weft", Parse<SimulationReport>(R"(
    runtime: "weft" cluster: "here" network: "flow" cost: "tiles" ranks: 2
    iteration_seconds: 10 makespan_seconds: 9 tokens_per_second: 100 tokens_per_step: 1000 mfu: 0.4
    device_bytes: 3072 capacity_bytes: 4096 fits: true live_peak_bytes: 2048
    memory { class: "param" bytes_at_peak: 1024 }
    sent { purpose: "tensor" bytes: 4096 }
    per_rank { rank: 0 busy_seconds: 6 slowed_seconds: 1 idle_seconds: 3 exposed_communication_seconds: 2
      idle_causes { cause: "waiting for a tensor collective" seconds: 2 }
      idle_causes { cause: "end of step" seconds: 1 } }
    per_rank { rank: 1 busy_seconds: 7 idle_seconds: 2 exposed_communication_seconds: 1
      idle_causes { cause: "waiting for forward input" seconds: 2 } })")};
}

// One rank. A repetition of 8 s has two steps of 4 s, all of it computation.
SimulatedProgram Second() {
  return {"b.weft", Parse<SimulationReport>(R"(
    runtime: "weft" cluster: "here" ranks: 1 steps_per_repetition: 2
    iteration_seconds: 8 makespan_seconds: 8 tokens_per_second: 250 tokens_per_step: 1000
    device_bytes: 5120 capacity_bytes: 4096
    memory { class: "grad" bytes_at_peak: 512 }
    per_rank { rank: 0 busy_seconds: 8 })")};
}

// Returns the row of `source`, or null.
const TimeSpent* Find(const ComparedProgram& program, const std::string& source) {
  for (const TimeSpent& spent : program.sources()) {
    if (spent.source() == source) return &spent;
  }
  return nullptr;
}

TEST(ProgramsTest, SourcesAddUpToTheStep) {
  const ProgramComparisonReport report = ComparePrograms({First(), Second()});
  ASSERT_EQ(report.programs_size(), 2);
  EXPECT_EQ(report.cluster(), "here");
  for (const ComparedProgram& program : report.programs()) {
    double sum = 0;
    for (const TimeSpent& spent : program.sources()) sum += spent.seconds();
    EXPECT_DOUBLE_EQ(sum, program.step_seconds()) << program.file();
  }
  EXPECT_EQ(report.programs(0).step_seconds(), 10);
  // A repetition has two steps.
  EXPECT_EQ(report.programs(1).step_seconds(), 4);
  EXPECT_EQ(report.programs(0).exposed_communication_seconds(), 1.5);
}

TEST(ProgramsTest, EverySourceIsTheMeanOverRanks) {
  const ProgramComparisonReport report = ComparePrograms({First(), Second()});
  const ComparedProgram& first = report.programs(0);
  const std::pair<const char*, double> expected[] = {{"computation", 6},
                                                     {"slowed by collectives", 0.5},
                                                     {"waiting for forward input", 1},
                                                     {"waiting for a tensor collective", 1},
                                                     {"end of step", 0.5},
                                                     {"steady state", 1}};
  ASSERT_EQ(first.sources_size(), 6);
  for (int i = 0; i < first.sources_size(); ++i) {
    EXPECT_EQ(first.sources(i).source(), expected[i].first);
    EXPECT_DOUBLE_EQ(first.sources(i).seconds(), expected[i].second) << expected[i].first;
    EXPECT_EQ(first.sources(i).difference(), 0);
    // All programs have the same rows.
    EXPECT_EQ(report.programs(1).sources(i).source(), expected[i].first);
  }
  EXPECT_EQ(Find(report.programs(1), "computation")->seconds(), 4);
  EXPECT_EQ(Find(report.programs(1), "computation")->difference(), -2);
  EXPECT_EQ(Find(report.programs(1), "end of step")->difference(), -0.5);
  // No program waits for a compute slot.
  EXPECT_EQ(Find(first, "waiting for a compute slot"), nullptr);
}

TEST(ProgramsTest, GainIsOfTokensPerSecond) {
  SimulatedProgram wider = First();
  wider.report.set_tokens_per_step(4000);
  wider.report.set_tokens_per_second(400);
  const ProgramComparisonReport report = ComparePrograms({First(), Second(), wider});
  EXPECT_EQ(report.programs(0).gain(), 0);
  EXPECT_EQ(report.programs(1).gain(), 1.5);
  EXPECT_EQ(report.programs(2).gain(), 3);
  EXPECT_NE(ProgramComparisonText(report).find("different numbers of tokens per step (1000 in a.weft, 4000 in a.weft)"),
            std::string::npos);
}

TEST(ProgramsTest, TextHasARowOfFiguresForEveryProgram) {
  const std::string text = ProgramComparisonText(ComparePrograms({First(), Second()}));
  EXPECT_EQ(text,
            R"(runtime weft: 2 programs on here (cost tiles, network flow); differences from a.weft

  program  ranks      step  faster by  tokens/s     MFU  bubble  exposed   memory       of  fits  live peak
  a.weft       2  10.000 s                  100  40.0 %   0.0 %  1.500 s  3.0 KiB  4.0 KiB   yes    2.0 KiB
  b.weft       1   4.000 s   +150.0 %       250       -   0.0 %        0  5.0 KiB  4.0 KiB    NO        0 B

  a step, mean over ranks; rows add up      a.weft   b.weft   difference
  computation                              6.000 s  4.000 s     -2.000 s
  slowed by collectives                 500.000 ms        0  -500.000 ms
  waiting for forward input                1.000 s        0     -1.000 s
  waiting for a tensor collective          1.000 s        0     -1.000 s
  end of step                           500.000 ms        0  -500.000 ms
  steady state                             1.000 s        0     -1.000 s
  step                                    10.000 s  4.000 s     -6.000 s

  sent in a step, mean per rank   a.weft  b.weft  difference
  tensor                         2.0 KiB     0 B    -2.0 KiB

  live at the peak, fullest rank   a.weft  b.weft  difference
  param                           1.0 KiB     0 B    -1.0 KiB
  grad                                0 B   512 B      +512 B
)");
}

TEST(ProgramsTest, OmitsDifferencesTooShortToShow) {
  SimulatedProgram close = First();
  close.report.set_iteration_seconds(close.report.iteration_seconds() - 1 - 3e-9);
  SimulatedProgram closer = close;
  closer.report.set_iteration_seconds(closer.report.iteration_seconds() + 1e-9);
  EXPECT_NE(ProgramComparisonText(ComparePrograms({close, closer})).find("  steady state          "),
            std::string::npos);
  EXPECT_EQ(ProgramComparisonText(ComparePrograms({close, closer})).find("0.00 us"), std::string::npos);
}

TEST(ProgramsTest, ManyProgramsTakeSeveralTables) {
  std::vector<SimulatedProgram> programs;
  for (int i = 0; i < 5; ++i) {
    programs.push_back(First());
    programs.back().file = "program" + std::to_string(i);
  }
  const std::string text = ProgramComparisonText(ComparePrograms(programs));
  // One table has three programs beside the first, another one has the last program.
  const size_t title = text.find("a step, mean over ranks");
  ASSERT_NE(title, std::string::npos);
  const size_t again = text.find("a step, mean over ranks", title + 1);
  ASSERT_NE(again, std::string::npos);
  const std::string head = text.substr(again, text.find('\n', again) - again);
  EXPECT_NE(head.find("program0"), std::string::npos);
  EXPECT_EQ(head.find("program3"), std::string::npos);
  EXPECT_NE(head.find("program4"), std::string::npos);
}

TEST(ProgramsTest, LongNamesAreShortInTheTextAlone) {
  SimulatedProgram first = First(), second = Second();
  first.file = "/a/folder/with/many/plans\x1b/deep.weft";
  second.file = "/another/folder/with/many/plans\x1b/wide.weft";
  const ProgramComparisonReport report = ComparePrograms({first, second});
  EXPECT_EQ(report.programs(0).file(), first.file);
  EXPECT_EQ(report.programs(1).file(), second.file);
  const std::string text = ProgramComparisonText(report);
  EXPECT_NE(text.find("differences from …any/plans\\x1b/deep.weft\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\n  …any/plans\\x1b/wide.weft      1   4.000 s"), std::string::npos) << text;
  EXPECT_EQ(text.find(first.file), std::string::npos);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
}

TEST(ProgramsTest, RunsThatDifferAreShownWhereTheyWereAskedFor) {
  EXPECT_EQ(ProgramComparisonText(ComparePrograms({First(), First()})).find("percentile"), std::string::npos);
  SimulatedProgram noisy = First();
  *noisy.report.mutable_noise() = Parse<NoiseReport>("runs: 5 seed: 7 p10: 9 p50: 10 p90: 12 mean: 10.5");
  const std::string text = ProgramComparisonText(ComparePrograms({noisy, noisy}));
  EXPECT_NE(text.find("  iteration of 5 runs, seed 7  10th percentile    median  90th percentile      mean\n"
                      "  a.weft                               9.000 s  10.000 s         12.000 s  10.500 s\n"),
            std::string::npos)
      << text;
}

}  // namespace
}  // namespace weft::sim
