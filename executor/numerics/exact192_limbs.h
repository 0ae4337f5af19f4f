// The arithmetic of one EXACT192 accumulator (defined in exact192.h), for host and device alike. It is plain C++
// without a library, so that both give the same bits.
#ifndef WEFT_EXECUTOR_NUMERICS_EXACT192_LIMBS_H_
#define WEFT_EXECUTOR_NUMERICS_EXACT192_LIMBS_H_

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "executor/numerics/device_code.h"

namespace weft::exec {

// A number of 192 bits. Limbs are stored least significant first. If all bytes are zero, the number is zero.
struct Exact192 {
  uint64_t limb[3];

  WEFT_HOST_DEVICE bool overflowed() const { return limb[2] == uint64_t{1} << 63 && limb[1] == 0 && limb[0] == 0; }
  WEFT_HOST_DEVICE bool operator==(const Exact192& other) const {
    return limb[0] == other.limb[0] && limb[1] == other.limb[1] && limb[2] == other.limb[2];
  }
};
static_assert(sizeof(Exact192) == 24);

namespace exact192 {

constexpr int kMinExponent = -126;
constexpr uint64_t kSign = uint64_t{1} << 63;

// a += b in two's complement; a result outside the open interval (-2^191, 2^191) becomes the overflow value.
WEFT_HOST_DEVICE inline void AddLimbs(Exact192& a, uint64_t b0, uint64_t b1, uint64_t b2, bool overflow) {
  overflow |= a.overflowed();
  const uint64_t r0 = a.limb[0] + b0;
  const uint64_t carry0 = r0 < b0;
  const uint64_t t1 = a.limb[1] + b1;
  const uint64_t r1 = t1 + carry0;
  const uint64_t carry1 = (t1 < b1) | (r1 < carry0);
  const uint64_t r2 = a.limb[2] + b2 + carry1;
  // The sum overflows if both terms have one sign and the sum has the other. If the sum is -2^191 without an overflow,
  // it already equals the overflow value.
  overflow |= (((a.limb[2] ^ r2) & (b2 ^ r2)) >> 63) != 0;
  a.limb[0] = overflow ? 0 : r0;
  a.limb[1] = overflow ? 0 : r1;
  a.limb[2] = overflow ? kSign : r2;
}

// accumulator += term, exactly.
WEFT_HOST_DEVICE inline void Merge(Exact192& accumulator, const Exact192& term) {
  AddLimbs(accumulator, term.limb[0], term.limb[1], term.limb[2], term.overflowed());
}

// accumulator += x, with x rounded to a multiple of 2^-126.
WEFT_HOST_DEVICE inline void AddNumber(Exact192& accumulator, double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof(bits));
  const uint64_t exponent = (bits >> 52) & 0x7ff;
  // True if |x| >= 2^64, or if x is an infinity or NaN.
  const bool too_large = exponent >= 1023 + 64;
  // |x| = mantissa * 2^(shift + kMinExponent).
  uint64_t mantissa = (bits & ((uint64_t{1} << 52) - 1)) | (uint64_t{exponent != 0} << 52);
  int64_t shift = static_cast<int64_t>(exponent > 1 ? exponent : 1) - 1075 - kMinExponent;
  if (shift < 0) {
    // x has bits below 2^-126. Round it to a multiple of 2^-126, ties to even. A mantissa has 53 bits, so dropping 54
    // or more gives 0. At most 63 are dropped, so that the shifts are defined.
    const int drop = static_cast<int>(-shift < 63 ? -shift : 63);
    const uint64_t rest = mantissa & ((uint64_t{1} << drop) - 1);
    const uint64_t half = uint64_t{1} << (drop - 1);
    mantissa >>= drop;
    mantissa += (rest > half) | ((rest == half) & (mantissa & 1));
    shift = 0;
  }
  shift = too_large ? 0 : shift;
  const int64_t index = shift >> 6;
  const int offset = static_cast<int>(shift & 63);
  const uint64_t low = mantissa << offset;
  const uint64_t high = (mantissa >> 1) >> (63 - offset);
  // All ones if x is negative, else 0. The limbs of a negative number are complemented and 1 is added.
  const uint64_t negative = ~((bits >> 63) - 1);
  uint64_t b0 = (index == 0 ? low : 0) ^ negative;
  uint64_t b1 = (index == 0 ? high : index == 1 ? low : 0) ^ negative;
  uint64_t b2 = (index == 1 ? high : index == 2 ? low : 0) ^ negative;
  b0 += negative & 1;
  b1 += (negative & 1) & (b0 == 0);
  b2 += (negative & 1) & (b0 == 0) & (b1 == 0);
  AddLimbs(accumulator, b0, b1, b2, too_large);
}

// Leading zero bits of a number that is not 0.
WEFT_HOST_DEVICE inline int LeadingZeros(uint64_t x) {
#if defined(__CUDA_ARCH__)
  return __clzll(static_cast<long long>(x));
#else
  return __builtin_clzll(x);
#endif
}

// Returns the nearest number with `precision` significant bits, ties to even. With `to_odd`: rounds towards zero
// instead and sets the last bit if any bits were lost.
WEFT_HOST_DEVICE inline double Rounded(const Exact192& accumulator, int precision, bool to_odd) {
  if (accumulator.overflowed()) {
    const uint64_t quiet_nan = uint64_t{0x7ff8} << 48;
    double nan;
    memcpy(&nan, &quiet_nan, sizeof(nan));
    return nan;
  }
  const bool negative = (accumulator.limb[2] & kSign) != 0;
  uint64_t limb[3] = {accumulator.limb[0], accumulator.limb[1], accumulator.limb[2]};
  if (negative) {
    uint64_t carry = 1;
    for (int i = 0; i < 3; ++i) {
      limb[i] = ~limb[i] + carry;
      carry &= limb[i] == 0;
    }
  }
  const int top = limb[2] != 0 ? 2 : limb[1] != 0 ? 1 : 0;
  const uint64_t first = top == 2 ? limb[2] : top == 1 ? limb[1] : limb[0];
  if (first == 0) return 0;
  // `window` holds the 64 bits from the leading one on. `below` is true if any lower bit is not zero.
  const int lead = LeadingZeros(first);
  uint64_t window = first << lead;
  bool below = false;
  if (top > 0) {
    const uint64_t second = top == 2 ? limb[1] : limb[0];
    window |= (second >> 1) >> (63 - lead);
    below = (second << lead) != 0;
  }
  if (top > 1) below |= limb[0] != 0;
  const int drop = 64 - precision;
  const uint64_t rest = window & ((uint64_t{1} << drop) - 1);
  uint64_t mantissa = window >> drop;
  if (to_odd) {
    mantissa |= uint64_t{below || rest != 0};
  } else {
    const uint64_t half = uint64_t{1} << (drop - 1);
    mantissa += (rest > half) | ((rest == half) & (below | (mantissa & 1)));
  }
  const double magnitude = ldexp(static_cast<double>(mantissa), 64 * top - lead + drop + kMinExponent);
  return negative ? -magnitude : magnitude;
}

}  // namespace exact192
}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_NUMERICS_EXACT192_LIMBS_H_
