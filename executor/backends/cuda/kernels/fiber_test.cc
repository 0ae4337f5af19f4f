#include "executor/backends/cuda/kernels/fiber.h"

#include <cmath>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace weft::exec::emulation {
namespace {

// Counts up each time it is resumed, with locals that must survive.
struct Counter {
  std::unique_ptr<Fiber> fiber;
  int first = 0;
  std::vector<int> seen;

  static void Main(void* argument) {
    auto* counter = static_cast<Counter*>(argument);
    // Some of the values live in registers, some on the stack.
    int values[64];
    std::iota(values, values + 64, counter->first);
    double root = std::sqrt(static_cast<double>(counter->first));
    for (int i = 0;; ++i) {
      counter->seen.push_back(values[i % 64] + static_cast<int>(std::lround(root * root)) - counter->first);
      counter->fiber->Yield();
    }
  }
};

TEST(Fiber, ManyGoOnWhereTheyStopped) {
  std::vector<Counter> counters(300);
  for (size_t i = 0; i < counters.size(); ++i) {
    counters[i].first = static_cast<int>(100 * i);
    counters[i].fiber = std::make_unique<Fiber>(&Counter::Main, &counters[i]);
  }
  for (int round = 0; round < 20; ++round) {
    for (size_t i = 0; i < counters.size(); ++i) {
      // Some fibers run twice.
      counters[i].fiber->Resume();
      if (i % 7 == 0) counters[i].fiber->Resume();
    }
  }
  for (const Counter& counter : counters) {
    ASSERT_EQ(counter.seen.size(), counter.first % 700 == 0 ? 40u : 20u);
    for (size_t i = 0; i < counter.seen.size(); ++i) EXPECT_EQ(counter.seen[i], counter.first + static_cast<int>(i));
  }
}

// A fiber that was never resumed and a fiber in the middle of its work can both be destroyed.
TEST(Fiber, MayEndAnyTime) {
  for (int i = 0; i < 100; ++i) {
    Counter never, once;
    never.fiber = std::make_unique<Fiber>(&Counter::Main, &never);
    once.fiber = std::make_unique<Fiber>(&Counter::Main, &once);
    once.fiber->Resume();
    EXPECT_TRUE(never.seen.empty());
    EXPECT_EQ(once.seen.size(), 1u);
  }
}

// A fiber that runs another fiber.
struct Outer {
  std::unique_ptr<Fiber> fiber;
  Counter inner;

  static void Main(void* argument) {
    auto* outer = static_cast<Outer*>(argument);
    outer->inner.fiber = std::make_unique<Fiber>(&Counter::Main, &outer->inner);
    while (true) {
      outer->inner.fiber->Resume();
      outer->fiber->Yield();
    }
  }
};

TEST(Fiber, Nests) {
  Outer outer;
  outer.fiber = std::make_unique<Fiber>(&Outer::Main, &outer);
  for (int i = 0; i < 10; ++i) outer.fiber->Resume();
  EXPECT_EQ(outer.inner.seen.size(), 10u);
}

}  // namespace
}  // namespace weft::exec::emulation
