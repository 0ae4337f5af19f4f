// Initial values of logical tensors: a function of (seed, tensor, element) alone, so that every plan and every shard
// starts from the same weights (docs/kernels.md, random numbers).
#ifndef WEFT_EXECUTOR_STATE_INIT_H_
#define WEFT_EXECUTOR_STATE_INIT_H_

#include <cstdint>

#include "absl/types/span.h"
#include "proto/program.pb.h"

namespace weft::exec {

// Fills `out` with the initial values of elements [first, first + out.size()) of logical tensor number `index` of the
// program, in row-major order of the unpadded shape. Elements beyond the tensor's end (padding rows) become zero.
void InitialValues(uint64_t seed, int64_t index, const LogicalTensor& tensor, int64_t first, absl::Span<float> out);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_STATE_INIT_H_
