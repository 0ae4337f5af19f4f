// Arithmetic of collectives: sums of the members' contributions, in the requested order (rule P10).
#ifndef WEFT_EXECUTOR_NUMERICS_SUM_PARTS_H_
#define WEFT_EXECUTOR_NUMERICS_SUM_PARTS_H_

#include <cstdint>

#include "absl/types/span.h"
#include "proto/types.pb.h"

namespace weft::exec {

// True if values of the dtype can be added: fp64, fp32, bf16, fp16, exact192.
bool HasSum(DType dtype);

// destination[i] = the sum of parts[0][i], parts[1][i], ... in this order. FP64 is summed in fp64, FP32 in fp32, BF16
// and FP16 in fp32 with one rounding; EXACT192 is summed exactly. A part may be the destination. False if the dtype has
// no sum, or if there are elements but no parts.
bool SumParts(DType dtype, int64_t elements, absl::Span<const void* const> parts, void* destination);

// True if AddTo takes values of `from` for a destination of `to`: between floating-point types, from floating-point
// types to EXACT192, and from EXACT192 to itself.
bool CanAddTo(DType from, DType to);

// destination[i] = values[i], or destination[i] + values[i] with `accumulate`. Computed in fp64 if either type is FP64,
// else in fp32, and rounded once. To EXACT192: a floating-point value is rounded to the grid on its own, an EXACT192
// value is merged exactly.
void AddTo(DType from, const void* values, int64_t elements, bool accumulate, DType to, void* destination);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_NUMERICS_SUM_PARTS_H_
