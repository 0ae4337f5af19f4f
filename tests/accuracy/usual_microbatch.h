// The microbatch of a run whose source does not state one.
#ifndef WEFT_TESTS_ACCURACY_USUAL_MICROBATCH_H_
#define WEFT_TESTS_ACCURACY_USUAL_MICROBATCH_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace weft {

// Sequences of a microbatch where `replicas` share a global batch of `batch` sequences over pipelines of `stages`. By
// the runtimes "megatron-2020" and "megatron-2022", an estimate: the largest power of two up to 16 that leaves six
// microbatches for every stage of a pipeline. It is fitted to the ten rows of Megatron-LM's script of SC'21's table 1
// (examples/academic_paper_scripts/sc21/run_table_1.sh): it has the microbatch of nine of them, and of the tenth, 18B,
// twice that. Other runtimes: one sequence.
int64_t UsualMicrobatch(absl::string_view runtime, int64_t batch, int64_t replicas, int64_t stages);

}  // namespace weft

#endif  // WEFT_TESTS_ACCURACY_USUAL_MICROBATCH_H_
