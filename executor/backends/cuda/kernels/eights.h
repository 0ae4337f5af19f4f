// Eight elements at a time, loaded before any of them is needed.
//
// If a load is in the same branch as the conversion of its elements, the thread waits for it there. The thread would
// then have only sixteen bytes in flight, too few to keep memory busy (docs/gpu-kernels.md). So kernels first load
// everything that they know they need (Ask), and only then read numbers from it (Get).
//
// S says how the arrays of a launch are stored and divided: a type that all of them share, with rows of whole eights;
// or Type::kNone for everything else, where an eight is loaded and converted at once, as in access.h.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_EIGHTS_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_EIGHTS_H_

#include "executor/backends/cuda/kernels/access.h"

namespace weft::exec::cuda {

// Eight elements as they lie in memory.
template <typename C, Type S>
struct Eight {
  Words words[S == Type::kFp32 ? 2 : 1];

  // Loads eight elements from `first` on if `count` > 0; all eight are then in the row. Otherwise none is in the row,
  // and all become zeros.
  WEFT_DEVICE void Ask(const Array& array, int64_t first, int64_t count, bool /*aligned*/) {
    constexpr int kSize = S == Type::kFp32 ? 4 : 2;
    const char* from = static_cast<const char*>(array.data) + first * kSize;
    if (count > 0) {
      words[0] = LoadWords(from);
      if constexpr (S == Type::kFp32) words[1] = LoadWords(from + 16);
    } else {
      *this = {};
    }
  }

  WEFT_DEVICE void Get(C (&x)[kBlock]) const {
    if constexpr (S == Type::kFp32) {
#pragma unroll
      for (int i = 0; i < kBlock; ++i) x[i] = static_cast<C>(FloatOfBits(words[i / 4].word[i % 4]));
    } else {
      using Half = std::conditional_t<S == Type::kBf16, Bf16, Fp16>;
#pragma unroll
      for (int i = 0; i < kBlock; ++i) {
        const uint32_t word = words[0].word[i / 2];
        x[i] = static_cast<C>(ToFloat(Half{static_cast<uint16_t>(i % 2 == 0 ? word : word >> 16)}));
      }
    }
  }

  // Sets the elements to x, as they would be stored in `array`.
  WEFT_DEVICE void Set(const Array& /*array*/, const C (&x)[kBlock]) {
    if constexpr (S == Type::kFp32) {
#pragma unroll
      for (int i = 0; i < kBlock; ++i) words[i / 4].word[i % 4] = BitsOfFloat(static_cast<float>(x[i]));
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) words[0].word[i] = HalvesOf<S>(x[2 * i], x[2 * i + 1]);
    }
  }

  // Hides the words from the compiler. Otherwise it keeps the converted numbers in registers, which takes more
  // registers than the words.
  WEFT_DEVICE void Pack() {
#pragma unroll
    for (Words& w : words) {
#pragma unroll
      for (uint32_t& word : w.word) Opaque(word);
    }
  }
};

template <typename C>
struct Eight<C, Type::kNone> {
  C x[kBlock];

  WEFT_DEVICE void Ask(const Array& array, int64_t first, int64_t count, bool aligned) {
    LoadSome<C>(array, first, count, aligned, x);
  }
  WEFT_DEVICE void Get(C (&y)[kBlock]) const {
#pragma unroll
    for (int i = 0; i < kBlock; ++i) y[i] = x[i];
  }
  WEFT_DEVICE void Set(const Array& array, const C (&y)[kBlock]) {
#pragma unroll
    for (int i = 0; i < kBlock; ++i) x[i] = AsStored(array.type, y[i]);
  }
  WEFT_DEVICE void Pack() {}
};

// True if element i of an eight is in the row, which has `count` elements left.
template <Type S>
WEFT_DEVICE bool InRow(int i, int64_t count) {
  return (S == Type::kNone ? i : 0) < count;
}

// Stores the elements of the eight that are in the row.
template <typename C, Type S>
WEFT_DEVICE void StoreEight(const Array& array, int64_t first, int64_t count, bool aligned, const C (&x)[kBlock]) {
  if constexpr (S == Type::kNone) {
    StoreSome<C>(array, first, count, aligned, x);
  } else if (count > 0) {
    StoreBlock<C, S>(array, first, x);
  }
}

// Returns element i of an array of statistics (mean, rstd, ...). The array is fp32 if the launch has one storage type
// S.
template <typename C, Type S>
WEFT_DEVICE C Statistic(const Array& array, int64_t i) {
  return Load < C, S == Type::kNone ? Type::kNone : Type::kFp32 > (array, i);
}

// Calls f.template operator()<C, S>() on the host, with the compute type and the storage type of the launch. `whole` is
// true if rows are whole eights. Null arrays are ignored.
template <typename F>
Outcome WithEights(bool in_double, bool whole, std::initializer_list<Array> arrays,
                   std::initializer_list<Array> statistics, F f) {
  if (in_double) return f.template operator()<double, Type::kNone>();
  for (const Array& array : statistics) whole = whole && (array.data == nullptr || array.type == Type::kFp32);
  const auto all = [&](Type type) {
    for (const Array& array : arrays) {
      if (array.data != nullptr && array.type != type) return false;
    }
    return whole;
  };
  if (all(Type::kBf16)) return f.template operator()<float, Type::kBf16>();
  if (all(Type::kFp16)) return f.template operator()<float, Type::kFp16>();
  if (all(Type::kFp32)) return f.template operator()<float, Type::kFp32>();
  return f.template operator()<float, Type::kNone>();
}

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_EIGHTS_H_
