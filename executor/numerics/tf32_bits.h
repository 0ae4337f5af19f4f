// TF32: fp32 with ten explicit bits of fraction, which the factors of a product are rounded to.
#ifndef WEFT_EXECUTOR_NUMERICS_TF32_BITS_H_
#define WEFT_EXECUTOR_NUMERICS_TF32_BITS_H_

#include <stdint.h>

#include "executor/numerics/float_bits.h"

namespace weft::exec {

// To nearest, ties to even: the lower thirteen bits are 0 then. As with fp32, what is too large becomes infinite, and
// there are subnormal numbers, as many fewer as bits; a NaN stays one.
inline float Tf32FromFloat(float x) {
  const uint32_t bits = BitsOfFloat(x);
  if ((bits & 0x7fffffff) > 0x7f800000) return FloatOfBits((bits | 0x400000) & ~uint32_t{0x1fff});
  return FloatOfBits((bits + 0xfff + ((bits >> 13) & 1)) & ~uint32_t{0x1fff});
}

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_NUMERICS_TF32_BITS_H_
