#include "executor/faults/watchdog.h"

#include <atomic>
#include <deque>
#include <memory>
#include <string>

#include "executor/testing/fault_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/io/program_file.h"

namespace weft::exec {
namespace {

using std::chrono::milliseconds;

// Two ranks of a process.
struct Ranks {
  explicit Ranks(std::chrono::nanoseconds deadline) : endpoints(*(*FindTransport("inproc"))->open(2)) {
    for (int rank = 0; rank < 2; ++rank) {
      deadlines.push_back(std::make_unique<Deadlines>(program, rank, deadline, PredictedTimes(), false));
      watched.push_back({endpoints[rank].get(), &flights[rank], deadlines[rank].get()});
    }
    options.period = milliseconds(5);
    options.report_after = milliseconds(50);
    options.give_up_after = milliseconds(150);
    options.report = [this](int rank, const absl::Status& reason) { seen.push_back({'r', rank, reason}); };
    options.give_up = [this](int rank, const absl::Status& reason) {
      seen.push_back({'g', rank, reason});
      given_up = true;
    };
  }

  struct Seen {
    char what;
    int rank;
    absl::Status reason;
  };

  const Program program = ForwardAndBackward();
  std::vector<std::unique_ptr<Endpoint>> endpoints;
  FlightRecorder flights[2] = {FlightRecorder(2), FlightRecorder(2)};
  std::vector<std::unique_ptr<Deadlines>> deadlines;
  std::vector<WatchedRank> watched;
  WatchdogOptions options;
  std::deque<Seen> seen;
  std::atomic<bool> given_up{false};
};

TEST(WatchdogTest, AKernelBeyondItsDeadlineEndsTheRun) {
  Ranks ranks(milliseconds(100));
  ranks.flights[1].Begin(1, 3);
  ranks.flights[1].Enter(1);
  {
    Watchdog watchdog(ranks.program, ranks.watched, ranks.options);
    // Rank 0 learns of the failure at once.
    while (ranks.endpoints[0]->Poll().ok()) std::this_thread::sleep_for(milliseconds(1));
    watchdog.Returned(0);
    while (!ranks.given_up) std::this_thread::sleep_for(milliseconds(1));
  }
  const absl::Status reason = ranks.endpoints[0]->Poll().status();
  EXPECT_EQ(reason, absl::DeadlineExceededError("rank 1, step 3, action 4 'B' has run for more than 0.1 s"));
  // The abort came from rank 1, which must report it.
  EXPECT_TRUE(ranks.endpoints[1]->Abort(absl::OkStatus()));
  ASSERT_EQ(ranks.seen.size(), 2u);
  EXPECT_EQ(ranks.seen[0].what, 'r');
  EXPECT_EQ(ranks.seen[1].what, 'g');
  for (const auto& seen : ranks.seen) {
    EXPECT_EQ(seen.rank, 1);
    EXPECT_EQ(seen.reason, reason);
  }
}

TEST(WatchdogTest, WaitingForOthersIsNotItsBusiness) {
  Ranks ranks(milliseconds(20));
  ranks.flights[0].Begin(0, 0);
  ranks.flights[1].Begin(0, 0);
  ranks.flights[1].Enter(0);
  ranks.flights[1].Leave();
  {
    Watchdog watchdog(ranks.program, ranks.watched, ranks.options);
    std::this_thread::sleep_for(milliseconds(150));
  }
  EXPECT_TRUE(ranks.endpoints[0]->Poll().ok());
  EXPECT_TRUE(ranks.seen.empty());
}

// A run that is asked to stop while no rank makes progress does not wait for the timeout.
TEST(WatchdogTest, AStopInVain) {
  const struct {
    RunPhase phase;
    bool begun;
    const char* message;
  } cases[] = {
      {RunPhase::kStarting, false, "rank 0 was stopped by a signal before the first step"},
      {RunPhase::kStepping, true, "rank 0 was asked to stop, but step 5 did not end in time; the step is lost"},
  };
  for (const auto& [phase, begun, message] : cases) {
    SCOPED_TRACE(message);
    Ranks ranks(std::chrono::seconds(300));
    std::atomic<bool> stop{false};
    ranks.options.stop = &stop;
    ranks.options.least_patience = ranks.options.first_patience = milliseconds(100);
    ranks.deadlines[0]->Enter(phase);
    // Rank 1 is between steps, where a save may take as long as it needs.
    ranks.deadlines[1]->Enter(RunPhase::kEnding);
    if (begun) ranks.flights[0].Begin(1, 5);
    Watchdog watchdog(ranks.program, ranks.watched, ranks.options);
    std::this_thread::sleep_for(milliseconds(300));
    EXPECT_TRUE(ranks.endpoints[0]->Poll().ok());
    EXPECT_FALSE(ranks.deadlines[0]->hurried());
    stop = true;
    const auto start = std::chrono::steady_clock::now();
    while (ranks.endpoints[1]->Poll().ok()) std::this_thread::sleep_for(milliseconds(1));
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
    EXPECT_EQ(ranks.endpoints[1]->Poll().status().message(), message);
    // In an action the rank itself gives up first, and names the rank that it waited for.
    EXPECT_TRUE(ranks.deadlines[0]->hurried());
    EXPECT_EQ(ranks.deadlines[0]->WaitDeadlineIn(1), milliseconds(100));
    EXPECT_EQ(ranks.deadlines[0]->Of(1), std::chrono::seconds(300));
    watchdog.Returned(0);
    watchdog.Returned(1);
  }
}

// Repetitions that were over before the watchdog first polled count, so the patience of the first repetition does not
// apply to later ones.
TEST(WatchdogTest, AStopAfterShortSteps) {
  Ranks ranks(std::chrono::seconds(300));
  std::atomic<bool> stop{true};
  ranks.options.stop = &stop;
  ranks.options.least_patience = milliseconds(100);
  ranks.deadlines[0]->Enter(RunPhase::kStepping);
  ranks.deadlines[1]->Enter(RunPhase::kEnding);
  for (int step = 0; step < 3; ++step) ranks.deadlines[0]->RepetitionIsOver(MonotonicNanoseconds());
  Watchdog watchdog(ranks.program, ranks.watched, ranks.options);
  while (!ranks.deadlines[0]->hurried()) std::this_thread::sleep_for(milliseconds(1));
  EXPECT_EQ(ranks.deadlines[0]->WaitDeadlineIn(1), milliseconds(100));
  watchdog.Returned(0);
  watchdog.Returned(1);
}

// A first step that is predicted to be slow is waited for longer than a first step without a prediction.
TEST(WatchdogTest, AStopInASlowFirstStep) {
  Ranks ranks(std::chrono::seconds(300));
  Trace trace;
  trace.set_origin("simulated");
  trace.set_repetitions(1);
  trace.set_program_crc(ProgramCrc(ranks.program));
  RankTrace* rank = trace.add_ranks();
  rank->set_template_name(ranks.program.templates(0).name());
  TraceEvent* event = rank->add_events();
  event->set_action(ranks.program.templates(0).body(0).id());
  // 30 s in picoseconds.
  event->set_finish_ps(int64_t{30} * 1000 * 1000 * 1000 * 1000);
  const absl::StatusOr<PredictedTimes> predicted = PredictedTimes::Make(ranks.program, trace);
  ASSERT_TRUE(predicted.ok()) << predicted.status();
  Deadlines slow(ranks.program, 0, std::chrono::seconds(300), *predicted, false);
  ranks.watched[0].deadlines = &slow;
  std::atomic<bool> stop{true};
  ranks.options.stop = &stop;
  ranks.options.least_patience = ranks.options.first_patience = milliseconds(1);
  slow.Enter(RunPhase::kStepping);
  ranks.deadlines[1]->Enter(RunPhase::kEnding);
  Watchdog watchdog(ranks.program, ranks.watched, ranks.options);
  while (!slow.hurried()) std::this_thread::sleep_for(milliseconds(1));
  EXPECT_EQ(slow.WaitDeadlineIn(99), std::chrono::seconds(301));
  slow.Hurry(std::chrono::hours(1));
  std::this_thread::sleep_for(milliseconds(50));
  // Deadlines::kFactor (20) times 30 s.
  EXPECT_EQ(slow.WaitDeadlineIn(0), std::chrono::seconds(600));
  EXPECT_TRUE(ranks.endpoints[0]->Poll().ok());
  watchdog.Returned(0);
  watchdog.Returned(1);
}

// In a pipeline that is never drained, forwards of later steps begin before the first step has ended.
TEST(WatchdogTest, AStepThatHasBegunLaterIsNoneThatHasEnded) {
  Ranks ranks(std::chrono::seconds(300));
  std::atomic<bool> stop{false};
  ranks.options.stop = &stop;
  ranks.options.least_patience = milliseconds(1);
  ranks.options.first_patience = std::chrono::seconds(60);
  ranks.deadlines[0]->Enter(RunPhase::kStepping);
  ranks.deadlines[1]->Enter(RunPhase::kEnding);
  Watchdog watchdog(ranks.program, ranks.watched, ranks.options);
  for (const int step : {0, 1, 0, 2, 1}) {
    ranks.flights[0].Begin(step % 2, step);
    ranks.flights[0].End(step % 2);
    std::this_thread::sleep_for(milliseconds(20));
  }
  stop = true;
  while (!ranks.deadlines[0]->hurried()) std::this_thread::sleep_for(milliseconds(1));
  EXPECT_EQ(ranks.deadlines[0]->WaitDeadlineIn(1), std::chrono::seconds(60));
  // When the first step has ended, the long patience of the first step no longer applies.
  ranks.deadlines[0]->RepetitionIsOver(MonotonicNanoseconds());
  while (ranks.deadlines[0]->WaitDeadlineIn(1) >= std::chrono::seconds(10))
    std::this_thread::sleep_for(milliseconds(1));
  EXPECT_GE(ranks.deadlines[0]->WaitDeadlineIn(1), milliseconds(3 * 100));
  watchdog.Returned(0);
  watchdog.Returned(1);
}

// As long as repetitions end, a stop waits for the end of the current one, up to three times the longest.
TEST(WatchdogTest, AStopWaitsForASlowStep) {
  Ranks ranks(std::chrono::seconds(300));
  std::atomic<bool> stop{false};
  ranks.options.stop = &stop;
  ranks.options.least_patience = ranks.options.first_patience = milliseconds(1);
  ranks.deadlines[0]->Enter(RunPhase::kStepping);
  ranks.deadlines[1]->Enter(RunPhase::kEnding);
  Watchdog watchdog(ranks.program, ranks.watched, ranks.options);
  for (int step = 0; step < 3; ++step) {
    std::this_thread::sleep_for(milliseconds(200));
    ranks.deadlines[0]->RepetitionIsOver(MonotonicNanoseconds());
  }
  stop = true;
  while (!ranks.deadlines[0]->hurried()) std::this_thread::sleep_for(milliseconds(1));
  EXPECT_GE(ranks.deadlines[0]->WaitDeadline(), milliseconds(3 * 200));
  EXPECT_LT(ranks.deadlines[0]->WaitDeadline(), std::chrono::seconds(60));
  watchdog.Returned(0);
  watchdog.Returned(1);
}

// The host has enqueued two steps while the device is in the first. When a step begins, its duration is still unknown.
TEST(WatchdogTest, AStopWaitsForADeviceThatIsBehind) {
  Ranks ranks(std::chrono::seconds(300));
  std::atomic<bool> stop{false};
  ranks.options.stop = &stop;
  ranks.options.least_patience = ranks.options.first_patience = milliseconds(1);
  ranks.deadlines[0] =
      std::make_unique<Deadlines>(ranks.program, 0, std::chrono::seconds(300), PredictedTimes(), /*generous=*/true);
  ranks.watched[0].deadlines = ranks.deadlines[0].get();
  ranks.deadlines[0]->Enter(RunPhase::kStepping);
  ranks.deadlines[1]->Enter(RunPhase::kEnding);
  Watchdog watchdog(ranks.program, ranks.watched, ranks.options);
  for (int step = 0; step < 2; ++step) {
    ranks.flights[0].Begin(0, step);
    ranks.flights[0].End(0);
  }
  stop = true;
  std::this_thread::sleep_for(milliseconds(2500));
  EXPECT_TRUE(ranks.endpoints[0]->Poll().ok());
  EXPECT_FALSE(ranks.deadlines[0]->hurried());
  // The first repetition, in which kernels are loaded, is no guide to the duration of later ones.
  ranks.deadlines[0]->RepetitionIsOver(MonotonicNanoseconds());
  std::this_thread::sleep_for(milliseconds(250));
  EXPECT_FALSE(ranks.deadlines[0]->hurried());
  ranks.deadlines[0]->RepetitionIsOver(MonotonicNanoseconds());
  while (!ranks.deadlines[0]->hurried()) std::this_thread::sleep_for(milliseconds(1));
  EXPECT_GE(ranks.deadlines[0]->WaitDeadline(), milliseconds(3 * 250));
  EXPECT_LT(ranks.deadlines[0]->WaitDeadline(), milliseconds(3 * 2500));
  watchdog.Returned(0);
  watchdog.Returned(1);
}

TEST(WatchdogTest, RanksThatReturnAreLeftAlone) {
  Ranks ranks(milliseconds(20));
  {
    Watchdog watchdog(ranks.program, ranks.watched, ranks.options);
    ranks.endpoints[0]->Abort(absl::InternalError("why"));
    watchdog.Returned(0);
    watchdog.Returned(1);
    std::this_thread::sleep_for(milliseconds(250));
  }
  EXPECT_TRUE(ranks.seen.empty());
}

}  // namespace
}  // namespace weft::exec
