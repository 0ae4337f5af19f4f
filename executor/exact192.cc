#include "executor/exact192.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace weft {
namespace {

constexpr int kLeastExponent = -126;
constexpr uint64_t kSign = uint64_t{1} << 63;

// a += b in two's complement; a result outside the open interval (-2^191, 2^191) becomes the overflow value.
inline void Add(Exact192& a, uint64_t b0, uint64_t b1, uint64_t b2, bool overflow) {
  overflow |= a.overflowed();
  const uint64_t r0 = a.limb[0] + b0;
  const uint64_t carry0 = r0 < b0;
  const uint64_t t1 = a.limb[1] + b1;
  const uint64_t r1 = t1 + carry0;
  const uint64_t carry1 = (t1 < b1) | (r1 < carry0);
  const uint64_t r2 = a.limb[2] + b2 + carry1;
  // Two terms of one sign whose sum has the other. The sum -2^191 is the overflow value itself.
  overflow |= (((a.limb[2] ^ r2) & (b2 ^ r2)) >> 63) != 0;
  a.limb[0] = overflow ? 0 : r0;
  a.limb[1] = overflow ? 0 : r1;
  a.limb[2] = overflow ? kSign : r2;
}

inline void AddNumber(Exact192& accumulator, double x) {
  uint64_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  const uint64_t exponent = (bits >> 52) & 0x7ff;
  // |x| >= 2^64, an infinity or NaN.
  const bool too_large = exponent >= 1023 + 64;
  // |x| = mantissa * 2^(shift + kLeastExponent).
  uint64_t mantissa = (bits & ((uint64_t{1} << 52) - 1)) | (uint64_t{exponent != 0} << 52);
  int64_t shift = static_cast<int64_t>(std::max<uint64_t>(exponent, 1)) - 1075 - kLeastExponent;
  if (shift < 0) {
    // Below the grid's resolution: round to a multiple of 2^-126, ties to even. A mantissa has 53 bits, so everything
    // from 54 on gives 0 and 63 keeps the shifts defined.
    const int drop = static_cast<int>(std::min<int64_t>(-shift, 63));
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
  // All ones if negative: then limbs are complemented and 1 is added.
  const uint64_t negative = ~((bits >> 63) - 1);
  uint64_t b0 = (index == 0 ? low : 0) ^ negative;
  uint64_t b1 = (index == 0 ? high : index == 1 ? low : 0) ^ negative;
  uint64_t b2 = (index == 1 ? high : index == 2 ? low : 0) ^ negative;
  b0 += negative & 1;
  b1 += (negative & 1) & (b0 == 0);
  b2 += (negative & 1) & (b0 == 0) & (b1 == 0);
  Add(accumulator, b0, b1, b2, too_large);
}

inline float FromBf16(uint16_t x) {
  const uint32_t bits = uint32_t{x} << 16;
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

}  // namespace

void ExactAccumulate(absl::Span<const double> x, absl::Span<Exact192> accumulators) {
  for (size_t i = 0; i < x.size(); ++i) AddNumber(accumulators[i], x[i]);
}

void ExactAccumulate(absl::Span<const float> x, absl::Span<Exact192> accumulators) {
  for (size_t i = 0; i < x.size(); ++i) AddNumber(accumulators[i], x[i]);
}

void ExactAccumulateBf16(absl::Span<const uint16_t> x, absl::Span<Exact192> accumulators) {
  for (size_t i = 0; i < x.size(); ++i) AddNumber(accumulators[i], FromBf16(x[i]));
}

void ExactMerge(absl::Span<const Exact192> terms, absl::Span<Exact192> accumulators) {
  for (size_t i = 0; i < terms.size(); ++i) {
    const Exact192 term = terms[i];
    Add(accumulators[i], term.limb[0], term.limb[1], term.limb[2], term.overflowed());
  }
}

namespace {

// `round(window, drop, below)` makes the mantissa of the 64 bits from the leading one down, of which `drop` go, and of
// whether anything lies below them.
template <typename Round>
double Rounded(const Exact192& accumulator, int precision, Round round) {
  if (accumulator.overflowed()) return std::numeric_limits<double>::quiet_NaN();
  const bool negative = (accumulator.limb[2] & kSign) != 0;
  uint64_t limb[3] = {accumulator.limb[0], accumulator.limb[1], accumulator.limb[2]};
  if (negative) {
    uint64_t carry = 1;
    for (uint64_t& l : limb) {
      l = ~l + carry;
      carry &= l == 0;
    }
  }
  int top = 2;
  while (top > 0 && limb[top] == 0) --top;
  if (limb[top] == 0) return 0;
  // The 64 bits from the leading one down; whatever lies below them only matters as "not zero".
  const int lead = __builtin_clzll(limb[top]);
  uint64_t window = limb[top] << lead;
  bool below = false;
  if (top > 0) {
    window |= (limb[top - 1] >> 1) >> (63 - lead);
    below = (limb[top - 1] << lead) != 0;
  }
  if (top > 1) below |= limb[0] != 0;
  const int drop = 64 - precision;
  const uint64_t mantissa = round(window, drop, below);
  const double magnitude = std::ldexp(static_cast<double>(mantissa), 64 * top - lead + drop + kLeastExponent);
  return negative ? -magnitude : magnitude;
}

}  // namespace

double ExactRound(const Exact192& accumulator, int precision) {
  return Rounded(accumulator, precision, [](uint64_t window, int drop, bool below) {
    const uint64_t rest = window & ((uint64_t{1} << drop) - 1);
    const uint64_t half = uint64_t{1} << (drop - 1);
    const uint64_t mantissa = window >> drop;
    return mantissa + ((rest > half) | ((rest == half) & (below | (mantissa & 1))));
  });
}

double ExactRoundToOdd(const Exact192& accumulator) {
  return Rounded(accumulator, 53, [](uint64_t window, int drop, bool below) {
    const bool lost = below || (window & ((uint64_t{1} << drop) - 1)) != 0;
    return window >> drop | uint64_t{lost};
  });
}

}  // namespace weft
