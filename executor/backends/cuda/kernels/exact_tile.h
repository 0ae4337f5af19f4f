// Moves exact accumulators through shared memory. An accumulator has 24 bytes. If each thread read its own, every
// access would touch all sectors of a warp's 768 bytes and use at most a third of them.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_EXACT_TILE_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_EXACT_TILE_H_

#include "executor/backends/cuda/kernels/portable.h"
#include "executor/numerics/exact192_limbs.h"

namespace weft::exec::cuda {

// Up to kElements neighboring accumulators of a block of kThreads threads. Thread t takes those at t and t + kThreads.
struct ExactTile {
  static constexpr int kThreads = 256, kEach = 2, kElements = kEach * kThreads;
  static constexpr int kLimbs = 3 * kElements, kWords = kLimbs / 2 / kThreads;
  static constexpr int64_t kBytes = int64_t{8} * kLimbs;

  // Number of accumulators in the tile: kElements, or fewer at the end of an array. `aligned` is true if they are
  // aligned to 16 bytes.
  int64_t count = 0;
  bool aligned = false;
  Words words[kWords];

  WEFT_DEVICE bool Whole() const { return aligned && count == kElements; }

  // Loads the words that Put then writes to shared memory. Put must not run while a thread still uses that memory.
  template <typename Thread>
  WEFT_DEVICE void Ask(const Thread& thread, const Exact192* from) {
    if (!Whole()) return;
#pragma unroll
    for (int k = 0; k < kWords; ++k) {
      words[k] = LoadWords(reinterpret_cast<const char*>(from) + int64_t{16} * (thread.index() + k * kThreads));
    }
  }
  template <typename Thread, typename Limbs>
  WEFT_DEVICE void Put(const Thread& thread, const Exact192* from, const Limbs& limbs) const {
    if (Whole()) {
#pragma unroll
      for (int k = 0; k < kWords; ++k) {
        const uint32_t* const word = words[k].word;
        const int place = 2 * (thread.index() + k * kThreads);
        limbs.Put(place, word[0] | uint64_t{word[1]} << 32);
        limbs.Put(place + 1, word[2] | uint64_t{word[3]} << 32);
      }
      return;
    }
    for (int64_t l = thread.index(); l < 3 * count; l += kThreads) limbs.Put(l, from[l / 3].limb[l % 3]);
  }
  // Stores the tile from shared memory to `to`.
  template <typename Thread, typename Limbs>
  WEFT_DEVICE void Store(const Thread& thread, const Limbs& limbs, Exact192* to) const {
    if (Whole()) {
#pragma unroll
      for (int k = 0; k < kWords; ++k) {
        const int w = thread.index() + k * kThreads;
        const uint64_t low = limbs[2 * w], high = limbs[2 * w + 1];
        StoreWords(reinterpret_cast<char*>(to) + int64_t{16} * w,
                   {{static_cast<uint32_t>(low), static_cast<uint32_t>(low >> 32), static_cast<uint32_t>(high),
                     static_cast<uint32_t>(high >> 32)}});
      }
      return;
    }
    for (int64_t l = thread.index(); l < 3 * count; l += kThreads) to[l / 3].limb[l % 3] = limbs[l];
  }
};

template <typename Limbs>
WEFT_DEVICE Exact192 ExactAt(const Limbs& limbs, int element) {
  return {{limbs[3 * element], limbs[3 * element + 1], limbs[3 * element + 2]}};
}
template <typename Limbs>
WEFT_DEVICE void SetExact(const Limbs& limbs, int element, const Exact192& value) {
#pragma unroll
  for (int i = 0; i < 3; ++i) limbs.Put(3 * element + i, value.limb[i]);
}

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_EXACT_TILE_H_
