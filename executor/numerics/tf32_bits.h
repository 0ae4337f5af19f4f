// TF32 is fp32 with ten explicit bits of fraction. A matrix product in TF32 rounds its factors to this format.
#ifndef WEFT_EXECUTOR_NUMERICS_TF32_BITS_H_
#define WEFT_EXECUTOR_NUMERICS_TF32_BITS_H_

#include <stdint.h>

#include "executor/numerics/float_bits.h"

namespace weft::exec {

// Rounds to nearest, ties to even; the lower thirteen bits are then 0. As in fp32, values that are too large become
// infinite. Subnormal numbers also lose thirteen bits. A NaN stays a NaN.
inline float Tf32FromFloat(float x) {
  const uint32_t bits = BitsOfFloat(x);
  if ((bits & 0x7fffffff) > 0x7f800000) return FloatOfBits((bits | 0x400000) & ~uint32_t{0x1fff});
  return FloatOfBits((bits + 0xfff + ((bits >> 13) & 1)) & ~uint32_t{0x1fff});
}

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_NUMERICS_TF32_BITS_H_
