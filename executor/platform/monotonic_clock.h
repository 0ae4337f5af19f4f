#ifndef WEFT_EXECUTOR_PLATFORM_MONOTONIC_CLOCK_H_
#define WEFT_EXECUTOR_PLATFORM_MONOTONIC_CLOCK_H_

#include <chrono>
#include <cstdint>

namespace weft::exec {

// Monotonic clock of this machine, in nanoseconds.
inline int64_t MonotonicNanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_PLATFORM_MONOTONIC_CLOCK_H_
