// Which steps are one run: neighbours of one kernel that depend neither on each other nor on other streams.
#include "executor/step_runs.h"

#include <memory>
#include <vector>

#include "gtest/gtest.h"

namespace weft {
namespace {

// An action whose steps work on floats of one memory.
class Steps {
 public:
  Steps() { memory_.resize(1024); }

  PreparedStep& Add(Kernel kernel, std::vector<std::pair<int, int>> in, std::vector<std::pair<int, int>> out) {
    auto step = std::make_unique<Step>();
    step->set_kernel(kernel);
    step->set_stream(COMPUTE);
    PreparedStep& prepared = action_.steps.emplace_back();
    prepared.step = step.get();
    protos_.push_back(std::move(step));
    prepared.inputs = Views(in);
    prepared.outputs = Views(out);
    return prepared;
  }
  Step& Proto(int i) { return *protos_[i]; }
  std::vector<StepRange> Runs() const { return FindStepRuns(action_); }

 private:
  // {first element, elements}.
  absl::Span<const TensorView> Views(const std::vector<std::pair<int, int>>& ranges) {
    std::vector<TensorView>& views = *views_.emplace_back(std::make_unique<std::vector<TensorView>>());
    for (const auto& [first, count] : ranges) {
      shapes_.push_back(std::make_unique<int64_t>(count));
      views.push_back({memory_.data() + first, FP32, absl::MakeConstSpan(shapes_.back().get(), 1)});
    }
    return views;
  }

  PreparedAction action_;
  std::vector<float> memory_;
  std::vector<std::unique_ptr<Step>> protos_;
  std::vector<std::unique_ptr<int64_t>> shapes_;
  std::vector<std::unique_ptr<std::vector<TensorView>>> views_;
};

using Ranges = std::vector<StepRange>;

TEST(StepRunsTest, NeighboursOfOneKernel) {
  Steps steps;
  steps.Add(NORM_TOTAL, {{0, 1}}, {{1, 1}});
  for (int i = 0; i < 3; ++i) steps.Add(SCALE, {{1, 1}, {10 + 10 * i, 10}}, {{10 + 10 * i, 10}});
  for (int i = 0; i < 2; ++i) steps.Add(FILL, {}, {{10 + 10 * i, 10}});
  steps.Add(CAST, {{10, 10}}, {{50, 10}});
  EXPECT_EQ(steps.Runs(), (Ranges{{1, 3}, {4, 2}}));
}

TEST(StepRunsTest, OneAloneIsNone) {
  Steps steps;
  steps.Add(FILL, {}, {{0, 10}});
  steps.Add(CAST, {{0, 10}}, {{10, 10}});
  steps.Add(FILL, {}, {{0, 10}});
  EXPECT_EQ(steps.Runs(), Ranges());
}

TEST(StepRunsTest, WhatDependsOnTheRunBeginsAnother) {
  Steps chain;
  for (int i = 0; i < 4; ++i) chain.Add(CAST, {{10 * i, 10}}, {{10 * i + 10, 10}});
  EXPECT_EQ(chain.Runs(), Ranges());
  Steps written_twice;
  for (const int to : {0, 10, 5, 30}) written_twice.Add(FILL, {}, {{to, 10}});
  EXPECT_EQ(written_twice.Runs(), (Ranges{{0, 2}, {2, 2}}));
  Steps written_behind_a_read;
  written_behind_a_read.Add(CAST, {{0, 10}}, {{100, 10}});
  written_behind_a_read.Add(CAST, {{20, 10}}, {{9, 1}});
  EXPECT_EQ(written_behind_a_read.Runs(), Ranges());
  Steps neighbours;
  neighbours.Add(CAST, {{0, 10}}, {{100, 10}});
  neighbours.Add(CAST, {{0, 10}}, {{110, 10}});
  neighbours.Add(CAST, {{5, 10}}, {{90, 10}});
  EXPECT_EQ(neighbours.Runs(), (Ranges{{0, 3}}));
}

TEST(StepRunsTest, NormsAreElementsOfOneVector) {
  Steps steps;
  for (int i = 0; i < 4; ++i) {
    steps.Add(SQUARED_NORM, {{100 + 10 * i, 10}}, {{0, 4}});
    steps.Proto(i).mutable_attributes()->set_slot(i == 3 ? 1 : i);
  }
  EXPECT_EQ(steps.Runs(), (Ranges{{0, 3}}));
}

TEST(StepRunsTest, OtherStreamsEndARun) {
  for (int what = 0; what < 5; ++what) {
    Steps steps;
    for (int i = 0; i < 4; ++i) {
      PreparedStep& step = steps.Add(FILL, {}, {{10 * i, 10}});
      if (i != 2) continue;
      if (what == 0) step.waits.push_back(3);
      if (what == 1) step.deps.push_back(0);
      if (what == 2) step.awaited = true;
      if (what == 3) step.event = 7;
      if (what == 4) steps.Proto(2).set_stream(D2H);
    }
    EXPECT_EQ(steps.Runs(), what < 2    ? (Ranges{{0, 2}, {2, 2}})
                            : what == 4 ? (Ranges{{0, 2}})
                                        : (Ranges{{0, 3}}))
        << what;
  }
}

TEST(StepRunsTest, SumsAreNotInRuns) {
  Steps steps;
  for (int i = 0; i < 2; ++i) {
    steps.Add(SCALE, {{0, 1}, {10 + 10 * i, 10}}, {{100 + 10 * i, 10}});
    steps.Proto(i).set_accumulate(i == 1);
  }
  EXPECT_EQ(steps.Runs(), Ranges());
}

}  // namespace
}  // namespace weft
