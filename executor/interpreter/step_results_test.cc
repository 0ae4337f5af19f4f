#include "executor/interpreter/step_results.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/parse_text.h"

namespace weft::exec {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

class StepResultsTest : public ::testing::Test {
 protected:
  StepResultsTest() {
    program_ = Parse<Program>(R"(recipe { lr { peak: 0.5 decay: "constant" } } microbatches: 4)");
    action_proto_ = Parse<Action>("id: 7 name: 'F0'");
    action_.action = &action_proto_;
  }

  StepResults Results(bool check_finite = true) {
    return StepResults(program_, prepared_, /*rank=*/1, check_finite,
                       [this](const StepResult& result) { reported_.push_back(result); });
  }

  // Figures with these losses, with this norm, and with the factor that the update should have used.
  Figures FiguresOf(std::vector<double> losses, double norm, double factor = 1) {
    losses_ = std::move(losses);
    norm_ = {norm, factor};
    Figures figures;
    figures.losses = losses_;
    figures.norm = norm_;
    return figures;
  }

  Program program_;
  PreparedProgram prepared_;
  Action action_proto_;
  PreparedAction action_;
  std::vector<StepResult> reported_;
  std::vector<double> losses_, norm_;
};

TEST_F(StepResultsTest, AStepIsReportedWhenItIsOver) {
  StepResults results = Results();
  results.Begin(kBodyList, /*first_step=*/10, /*first=*/0, /*count=*/2, 0);
  const Figures figures = FiguresOf({1, 2, 3, 4}, 5);
  ASSERT_TRUE(results.Take(kLossFigure, action_, 0, figures).ok());
  ASSERT_TRUE(results.Take(kNormFigure, action_, 0, figures).ok());
  EXPECT_TRUE(reported_.empty());
  results.Over(0, 99);
  ASSERT_EQ(reported_.size(), 1u);
  EXPECT_EQ(reported_[0].step, 10);
  EXPECT_EQ(reported_[0].loss, 10);
  EXPECT_EQ(reported_[0].norm, 5);
  EXPECT_EQ(reported_[0].learning_rate, 0.5);
  EXPECT_EQ(reported_[0].end_ns, 99);
  EXPECT_EQ(reported_[0].loss_scale, 0);
  EXPECT_FALSE(reported_[0].skipped);
  // A run that continues keeps counting. Results of repetitions that did not run are cut off.
  results.Begin(kBodyList, 12, 2, 3, 0);
  EXPECT_EQ(results.StepOf(3), 13);
  EXPECT_EQ(results.all().size(), 5u);
  results.End(4);
  EXPECT_EQ(results.all().size(), 4u);
}

TEST_F(StepResultsTest, NonFiniteFiguresEndTheRunAndAreNamed) {
  StepResults results = Results();
  results.Begin(kBodyList, 3, 0, 1, 0);
  EXPECT_EQ(results.Where(action_, 0), "rank 1, step 3, action 7 'F0'");
  const absl::Status loss = results.Take(kLossFigure, action_, 0, FiguresOf({1, NAN, 0, 0}, 0));
  EXPECT_EQ(loss.code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(std::string(loss.message()), "rank 1, step 3, action 7 'F0': the loss is not finite (nan)");
  const absl::Status norm = results.Take(kNormFigure, action_, 0, FiguresOf({}, kInfinity));
  EXPECT_EQ(std::string(norm.message()), "rank 1, step 3, action 7 'F0': the gradient norm is not finite (inf)");
  StepResults unchecked = Results(/*check_finite=*/false);
  unchecked.Begin(kBodyList, 3, 0, 1, 0);
  EXPECT_TRUE(unchecked.Take(kNormFigure, action_, 0, FiguresOf({}, kInfinity)).ok());
}

// Rule P11: a norm that is not finite means that the loss scale was too large, not that the training has diverged.
TEST_F(StepResultsTest, ADynamicLossScaleSkips) {
  StepResults results = Results();
  results.Begin(kBodyList, 0, 0, 2, /*loss_scale=*/1024);
  Figures figures = FiguresOf({1}, kInfinity);
  double scale = 512;
  figures.loss_scale = &scale;
  ASSERT_TRUE(results.Take(kNormFigure | kLossScaleFigure, action_, 0, figures).ok());
  results.Over(0, 1);
  ASSERT_EQ(reported_.size(), 1u);
  EXPECT_TRUE(reported_[0].skipped);
  EXPECT_EQ(reported_[0].norm, 0);
  // The reported scale is the one that the gradients were computed with, not the new one.
  EXPECT_EQ(reported_[0].loss_scale, 1024);
  figures = FiguresOf({1}, 2);
  scale = 256;
  figures.loss_scale = &scale;
  ASSERT_TRUE(results.Take(kNormFigure | kLossScaleFigure, action_, 1, figures).ok());
  results.Over(1, 2);
  EXPECT_FALSE(reported_[1].skipped);
  EXPECT_EQ(reported_[1].loss_scale, 512);
}

TEST_F(StepResultsTest, AFixedLossScaleIsReported) {
  prepared_.fixed_loss_scale = 8;
  StepResults results = Results();
  results.Begin(kBodyList, 0, 0, 1, 0);
  results.Over(0, 1);
  EXPECT_EQ(reported_[0].loss_scale, 8);
}

// Rule P14: two data coordinates with four microbatches each, two optimizer steps in a repetition.
TEST_F(StepResultsTest, ARepetitionOfSeveralStepsHasTheLossOfEach) {
  program_.set_steps_per_repetition(2);
  StepResults results = Results();
  results.Begin(kBodyList, 6, 0, 2, 0);
  ASSERT_TRUE(results.Take(kLossFigure, action_, 1, FiguresOf({1, 2, 4, 8, 10, 20, 40, 80}, 0)).ok());
  results.Over(1, 5);
  ASSERT_EQ(reported_.size(), 2u);
  EXPECT_EQ(reported_[0].step, 8);
  EXPECT_EQ(reported_[0].loss, 33);
  EXPECT_EQ(reported_[1].step, 9);
  EXPECT_EQ(reported_[1].loss, 132);
  EXPECT_EQ(reported_[1].steps_of_repetition, 2);
  // The prologue counts as the repetition before the first repetition of the body.
  results.Begin(kPrologueList, 6, 0, 1, 0);
  EXPECT_EQ(results.StepOf(0), 4);
}

// Rule P15: the verdict in a repetition is about the step before it. That step is reported when it is over and judged.
TEST_F(StepResultsTest, APostValidatedStepIsReportedOnceItIsJudged) {
  program_.set_post_validation(true);
  StepResults results = Results();
  results.Begin(kBodyList, 0, 0, 3, 0);
  ASSERT_TRUE(results.Take(kVerdictFigure, action_, 0, FiguresOf({}, 0)).ok());
  EXPECT_EQ(results.verdict(0), Verdict::kRight);
  EXPECT_EQ(results.verdict(1), Verdict::kUnknown);
  results.Over(0, 1);
  EXPECT_TRUE(reported_.empty());
  // The update should have multiplied the gradients by a half.
  ASSERT_TRUE(results.Take(kVerdictFigure, action_, 1, FiguresOf({}, 2, 0.5)).ok());
  EXPECT_EQ(results.verdict(1), Verdict::kWrong);
  ASSERT_EQ(reported_.size(), 1u);
  EXPECT_EQ(reported_[0].step, 0);
  EXPECT_EQ(reported_[0].norm, 2);
  // The step is judged before it is over.
  ASSERT_TRUE(results.Take(kVerdictFigure, action_, 2, FiguresOf({}, 3)).ok());
  EXPECT_EQ(reported_.size(), 1u);
  results.Over(1, 2);
  ASSERT_EQ(reported_.size(), 2u);
  EXPECT_EQ(reported_[1].norm, 3);
  results.Over(2, 3);
  EXPECT_EQ(reported_.size(), 2u);
  // The epilogue judges the last step.
  results.Begin(kEpilogueList, 3, 0, 1, 0);
  ASSERT_TRUE(results.Take(kVerdictFigure, action_, 0, FiguresOf({}, 7)).ok());
  ASSERT_EQ(reported_.size(), 3u);
  EXPECT_EQ(reported_[2].step, 2);
  EXPECT_EQ(reported_[2].norm, 7);
}

TEST_F(StepResultsTest, APostValidatedNormThatIsNotFiniteNamesItsStep) {
  program_.set_post_validation(true);
  StepResults results = Results();
  results.Begin(kBodyList, 4, 0, 2, 0);
  results.Over(0, 1);
  const absl::Status status = results.Take(kVerdictFigure, action_, 1, FiguresOf({}, kInfinity));
  EXPECT_EQ(std::string(status.message()), "rank 1, step 4: the gradient norm is not finite (inf)");
}

}  // namespace
}  // namespace weft::exec
