// Conversions of storage types. They round to nearest, ties to even, except OddFromDouble and the stochastic ones; a
// NaN stays a NaN. Host and device use the same code, so that the sums of collectives have the same bits wherever they
// are computed.
#ifndef WEFT_EXECUTOR_NUMERICS_FLOAT_BITS_H_
#define WEFT_EXECUTOR_NUMERICS_FLOAT_BITS_H_

#include <stdint.h>
#include <string.h>

#include "executor/numerics/device_code.h"

namespace weft::exec {

WEFT_HOST_DEVICE inline uint32_t BitsOfFloat(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof(bits));
  return bits;
}
WEFT_HOST_DEVICE inline float FloatOfBits(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof(x));
  return x;
}

WEFT_HOST_DEVICE inline float FloatFromBf16(uint16_t bits) { return FloatOfBits(static_cast<uint32_t>(bits) << 16); }

WEFT_HOST_DEVICE inline uint16_t Bf16FromFloat(float x) {
  const uint32_t bits = BitsOfFloat(x);
  if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

// Converts to float. A value between two floats becomes the one whose last bit is odd, which shows that bits were lost.
// So a second rounding breaks ties as one rounding would (Boldo and Melquiond 2008, doi:10.1109/TC.2007.70819).
WEFT_HOST_DEVICE inline float OddFromDouble(double x) {
  const float nearest = static_cast<float>(x);
  const double difference = x - static_cast<double>(nearest);
  const uint32_t bits = BitsOfFloat(nearest);
  // The difference is NaN for a NaN or an infinity; there is then nothing to decide.
  if (difference == difference && difference != 0 && (bits & 1) == 0) {
    const bool away = (difference > 0) == ((bits >> 31) == 0);
    return FloatOfBits(away ? bits + 1 : bits - 1);
  }
  return nearest;
}

WEFT_HOST_DEVICE inline float FloatFromFp16(uint16_t x) {
  const uint32_t sign = (x & uint32_t{0x8000}) << 16, exponent = x >> 10 & 31, fraction = x & 0x3ff;
  if (exponent == 0) {
    // Zero or subnormal: a multiple of 2^-24.
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return sign != 0 ? -magnitude : magnitude;
  }
  return FloatOfBits(sign | (exponent == 31 ? uint32_t{255} : exponent + 112) << 23 | fraction << 13);
}

// Converts to fp16. Magnitudes of 65520 and above become infinite.
WEFT_HOST_DEVICE inline uint16_t Fp16FromFloat(float x) {
  const uint32_t bits = BitsOfFloat(x), magnitude = bits & 0x7fffffff, sign = bits >> 16 & 0x8000;
  if (magnitude > 0x7f800000) return static_cast<uint16_t>(sign | 0x7e00);
  if (magnitude >= 0x477ff000) return static_cast<uint16_t>(sign | 0x7c00);
  if (magnitude < 0x38800000) {
    // Below 2^-14, fp16 numbers are multiples of 2^-24. Adding 0.5 rounds to such a multiple.
    const float sum = FloatOfBits(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (BitsOfFloat(sum) - BitsOfFloat(0.5f)));
  }
  const uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
  return static_cast<uint16_t>(sign | ((rounded - (uint32_t{112} << 23)) >> 13));
}

// Stochastic rounding by 16 random bits (docs/kernels.md). Rounds away from zero with the probability (|x| - low) /
// (high - low), where low and high are the neighbors by magnitude. Values beyond the largest finite value, infinities
// and NaN are rounded to nearest.
WEFT_HOST_DEVICE inline uint16_t Bf16FromFloatAtRandom(float x, uint32_t random) {
  const uint32_t bits = BitsOfFloat(x);
  if ((bits & 0x7fffffff) >= 0x7f7f0000) return Bf16FromFloat(x);
  return static_cast<uint16_t>((bits + random) >> 16);
}

WEFT_HOST_DEVICE inline uint16_t Fp16FromFloatAtRandom(float x, uint32_t random) {
  const uint32_t bits = BitsOfFloat(x), magnitude = bits & 0x7fffffff, sign = bits >> 16 & 0x8000;
  if (magnitude >= 0x477fe000) return Fp16FromFloat(x);
  if (magnitude < 0x38800000) {
    // Below 2^-14 the results are multiples of 2^-24. `units` counts multiples of 2^-40; smaller parts are dropped.
    const uint32_t units = static_cast<uint32_t>(static_cast<int32_t>(FloatOfBits(magnitude) * 0x1p40f));
    return static_cast<uint16_t>(sign | (units + random) >> 16);
  }
  // Rounding drops thirteen bits.
  const uint32_t rounded = magnitude + (random >> 3);
  return static_cast<uint16_t>(sign | ((rounded - (uint32_t{112} << 23)) >> 13));
}

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_NUMERICS_FLOAT_BITS_H_
