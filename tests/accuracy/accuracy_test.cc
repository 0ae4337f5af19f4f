#include "tests/accuracy/accuracy.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/accuracy/accuracy_text.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

Measurement MakeRun(const std::string& id, const std::string& family, const std::string& source, double seconds) {
  Measurement run;
  run.id = id;
  run.family = family;
  run.source = source;
  run.group = "g";
  run.machine.gpus = 2;
  run.plan.global_batch = 4;
  run.model.sequence = 100;
  if (seconds > 0) run.seconds = seconds;
  return run;
}

// Predicts ten seconds unless the notes say otherwise; "no" = the run cannot be expressed.
absl::StatusOr<RunPrediction> Ten(const Measurement& run) {
  if (run.notes == "no") return absl::InvalidArgumentError("it is odd");
  RunPrediction prediction;
  prediction.seconds = run.notes.empty() ? 10 : std::stod(run.notes);
  prediction.bytes = 2e9;
  prediction.fits = run.id != "r3";
  return prediction;
}

AccuracyReport Compared(const std::vector<Measurement>& runs, const std::vector<RankingSet>& sets = {}) {
  return Compare(runs, sets, Ten);
}

TEST(Accuracy, ErrorsByFamilyHalfAndTier) {
  // The source "fo" is in the fitted half, the source "a" is not.
  const AccuracyReport report = Compared({MakeRun("r1", "vTrain one", "fo", 8), MakeRun("r2", "vTrain one", "a", 12.5),
                                          MakeRun("r4", "other", "a", 20), MakeRun("r5", "other", "a", 0)});
  // Runs without a measured time are predicted too.
  ASSERT_EQ(report.rows_size(), 4);
  EXPECT_EQ(report.rows(3).measured_seconds(), 0);
  EXPECT_TRUE(report.rows(0).fitted());
  EXPECT_DOUBLE_EQ(report.rows(0).error(), 0.25);
  EXPECT_DOUBLE_EQ(report.rows(1).error(), -0.2);
  ASSERT_EQ(report.families_size(), 2);
  const FamilyAccuracy& one = report.families(0);
  EXPECT_EQ(one.tier(), "A");
  EXPECT_EQ(one.rows(), 2);
  EXPECT_DOUBLE_EQ(one.median_ape(), 0.225);
  EXPECT_NEAR(one.median_error(), 0.025, 1e-12);
  EXPECT_DOUBLE_EQ(one.fitted().median_ape(), 0.25);
  EXPECT_DOUBLE_EQ(one.unfitted().median_ape(), 0.2);
  EXPECT_EQ(report.families(1).tier(), "");
  EXPECT_EQ(report.families(1).measured(), 1);
  // A half without rows has no error.
  EXPECT_FALSE(report.families(1).has_fitted());
  EXPECT_TRUE(report.families(1).has_unfitted());
  ASSERT_EQ(report.tiers_size(), 2);
  EXPECT_EQ(report.tiers(0).tier(), "A");
  EXPECT_DOUBLE_EQ(report.tiers(0).fitted().mean_ape(), 0.25);
  EXPECT_DOUBLE_EQ(report.tiers(1).median_ape(), 0.5);
  EXPECT_EQ(report.inexpressible_size(), 0);
}

TEST(Accuracy, TimesFromTokensMemoryAndVerdicts) {
  Measurement tokens = MakeRun("r1", "torchtitan", "a", 0);
  tokens.tokens_per_second_per_gpu = 50;  // 400 tokens over 2 devices: 4 s.
  tokens.peak_memory_gb = 4;
  Measurement failed = MakeRun("r2", "torchtitan", "a", 0);
  failed.out_of_memory = true;
  Measurement right = MakeRun("r3", "torchtitan", "a", 0);
  right.out_of_memory = true;
  Measurement elsewhere = MakeRun("r4", "torchtitan", "a", 3);
  elsewhere.group = "h";
  const AccuracyReport report = Compared({tokens, failed, right, elsewhere});
  EXPECT_DOUBLE_EQ(report.rows(0).measured_seconds(), 4);
  // The family's gigabytes are binary.
  EXPECT_EQ(report.rows(0).measured_bytes(), int64_t{4} << 30);
  ASSERT_EQ(report.memory_size(), 1);
  EXPECT_NEAR(report.memory(0).median_error(), 2e9 / (int64_t{4} << 30) - 1, 1e-12);
  EXPECT_EQ(report.oom().true_positive(), 1);
  EXPECT_EQ(report.oom().false_negative(), 1);
  EXPECT_EQ(report.oom().true_negative(), 1);
  EXPECT_EQ(report.oom().false_positive(), 0);
  EXPECT_EQ(report.rows(3).measured_fit(), "");
}

TEST(Accuracy, TimesFromSamplesButNotFromFlops) {
  Measurement samples = MakeRun("r1", "f", "a", 0);
  samples.samples_per_second = 0.5;
  Measurement flops = MakeRun("r2", "f", "a", 0);
  flops.states_flops = true;
  const AccuracyReport report = Compared({samples, flops});
  EXPECT_DOUBLE_EQ(report.rows(0).measured_seconds(), 8);
  EXPECT_EQ(report.rows(0).assumptions_size(), 0);
  EXPECT_EQ(report.rows(1).measured_seconds(), 0);
  ASSERT_EQ(report.rows(1).assumptions_size(), 1);
  EXPECT_THAT(report.rows(1).assumptions(0), HasSubstr("only flops are stated"));
}

TEST(Accuracy, RankingOfWhatCouldBePredicted) {
  std::vector<Measurement> runs = {MakeRun("r1", "f", "a", 8), MakeRun("r2", "f", "a", 9), MakeRun("r3", "f", "a", 12),
                                   MakeRun("r4", "f", "a", 0)};
  runs[0].notes = "5";
  runs[1].notes = "4";
  runs[2].notes = "no";
  runs[3].notes = "6";
  RankingSet set;
  set.group = "g";
  set.metric = "tokens_per_s_per_gpu";
  set.ids = {"r1", "r2", "r3", "r4"};
  set.values = {25, 20, 15, 10};
  const AccuracyReport report = Compared(runs, {set});
  ASSERT_EQ(report.ranking_size(), 1);
  const RankingAccuracy& ranking = report.ranking(0);
  EXPECT_EQ(ranking.plans(), 3);
  EXPECT_EQ(ranking.listed(), 4);
  EXPECT_EQ(ranking.pairs(), 3);
  EXPECT_DOUBLE_EQ(ranking.tau(), 1.0 / 3);
  EXPECT_DOUBLE_EQ(ranking.regret(), 0.25);
  set.ids[3] = "r5";
  // A run that is no longer in the data is left out.
  EXPECT_EQ(Compared(runs, {set}).ranking(0).plans(), 2);
  EXPECT_EQ(Compared(runs, {set}).ranking(0).listed(), 4);
}

TEST(AccuracyText, HasEveryRowAndReason) {
  std::vector<Measurement> runs = {MakeRun("r1", "f|g", "a", 8), MakeRun("r2", "f|g", "a", 9)};
  runs[1].notes = "no";
  const AccuracyReport report = Compared(runs);
  const std::string text = AccuracyToText(report);
  EXPECT_THAT(text, HasSubstr("+25.0 %"));
  EXPECT_THAT(text, HasSubstr("it is odd  r2"));
  const std::string markdown = AccuracyToMarkdown(report, "Title", "command");
  EXPECT_THAT(markdown, HasSubstr("## Title\n"));
  EXPECT_THAT(markdown, HasSubstr("| f\\|g |  | 1 of 2 | - | 25.0 % | 25.0 % | 25.0 % | +25.0 % |"));
  EXPECT_THAT(markdown, HasSubstr("| 1 | it is odd | r2 |"));
  EXPECT_EQ(markdown, AccuracyToMarkdown(report, "Title", "command"));
}

}  // namespace
}  // namespace weft
