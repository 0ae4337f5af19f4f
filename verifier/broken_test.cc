// A corpus of broken programs. Each breaks one rule of a valid program, and the verifier must name the rule and the
// actions (or buffers, segments, fields) at fault. docs/verifier.md lists the rules, and the corpus covers every one.
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "verifier/testing/broken_corpus.h"
#include "verifier/testing/tiny_program.h"
#include "verifier/verify.h"

namespace weft {
namespace {

std::vector<Broken> Corpus() {
  std::vector<Broken> corpus;
  for (const auto& part : {BrokenActions, BrokenTransfers, BrokenMemory, BrokenGradients, BrokenUpdates, BrokenWhole,
                           BrokenSchedules, BrokenReplicas, BrokenEvaluation, BrokenCollectives, BrokenShards,
                           BrokenSums, BrokenLossScale, BrokenElements, BrokenHost}) {
    for (Broken& broken : part()) corpus.push_back(std::move(broken));
  }
  return corpus;
}

class BrokenTest : public testing::TestWithParam<Broken> {};

TEST_P(BrokenTest, IsRefused) {
  Program program = GetParam().base ? GetParam().base() : TinyProgram();
  ASSERT_TRUE(VerifyProgram(program).ok()) << VerifyProgram(program);
  GetParam().edit(&program);
  const std::vector<Finding> findings = FindViolations(program);
  std::string all;
  bool found = false;
  for (const Finding& finding : findings) {
    all += "[" + finding.rule + "] " + finding.message + "\n";
    bool says = finding.rule == GetParam().rule;
    for (const std::string& text : GetParam().says) says = says && finding.message.find(text) != std::string::npos;
    found = found || says;
  }
  EXPECT_TRUE(found) << "expected rule " << GetParam().rule << ", found:\n" << all;
  EXPECT_FALSE(VerifyProgram(program).ok());
}

std::string CaseName(const Broken& broken) {
  std::string name = std::string(broken.rule) + "_" + broken.name;
  for (char& c : name) {
    if (c == '.') c = '_';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(Corpus, BrokenTest, testing::ValuesIn(Corpus()),
                         [](const auto& info) { return CaseName(info.param); });

// The table of docs/verifier.md and this corpus have the same rules, and the table names a test for each rule.
TEST(RulesTest, TableIsComplete) {
  std::ifstream file("docs/verifier.md");
  ASSERT_TRUE(file) << "docs/verifier.md is not among the test's data";
  std::set<std::string> corpus_rules, table_rules, cases;
  for (const Broken& broken : Corpus()) {
    corpus_rules.insert(broken.rule);
    EXPECT_TRUE(cases.insert(CaseName(broken)).second) << CaseName(broken) << " is listed twice";
  }
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string bar, rule, word, test;
    if (!(words >> bar >> rule) || bar != "|" || rule.size() < 2 || rule[0] != 'P' ||
        rule.find('.') == std::string::npos) {
      continue;
    }
    table_rules.insert(rule);
    while (words >> word) {
      if (word != "|") test = word;
    }
    EXPECT_TRUE(cases.count(test)) << "rule " << rule << " names test '" << test << "', which does not exist";
  }
  EXPECT_EQ(corpus_rules, table_rules);
}

TEST(LossScaleTest, ValidPrograms) {
  for (TinyScaling scaling : {TinyScaling::kFixedByUpdate, TinyScaling::kFixedByScale, TinyScaling::kDynamic}) {
    for (AccumulationMode accumulation : {IN_ORDER, EXACT}) {
      const absl::Status status = VerifyProgram(TinyProgram(accumulation, scaling));
      EXPECT_TRUE(status.ok()) << status;
    }
  }
}

}  // namespace
}  // namespace weft
