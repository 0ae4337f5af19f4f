// CUDA's execution model on the host: a grid of blocks of threads, shared memory per block, barriers, and warps whose
// lanes shuffle. The threads of a block take turns, each on its own stack, in an order that tests can reverse. The
// result of a kernel must not depend on the order.
//
// The emulation finds these errors and reports them as the outcome of the launch: threads that wait at different
// barriers, or at a barrier that others never reach; lanes of a warp that shuffle without the others; shared memory out
// of range or not aligned; two threads at the same place of shared memory, one of them writing, without a barrier of
// the block between them; 16-byte accesses that are not aligned. Missing barriers are found whatever the order of
// turns, and even within a warp, whose lanes do not run in lockstep since Volta.
//
// Shared memory is filled with a pattern that is NaN in every type. The destination of an asynchronous copy holds this
// pattern too until the thread waits for the copy. The copy is made only then, from the content of memory at that time.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_EMULATION_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_EMULATION_H_

#include <stdint.h>
#include <string.h>

#include "executor/backends/cuda/kernels/types.h"

namespace weft::exec::emulation {

// Ends the launch of the running thread with this outcome. Does not return.
[[noreturn]] void Fail(const char* what, int64_t value, int64_t limit);

inline void CheckAlignment(const void* p, int64_t alignment) {
  const auto rest = static_cast<int64_t>(reinterpret_cast<uintptr_t>(p) % static_cast<uintptr_t>(alignment));
  if (rest != 0) Fail("an access is not aligned: bytes behind a multiple, of", rest, alignment);
}

// Users of four bytes of shared memory since the last barrier: one thread, kNobody, or for readers kSeveral.
struct SharedUse {
  static constexpr int16_t kNobody = -1, kSeveral = -2;
  uint32_t barrier = 0;
  int16_t writer = kNobody, reader = kNobody;
};

// A part of a block's shared memory. Each thread has its own SharedArray of it.
template <typename T>
class SharedArray {
 public:
  static_assert(sizeof(T) % 4 == 0);
  SharedArray(T* data, int64_t elements, SharedUse* uses, const uint32_t* barrier, int thread)
      : data_(data), elements_(elements), uses_(uses), barrier_(barrier), thread_(static_cast<int16_t>(thread)) {}

  const T& operator[](int64_t i) const {
    Check(i);
    for (SharedUse *use = FirstUse(i), *const end = use + kWords; use < end; ++use) {
      if (use->barrier != *barrier_) {
        *use = {*barrier_, SharedUse::kNobody, thread_};
        continue;
      }
      if (use->writer != thread_ && use->writer != SharedUse::kNobody) FailToShare(i, use->writer);
      if (use->reader != thread_) use->reader = use->reader == SharedUse::kNobody ? thread_ : SharedUse::kSeveral;
    }
    return data_[i];
  }
  void Put(int64_t i, const T& x) const {
    Check(i);
    for (SharedUse *use = FirstUse(i), *const end = use + kWords; use < end; ++use) {
      if (use->barrier != *barrier_) {
        *use = {*barrier_, thread_, SharedUse::kNobody};
        continue;
      }
      if (use->writer != thread_ && use->writer != SharedUse::kNobody) FailToShare(i, use->writer);
      if (use->reader != thread_ && use->reader != SharedUse::kNobody) FailToShare(i, use->reader);
      use->writer = thread_;
    }
    data_[i] = x;
  }

 private:
  static constexpr int64_t kWords = sizeof(T) / 4;

  void Check(int64_t i) const {
    if (i < 0 || i >= elements_) Fail("shared memory out of range: element, of", i, elements_);
  }
  SharedUse* FirstUse(int64_t i) const { return uses_ + i * kWords; }
  [[noreturn]] void FailToShare(int64_t i, int16_t other) const {
    // If there are several others, name this thread.
    Fail("two threads use shared memory without a barrier between them, one to write: element, thread", i,
         other == SharedUse::kSeveral ? thread_ : other);
  }

  T* data_;
  int64_t elements_;
  SharedUse* uses_;
  const uint32_t* barrier_;
  int16_t thread_;
};

// The interface of a kernel's thread. executor/backends/cuda/kernels/portable.h explains the functions.
class Thread {
 public:
  Thread(int index, int count, int64_t block, int64_t blocks)
      : index_(index), count_(count), block_(block), blocks_(blocks) {}

  int index() const { return index_; }
  int count() const { return count_; }
  int lane() const { return index_ % 32; }
  int warp() const { return index_ / 32; }
  int warps() const { return count_ / 32; }
  int64_t block() const { return block_; }
  int64_t blocks() const { return blocks_; }

  void Sync(const char* file = __builtin_FILE(), int line = __builtin_LINE()) const { WaitForBlock(file, line); }
  template <typename T>
  T ShuffleXor(T x, int mask, const char* file = __builtin_FILE(), int line = __builtin_LINE()) const {
    return Exchange(x, (lane() ^ mask) % 32, file, line);
  }
  template <typename T>
  T Shuffle(T x, int lane, const char* file = __builtin_FILE(), int line = __builtin_LINE()) const {
    return Exchange(x, static_cast<unsigned>(lane) % 32u, file, line);
  }
  // Returns the values of all 32 lanes at once, for operations of whole warps beyond shuffles.
  void Gather(uint64_t own, uint64_t (&of_lanes)[32], const char* file = __builtin_FILE(),
              int line = __builtin_LINE()) const {
    memcpy(of_lanes, ExchangeAll(own, file, line), sizeof(of_lanes));
  }
  template <typename T>
  SharedArray<T> Shared(int64_t first_byte, int64_t elements) const {
    CheckAlignment(reinterpret_cast<const void*>(first_byte), alignof(T));
    SharedUse* uses = nullptr;
    const uint32_t* barrier = nullptr;
    void* const data = SharedBytes(first_byte, elements * static_cast<int64_t>(sizeof(T)), uses, barrier);
    return {static_cast<T*>(data), elements, uses, barrier, index_};
  }
  cuda::Words SharedWords(int64_t byte) const {
    CheckAlignment(reinterpret_cast<const void*>(byte), 16);
    return Shared<cuda::Words>(byte, 1)[0];
  }
  void CopyAsync(int64_t byte, const void* from) {
    CheckAlignment(reinterpret_cast<const void*>(byte), 16);
    CheckAlignment(from, 16);
    if (copies_ == kMaxCopies)
      Fail("more asynchronous copies of a thread than the emulation keeps:", copies_ + 1, copies_);
    Shared<cuda::Words>(byte, 1).Put(0, {{kNan, kNan, kNan, kNan}});
    copy_[copies_++] = {byte, from, groups_};
  }
  void EndCopies() { ++groups_; }
  template <int kLast>
  void AwaitCopies() {
    int left = 0;
    for (int i = 0; i < copies_; ++i) {
      if (copy_[i].group + kLast >= groups_) {
        copy_[left++] = copy_[i];
        continue;
      }
      cuda::Words words;
      memcpy(&words, copy_[i].from, sizeof(words));
      Shared<cuda::Words>(copy_[i].byte, 1).Put(0, words);
    }
    copies_ = left;
  }
  int32_t AtomicAdd(int32_t* p, int32_t x) const {
    const int32_t old = *p;
    *p = static_cast<int32_t>(static_cast<uint32_t>(old) + static_cast<uint32_t>(x));
    return old;
  }

 private:
  template <typename T>
  T Exchange(T x, int from, const char* file, int line) const {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8);
    uint64_t bits = 0;
    memcpy(&bits, &x, sizeof(x));
    bits = ExchangeAll(bits, file, line)[from];
    memcpy(&x, &bits, sizeof(x));
    return x;
  }
  static void WaitForBlock(const char* file, int line);
  // Returns the values of the 32 lanes, valid until the next exchange.
  static const uint64_t* ExchangeAll(uint64_t bits, const char* file, int line);
  static void* SharedBytes(int64_t first, int64_t bytes, SharedUse*& uses, const uint32_t*& barrier);

  int index_;
  int count_;
  int64_t block_;
  int64_t blocks_;
  // Copies that the thread has not waited for, and the number of groups of copies that it has ended.
  static constexpr int kMaxCopies = 32;
  static constexpr uint32_t kNan = 0xffffffff;
  struct Copy {
    int64_t byte;
    const void* from;
    int group;
  };
  Copy copy_[kMaxCopies];
  int copies_ = 0;
  int groups_ = 0;
};

// Runs a grid to its end. `threads` must be a multiple of 32, at most 1024.
cuda::Outcome Run(int64_t blocks, int threads, int64_t shared_bytes, void (*body)(const void* kernel, Thread& thread),
                  const void* kernel);

// Sets whether, in launches of this host thread from now on, blocks and threads take their turns from last to first.
void SetReversed(bool reversed);

}  // namespace weft::exec::emulation

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_EMULATION_H_
