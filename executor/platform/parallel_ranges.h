// A loop over independent elements on all cores of the machine, for work that is done once before a run.
#ifndef WEFT_EXECUTOR_PLATFORM_PARALLEL_RANGES_H_
#define WEFT_EXECUTOR_PLATFORM_PARALLEL_RANGES_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace weft::exec {

// Calls `body(first, last)` for ranges that together are [0, count), on at most `most` threads (0 = one thread per
// core). No range has fewer than `least` elements unless it is the only one. What `body` computes must not depend on
// how the range is cut.
inline void ParallelRanges(int64_t count, int64_t least, const std::function<void(int64_t, int64_t)>& body,
                           int64_t most = 0) {
  const int64_t cores = most > 0 ? most : std::max<int64_t>(1, std::thread::hardware_concurrency());
  const int64_t parts = std::clamp<int64_t>(count / std::max<int64_t>(1, least), 1, cores);
  const auto edge = [&](int64_t part) { return count / parts * part + std::min(part, count % parts); };
  std::vector<std::thread> threads;
  for (int64_t part = 1; part < parts; ++part) threads.emplace_back(body, edge(part), edge(part + 1));
  body(0, edge(1));
  for (std::thread& thread : threads) thread.join();
}

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_PLATFORM_PARALLEL_RANGES_H_
