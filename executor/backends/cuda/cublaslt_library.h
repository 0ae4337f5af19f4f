// cuBLASLt, opened at run time, with its functions in a table.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_CUBLASLT_LIBRARY_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_CUBLASLT_LIBRARY_H_

#include <cublasLt.h>

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace weft::exec::cuda {

// The functions that the backend uses, named as in cuBLASLt but without the prefix. Tests fill the table with functions
// that compute in plain loops.
struct CublasLt {
  // Path and version of the library that was opened; 130100 is version 13.1.0.
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

  // Returns an error such as "cuBLASLt, making a layout: CUBLAS_STATUS_INVALID_VALUE", or OK on success.
  absl::Status Error(absl::string_view doing, cublasStatus_t status) const;
};

// Finds and opens the installed library, once per process (executor/platform/shared_library.h). Returns NotFound if it
// is not installed and FailedPrecondition if its major version is not 13. Each message is one line.
absl::StatusOr<const CublasLt*> OpenCublasLt();

// Returns FailedPrecondition unless the backend can use this version.
absl::Status CheckCublasLtVersion(int64_t version, absl::string_view path);

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_CUBLASLT_LIBRARY_H_
