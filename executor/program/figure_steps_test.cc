#include "executor/program/figure_steps.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/parse_text.h"

namespace weft::exec {
namespace {

// Segment 0 computes a loss in its second step; segment 1 computes the norm. The ids of actions follow the list order.
constexpr char kProgram[] = R"(
  segments { steps { name: "product" outputs: 0 } steps { name: "loss" outputs: 1 } steps { name: "other" outputs: 0 }
    values { operand: 0 } values { operand: 1 } }
  segments { steps { name: "total" kernel: NORM_TOTAL outputs: 0 attributes { loss_scale: 8 } }
    values { operand: 0 } }
  templates {
    buffers { name: "activation" offset: 0 bytes: 64 shape: 8 }
    buffers { name: "local" role: LOCAL_LOSSES offset: 64 bytes: 32 shape: 4 }
    buffers { name: "losses" role: LOSSES offset: 96 bytes: 32 shape: [2, 2] }
    buffers { name: "norm" role: NORM offset: 128 bytes: 16 shape: 2 }
    buffers { name: "norms" role: NORMS offset: 144 bytes: 24 shape: 3 dtype: FP64 }
    buffers { name: "scale" role: LOSS_SCALE offset: 168 bytes: 24 shape: 3 }
  })";

class FigureStepsTest : public ::testing::Test {
 protected:
  FigureStepsTest() : program_(Parse<Program>(kProgram)), arena_(*Arena::Allocate(256, 0)) {}

  // Appends an action to the body, or to `list` if it is given.
  void Add(const std::string& action, ActionList list = kBodyList) {
    protos_.push_back(std::make_unique<Action>(Parse<Action>(action)));
    PreparedAction& prepared = prepared_.actions.emplace_back();
    prepared.action = protos_.back().get();
    prepared.list = list;
    prepared.steps.resize(4);
  }

  absl::Status Mark() {
    prepared_.rank_template = &program_.templates(0);
    return MarkFigures(program_, /*rank=*/3, *arena_, prepared_);
  }

  // Returns all marks. "1.0:2" means that step 0 of action 1 completes the figures in the bit mask 2 (enum Figure).
  std::string Marked() const {
    std::string text;
    for (size_t a = 0; a < prepared_.actions.size(); ++a) {
      for (size_t s = 0; s < prepared_.actions[a].steps.size(); ++s) {
        const int figures = prepared_.actions[a].steps[s].figures;
        if (figures == 0) continue;
        text += std::to_string(a) + "." + std::to_string(s) + ":" + std::to_string(figures) + " ";
      }
    }
    return text;
  }

  int64_t OffsetOf(const void* data) const { return static_cast<const std::byte*>(data) - arena_->device_memory(); }

  Program program_;
  std::unique_ptr<Arena> arena_;
  std::vector<std::unique_ptr<Action>> protos_;
  PreparedProgram prepared_;
};

TEST_F(FigureStepsTest, TheLastStepThatWritesThemCompletesLosses) {
  Add("id: 0 kind: FORWARD segment: 0 operands: [0, 1]");
  Add("id: 1 kind: FORWARD segment: 0 operands: [0, 1]");
  ASSERT_TRUE(Mark().ok());
  // Step 1 of the second forward completes the losses, not the step after it, which writes another buffer.
  EXPECT_EQ(Marked(), "1.1:1 ");
  EXPECT_EQ(OffsetOf(prepared_.figures.losses.data()), 64);
  EXPECT_EQ(prepared_.figures.losses.size(), 4u);
  EXPECT_TRUE(prepared_.figures.norm.empty());
  EXPECT_EQ(prepared_.figures.loss_scale, nullptr);
  EXPECT_EQ(prepared_.fixed_loss_scale, 8);
}

TEST_F(FigureStepsTest, SummedLossesCountInsteadOfLocalOnes) {
  Add("id: 0 kind: FORWARD segment: 0 operands: [0, 1]");
  Add("id: 1 kind: ALL_REDUCE sources: 1 destinations: 2");
  // The epilogue also writes the losses, but only figures of the body are printed.
  Add("id: 2 kind: ALL_REDUCE sources: 1 destinations: 2", kEpilogueList);
  ASSERT_TRUE(Mark().ok());
  EXPECT_EQ(Marked(), "1.0:1 ");
  EXPECT_EQ(OffsetOf(prepared_.figures.losses.data()), 96);
  EXPECT_EQ(prepared_.figures.losses.size(), 4u);
}

TEST_F(FigureStepsTest, TheNormIsTheTotalOrElseItsParts) {
  Add("id: 0 kind: ALL_REDUCE sources: 4 destinations: 4");
  ASSERT_TRUE(Mark().ok());
  EXPECT_EQ(Marked(), "0.0:2 ");
  EXPECT_TRUE(prepared_.figures.norm.empty());
  EXPECT_EQ(OffsetOf(prepared_.figures.norms.data), 144);
  EXPECT_EQ(prepared_.figures.norms.shape.size(), 1u);
  Add("id: 1 kind: GRAD_NORM segment: 1 operands: 3");
  Add("id: 2 kind: GRAD_NORM segment: 1 operands: 5");
  prepared_.actions[0].steps[0].figures = 0;
  ASSERT_TRUE(Mark().ok());
  EXPECT_EQ(Marked(), "1.0:2 2.0:4 ");
  EXPECT_EQ(OffsetOf(prepared_.figures.norm.data()), 128);
  EXPECT_EQ(OffsetOf(prepared_.figures.loss_scale), 168);
}

TEST_F(FigureStepsTest, ConditionalActionsCompleteNoFigure) {
  Add("id: 0 kind: GRAD_NORM segment: 1 operands: 3");
  Add("id: 1 kind: GRAD_NORM segment: 1 operands: 3 if_exceeded: true");
  ASSERT_TRUE(Mark().ok());
  EXPECT_EQ(Marked(), "0.0:2 ");
}

// By rule P15, both VALIDATEs complete a verdict. Their norm and loss scale are the program's figures.
TEST_F(FigureStepsTest, APostValidatedProgramHasVerdicts) {
  program_.set_post_validation(true);
  Add("id: 0 kind: FORWARD segment: 0 operands: [0, 1]");
  Add("id: 1 kind: VALIDATE segment: 1 operands: [3, 5]");
  Add("id: 2 kind: VALIDATE segment: 1 operands: [3, 5]", kEpilogueList);
  ASSERT_TRUE(Mark().ok());
  EXPECT_EQ(Marked(), "0.1:1 1.0:8 2.0:8 ");
  EXPECT_EQ(prepared_.figures.norm.size(), 2u);
  EXPECT_EQ(OffsetOf(prepared_.figures.loss_scale), 168);
  Add("id: 7 kind: VALIDATE name: 'verdict' segment: 1 operands: 0");
  EXPECT_EQ(std::string(Mark().message()),
            "rank 3: action 7 'verdict' must validate, but writes no NORM of two numbers");
}

}  // namespace
}  // namespace weft::exec
