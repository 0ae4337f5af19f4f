// Masked language models: which positions of a sample are predicted, and what the model sees there (docs/kernels.md,
// "Masked tokens").
#ifndef WEFT_EXECUTOR_BACKENDS_CPU_CPU_MASKING_H_
#define WEFT_EXECUTOR_BACKENDS_CPU_CPU_MASKING_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "executor/backends/cpu/cpu_kernel.h"

namespace weft::exec::cpu {

// InvalidArgument unless the step's attributes can be honoured for sequences of this length.
absl::Status CheckMasking(const Call& call, int64_t sequence);

// Replaces the tokens of a global sample of the run by what the model sees, or by its targets: -1 where nothing is
// predicted, else the token as it is.
void MaskTokens(const Call& call, int64_t sample, absl::Span<int32_t> tokens);
void MaskTargets(const Call& call, int64_t sample, absl::Span<int32_t> tokens);

}  // namespace weft::exec::cpu

#endif  // WEFT_EXECUTOR_BACKENDS_CPU_CPU_MASKING_H_
