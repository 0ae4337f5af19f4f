#include "executor/backends/cpu/cpu_pool.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace weft::exec::cpu {
namespace {

TEST(ThreadPool, RunsEveryTaskOnce) {
  for (int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (int64_t count : {0, 1, 2, 7, 100}) {
      for (int repeat = 0; repeat < 50; ++repeat) {
        std::vector<std::atomic<int>> runs(count);
        pool.Run(count, [&](int64_t task, int thread) {
          ASSERT_LT(thread, threads);
          runs[task].fetch_add(1);
        });
        for (const auto& run : runs) ASSERT_EQ(run.load(), 1);
      }
    }
  }
}

TEST(ThreadPool, AThreadNumberIsNeverSharedByTwoCalls) {
  ThreadPool pool(4);
  std::vector<std::atomic<int>> inside(4);
  std::atomic<bool> shared{false};
  pool.Run(200, [&](int64_t, int thread) {
    if (inside[thread].fetch_add(1) != 0) shared = true;
    std::this_thread::yield();
    inside[thread].fetch_sub(1);
  });
  EXPECT_FALSE(shared);
}

TEST(ThreadPool, WakesAfterSleep) {
  ThreadPool pool(3);
  for (int repeat = 0; repeat < 5; ++repeat) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::atomic<int> sum{0};
    pool.Run(10, [&](int64_t task, int) { sum += static_cast<int>(task); });
    EXPECT_EQ(sum.load(), 45);
  }
}

// Four ranks with two threads each all make progress, however few cores the machine has.
TEST(ThreadPool, ManyPoolsShareTheMachine) {
  std::vector<std::thread> ranks;
  std::atomic<int64_t> total{0};
  for (int rank = 0; rank < 4; ++rank) {
    ranks.emplace_back([&] {
      ThreadPool pool(2);
      for (int repeat = 0; repeat < 200; ++repeat) {
        pool.Run(4, [&](int64_t, int) { total.fetch_add(1); });
      }
    });
  }
  for (std::thread& rank : ranks) rank.join();
  EXPECT_EQ(total.load(), 4 * 200 * 4);
}

}  // namespace
}  // namespace weft::exec::cpu
