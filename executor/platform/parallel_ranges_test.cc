#include "executor/platform/parallel_ranges.h"

#include <atomic>
#include <numeric>

#include "gtest/gtest.h"

namespace weft::exec {
namespace {

TEST(ParallelRanges, EveryElementOnce) {
  for (const int64_t count : {0, 1, 7, 100, 1000}) {
    for (const int64_t least : {0, 1, 9, 5000}) {
      for (const int64_t most : {0, 1, 3, 64}) {
        std::vector<std::atomic<int>> times(count);
        std::atomic<int> calls{0};
        ParallelRanges(
            count, least,
            [&](int64_t first, int64_t last) {
              ++calls;
              for (int64_t i = first; i < last; ++i) ++times[i];
            },
            most);
        for (const auto& n : times) EXPECT_EQ(n, 1);
        EXPECT_LE(calls, std::max<int64_t>(1, count / std::max<int64_t>(1, least)));
        if (most > 0) {
          EXPECT_LE(calls, most);
        }
      }
    }
  }
}

}  // namespace
}  // namespace weft::exec
