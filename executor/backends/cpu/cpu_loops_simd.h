// Vector types and conversions for the files that are compiled once per instruction set (cpu_loops.h). Everything here
// has internal linkage.
#ifndef WEFT_EXECUTOR_BACKENDS_CPU_CPU_LOOPS_SIMD_H_
#define WEFT_EXECUTOR_BACKENDS_CPU_CPU_LOOPS_SIMD_H_

#include <stdint.h>
#include <string.h>
#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace weft::exec::cpu {
namespace {

#if defined(__AVX512F__)
constexpr int kVectorBytes = 64;
#elif defined(__AVX2__)
constexpr int kVectorBytes = 32;
#else
constexpr int kVectorBytes = 16;
#endif

// Vector type of one register.
template <typename T>
struct Register {
  typedef T Type __attribute__((vector_size(kVectorBytes)));
  static constexpr int kWidth = kVectorBytes / static_cast<int>(sizeof(T));
};

// Lanes of a reduction: 64 bytes on every instruction set, so that the order of summation is the same on all.
template <typename T>
struct Lanes {
  typedef T Type __attribute__((vector_size(64)));
  static constexpr int kWidth = 64 / static_cast<int>(sizeof(T));
};

// Uses memcpy instead of a cast, because arrays need not be aligned.
template <typename V, typename T>
inline __attribute__((always_inline)) V LoadVector(const T* p) {
  V v;
  memcpy(&v, p, sizeof(v));
  return v;
}

template <typename V, typename T>
inline __attribute__((always_inline)) void StoreVector(V v, T* p) {
  memcpy(p, &v, sizeof(v));
}

// a * b + c, fused where the instruction set can.
inline __attribute__((always_inline)) Register<float>::Type MultiplyAdd(Register<float>::Type a,
                                                                        Register<float>::Type b,
                                                                        Register<float>::Type c) {
#if defined(__AVX512F__)
  return _mm512_fmadd_ps(a, b, c);
#elif defined(__FMA__)
  return _mm256_fmadd_ps(a, b, c);
#else
  return a * b + c;
#endif
}

inline __attribute__((always_inline)) Register<double>::Type MultiplyAdd(Register<double>::Type a,
                                                                         Register<double>::Type b,
                                                                         Register<double>::Type c) {
#if defined(__AVX512F__)
  return _mm512_fmadd_pd(a, b, c);
#elif defined(__FMA__)
  return _mm256_fmadd_pd(a, b, c);
#else
  return a * b + c;
#endif
}

inline float FloatFromBits(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof(x));
  return x;
}

inline uint32_t BitsOfFloat(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof(bits));
  return bits;
}

inline float FromBf16(uint16_t x) { return FloatFromBits(uint32_t{x} << 16); }

// Rounds to nearest, ties to even; a NaN stays a NaN.
inline uint16_t ToBf16(float x) {
  const uint32_t bits = BitsOfFloat(x);
  const uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  return static_cast<uint16_t>((bits & 0x7fffffff) > 0x7f800000 ? (bits >> 16) | 0x40 : rounded);
}

// Rounds to TF32 as executor/numerics/tf32_bits.h does, for one number or a vector of them.
inline float ToTf32(float x) {
  const uint32_t bits = BitsOfFloat(x);
  const uint32_t rounded = (bits & 0x7fffffff) > 0x7f800000 ? bits | 0x400000 : bits + 0xfff + ((bits >> 13) & 1);
  return FloatFromBits(rounded & ~uint32_t{0x1fff});
}

typedef float Quad __attribute__((vector_size(16)));

inline __attribute__((always_inline)) Quad ToTf32(Quad x) {
  typedef uint32_t QuadBits __attribute__((vector_size(16)));
  const QuadBits bits = (QuadBits)x;
  const QuadBits rounded = (bits & 0x7fffffff) > 0x7f800000 ? bits | 0x400000 : bits + 0xfff + ((bits >> 13) & 1);
  return (Quad)(rounded & ~uint32_t{0x1fff});
}

// Rounds to odd in float, so that a second rounding gives the same result as a single one.
inline float ToOdd(double x) {
  const float nearest = static_cast<float>(x);
  uint32_t bits = BitsOfFloat(nearest);
  const double back = nearest;
  if (back != x && x == x && (bits & 0x7f800000) != 0x7f800000) {
    // Round towards zero, then set the last bit.
    const bool away = back < 0 || x < 0 ? back < x : back > x;
    bits = (bits - away) | 1;
  }
  return FloatFromBits(bits);
}

inline uint16_t ToBf16(double x) { return ToBf16(ToOdd(x)); }

inline float FromFp16(uint16_t x) {
  const uint32_t sign = (x & uint32_t{0x8000}) << 16, exponent = x >> 10 & 31, fraction = x & 0x3ff;
  if (exponent == 0) {
    // Zero or subnormal: a multiple of 2^-24.
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return sign != 0 ? -magnitude : magnitude;
  }
  return FloatFromBits(sign | (exponent == 31 ? uint32_t{255} : exponent + 112) << 23 | fraction << 13);
}

// Rounds to nearest, ties to even; magnitudes from 65520 on become infinite; a NaN stays a NaN.
inline uint16_t ToFp16(float x) {
  const uint32_t bits = BitsOfFloat(x), magnitude = bits & 0x7fffffff, sign = bits >> 16 & 0x8000;
  if (magnitude > 0x7f800000) return static_cast<uint16_t>(sign | 0x7e00);
  if (magnitude >= 0x477ff000) return static_cast<uint16_t>(sign | 0x7c00);
  if (magnitude < 0x38800000) {
    // Below 2^-14, adding 0.5 rounds to a multiple of 2^-24.
    return static_cast<uint16_t>(sign | (BitsOfFloat(FloatFromBits(magnitude) + 0.5f) - BitsOfFloat(0.5f)));
  }
  const uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
  return static_cast<uint16_t>(sign | ((rounded - (uint32_t{112} << 23)) >> 13));
}

inline uint16_t ToFp16(double x) { return ToFp16(ToOdd(x)); }

// These functions give the same bits as Bf16FromFloatAtRandom and Fp16FromFloatAtRandom in
// executor/numerics/float_bits.h.
inline uint16_t ToBf16AtRandom(float x, uint32_t random) {
  const uint32_t bits = BitsOfFloat(x);
  return (bits & 0x7fffffff) >= 0x7f7f0000 ? ToBf16(x) : static_cast<uint16_t>((bits + random) >> 16);
}

inline uint16_t ToFp16AtRandom(float x, uint32_t random) {
  const uint32_t bits = BitsOfFloat(x), magnitude = bits & 0x7fffffff, sign = bits >> 16 & 0x8000;
  if (magnitude >= 0x477fe000) return ToFp16(x);
  if (magnitude < 0x38800000) {
    const uint32_t units = static_cast<uint32_t>(static_cast<int32_t>(FloatFromBits(magnitude) * 0x1p40f));
    return static_cast<uint16_t>(sign | (units + random) >> 16);
  }
  return static_cast<uint16_t>(sign | ((magnitude + (random >> 3) - (uint32_t{112} << 23)) >> 13));
}

}  // namespace
}  // namespace weft::exec::cpu

#endif  // WEFT_EXECUTOR_BACKENDS_CPU_CPU_LOOPS_SIMD_H_
