#include "executor/backends/cuda/kernels/emulation.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "executor/backends/cuda/kernels/fiber.h"

namespace weft::exec::emulation {
namespace {

constexpr int kWarp = 32;
constexpr int kMaxThreads = 1024;
// Largest shared memory of a block on devices of compute capability 8.0, the lowest that weft compiles for.
constexpr int64_t kMaxShared = int64_t{163} << 10;

struct Site {
  const char* file = nullptr;
  int line = 0;
  bool operator==(const Site& other) const {
    return line == other.line && (file == other.file || std::strcmp(file, other.file) == 0);
  }
};

enum class State { kNotStarted, kReady, kAtBarrier, kInWarp, kDone };

struct ThreadState {
  State state = State::kNotStarted;
  Site site;
  // The fiber that runs the thread.
  int fiber = -1;
  uint64_t given = 0;
};

struct WarpState {
  int waiting = 0;
  // Values that the lanes gave to the last completed exchange.
  uint64_t exchanged[kWarp];
};

// Runs all launches of one host thread, one after the other. A fiber runs a thread of the block until the thread ends
// or has to wait. When a thread ends, its fiber goes on with the next thread that has not started.
class Machine {
 public:
  cuda::Outcome Run(int64_t blocks, int threads, int64_t shared_bytes, void (*body)(const void*, Thread&),
                    const void* kernel);
  void WaitForBlock(Site site);
  const uint64_t* Exchange(uint64_t bits, Site site);
  void* SharedBytes(int64_t first, int64_t bytes, SharedUse*& uses, const uint32_t*& barrier);
  // Formats like printf. Fail does not return, so objects on the caller's stack are never destroyed; the caller must
  // have no objects there that need it.
  [[noreturn]] __attribute__((format(printf, 2, 3))) void Fail(const char* format, ...);

  bool running = false;
  bool reversed = false;

 private:
  struct Worker {
    Machine* machine;
    int number;
    std::unique_ptr<Fiber> fiber;
    // The thread of the block that this worker runs; -1 = none.
    int thread = -1;
  };

  static void WorkerMain(void* argument);
  int InOrder(int i) const { return reversed ? threads_ - 1 - i : i; }
  bool RunBlock();
  int IdleWorker();
  // Suspends the running thread until it is ready again.
  void Pause(State state, Site site);
  void DescribeStuck();

  int64_t blocks_ = 0;
  int threads_ = 0;
  int64_t shared_bytes_ = 0;
  void (*body_)(const void*, Thread&) = nullptr;
  const void* kernel_ = nullptr;

  int64_t block_ = 0;
  std::vector<ThreadState> states_;
  std::vector<WarpState> warps_;
  std::vector<uint64_t> shared_;
  // One use per four bytes of shared memory, and the number of barriers so far. This number is never reset, so uses
  // before the last barrier do not count.
  std::vector<SharedUse> uses_;
  uint32_t barrier_ = 0;
  std::vector<std::unique_ptr<Worker>> workers_;
  // Threads from here on, in the order of turns, have not started yet.
  int next_ = 0;
  int at_barrier_ = 0;
  int done_ = 0;
  int current_ = -1;
  bool failed_ = false;
  char message_[1024] = {};
};

Machine& ThisThread() {
  thread_local Machine machine;
  return machine;
}

void Machine::WorkerMain(void* argument) {
  auto* worker = static_cast<Worker*>(argument);
  Machine& m = *worker->machine;
  while (true) {
    while (m.next_ < m.threads_) {
      const int index = m.InOrder(m.next_++);
      worker->thread = index;
      m.current_ = index;
      m.states_[index].fiber = worker->number;
      Thread thread(index, m.threads_, m.block_, m.blocks_);
      m.body_(m.kernel_, thread);
      m.states_[index].state = State::kDone;
      ++m.done_;
    }
    worker->thread = -1;
    worker->fiber->Yield();
  }
}

int Machine::IdleWorker() {
  for (const auto& worker : workers_) {
    if (worker->thread < 0) return worker->number;
  }
  auto worker = std::make_unique<Worker>();
  worker->machine = this;
  worker->number = static_cast<int>(workers_.size());
  worker->fiber = std::make_unique<Fiber>(&Machine::WorkerMain, worker.get());
  workers_.push_back(std::move(worker));
  return workers_.back()->number;
}

void Machine::DescribeStuck() {
  const ThreadState* first = nullptr;
  int index = 0, waiting = 0;
  for (int i = 0; i < threads_; ++i) {
    if (states_[i].state != State::kAtBarrier && states_[i].state != State::kInWarp) continue;
    ++waiting;
    if (first == nullptr) {
      first = &states_[i];
      index = i;
    }
  }
  std::snprintf(
      message_, sizeof(message_),
      "threads wait for others that do not come: thread %d of block %lld at %s:%d; %d wait, %d of %d are done", index,
      static_cast<long long>(block_), first->site.file, first->site.line, waiting, done_, threads_);
}

bool Machine::RunBlock() {
  states_.assign(threads_, {});
  warps_.assign(threads_ / kWarp, {});
  shared_.assign(shared_.size(), ~uint64_t{0});
  next_ = at_barrier_ = done_ = 0;
  ++barrier_;
  while (done_ < threads_) {
    // First start all threads, then resume the ready ones in turn.
    while (next_ < threads_ && !failed_) workers_[IdleWorker()]->fiber->Resume();
    bool progress = false;
    for (int i = 0; i < threads_ && !failed_; ++i) {
      const int index = InOrder(i);
      if (states_[index].state != State::kReady) continue;
      progress = true;
      current_ = index;
      workers_[states_[index].fiber]->fiber->Resume();
    }
    if (failed_) return false;
    if (!progress && done_ < threads_) {
      DescribeStuck();
      failed_ = true;
      return false;
    }
  }
  return true;
}

cuda::Outcome Machine::Run(int64_t blocks, int threads, int64_t shared_bytes, void (*body)(const void*, Thread&),
                           const void* kernel) {
  if (threads < kWarp || threads > kMaxThreads || threads % kWarp != 0) return "a block is up to 32 whole warps";
  if (shared_bytes < 0 || shared_bytes > kMaxShared) return "a block has at most 163 KiB of shared memory";
  running = true;
  blocks_ = blocks;
  threads_ = threads;
  shared_bytes_ = shared_bytes;
  body_ = body;
  kernel_ = kernel;
  failed_ = false;
  // Allocates only the bytes that the launch requests, so that no access beyond the end counts as shared memory.
  shared_.assign((shared_bytes + 7) / 8, 0);
  uses_.assign(2 * shared_.size(), {});
  for (int64_t i = 0; i < blocks && !failed_; ++i) {
    block_ = reversed ? blocks - 1 - i : i;
    RunBlock();
  }
  running = false;
  if (!failed_) return nullptr;
  // Threads that stopped halfway are not resumed.
  workers_.clear();
  return message_;
}

void Machine::Pause(State state, Site site) {
  const int index = current_;
  states_[index].state = state;
  states_[index].site = site;
  workers_[states_[index].fiber]->fiber->Yield();
  // The thread runs again. The code that resumed it has made it the current thread.
  states_[index].state = State::kReady;
}

void Machine::WaitForBlock(Site site) {
  const int index = current_;
  if (at_barrier_ > 0) {
    for (int i = 0; i < threads_; ++i) {
      if (states_[i].state == State::kAtBarrier && !(states_[i].site == site)) {
        Fail("threads of a block wait at different barriers: thread %d of block %lld at %s:%d, thread %d at %s:%d",
             index, static_cast<long long>(block_), site.file, site.line, i, states_[i].site.file,
             states_[i].site.line);
      }
      if (states_[i].state == State::kAtBarrier) break;
    }
  }
  if (++at_barrier_ < threads_) return Pause(State::kAtBarrier, site);
  at_barrier_ = 0;
  ++barrier_;
  for (ThreadState& thread : states_) thread.state = State::kReady;
}

const uint64_t* Machine::Exchange(uint64_t bits, Site site) {
  const int index = current_, first = index / kWarp * kWarp;
  WarpState& warp = warps_[index / kWarp];
  if (warp.waiting > 0) {
    for (int i = first; i < first + kWarp; ++i) {
      if (states_[i].state == State::kInWarp && !(states_[i].site == site)) {
        Fail("lanes of a warp shuffle at different places: thread %d of block %lld at %s:%d, thread %d at %s:%d", index,
             static_cast<long long>(block_), site.file, site.line, i, states_[i].site.file, states_[i].site.line);
      }
    }
  }
  states_[index].given = bits;
  if (++warp.waiting < kWarp) {
    Pause(State::kInWarp, site);
  } else {
    warp.waiting = 0;
    for (int i = 0; i < kWarp; ++i) {
      warp.exchanged[i] = states_[first + i].given;
      states_[first + i].state = State::kReady;
    }
  }
  return warp.exchanged;
}

void* Machine::SharedBytes(int64_t first, int64_t bytes, SharedUse*& uses, const uint32_t*& barrier) {
  if (first < 0 || bytes < 0 || first > shared_bytes_ - bytes) {
    Fail("shared memory out of range: bytes %lld to %lld of %lld", static_cast<long long>(first),
         static_cast<long long>(first + bytes), static_cast<long long>(shared_bytes_));
  }
  uses = uses_.data() + first / 4;
  barrier = &barrier_;
  return reinterpret_cast<char*>(shared_.data()) + first;
}

void Machine::Fail(const char* format, ...) {
  char text[sizeof(message_)];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  // Outside a launch nobody receives the error.
  if (!running) {
    std::fprintf(stderr, "%s\n", text);
    std::abort();
  }
  if (!failed_) std::memcpy(message_, text, sizeof(text));
  failed_ = true;
  while (true) workers_[states_[current_].fiber]->fiber->Yield();
}

}  // namespace

void Fail(const char* what, int64_t value, int64_t limit) {
  ThisThread().Fail("%s: %lld, %lld", what, static_cast<long long>(value), static_cast<long long>(limit));
}

void Thread::WaitForBlock(const char* file, int line) { ThisThread().WaitForBlock({file, line}); }

const uint64_t* Thread::ExchangeAll(uint64_t bits, const char* file, int line) {
  return ThisThread().Exchange(bits, {file, line});
}

void* Thread::SharedBytes(int64_t first, int64_t bytes, SharedUse*& uses, const uint32_t*& barrier) {
  return ThisThread().SharedBytes(first, bytes, uses, barrier);
}

cuda::Outcome Run(int64_t blocks, int threads, int64_t shared_bytes, void (*body)(const void* kernel, Thread& thread),
                  const void* kernel) {
  return ThisThread().Run(blocks, threads, shared_bytes, body, kernel);
}

void SetReversed(bool reversed) { ThisThread().reversed = reversed; }

}  // namespace weft::exec::emulation
