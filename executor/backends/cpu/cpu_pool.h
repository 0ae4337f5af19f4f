// A small persistent thread pool for the kernels of one rank.
#ifndef WEFT_EXECUTOR_BACKENDS_CPU_CPU_POOL_H_
#define WEFT_EXECUTOR_BACKENDS_CPU_CPU_POOL_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"

namespace weft::exec::cpu {

// Splits tasks over the caller and threads - 1 workers. Timing decides which thread runs a task, so tasks must write
// disjoint memory and must not depend on each other. Results then do not depend on the number of threads.
//
// Idle workers spin briefly (kernels follow each other within microseconds), then yield, then sleep, because several
// ranks often share the same few cores. A worker that wakes up late never delays the caller.
class ThreadPool {
 public:
  using Task = absl::FunctionRef<void(int64_t task, int thread)>;

  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls task(i, thread) once for every i in [0, count) and returns when all calls are done. `thread` is in [0,
  // threads()), and no two calls with the same thread run at once. Not reentrant.
  void Run(int64_t count, Task task);

 private:
  void Work(int thread);
  void RunTasks(const Task& task, int64_t count, int thread);

  std::vector<std::thread> workers_;

  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable done_;
  // Guarded by mutex_. task_ is the current job, which workers may join; it is null if there is none.
  const Task* task_ = nullptr;
  int64_t count_ = 0;
  bool stop_ = false;
  int sleepers_ = 0;
  // epoch_ and active_ change under mutex_ and are polled without it. Threads take the next task from next_ without
  // mutex_.
  std::atomic<uint64_t> epoch_{0};
  std::atomic<int> active_{0};
  std::atomic<int64_t> next_{0};
};

}  // namespace weft::exec::cpu

#endif  // WEFT_EXECUTOR_BACKENDS_CPU_CPU_POOL_H_
