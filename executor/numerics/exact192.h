// EXACT192: an accumulator for a sum of real numbers whose result does not depend on the order or grouping of the
// terms. It is a fixed-point number of 192 bits, two's complement, whose least bit is 2^-126 (docs/kernels.md).
//
// Each term is rounded to a multiple of 2^-126 on its own, so the sum of n terms is at most n * 2^-127 away from the
// true sum. One more rounding, to the result's type, follows at the end. If each term's magnitude is less than 2^64 and
// all magnitudes add up to less than 2^65, no order of the terms overflows. Otherwise the accumulator may become the
// overflow value: it stays so whatever is added, and rounds to NaN.
#ifndef WEFT_EXECUTOR_NUMERICS_EXACT192_H_
#define WEFT_EXECUTOR_NUMERICS_EXACT192_H_

#include <cstdint>

#include "absl/types/span.h"
#include "executor/numerics/exact192_limbs.h"

namespace weft::exec {

// accumulators[i] += x[i]. All three types convert to double exactly. A bf16 value is given as the upper 16 bits of a
// float.
void ExactAccumulate(absl::Span<const double> x, absl::Span<Exact192> accumulators);
void ExactAccumulate(absl::Span<const float> x, absl::Span<Exact192> accumulators);
void ExactAccumulateBf16(absl::Span<const uint16_t> x, absl::Span<Exact192> accumulators);

// accumulators[i] += terms[i], exactly. The spans may be the same.
void ExactMerge(absl::Span<const Exact192> terms, absl::Span<Exact192> accumulators);

// Nearest number with `precision` significant bits (53 for double, 24 for float, 8 for bf16), ties to even. It is exact
// as a double, and neither subnormal nor infinite in any of these types. NaN if the accumulator has overflowed.
double ExactRound(const Exact192& accumulator, int precision);

// Rounds to 53 bits towards zero, and sets the last bit if any bits were lost. If the result is then rounded to nearest
// with 51 bits or fewer, that gives the same as rounding the accumulator once.
double ExactRoundToOdd(const Exact192& accumulator);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_NUMERICS_EXACT192_H_
