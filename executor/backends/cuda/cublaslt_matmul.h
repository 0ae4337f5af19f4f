// Matrix products by cuBLASLt.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_CUBLASLT_MATMUL_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_CUBLASLT_MATMUL_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "executor/backends/cuda/cublaslt_library.h"
#include "executor/backends/cuda/matmul.h"
#include "executor/backends/cuda/tuning_table.h"
#include "executor/interface/device.h"
#include "executor/interface/tuning_options.h"

namespace weft::exec::cuda {

// Makes matrix products on `device`. `device` must be the current CUDA device of this thread and must outlive the
// result. `lt` may be a test's table. Returns errors of the tuning file, and Internal if cuBLASLt does not start.
absl::StatusOr<std::unique_ptr<Matmul>> MakeCublasLtMatmul(const CublasLt* lt, ComputeDevice* device,
                                                           const TuningDevice& described, const TuningOptions& tuning);

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_CUBLASLT_MATMUL_H_
