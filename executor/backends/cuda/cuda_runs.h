// Runs several steps as one launch (Backend::PrepareRun). Either the steps run the same kernel on many tensors, with a
// table of the tensors that is made once on the device, or they are a fixed group such as a norm and an ADD.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_CUDA_RUNS_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_CUDA_RUNS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "executor/backends/cuda/cuda_call.h"
#include "executor/interface/backend.h"

namespace weft::exec::cuda {

// Returns null if there is no single launch for these steps. `resources` must outlive the result.
absl::StatusOr<std::unique_ptr<StepRun>> PrepareRun(Resources& resources, absl::Span<const StepOfRun> steps);

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_CUDA_RUNS_H_
