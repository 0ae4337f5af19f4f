// Finds the microbatch size that a framework uses if the recipe does not state one.
#ifndef WEFT_COMPILER_INPUTS_USUAL_MICROBATCH_H_
#define WEFT_COMPILER_INPUTS_USUAL_MICROBATCH_H_

#include <cstdint>
#include <optional>

#include "proto/runtime.pb.h"

namespace weft {

// Returns the number of sequences per microbatch if `replicas` share a global batch of `batch` sequences over pipelines
// of `stages` stages. This is the largest power of two, up to `most` of runtime.usual_microbatch, that divides a
// replica's share and, if there are several stages, leaves at least `per_stage` microbatches for every stage. Returns
// nullopt, which stands for one sequence, if the runtime has no usual microbatch or no size meets these conditions.
std::optional<int64_t> UsualMicrobatchOf(const Runtime& runtime, int64_t batch, int64_t replicas, int64_t stages);

}  // namespace weft

#endif  // WEFT_COMPILER_INPUTS_USUAL_MICROBATCH_H_
