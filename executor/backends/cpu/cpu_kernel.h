// Code shared by the CPU kernels: the call, typed access to tensors, scratch memory. Internal to the CPU backend.
//
// A kernel computes in T: double if one of its floating-point inputs is FP64, else float. A tensor stored as T is used
// in place. Any other tensor is converted one chunk at a time, through a buffer that fits in cache.
#ifndef WEFT_EXECUTOR_BACKENDS_CPU_CPU_KERNEL_H_
#define WEFT_EXECUTOR_BACKENDS_CPU_CPU_KERNEL_H_

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "executor/backends/cpu/cpu_loops.h"
#include "executor/backends/cpu/cpu_pool.h"
#include "executor/interface/backend.h"
#include "executor/interface/step_tensors.h"
#include "proto/program.pb.h"

namespace weft::exec::cpu {

static_assert(static_cast<int>(Storage::kFp64) == FP64 && static_cast<int>(Storage::kFp32) == FP32 &&
              static_cast<int>(Storage::kBf16) == BF16 && static_cast<int>(Storage::kFp16) == FP16);

// Memory that grows to the largest request and is then reused, so that nothing is allocated after the first steps.
class Scratch {
 public:
  // Returns at least `bytes` bytes, aligned to 64. The previous content is lost.
  void* Get(int64_t bytes) {
    if (bytes > size_) {
      const int64_t rounded = (bytes + 4095) / 4096 * 4096;
      memory_.reset();
      memory_.reset(std::aligned_alloc(64, rounded));
      size_ = rounded;
    }
    return memory_.get();
  }
  template <typename T>
  T* Get(int64_t elements) {
    return static_cast<T*>(Get(elements * static_cast<int64_t>(sizeof(T))));
  }

 private:
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  std::unique_ptr<void, Free> memory_;
  int64_t size_ = 0;
};

// Identifies the table of angles that the last ROPE made: bytes per element, then the attributes of the step.
struct RopeKey {
  size_t element = 0;
  int64_t sequence = 0, head_size = 0;
  double base = 0, factor = 0, ramp_low = 0, ramp_high = 0, ramp_positions = 0, magnitude = 0;

  bool operator==(const RopeKey&) const = default;
};

// Threads, inner loops and scratch memory of a CPU backend. Lives as long as the backend.
struct Workspace {
  explicit Workspace(int threads, const LoopTable& table) : pool(threads), loops(table), thread(threads) {}

  ThreadPool pool;
  const LoopTable& loops;
  // Scratch memory that all threads of a kernel share.
  Scratch shared;
  // Scratch memory of each thread of the pool.
  std::vector<Scratch> thread;
  // Angles of the last ROPE step. They are kept because all ROPE steps of a model use the same angles.
  Scratch rope;
  RopeKey rope_key;
};

struct Call {
  const Step& step;
  absl::Span<const TensorView> in;
  absl::Span<const TensorView> out;
  const StepContext& context;
  Workspace& workspace;

  const StepAttributes& attributes() const { return step.attributes(); }
  ThreadPool& pool() const { return workspace.pool; }
};

template <typename T>
const Loops<T>& GetLoops(const Call& call) {
  if constexpr (std::is_same_v<T, float>) {
    return call.workspace.loops.fp32;
  } else {
    return call.workspace.loops.fp64;
  }
}

inline int64_t ElementBytes(DType dtype) {
  return dtype == FP64 ? 8 : dtype == BF16 || dtype == FP16 ? 2 : dtype == UINT8 ? 1 : 4;
}
inline Storage StorageOf(const TensorView& view) { return static_cast<Storage>(view.dtype); }
inline char* At(const TensorView& view, int64_t element) {
  return static_cast<char*>(view.data) + element * ElementBytes(view.dtype);
}

// True if the kernel computes in double, that is, if one of these inputs is FP64.
inline bool ComputesInDouble(absl::Span<const TensorView> inputs) {
  return std::any_of(inputs.begin(), inputs.end(), [](const TensorView& view) { return view.dtype == FP64; });
}

// Calls f.template operator()<T>() with the type to compute in.
template <typename F>
void WithComputeType(absl::Span<const TensorView> inputs, F f) {
  if (ComputesInDouble(inputs)) {
    f.template operator()<double>();
  } else {
    f.template operator()<float>();
  }
}

// Returns elements [first, first + n) of a tensor for reading: in place if stored as T, else converted into `buffer`.
template <typename T>
const T* Read(const Call& call, const TensorView& view, int64_t first, int64_t n, T* buffer) {
  if (view.dtype == (sizeof(T) == 8 ? FP64 : FP32)) return reinterpret_cast<const T*>(At(view, first));
  GetLoops<T>(call).load(At(view, first), StorageOf(view), n, buffer);
  return buffer;
}

// Returns where to compute the elements that Write stores: in place if possible, else `buffer`.
template <typename T>
T* Target(const TensorView& view, int64_t first, bool accumulate, T* buffer) {
  if (!accumulate && view.dtype == (sizeof(T) == 8 ? FP64 : FP32)) return reinterpret_cast<T*>(At(view, first));
  return buffer;
}

// Stores the n elements that were computed at Target. With `accumulate`, adds them to the old elements and rounds once.
template <typename T>
void Write(const Call& call, const TensorView& view, int64_t first, int64_t n, bool accumulate, T* computed) {
  const Loops<T>& loops = GetLoops<T>(call);
  const bool same = view.dtype == (sizeof(T) == 8 ? FP64 : FP32);
  if (same) {
    if (accumulate) loops.accumulate(computed, n, reinterpret_cast<T*>(At(view, first)));
    return;
  }
  if (accumulate) {
    constexpr int64_t kBlock = 512;
    T old[kBlock];
    for (int64_t i = 0; i < n; i += kBlock) {
      const int64_t count = std::min(kBlock, n - i);
      loops.load(At(view, first + i), StorageOf(view), count, old);
      loops.add(old, computed + i, count, old);
      loops.store(old, StorageOf(view), count, At(view, first + i));
    }
    return;
  }
  loops.store(computed, StorageOf(view), n, At(view, first));
}

// Elements that elementwise kernels handle at a time. Buffers of this size live on the stack.
inline constexpr int64_t kChunk = 1024;

// Calls f(first, count) for chunks of at most kChunk elements that cover [0, n), in parallel.
template <typename F>
void ForChunks(const Call& call, int64_t n, F f) {
  constexpr int64_t kTask = 16 * kChunk;
  call.pool().Run((n + kTask - 1) / kTask, [&](int64_t task, int) {
    const int64_t end = std::min(n, (task + 1) * kTask);
    for (int64_t first = task * kTask; first < end; first += kChunk) f(first, std::min(kChunk, end - first));
  });
}

// Calls f(row, thread) for every row, in parallel. If rows are short, a task takes several of them.
template <typename F>
void ForRows(const Call& call, int64_t rows, int64_t columns, F f) {
  const int64_t per_task = std::max<int64_t>(1, 8192 / std::max<int64_t>(columns, 1));
  call.pool().Run((rows + per_task - 1) / per_task, [&](int64_t task, int thread) {
    const int64_t end = std::min(rows, (task + 1) * per_task);
    for (int64_t row = task * per_task; row < end; ++row) f(row, thread);
  });
}

// Declares the functions of the kernels (docs/kernels.md).
using KernelFunction = absl::Status(const Call& call);
#define KERNEL(kernel, function) KernelFunction function;
#include "executor/backends/cpu/cpu_kernels.def"
#undef KERNEL
KernelFunction RunPointwise;

// Returns null if this backend has no such kernel. GROUP_* are collectives, which no backend runs.
KernelFunction* FindKernel(Kernel kernel);

}  // namespace weft::exec::cpu

#endif  // WEFT_EXECUTOR_BACKENDS_CPU_CPU_KERNEL_H_
