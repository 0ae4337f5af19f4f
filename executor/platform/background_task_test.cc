#include "executor/platform/background_task.h"

#include <atomic>
#include <future>
#include <vector>

#include "gtest/gtest.h"

namespace weft::exec {
namespace {

TEST(BackgroundTask, GoesOnWhileTheCallerDoes) {
  BackgroundTask task;
  EXPECT_TRUE(task.Await().ok()) << "nothing was started";
  std::promise<void> done;
  std::atomic<bool> finished{false};
  ASSERT_TRUE(task.Start([&] {
                    // If Start waited for its own work, this would never return.
                    done.get_future().wait();
                    finished = true;
                    return absl::OkStatus();
                  })
                  .ok());
  EXPECT_FALSE(finished);
  done.set_value();
  EXPECT_TRUE(task.Await().ok());
  EXPECT_TRUE(finished);
}

TEST(BackgroundTask, OneAfterTheOther) {
  std::vector<int> order;
  {
    BackgroundTask task;
    for (int i = 0; i < 100; ++i) {
      ASSERT_TRUE(task.Start([&order, i] {
                        order.push_back(i);
                        return absl::OkStatus();
                      })
                      .ok());
    }
  }
  // All work has run, including the last, for which nobody has waited.
  ASSERT_EQ(order.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[i], i);
}

TEST(BackgroundTask, AnErrorIsToldAndEndsIt) {
  BackgroundTask task;
  ASSERT_TRUE(task.Start([] { return absl::InternalError("no copy"); }).ok());
  bool done = false;
  for (int time = 0; time < 2; ++time) {
    const absl::Status status = task.Start([&done] {
      done = true;
      return absl::OkStatus();
    });
    EXPECT_EQ(status.message(), "no copy");
    EXPECT_EQ(task.Await().message(), "no copy");
  }
  EXPECT_FALSE(done);
}

}  // namespace
}  // namespace weft::exec
