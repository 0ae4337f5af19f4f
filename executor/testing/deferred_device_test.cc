#include "executor/testing/deferred_device.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft::exec {
namespace {

using ::testing::HasSubstr;

int Stream(ComputeDevice& device) { return device.NewStream(ComputeDevice::Priority::kNormal).value(); }
int Event(ComputeDevice& device) { return device.NewEvent(false).value(); }

double* Doubles(ComputeDevice& device, Place place, int64_t count) {
  return static_cast<double*>(device.Allocate(place, count * sizeof(double)).value());
}

double Read(ComputeDevice& device, const double* from) {
  double value = -1;
  EXPECT_TRUE(device.CopyNow(&value, from, sizeof(value)).ok());
  return value;
}

TEST(DeferredDevice, NothingRunsWhenItIsEnqueued) {
  DeferredDevice device(1);
  const int stream = Stream(device), event = Event(device);
  std::string order;
  for (const char c : {'a', 'b', 'c'}) {
    ASSERT_TRUE(device.Enqueue(stream, [&order, c] { return order += c, absl::OkStatus(); }).ok());
  }
  ASSERT_TRUE(device.Record(event, stream).ok());
  EXPECT_EQ(order, "");
  EXPECT_EQ(device.pending(), 4);
  ASSERT_TRUE(device.Synchronize(event).ok());
  EXPECT_EQ(order, "abc");
  EXPECT_TRUE(device.Finished(event).value());
}

TEST(DeferredDevice, AnEventThatWasNeverRecordedHoldsNothingUp) {
  DeferredDevice device(1);
  const int stream = Stream(device), event = Event(device), end = Event(device);
  EXPECT_TRUE(device.Finished(event).value());
  ASSERT_TRUE(device.Wait(stream, event).ok());
  // This record comes after the wait, so the wait does not include it.
  ASSERT_TRUE(device.Record(event, stream).ok());
  ASSERT_TRUE(device.Record(end, stream).ok());
  EXPECT_TRUE(device.Synchronize(end).ok());
}

// Two streams of two items each, with no event between them: all 6 orders of the items occur.
TEST(DeferredDevice, OrdersBetweenStreamsAreRandomAndOnlySeeded) {
  std::set<std::string> orders;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const auto run = [seed] {
      DeferredDevice device(seed);
      std::string order;
      for (const char c : {'a', 'b'}) {
        const int stream = Stream(device);
        for (int i = 0; i < 2; ++i) {
          EXPECT_TRUE(device.Enqueue(stream, [&order, c] { return order += c, absl::OkStatus(); }).ok());
        }
      }
      EXPECT_TRUE(device.CopyNow(nullptr, nullptr, 0).ok());
      return order;
    };
    const std::string order = run();
    EXPECT_EQ(run(), order) << "seed " << seed;
    orders.insert(order);
  }
  EXPECT_EQ(orders.size(), 6u);
}

// One stream writes x = 1, then x = 2; another reads x. With both waits it always reads 1.
double Taken(uint64_t seed, bool first_wait, bool second_wait) {
  DeferredDevice device(seed);
  const int writer = Stream(device), reader = Stream(device);
  const int written = Event(device), taken = Event(device);
  double* source = Doubles(device, HOST, 2);
  source[0] = 1;
  source[1] = 2;
  double* x = Doubles(device, DEVICE, 1);
  double* y = Doubles(device, DEVICE, 1);
  EXPECT_TRUE(device.Copy(writer, x, source, sizeof(double)).ok());
  EXPECT_TRUE(device.Record(written, writer).ok());
  if (first_wait) {
    EXPECT_TRUE(device.Wait(reader, written).ok());
  }
  EXPECT_TRUE(device.Copy(reader, y, x, sizeof(double)).ok());
  EXPECT_TRUE(device.Record(taken, reader).ok());
  if (second_wait) {
    EXPECT_TRUE(device.Wait(writer, taken).ok());
  }
  EXPECT_TRUE(device.Copy(writer, x, source + 1, sizeof(double)).ok());
  return Read(device, y);
}

TEST(DeferredDevice, ALeftOutWaitGivesAWrongResultForSomeSeed) {
  std::set<double> all, no_first, no_second;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    all.insert(Taken(seed, true, true));
    no_first.insert(Taken(seed, false, true));
    no_second.insert(Taken(seed, true, false));
  }
  EXPECT_THAT(all, testing::ElementsAre(1));
  EXPECT_THAT(no_first, testing::ElementsAre(0, 1));
  EXPECT_THAT(no_second, testing::ElementsAre(1, 2));
}

TEST(DeferredDevice, AWaitIsForTheLastRecordAtItsTime) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    DeferredDevice device(seed);
    const int a = Stream(device), b = Stream(device), event = Event(device), end = Event(device);
    std::string order;
    const auto put = [&](int stream, char c) {
      ASSERT_TRUE(device.Enqueue(stream, [&order, c] { return order += c, absl::OkStatus(); }).ok());
    };
    put(a, '1');
    ASSERT_TRUE(device.Record(event, a).ok());
    ASSERT_TRUE(device.Wait(b, event).ok());
    put(b, '2');
    // The event will stand for later work, but the wait above does not. If it did, this would never end.
    ASSERT_TRUE(device.Record(end, b).ok());
    ASSERT_TRUE(device.Wait(a, end).ok());
    put(a, '3');
    ASSERT_TRUE(device.Record(event, a).ok());
    ASSERT_TRUE(device.Synchronize(event).ok());
    EXPECT_EQ(order, "123") << "seed " << seed;
  }
}

TEST(DeferredDevice, QueriesRunSomeOfTheWork) {
  DeferredDevice device(3);
  const int stream = Stream(device), event = Event(device);
  int ran = 0;
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(device.Enqueue(stream, [&ran] { return ++ran, absl::OkStatus(); }).ok());
  }
  ASSERT_TRUE(device.Record(event, stream).ok());
  int queries = 1, before = 0;
  for (; !device.Finished(event).value(); ++queries) {
    EXPECT_GT(ran, before);
    before = ran;
  }
  EXPECT_GT(queries, 10);
  EXPECT_EQ(ran, 1000);
}

TEST(DeferredDevice, CopiesSumsAndClears) {
  DeferredDevice device(1);
  const int stream = Stream(device);
  double* host = Doubles(device, HOST, 6);
  for (int i = 0; i < 6; ++i) host[i] = i + 1;
  double* x = Doubles(device, DEVICE, 6);
  double* sum = Doubles(device, DEVICE, 2);
  EXPECT_EQ(Read(device, x), 0);
  ASSERT_TRUE(device.Copy(stream, x, host, 6 * sizeof(double)).ok());
  const void* parts[] = {x, x + 2, x + 4};
  ASSERT_TRUE(device.Sum(stream, FP64, 2, parts, sum).ok());
  ASSERT_TRUE(device.AddTo(stream, FP64, x, 2, true, FP64, sum).ok());
  EXPECT_EQ(Read(device, sum), 1 + 3 + 5 + 1);
  EXPECT_EQ(Read(device, sum + 1), 2 + 4 + 6 + 2);
  ASSERT_TRUE(device.Clear(stream, sum, sizeof(double)).ok());
  EXPECT_EQ(Read(device, sum), 0);
  EXPECT_FALSE(device.Sum(stream, INT32, 2, parts, sum).ok());
  EXPECT_FALSE(device.AddTo(stream, INT32, x, 2, true, FP64, sum).ok());
}

TEST(DeferredDevice, RefusesWhatIsNotItsOwn) {
  DeferredDevice device(1);
  const int stream = Stream(device), event = Event(device);
  double* x = Doubles(device, DEVICE, 2);
  double outside = 0;
  EXPECT_FALSE(device.Copy(stream, x, &outside, sizeof(double)).ok());
  EXPECT_FALSE(device.Copy(stream, x + 1, x, 2 * sizeof(double)).ok());
  EXPECT_FALSE(device.Copy(stream + 1, x, x + 1, sizeof(double)).ok());
  EXPECT_FALSE(device.Record(event + 1, stream).ok());
  EXPECT_FALSE(device.Wait(stream, -1).ok());
  EXPECT_FALSE(device.Allocate(DEVICE, 0).ok());
  EXPECT_FALSE(device.Allocate(DEVICE, int64_t{1} << 62).ok());
}

TEST(DeferredDevice, ErrorsOfWorkAreThoseOfLaterCalls) {
  DeferredDevice device(1);
  const int stream = Stream(device), event = Event(device);
  ASSERT_TRUE(device.Enqueue(stream, [] { return absl::InternalError("no such kernel"); }).ok());
  ASSERT_TRUE(device.Record(event, stream).ok());
  EXPECT_THAT(std::string(device.Finished(event).status().message()), HasSubstr("no such kernel"));
  EXPECT_THAT(std::string(device.Synchronize(event).message()), HasSubstr("no such kernel"));
  EXPECT_THAT(std::string(device.Record(event, stream).message()), HasSubstr("no such kernel"));
}

TEST(DeferredDevice, TimesAreThoseOfTheWork) {
  DeferredDevice device(1);
  const int stream = Stream(device);
  const int first = device.NewEvent(true).value(), second = device.NewEvent(true).value(), plain = Event(device);
  for (const int event : {first, plain, second}) ASSERT_TRUE(device.Record(event, stream).ok());
  EXPECT_FALSE(device.TimeOf(first).ok());
  ASSERT_TRUE(device.Synchronize(second).ok());
  EXPECT_LE(device.TimeOf(first).value(), device.TimeOf(second).value());
  EXPECT_FALSE(device.TimeOf(plain).ok());
}

TEST(DeferredDeviceDeathTest, TheHostCannotTouchItsMemory) {
  DeferredDevice device(1);
  const volatile double* x = Doubles(device, DEVICE, 1);
  EXPECT_DEATH(std::exit(*x == 0 ? 0 : 1), "");
}

class FillBackend : public Backend {
 public:
  absl::Status Run(const Step& step, absl::Span<const TensorView> inputs, absl::Span<const TensorView> outputs,
                   const StepContext& context) override {
    *static_cast<double*>(outputs[0].data) = step.attributes().value() + context.step;
    return absl::OkStatus();
  }
};

TEST(DeferredBackend, RunsLaterWithTheContextOfTheCall) {
  DeferredDevice device(1);
  const auto backend = MakeDeferredBackend(&device, std::make_unique<FillBackend>());
  double* x = Doubles(device, DEVICE, 2);
  const int64_t shape[] = {1};
  Step step;
  step.mutable_attributes()->set_value(10);
  StepContext context;
  context.stream = Stream(device);
  for (int i = 0; i < 2; ++i) {
    context.step = i;
    std::vector<TensorView> outputs = {{x + i, FP64, shape}};
    ASSERT_TRUE(backend->Run(step, {}, outputs, context).ok());
  }
  EXPECT_EQ(device.pending(), 2);
  EXPECT_EQ(Read(device, x), 10);
  EXPECT_EQ(Read(device, x + 1), 11);
}

// A ring of ranks on one device, each a thread, each waiting for the one before.
TEST(DeferredDevice, RanksShareIt) {
  constexpr int kRanks = 4, kRounds = 50;
  DeferredDevice device(5);
  double* total = Doubles(device, DEVICE, 1);
  double* one = Doubles(device, HOST, 1);
  *one = 1;
  std::vector<int> events;
  for (int i = 0; i <= kRanks * kRounds; ++i) events.push_back(Event(device));
  std::atomic<int> turn{0};
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      const int stream = Stream(device);
      for (int round = 0; round < kRounds; ++round) {
        const int place = round * kRanks + rank;
        while (turn.load() != place) std::this_thread::yield();
        EXPECT_TRUE(device.Wait(stream, events[place]).ok());
        EXPECT_TRUE(device.AddTo(stream, FP64, one, 1, true, FP64, total).ok());
        EXPECT_TRUE(device.Record(events[place + 1], stream).ok());
        turn.store(place + 1);
        if (round % 7 == rank) {
          EXPECT_TRUE(device.Finished(events[place + 1]).ok());
        }
      }
      EXPECT_TRUE(device.Synchronize(events[(kRounds - 1) * kRanks + rank + 1]).ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Read(device, total), kRanks * kRounds);
}

}  // namespace
}  // namespace weft::exec
