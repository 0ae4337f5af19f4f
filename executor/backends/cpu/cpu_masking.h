// Masked language models: chooses the positions of a sample that are predicted, and the tokens that the model sees
// there (docs/kernels.md, "Masked tokens").
#ifndef WEFT_EXECUTOR_BACKENDS_CPU_CPU_MASKING_H_
#define WEFT_EXECUTOR_BACKENDS_CPU_CPU_MASKING_H_

#include <cstdint>

#include "absl/types/span.h"
#include "executor/backends/cpu/cpu_kernel.h"

namespace weft::exec::cpu {

// Both replace the tokens of one sample; `sample` is its number in the whole run. MaskTokens writes the tokens that the
// model sees. MaskTargets writes the targets: -1 where nothing is predicted, else the original token.
void MaskTokens(const Call& call, int64_t sample, absl::Span<int32_t> tokens);
void MaskTargets(const Call& call, int64_t sample, absl::Span<int32_t> tokens);

}  // namespace weft::exec::cpu

#endif  // WEFT_EXECUTOR_BACKENDS_CPU_CPU_MASKING_H_
