// Tests how the interpreter runs several steps as one launch. Launches keep their order. Steps that the backend does
// not prepare together run one by one, each with its own context. All steps of a run execute at the turn of its first
// step.
#include "executor/program/step_runs.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace weft::exec {
namespace {

// Records the steps and launches that it runs. Prepares no launches of SCALE.
class WritingBackend : public Backend {
 public:
  absl::Status Run(const Step& step, absl::Span<const TensorView> inputs, absl::Span<const TensorView> outputs,
                   const StepContext& context) override {
    absl::StrAppend(&written, step.name(), "@", context.first_element, context.writes_norm ? "" : "-", " ");
    return absl::OkStatus();
  }
  absl::StatusOr<std::unique_ptr<StepRun>> PrepareRun(absl::Span<const StepOfRun> steps) override {
    if (steps[0].step->kernel() == SCALE) return std::unique_ptr<StepRun>();
    class Written : public StepRun {
     public:
      Written(std::string& to, std::string what) : to_(to), what_(std::move(what)) {}
      absl::Status Run(const StepContext& context) override {
        absl::StrAppend(&to_, what_, " ");
        return absl::OkStatus();
      }

     private:
      std::string& to_;
      const std::string what_;
    };
    std::string what;
    for (const StepOfRun& step : steps) absl::StrAppend(&what, what.empty() ? "" : "+", step.step->name());
    return std::make_unique<Written>(written, what);
  }

  std::string written;
};

class StepRunsTest : public testing::Test {
 protected:
  StepRunsTest() : memory_(1024) {
    action_.set_kind(OPTIMIZER_STEP);
    program_.actions.emplace_back().action = &action_;
  }
  PreparedStep& Add(Kernel kernel, int first, int count) {
    Step& step = *protos_.emplace_back(std::make_unique<Step>());
    step.set_kernel(kernel);
    step.set_stream(COMPUTE);
    step.set_name(std::to_string(protos_.size() - 1));
    PreparedStep& prepared = program_.actions[0].steps.emplace_back();
    prepared.step = &step;
    const int64_t& shape = *shapes_.emplace_back(std::make_unique<int64_t>(count));
    views_.push_back(
        std::make_unique<TensorView>(TensorView{memory_.data() + first, FP32, absl::MakeConstSpan(&shape, 1)}));
    prepared.outputs = absl::MakeConstSpan(views_.back().get(), 1);
    return prepared;
  }
  // Returns, for each step, what the run that begins with it writes; empty if no run begins, "in run" if an earlier
  // step's turn has covered the step.
  std::vector<std::string> Turns() {
    const auto runs = PrepareStepRuns(program_, backend_);
    EXPECT_TRUE(runs.ok()) << runs.status();
    std::vector<std::string> turns;
    for (const PreparedStep& step : program_.actions[0].steps) {
      backend_.written.clear();
      EXPECT_FALSE(step.run != nullptr && step.in_run);
      if (step.run != nullptr) {
        EXPECT_TRUE(step.run->Run({}).ok());
      }
      turns.push_back(step.in_run ? "in run" : backend_.written);
    }
    return turns;
  }

  Action action_;
  PreparedProgram program_;
  WritingBackend backend_;

 private:
  std::vector<float> memory_;
  std::vector<std::unique_ptr<Step>> protos_;
  std::vector<std::unique_ptr<int64_t>> shapes_;
  std::vector<std::unique_ptr<TensorView>> views_;
};

using Turns_ = std::vector<std::string>;

TEST_F(StepRunsTest, LaunchesAreInTheirOrder) {
  Add(FILL, 0, 10);
  Add(CAST, 10, 10).first_element = 7;
  Add(FILL, 20, 10);
  Add(NORM_TOTAL, 0, 1);
  Add(FILL, 0, 10);
  EXPECT_EQ(Turns(), (Turns_{"0+2 1@7 ", "in run", "in run", "", ""}));
}

TEST_F(StepRunsTest, StepsThatTheBackendDoesNotTakeTogether) {
  Add(FILL, 0, 10);
  Add(SCALE, 10, 10);
  Add(SCALE, 20, 10).writes_norm = false;
  Add(FILL, 30, 10);
  EXPECT_EQ(Turns(), (Turns_{"0+3 1@0 2@0- ", "in run", "in run", "in run"}));
}

TEST_F(StepRunsTest, NothingThatTheBackendTakesIsNoRun) {
  Add(SCALE, 10, 10);
  Add(SCALE, 20, 10);
  EXPECT_EQ(Turns(), (Turns_{"", ""}));
}

TEST_F(StepRunsTest, AwaitedStepsEndARun) {
  Add(FILL, 0, 10);
  Add(FILL, 10, 10).figures = 1;
  Add(FILL, 20, 10);
  Add(FILL, 30, 10).event = 3;
  Add(FILL, 40, 10);
  Add(FILL, 50, 10).deps = {0};
  EXPECT_EQ(Turns(), (Turns_{"0+1 ", "in run", "2+3 ", "in run", "", ""}));
}

// Two FILLs of a BACKWARD share no launch: steps of one key share a launch only in actions that belong to no
// microbatch.
TEST_F(StepRunsTest, NotOfAMicrobatch) {
  action_.set_kind(BACKWARD);
  Add(FILL, 0, 10);
  Add(FILL, 10, 10);
  EXPECT_EQ(Turns(), (Turns_{"", ""}));
}

}  // namespace
}  // namespace weft::exec
