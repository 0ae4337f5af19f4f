// Arithmetic of collectives: sums of what members contribute, in the order that is asked for (rule P10).
#ifndef WEFT_EXECUTOR_NUMERICS_SUM_PARTS_H_
#define WEFT_EXECUTOR_NUMERICS_SUM_PARTS_H_

#include <cstdint>

#include "absl/types/span.h"
#include "proto/types.pb.h"

namespace weft::exec {

// Whether values of the dtype can be added: fp64, fp32, bf16, fp16, exact192.
bool HasSum(DType dtype);

// destination[i] = the sum of parts[0][i], parts[1][i], ... in this order, in the dtype's compute type (fp64, fp32;
// fp32 for bf16 and fp16, rounded once); exact for EXACT192. A part may be the destination. False if the dtype has no
// sum.
bool SumParts(DType dtype, int64_t elements, absl::Span<const void* const> parts, void* destination);

// Whether AddTo takes values of `from` for a destination of `to`: between floating-point types, from those to EXACT192,
// and from EXACT192 to itself.
bool CanAddTo(DType from, DType to);

// destination[i] = values[i], or destination[i] + values[i] with `accumulate`: in fp64 if either type is FP64, else in
// fp32, rounded once. To EXACT192: each value rounded to the grid on its own, or an exact merge.
void AddTo(DType from, const void* values, int64_t elements, bool accumulate, DType to, void* destination);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_NUMERICS_SUM_PARTS_H_
