// Runs of steps as one launch each (Backend::PrepareRun): a table of their tensors on the device, made once.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_CUDA_RUNS_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_CUDA_RUNS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "executor/backend.h"
#include "executor/backends/cuda/cuda_call.h"

namespace weft::cuda {

// Null where there is no such launch for these steps. `resources` outlives the result.
absl::StatusOr<std::unique_ptr<StepRun>> PrepareRun(Resources& resources, absl::Span<const StepOfRun> steps);

}  // namespace weft::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_CUDA_RUNS_H_
