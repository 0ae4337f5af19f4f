// cuBLASLt, opened at run time: its functions in a table.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_CUBLASLT_LIBRARY_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_CUBLASLT_LIBRARY_H_

#include <cublasLt.h>

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace weft::exec::cuda {

// The functions that we use, under their own names without the prefix. Tests make one of plain loops.
struct CublasLt {
  // The library that was opened, and its version: 130100 is 13.1.0.
  std::string path;
  int64_t version = 0;

  decltype(&cublasLtGetStatusString) GetStatusString = nullptr;
  decltype(&cublasLtCreate) Create = nullptr;
  decltype(&cublasLtDestroy) Destroy = nullptr;
  decltype(&cublasLtMatmulDescCreate) MatmulDescCreate = nullptr;
  decltype(&cublasLtMatmulDescDestroy) MatmulDescDestroy = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) MatmulDescSetAttribute = nullptr;
  decltype(&cublasLtMatrixLayoutCreate) MatrixLayoutCreate = nullptr;
  decltype(&cublasLtMatrixLayoutDestroy) MatrixLayoutDestroy = nullptr;
  decltype(&cublasLtMatrixLayoutSetAttribute) MatrixLayoutSetAttribute = nullptr;
  decltype(&cublasLtMatmulPreferenceCreate) MatmulPreferenceCreate = nullptr;
  decltype(&cublasLtMatmulPreferenceDestroy) MatmulPreferenceDestroy = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) MatmulPreferenceSetAttribute = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) MatmulAlgoGetHeuristic = nullptr;
  decltype(&cublasLtMatmulAlgoCheck) MatmulAlgoCheck = nullptr;
  decltype(&cublasLtMatmulAlgoConfigGetAttribute) MatmulAlgoConfigGetAttribute = nullptr;
  decltype(&cublasLtMatmul) Matmul = nullptr;

  // "cuBLASLt, making a layout: CUBLAS_STATUS_INVALID_VALUE".
  absl::Status Error(absl::string_view doing, cublasStatus_t status) const;
};

// Opens it once for the process, from wherever it is (executor/platform/shared_library.h). NotFound or
// FailedPrecondition in one line: not installed, or of another version than 13.
absl::StatusOr<const CublasLt*> OpenCublasLt();

// FailedPrecondition unless the version is one that we can use.
absl::Status CheckCublasLtVersion(int64_t version, absl::string_view path);

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_CUBLASLT_LIBRARY_H_
