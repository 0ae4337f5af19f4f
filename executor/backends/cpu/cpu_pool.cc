#include "executor/backends/cpu/cpu_pool.h"

namespace weft::exec::cpu {
namespace {

constexpr int kSpins = 200;
constexpr int kYields = 100;

inline void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Polls `ready` for some microseconds. Returns false if it does not become true.
template <typename Ready>
bool Poll(Ready ready) {
  for (int i = 0; i < kSpins; ++i) {
    if (ready()) return true;
    Pause();
  }
  for (int i = 0; i < kYields; ++i) {
    if (ready()) return true;
    std::this_thread::yield();
  }
  return ready();
}

}  // namespace

ThreadPool::ThreadPool(int threads) {
  for (int thread = 1; thread < threads; ++thread) workers_.emplace_back([this, thread] { Work(thread); });
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
    epoch_.fetch_add(1, std::memory_order_release);
  }
  wake_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::RunTasks(const Task& task, int64_t count, int thread) {
  for (;;) {
    const int64_t i = next_.fetch_add(1, std::memory_order_relaxed);
    if (i >= count) return;
    task(i, thread);
  }
}

void ThreadPool::Run(int64_t count, Task task) {
  if (workers_.empty() || count <= 1) {
    for (int64_t i = 0; i < count; ++i) task(i, 0);
    return;
  }
  bool wake = false;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    task_ = &task;
    count_ = count;
    next_.store(0, std::memory_order_relaxed);
    epoch_.fetch_add(1, std::memory_order_release);
    wake = sleepers_ > 0;
  }
  if (wake) wake_.notify_all();
  RunTasks(task, count, 0);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    task_ = nullptr;
  }
  const auto idle = [this] { return active_.load(std::memory_order_acquire) == 0; };
  if (Poll(idle)) return;
  std::unique_lock<std::mutex> lock(mutex_);
  done_.wait(lock, idle);
}

void ThreadPool::Work(int thread) {
  uint64_t seen = 0;
  for (;;) {
    const auto changed = [&] { return epoch_.load(std::memory_order_acquire) != seen; };
    const bool polled = Poll(changed);
    std::unique_lock<std::mutex> lock(mutex_);
    if (!polled) {
      ++sleepers_;
      wake_.wait(lock, changed);
      --sleepers_;
    }
    seen = epoch_.load(std::memory_order_relaxed);
    if (stop_) return;
    // The caller may have finished the job alone by now.
    if (task_ == nullptr) continue;
    const Task* task = task_;
    const int64_t count = count_;
    active_.fetch_add(1, std::memory_order_relaxed);
    lock.unlock();
    RunTasks(*task, count, thread);
    lock.lock();
    if (active_.fetch_sub(1, std::memory_order_release) == 1 && task_ == nullptr) done_.notify_one();
  }
}

}  // namespace weft::exec::cpu
