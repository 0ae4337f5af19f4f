#include "tests/accuracy/accuracy_text.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

void AddSet(const std::string& group, int64_t plans, int64_t pairs, double tau, double regret, AccuracyReport* report) {
  RankingAccuracy& set = *report->add_ranking();
  set.set_group(group);
  set.set_plans(plans);
  set.set_listed(plans);
  set.set_pairs(pairs);
  set.set_tau(tau);
  set.set_regret(regret);
}

// A set of one pair is right or wrong as a whole, so the mean over sets says less than the mean over pairs.
TEST(AccuracyText, AgreementOfSetsAndOfPairs) {
  AccuracyReport report;
  AddSet("small", 2, 1, 1, 0, &report);
  AddSet("large", 5, 9, 0.5, 0.1, &report);
  // A set whose measured times are all tied, and a set of one plan.
  AddSet("alike", 3, 0, 0, 0.02, &report);
  AddSet("alone", 1, 0, 0, 0, &report);
  const std::string text = AccuracyToText(report);
  EXPECT_THAT(text, ContainsRegex("mean +0.75 +4.0 %"));
  EXPECT_THAT(text, ContainsRegex("mean, by pairs +10 +0.55"));
  EXPECT_THAT(text, ContainsRegex("alone +1 of 1 +0 +- +-"));
}

TEST(AccuracyText, WithoutPairsThereIsNoAgreement) {
  AccuracyReport report;
  AddSet("alone", 1, 0, 0, 0, &report);
  const std::string text = AccuracyToText(report);
  EXPECT_THAT(text, ContainsRegex("mean +- +-"));
  EXPECT_THAT(text, Not(HasSubstr("by pairs")));
}

// A half without rows has no error.
TEST(AccuracyText, FamiliesOfOneHalf) {
  AccuracyReport report;
  FamilyAccuracy& family = *report.add_families();
  family.set_family("f");
  family.set_rows(2);
  family.set_measured(3);
  family.set_median_ape(0.25);
  family.set_mean_ape(0.3);
  family.set_median_error(-0.2);
  family.mutable_unfitted()->set_rows(2);
  family.mutable_unfitted()->set_median_ape(0.25);
  EXPECT_THAT(AccuracyToText(report), ContainsRegex("f +2 of 3 +- +25.0 % +25.0 % +30.0 % +-20.0 %"));
  EXPECT_THAT(AccuracyToMarkdown(report, "Title", "command"), HasSubstr("## Title\n\nMade by `command`. "));
}

}  // namespace
}  // namespace weft
