// Access to elements of arrays in kernels. Whatever type the elements are stored in, a kernel sees its compute type C,
// float or double.
//
// S is the storage type that all arrays of a launch share, or Type::kNone if each array gives its own type at run time.
// With Type::kNone, every eight elements cost one branch, which all threads take alike.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_ACCESS_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_ACCESS_H_

#include <initializer_list>

#include "executor/backends/cuda/kernels/portable.h"

namespace weft::exec::cuda {

// Elements that a thread handles at a time: 16 bytes of the narrowest floating-point types.
inline constexpr int kBlock = 8;

template <typename C, Type S = Type::kNone>
WEFT_DEVICE C Load(const Array& array, int64_t i) {
  switch (S == Type::kNone ? array.type : S) {
    case Type::kFp64:
      return static_cast<C>(static_cast<const double*>(array.data)[i]);
    case Type::kFp32:
      return static_cast<C>(static_cast<const float*>(array.data)[i]);
    case Type::kBf16:
      return static_cast<C>(ToFloat(Bf16{static_cast<const uint16_t*>(array.data)[i]}));
    default:
      return static_cast<C>(ToFloat(Fp16{static_cast<const uint16_t*>(array.data)[i]}));
  }
}

template <typename C, Type S = Type::kNone>
WEFT_DEVICE void Store(const Array& array, int64_t i, C x) {
  switch (S == Type::kNone ? array.type : S) {
    case Type::kFp64:
      static_cast<double*>(array.data)[i] = x;
      break;
    case Type::kFp32:
      static_cast<float*>(array.data)[i] = static_cast<float>(x);
      break;
    case Type::kBf16:
      static_cast<uint16_t*>(array.data)[i] = ToBf16(x).bits;
      break;
    default:
      static_cast<uint16_t*>(array.data)[i] = ToFp16(x).bits;
  }
}

// Rounds two numbers to 16-bit type S and packs them into one word.
template <Type S, typename C>
WEFT_DEVICE uint32_t HalvesOf(C low, C high) {
  if constexpr (S == Type::kBf16) return ToBf16(low).bits | uint32_t{ToBf16(high).bits} << 16;
  return ToFp16(low).bits | uint32_t{ToFp16(high).bits} << 16;
}

namespace access {

template <typename C>
WEFT_DEVICE void LoadDoubles(const double* p, C (&x)[kBlock]) {
#pragma unroll
  for (int i = 0; i < kBlock; i += 2) {
    const Words w = LoadWords(p + i);
    x[i] = static_cast<C>(DoubleOf(w.word[0], w.word[1]));
    x[i + 1] = static_cast<C>(DoubleOf(w.word[2], w.word[3]));
  }
}

template <typename C>
WEFT_DEVICE void LoadFloats(const float* p, C (&x)[kBlock]) {
#pragma unroll
  for (int i = 0; i < kBlock; i += 4) {
    const Words w = LoadWords(p + i);
#pragma unroll
    for (int j = 0; j < 4; ++j) x[i + j] = static_cast<C>(FloatOfBits(w.word[j]));
  }
}

template <typename Half, typename C>
WEFT_DEVICE void LoadHalves(const uint16_t* p, C (&x)[kBlock]) {
  const Words w = LoadWords(p);
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    x[2 * j] = static_cast<C>(ToFloat(Half{static_cast<uint16_t>(w.word[j])}));
    x[2 * j + 1] = static_cast<C>(ToFloat(Half{static_cast<uint16_t>(w.word[j] >> 16)}));
  }
}

template <typename C>
WEFT_DEVICE void StoreDoubles(double* p, const C (&x)[kBlock]) {
#pragma unroll
  for (int i = 0; i < kBlock; i += 2) {
    const double a = x[i], b = x[i + 1];
    StoreWords(p + i, {{LowWord(a), HighWord(a), LowWord(b), HighWord(b)}});
  }
}

template <typename C>
WEFT_DEVICE void StoreFloats(float* p, const C (&x)[kBlock]) {
#pragma unroll
  for (int i = 0; i < kBlock; i += 4) {
    Words w;
#pragma unroll
    for (int j = 0; j < 4; ++j) w.word[j] = BitsOfFloat(static_cast<float>(x[i + j]));
    StoreWords(p + i, w);
  }
}

}  // namespace access

// Loads eight elements. `first` must be a multiple of eight, and every run of eight elements must begin at a multiple
// of 16 bytes.
template <typename C, Type S = Type::kNone>
WEFT_DEVICE void LoadBlock(const Array& array, int64_t first, C (&x)[kBlock]) {
  switch (S == Type::kNone ? array.type : S) {
    case Type::kFp64:
      access::LoadDoubles(static_cast<const double*>(array.data) + first, x);
      break;
    case Type::kFp32:
      access::LoadFloats(static_cast<const float*>(array.data) + first, x);
      break;
    case Type::kBf16:
      access::LoadHalves<Bf16>(static_cast<const uint16_t*>(array.data) + first, x);
      break;
    default:
      access::LoadHalves<Fp16>(static_cast<const uint16_t*>(array.data) + first, x);
  }
}

template <typename C, Type S = Type::kNone>
WEFT_DEVICE void StoreBlock(const Array& array, int64_t first, const C (&x)[kBlock]) {
  switch (S == Type::kNone ? array.type : S) {
    case Type::kFp64:
      access::StoreDoubles(static_cast<double*>(array.data) + first, x);
      break;
    case Type::kFp32:
      access::StoreFloats(static_cast<float*>(array.data) + first, x);
      break;
    case Type::kBf16: {
      Words w;
#pragma unroll
      for (int j = 0; j < 4; ++j) w.word[j] = HalvesOf<Type::kBf16>(x[2 * j], x[2 * j + 1]);
      StoreWords(static_cast<uint16_t*>(array.data) + first, w);
      break;
    }
    default: {
      Words w;
#pragma unroll
      for (int j = 0; j < 4; ++j) w.word[j] = HalvesOf<Type::kFp16>(x[2 * j], x[2 * j + 1]);
      StoreWords(static_cast<uint16_t*>(array.data) + first, w);
    }
  }
}

// Loads the first `count` of eight elements and sets the others to 0. `aligned` states that the array has the alignment
// that LoadBlock needs; it must be the same for all threads.
template <typename C, Type S = Type::kNone>
WEFT_DEVICE void LoadSome(const Array& array, int64_t first, int64_t count, bool aligned, C (&x)[kBlock]) {
  if (aligned && count >= kBlock) return LoadBlock<C, S>(array, first, x);
#pragma unroll
  for (int i = 0; i < kBlock; ++i) x[i] = i < count ? Load<C, S>(array, first + i) : C(0);
}

template <typename C, Type S = Type::kNone>
WEFT_DEVICE void StoreSome(const Array& array, int64_t first, int64_t count, bool aligned, const C (&x)[kBlock]) {
  if (aligned && count >= kBlock) return StoreBlock<C, S>(array, first, x);
#pragma unroll
  for (int i = 0; i < kBlock; ++i) {
    if (i < count) Store<C, S>(array, first + i, x[i]);
  }
}

// Stores the first `count` elements of x, or with `accumulate` the sums of the old elements and x. Each result is
// rounded once.
template <typename C, Type S = Type::kNone>
WEFT_DEVICE void WriteSome(const Array& array, int64_t first, int64_t count, bool aligned, bool accumulate,
                           const C (&x)[kBlock]) {
  if (!accumulate) return StoreSome<C, S>(array, first, count, aligned, x);
  C sum[kBlock];
  LoadSome<C, S>(array, first, count, aligned, sum);
#pragma unroll
  for (int i = 0; i < kBlock; ++i) sum[i] += x[i];
  StoreSome<C, S>(array, first, count, aligned, sum);
}

// Returns the value of an element of this type after x has been stored in it.
template <typename C>
WEFT_DEVICE C AsStored(Type type, C x) {
  switch (type) {
    case Type::kFp64:
      return x;
    case Type::kFp32:
      return static_cast<C>(static_cast<float>(x));
    case Type::kBf16:
      return static_cast<C>(ToFloat(ToBf16(x)));
    default:
      return static_cast<C>(ToFloat(ToFp16(x)));
  }
}

// Calls f.template operator()<C, S>() on the host, for arrays of these types. Null arrays are ignored.
template <typename F>
Outcome WithTypes(bool in_double, std::initializer_list<Array> arrays, F f) {
  if (in_double) return f.template operator()<double, Type::kNone>();
  bool bf16 = true, fp32 = true;
  for (const Array& array : arrays) {
    if (array.data == nullptr) continue;
    bf16 = bf16 && array.type == Type::kBf16;
    fp32 = fp32 && array.type == Type::kFp32;
  }
  if (bf16) return f.template operator()<float, Type::kBf16>();
  if (fp32) return f.template operator()<float, Type::kFp32>();
  return f.template operator()<float, Type::kNone>();
}

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_ACCESS_H_
