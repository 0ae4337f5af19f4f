#include "executor/interpreter/flight_recorder.h"

#include <atomic>
#include <chrono>
#include <thread>

#include "executor/interface/transport.h"
#include "gtest/gtest.h"

namespace weft::exec {
namespace {

TEST(FlightRecorderTest, KeepsWhatIsUnderWayAndWhen) {
  FlightRecorder recorder(4);
  EXPECT_TRUE(recorder.Last().empty());
  const int64_t start = MonotonicNanoseconds();
  recorder.Begin(2, 7);
  recorder.Begin(0, 8);
  recorder.Begin(0, 9);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  recorder.End(0);
  const int64_t end = MonotonicNanoseconds();
  const auto entries = recorder.Last();
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[0].action, 2);
  EXPECT_EQ(entries[0].step, 7);
  EXPECT_EQ(entries[0].end_ns, 0);
  EXPECT_EQ(entries[1].number, 1);
  // Converting the cheap clock's ticks is accurate to a millisecond.
  constexpr int64_t kMillisecond = 1000 * 1000;
  EXPECT_GE(entries[1].begin_ns, start - kMillisecond);
  EXPECT_LE(entries[1].end_ns, end + kMillisecond);
  EXPECT_GE(entries[1].end_ns - entries[1].begin_ns, 18 * kMillisecond);
}

TEST(FlightRecorderTest, TellsWhichCallTheRankIsIn) {
  FlightRecorder recorder(4);
  FlightRecorder::Entry inside;
  EXPECT_FALSE(recorder.Inside(&inside));
  recorder.Begin(3, 5);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(recorder.Inside(&inside));
  const int64_t entered = MonotonicNanoseconds();
  recorder.Enter(3);
  ASSERT_TRUE(recorder.Inside(&inside));
  EXPECT_EQ(inside.action, 3);
  EXPECT_EQ(inside.step, 5);
  EXPECT_GE(inside.begin_ns, entered - 1000 * 1000);
  recorder.Leave();
  EXPECT_FALSE(recorder.Inside(&inside));
}

TEST(FlightRecorderTest, KeepsTheLastThousand) {
  FlightRecorder recorder(10);
  for (int i = 0; i < 5000; ++i) {
    recorder.Begin(i % 10, i / 10);
    if (i != 4993) recorder.End(i % 10);
  }
  const auto entries = recorder.Last();
  ASSERT_EQ(entries.size(), 1000u);
  EXPECT_EQ(recorder.begun(), 5000);
  for (size_t i = 0; i < entries.size(); ++i) {
    EXPECT_EQ(entries[i].number, static_cast<int64_t>(4000 + i));
    EXPECT_EQ(entries[i].action, static_cast<int32_t>((4000 + i) % 10));
    EXPECT_EQ(entries[i].end_ns == 0, entries[i].number == 4993);
  }
}

// An action that began so long ago that its entry is gone can still end. The end of an action that never began is
// ignored.
TEST(FlightRecorderTest, LateEndsDoNoHarm) {
  FlightRecorder recorder(2);
  recorder.End(1);
  recorder.Begin(0, 0);
  for (int i = 0; i < 3000; ++i) {
    recorder.Begin(1, i);
    recorder.End(1);
  }
  recorder.End(0);
  for (const auto& entry : recorder.Last()) EXPECT_EQ(entry.action, 1);
}

TEST(FlightRecorderTest, CanBeReadWhileItIsWritten) {
  FlightRecorder recorder(100);
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (int64_t i = 0; !stop; ++i) {
      const auto action = static_cast<int32_t>(i % 100);
      recorder.Begin(action, i);
      recorder.Enter(action);
      recorder.Leave();
      recorder.End(action);
      if (i % 50 == 0) std::this_thread::yield();
    }
  });
  int64_t seen = 0;
  for (int round = 0; round < 1000000 && seen < 10000; ++round) {
    int64_t last = -1;
    for (const auto& entry : recorder.Last()) {
      EXPECT_GT(entry.number, last);
      EXPECT_EQ(entry.step, entry.number);
      EXPECT_EQ(entry.action, entry.number % 100);
      last = entry.number;
      ++seen;
    }
    FlightRecorder::Entry entry;
    if (recorder.Inside(&entry)) {
      EXPECT_EQ(entry.step, entry.number);
    }
  }
  stop = true;
  writer.join();
  EXPECT_GT(seen, 0);
}

}  // namespace
}  // namespace weft::exec
