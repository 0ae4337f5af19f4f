// Eight elements of a thread as two fours that are far apart. If a thread has eight fp32 elements in a row, each access
// of a warp touches every other 16 bytes, half of each sector of 32 bytes, and stores then run at less than half the
// speed of memory. With fours, neighboring threads access neighboring 16 bytes (8 bytes of bf16 and fp16).
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_FOURS_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_FOURS_H_

#include "executor/backends/cuda/kernels/access.h"

namespace weft::exec::cuda {

inline constexpr int kFour = kBlock / 2;

// The first elements of both fours.
struct FourPlaces {
  int64_t first[2];
};

// Returns the fours of thread `index` of `threads`, which together handle 8 * threads elements from `begin` on.
WEFT_DEVICE FourPlaces FoursOf(int64_t begin, int index, int threads) {
  return {{begin + index * kFour, begin + (index + threads) * kFour}};
}

// Eight elements as they lie in memory. S is fp32, bf16 or fp16.
template <Type S>
struct Fours {
  static constexpr int kSize = S == Type::kFp32 ? 4 : 2;
  static constexpr int kWords = kFour * kSize / 4;
  uint32_t words[2][kWords];

  WEFT_DEVICE void Ask(const Array& array, const FourPlaces& places) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const char* const from = static_cast<const char*>(array.data) + places.first[h] * kSize;
      if constexpr (S == Type::kFp32) {
        const Words four = LoadWords(from);
#pragma unroll
        for (int i = 0; i < kWords; ++i) words[h][i] = four.word[i];
      } else {
        LoadPair(from, words[h]);
      }
    }
  }

  template <typename C>
  WEFT_DEVICE void Get(C (&x)[kBlock]) const {
#pragma unroll
    for (int i = 0; i < kBlock; ++i) {
      const int h = i / kFour, e = i % kFour;
      if constexpr (S == Type::kFp32) {
        x[i] = static_cast<C>(FloatOfBits(words[h][e]));
      } else {
        using Half = std::conditional_t<S == Type::kBf16, Bf16, Fp16>;
        const uint32_t word = words[h][e / 2];
        x[i] = static_cast<C>(ToFloat(Half{static_cast<uint16_t>(e % 2 == 0 ? word : word >> 16)}));
      }
    }
  }
};

template <Type S, typename C>
WEFT_DEVICE void StoreFours(const Array& array, const FourPlaces& places, const C (&x)[kBlock]) {
  constexpr int kSize = Fours<S>::kSize;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    char* const to = static_cast<char*>(array.data) + places.first[h] * kSize;
    const C* const four = x + h * kFour;
    if constexpr (S == Type::kFp32) {
      Words words;
#pragma unroll
      for (int i = 0; i < kFour; ++i) words.word[i] = BitsOfFloat(static_cast<float>(four[i]));
      StoreWords(to, words);
    } else {
      const uint32_t pair[2] = {HalvesOf<S>(four[0], four[1]), HalvesOf<S>(four[2], four[3])};
      StorePair(to, pair);
    }
  }
}

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_FOURS_H_
