// CUDA's model of execution on the host: a grid of blocks of threads, shared memory per block, barriers, warps that
// shuffle. Threads of a block take turns on stacks of their own, in an order that tests can turn around; what a kernel
// computes must not depend on it.
//
// Found and reported as the outcome of the launch: threads that wait at different barriers, or at a barrier that
// others never come to; lanes of a warp that shuffle without the others; shared memory out of range or not aligned;
// accesses of 16 bytes that are not aligned. Shared memory is filled with a pattern that is NaN in every type.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_EMULATION_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_EMULATION_H_

#include <stdint.h>
#include <string.h>

#include "executor/backends/cuda/kernels/types.h"

namespace weft::emulation {

// Ends the launch of the running thread with this as its outcome; does not return.
[[noreturn]] void Fail(const char* what, int64_t value, int64_t limit);

inline void CheckAlignment(const void* p, int64_t alignment) {
  const auto rest = static_cast<int64_t>(reinterpret_cast<uintptr_t>(p) % static_cast<uintptr_t>(alignment));
  if (rest != 0) Fail("an access is not aligned: bytes behind a multiple, of", rest, alignment);
}

template <typename T>
struct SharedArray {
  T* data;
  int64_t elements;
  T& operator[](int64_t i) const {
    if (i < 0 || i >= elements) Fail("shared memory out of range: element, of", i, elements);
    return data[i];
  }
};

// What one thread sees; executor/backends/cuda/kernels/portable.h lists the meaning.
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
  // What all 32 lanes give, in one go: for operations of whole warps that are more than shuffles.
  void Gather(uint64_t own, uint64_t (&of_lanes)[32], const char* file = __builtin_FILE(),
              int line = __builtin_LINE()) const {
    memcpy(of_lanes, ExchangeAll(own, file, line), sizeof(of_lanes));
  }
  template <typename T>
  SharedArray<T> Shared(int64_t first_byte, int64_t elements) const {
    CheckAlignment(reinterpret_cast<const void*>(first_byte), alignof(T));
    return {static_cast<T*>(SharedBytes(first_byte, elements * static_cast<int64_t>(sizeof(T)))), elements};
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
  // Of the 32 lanes, until the next exchange.
  static const uint64_t* ExchangeAll(uint64_t bits, const char* file, int line);
  static void* SharedBytes(int64_t first, int64_t bytes);

  int index_;
  int count_;
  int64_t block_;
  int64_t blocks_;
};

// Runs a grid to its end. `threads` is a multiple of 32, at most 1024.
cuda::Outcome Run(int64_t blocks, int threads, int64_t shared_bytes, void (*body)(const void* kernel, Thread& thread),
                  const void* kernel);

// Of the launches of this host thread from now on: whether blocks and threads take their turns from the last to the
// first.
void SetReversed(bool reversed);

}  // namespace weft::emulation

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_EMULATION_H_
