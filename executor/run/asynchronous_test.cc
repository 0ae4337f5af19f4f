// Runs the same programs on the host and on deferred devices, which pick any legal order of the work. The figures and
// the memory are the same in every order, so the steps wait for everything that they need.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "executor/testing/device_ranks.h"
#include "executor/testing/test_pipeline.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/util/mesh.h"
#include "tests/random_program.h"

namespace weft::exec {
namespace {

using ::testing::HasSubstr;

constexpr RanksOn kDevices[] = {RanksOn::kSharedDevice, RanksOn::kOwnDevices};

TEST(AsynchronousTest, RandomProgramsEndAsOnTheHost) {
  RandomProgramOptions options = RunnablePrograms();
  options.collectives = true;
  RanksOptions run;
  run.interpreter.timeout = std::chrono::seconds(20);
  run.interpreter.check_finite = false;
  run.bodies = {4, 1};
  int dynamic = 0, filled = 0;
  for (uint64_t seed = 0; seed < 120; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const Program program = RandomProgram(seed, options);
    dynamic += program.compute_order() != STATIC_ORDER;
    run.seed = seed;
    run.on = RanksOn::kHost;
    const std::vector<std::string> expected = OutcomeOn(program, run);
    for (const RanksOn on : kDevices) {
      run.on = on;
      // On a shared device, all, some or none of a program's streams share device streams, by the number of queues.
      run.hardware_queues = std::vector<int>{0, 1, 8, 24}[seed % 4];
      EXPECT_TRUE(OutcomeOn(program, run) == expected) << (on == RanksOn::kSharedDevice ? "one device" : "devices");
    }
    for (const std::string& bytes : expected)
      filled += std::any_of(bytes.begin(), bytes.end(), [](char c) { return c != 0; });
    if (HasFailure()) return;
  }
  EXPECT_GT(filled, 50);
  EXPECT_GT(dynamic, 10);
}

TEST(AsynchronousTest, PipelinesOfEveryOrderAndSharing) {
  // SHARED needs groups: otherwise transfers of both directions on one stream would wait for each other.
  const std::vector<std::tuple<ComputeOrder, TransferStreams, bool>> cases = {
      {STATIC_ORDER, PER_EDGE, false},      {STATIC_ORDER, PER_EDGE, true},
      {STATIC_ORDER, PER_DIRECTION, false}, {STATIC_ORDER, SHARED, true},
      {ARRIVAL, PER_EDGE, false},           {ARRIVAL, PER_DIRECTION, false},
      {BACKWARD_FIRST, PER_EDGE, false},    {BACKWARD_FIRST, PER_DIRECTION, false}};
  uint64_t seed = 0;
  for (const auto& [order, streams, groups] : cases) {
    for (const int ranks : {1, 2, 3, 4}) {
      for (const RanksOn on : kDevices) {
        const TestPipeline pipeline{.ranks = ranks,
                                    .microbatches = 6,
                                    .order = order,
                                    .streams = streams,
                                    .limit = std::max(ranks, 3),
                                    .groups = groups};
        RanksOptions run;
        run.on = on;
        run.seed = ++seed;
        run.hardware_queues = std::vector<int>{0, 2, 12}[seed % 3];
        SCOPED_TRACE(testing::Message() << ComputeOrder_Name(order) << ", " << TransferStreams_Name(streams) << ", "
                                        << ranks << " ranks, seed " << seed);
        run.first_step = 3;
        run.bodies = {5, 2};
        run.interpreter.timeout = std::chrono::seconds(20);
        run.interpreter.trace_repetitions = 2;
        run.backend = [](int) { return std::make_unique<AddingBackend>(); };
        const auto results = RunRanksOn(TestPipelineProgram(pipeline), run);
        for (const auto& rank : results) ASSERT_TRUE(rank.ok()) << rank.status();
        ASSERT_EQ(results[0]->steps.size(), 7u);
        int64_t last_end = 0;
        for (const StepResult& step : results[0]->steps) {
          EXPECT_EQ(step.loss, TestPipelineLoss(pipeline, run.first_step, step.step));
          EXPECT_GE(step.end_ns, last_end);
          last_end = step.end_ns;
        }
        for (const auto& rank : results) {
          EXPECT_GT(rank->trace.events_size(), 0);
          for (const TraceEvent& event : rank->trace.events()) {
            EXPECT_LT(event.repetition(), 2);
            EXPECT_LE(event.start_ps(), event.end_ps());
          }
        }
      }
    }
  }
}

// A loss that is not finite ends the run. Later steps may be under way by then. The losses of earlier steps are
// reported, in order.
TEST(AsynchronousTest, ALossThatIsNotFiniteEndsTheRun) {
  class Failing : public AddingBackend {
   public:
    absl::Status Run(const Step& step, absl::Span<const TensorView> inputs, absl::Span<const TensorView> outputs,
                     const StepContext& context) override {
      WEFT_RETURN_IF_ERROR(AddingBackend::Run(step, inputs, outputs, context));
      if (context.step == 2) *static_cast<double*>(outputs[0].data) = std::nan("");
      return absl::OkStatus();
    }
  };
  for (const RanksOn on : kDevices) {
    RanksOptions run;
    run.on = on;
    run.bodies = {6};
    run.backend = [](int) { return std::make_unique<Failing>(); };
    std::vector<int64_t> reported;
    const Program program = TestPipelineProgram({.ranks = 1});
    run.interpreter.on_step = [&](const StepResult& step) { reported.push_back(step.step); };
    const auto results = RunRanksOn(program, run);
    EXPECT_EQ(results[0].status().code(), absl::StatusCode::kOutOfRange);
    EXPECT_THAT(std::string(results[0].status().message()), HasSubstr("step 2, action"));
    EXPECT_THAT(std::string(results[0].status().message()), HasSubstr("the loss is not finite (nan)"));
    EXPECT_THAT(reported, testing::ElementsAre(0, 1));
  }
}

TEST(AsynchronousTest, ErrorsOfKernelsEndTheRun) {
  class Failing : public AddingBackend {
   public:
    absl::Status Run(const Step& step, absl::Span<const TensorView> inputs, absl::Span<const TensorView> outputs,
                     const StepContext& context) override {
      if (context.step == 1) return absl::InternalError("misaligned address");
      return AddingBackend::Run(step, inputs, outputs, context);
    }
  };
  for (const RanksOn on : kDevices) {
    RanksOptions run;
    run.on = on;
    run.backend = [](int) { return std::make_unique<Failing>(); };
    for (const auto& rank : RunRanksOn(TestPipelineProgram({.ranks = 2}), run)) {
      EXPECT_THAT(std::string(rank.status().message()), HasSubstr("misaligned address"));
    }
  }
}

// A device whose events are never over, like one whose kernel hangs.
class HangingDevice : public DeferredDevice {
 public:
  HangingDevice() : DeferredDevice(1) {}
  absl::StatusOr<bool> Finished(int event) override { return false; }
};

TEST(AsynchronousTest, ADeviceThatHangsIsNamedWithItsAction) {
  RanksOptions run;
  run.device = [](int) { return std::make_unique<HangingDevice>(); };
  run.interpreter.timeout = std::chrono::milliseconds(50);
  run.backend = [](int) { return std::make_unique<AddingBackend>(); };
  const auto results = RunRanksOn(TestPipelineProgram({.ranks = 1}), run);
  EXPECT_EQ(results[0].status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(results[0].status().message()), HasSubstr("rank 0, step 0, action "));
  EXPECT_THAT(std::string(results[0].status().message()),
              HasSubstr("has not ended on the device for more than 0.05 s"));
}

// The host is at most two repetitions ahead: it does not enqueue the third before the first is over.
TEST(AsynchronousTest, TheHostRunsTwoRepetitionsAhead) {
  class Counting : public DeferredDevice {
   public:
    explicit Counting(int64_t* most) : DeferredDevice(7), most_(*most) {}
    absl::StatusOr<bool> Finished(int event) override {
      most_ = std::max(most_, pending());
      return DeferredDevice::Finished(event);
    }
    int64_t& most_;
  };
  int64_t most_of_ten = 0, most_of_two = 0;
  for (const int64_t repetitions : {2, 10}) {
    int64_t& most = repetitions == 2 ? most_of_two : most_of_ten;
    RanksOptions run;
    run.device = [&most](int) { return std::make_unique<Counting>(&most); };
    run.bodies = {repetitions};
    run.backend = [](int) { return std::make_unique<AddingBackend>(); };
    const auto results = RunRanksOn(TestPipelineProgram({.ranks = 1}), run);
    ASSERT_TRUE(results[0].ok()) << results[0].status();
  }
  EXPECT_GT(most_of_two, 0);
  // Some work of the second repetition may be queued when the third begins.
  EXPECT_LE(most_of_ten, most_of_two + most_of_two / 4);
}

}  // namespace
}  // namespace weft::exec
