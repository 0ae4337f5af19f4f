#include "executor/interpreter/device_streams.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "executor/interpreter/figure_copies.h"
#include "executor/program/step_waits.h"
#include "executor/testing/deferred_device.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft::exec {
namespace {

class CountingDevice : public DeferredDevice {
 public:
  CountingDevice() : DeferredDevice(3) {}
  absl::Status Wait(int stream, int event) override {
    ++waits;
    return DeferredDevice::Wait(stream, event);
  }
  int waits = 0;
};

// Stream 0 runs A and C, stream 1 runs B. B waits for A, C waits for A and B, A waits for B of the previous repetition.
class DeviceStreamsTest : public testing::Test {
 protected:
  DeviceStreamsTest() {
    for (int i = 0; i < 2; ++i) {
      program_.streams.emplace_back().device_stream = *device_.NewStream(ComputeDevice::Priority::kNormal);
    }
    AddAction(0, {{.action = 1, .distance = 1}});
    AddAction(1, {{.action = 0}});
    AddAction(0, {{.action = 0}, {.action = 1}});
    program_.steps_of_list[kBodyList] = 3;
    PrepareWaits(program_);
    streams_ = *DeviceStreams::Create(program_, device_);
  }

  void AddAction(int stream, std::vector<PreparedDependency> deps) {
    const int index = static_cast<int>(program_.actions.size());
    PreparedAction& action = program_.actions.emplace_back();
    action.deps = std::move(deps);
    action.steps.emplace_back().stream = stream;
    action.last_steps = {0};
    program_.streams[stream].steps[kBodyList].push_back({.action = index, .step = 0, .first = true, .last = true});
  }

  // Enqueues the action, which appends its letter to order_ when it runs.
  void Enqueue(int action) {
    PreparedStep& step = program_.actions[action].steps[0];
    ASSERT_TRUE(streams_->Await(step).ok());
    const char letter = static_cast<char>('A' + action);
    ASSERT_TRUE(
        device_.Enqueue((*streams_)[step.stream], [this, letter] { return order_ += letter, absl::OkStatus(); }).ok());
    ++step.done;
    ASSERT_TRUE(streams_->Ended(step).ok());
  }

  CountingDevice device_;
  PreparedProgram program_;
  std::unique_ptr<DeviceStreams> streams_;
  std::string order_;
};

TEST_F(DeviceStreamsTest, WaitsAreForOtherStreamsOnly) {
  const auto waits = [&](int action) { return program_.actions[action].steps[0].waits; };
  EXPECT_EQ(program_.step_events, 2);
  const int a = program_.actions[0].steps[0].event, b = program_.actions[1].steps[0].event;
  EXPECT_THAT(waits(0), testing::ElementsAre(b));
  EXPECT_THAT(waits(1), testing::ElementsAre(a));
  // A precedes C on the same stream.
  EXPECT_THAT(waits(2), testing::ElementsAre(b));
  EXPECT_EQ(program_.actions[2].steps[0].event, -1);
}

TEST_F(DeviceStreamsTest, WaitsThatAreCoveredAreLeftOut) {
  // There is no B before the first A. Later, C's wait for B also covers the next A's wait.
  for (int repetition = 0; repetition < 4; ++repetition) {
    const int before = device_.waits;
    for (const int action : {0, 1, 2}) Enqueue(action);
    EXPECT_EQ(device_.waits - before, 2) << repetition;
  }
  ASSERT_TRUE(device_.CopyNow(nullptr, nullptr, 0).ok());
  EXPECT_EQ(order_, "ABCABCABCABC");
}

TEST_F(DeviceStreamsTest, RepetitionsAreOverWhenAllStreamsAre) {
  for (const int action : {0, 1, 2}) Enqueue(action);
  ASSERT_TRUE(streams_->EndRepetition(0, 0).ok());
  ASSERT_TRUE(streams_->EndRepetition(1, 0).ok());
  const auto unfinished = streams_->FindUnfinished(kBodyList, 0);
  ASSERT_TRUE(unfinished.ok());
  absl::StatusOr<std::optional<int64_t>> over = streams_->Over(kBodyList, 0);
  while (over.ok() && !over->has_value()) over = streams_->Over(kBodyList, 0);
  ASSERT_TRUE(over.ok()) << over.status();
  EXPECT_EQ(order_, "ABC");
  EXPECT_GT(**over, 0);
  EXPECT_FALSE(streams_->FindUnfinished(kBodyList, 0)->has_value());
  EXPECT_EQ(*streams_->Progress(), 2);
}

// Rule P4: after a join, work on the group's streams runs after everything that they had before, whatever order the
// device picks.
TEST(DeviceStreamsJoinTest, NothingBehindAJoinIsBeforeIt) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    DeferredDevice device(seed);
    PreparedProgram program;
    program.groups.emplace_back().streams = {0, 1, 2};
    for (int i = 0; i < 3; ++i) {
      program.streams.emplace_back().device_stream = *device.NewStream(ComputeDevice::Priority::kNormal);
    }
    PrepareWaits(program);
    const auto streams = *DeviceStreams::Create(program, device);
    std::string order;
    const auto enqueue = [&](int stream, char letter) {
      ASSERT_TRUE(device.Enqueue((*streams)[stream], [&, letter] { return order += letter, absl::OkStatus(); }).ok());
    };
    for (int stream = 0; stream < 3; ++stream) enqueue(stream, 'a');
    const int joined[] = {0, 1, 2};
    ASSERT_TRUE(streams->Join(joined).ok());
    for (int stream = 0; stream < 3; ++stream) enqueue(stream, 'b');
    ASSERT_TRUE(device.CopyNow(nullptr, nullptr, 0).ok());
    EXPECT_EQ(order, "aaabbb") << "seed " << seed;
  }
}

TEST(FigureCopiesTest, FiguresAreThoseOfTheirRepetition) {
  DeferredDevice device(11);
  const int stream = *device.NewStream(ComputeDevice::Priority::kNormal);
  double* const from = static_cast<double*>(*device.Allocate(HOST, 3 * sizeof(double)));
  double* const losses = static_cast<double*>(*device.Allocate(DEVICE, 2 * sizeof(double)));
  double* const scale = static_cast<double*>(*device.Allocate(DEVICE, sizeof(double)));
  PreparedProgram program;
  program.figures.losses = {losses, 2};
  program.figures.loss_scale = scale;
  const auto copies = *FigureCopies::Create(program, device, 3);
  for (int i = 0; i < 3; ++i) from[i] = 10 + i;
  // Each repetition overwrites the values of the previous one.
  for (int repetition = 0; repetition < 2; ++repetition) {
    ASSERT_TRUE(device.Copy(stream, losses, from + repetition, 2 * sizeof(double)).ok());
    ASSERT_TRUE(device.Copy(stream, scale, from + repetition, sizeof(double)).ok());
    ASSERT_TRUE(copies->Enqueue(kLossFigure, 7, repetition, stream).ok());
    ASSERT_TRUE(copies->Enqueue(kLossScaleFigure, 8, repetition, stream).ok());
  }
  std::vector<std::pair<int, int64_t>> taken;
  while (taken.size() < 4) {
    const auto any = copies->TakeOver([&](uint8_t which, int action, int64_t repetition, const Figures& figures) {
      taken.push_back({action, repetition});
      if (which == kLossFigure) {
        EXPECT_THAT(figures.losses, testing::ElementsAre(10 + repetition, 11 + repetition));
      } else {
        EXPECT_EQ(*figures.loss_scale, 10 + repetition);
      }
      EXPECT_TRUE(figures.norm.empty());
      return absl::OkStatus();
    });
    ASSERT_TRUE(any.ok()) << any.status();
  }
  EXPECT_THAT(taken, testing::UnorderedElementsAre(std::pair(7, 0), std::pair(8, 0), std::pair(7, 1), std::pair(8, 1)));
  EXPECT_LT(std::find(taken.begin(), taken.end(), std::pair(7, int64_t{0})),
            std::find(taken.begin(), taken.end(), std::pair(7, int64_t{1})));
  EXPECT_EQ(*copies->LossScaleNow(), 11);
}

}  // namespace
}  // namespace weft::exec
