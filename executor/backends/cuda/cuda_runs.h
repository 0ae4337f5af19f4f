// Steps as one launch (Backend::PrepareRun): of many tensors, with a table of them on the device that is made once; and
// norms with the ADD beside them.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_CUDA_RUNS_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_CUDA_RUNS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "executor/backends/cuda/cuda_call.h"
#include "executor/interface/backend.h"

namespace weft::exec::cuda {

// Null where there is no such launch for these steps. `resources` outlives the result.
absl::StatusOr<std::unique_ptr<StepRun>> PrepareRun(Resources& resources, absl::Span<const StepOfRun> steps);

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_CUDA_RUNS_H_
