// The microbatch of a framework's run whose recipe does not state one.
#ifndef WEFT_COMPILER_INPUTS_USUAL_MICROBATCH_H_
#define WEFT_COMPILER_INPUTS_USUAL_MICROBATCH_H_

#include <cstdint>
#include <optional>

#include "proto/runtime.pb.h"

namespace weft {

// Sequences of a microbatch where `replicas` share a global batch of `batch` sequences over pipelines of `stages`: by
// runtime.usual_microbatch the largest power of two up to `most` that divides a replica's share and leaves `per_stage`
// microbatches for every stage of a pipeline. Nothing where the runtime has none, or no size comes out: one sequence
// then.
std::optional<int64_t> UsualMicrobatchOf(const Runtime& runtime, int64_t batch, int64_t replicas, int64_t stages);

}  // namespace weft

#endif  // WEFT_COMPILER_INPUTS_USUAL_MICROBATCH_H_
