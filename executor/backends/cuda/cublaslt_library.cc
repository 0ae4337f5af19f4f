#include "executor/backends/cuda/cublaslt_library.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "executor/platform/shared_library.h"
#include "proto/util/status.h"

namespace weft::exec::cuda {
namespace {

absl::StatusOr<const CublasLt*> Open() {
  static const std::string kNames[] = {"libcublasLt.so.13"};
  WEFT_ASSIGN_OR_RETURN(const SharedLibrary library, SharedLibrary::Open("cuBLASLt 13", kNames));
  decltype(&cublasLtGetVersion) get_version = nullptr;
  WEFT_RETURN_IF_ERROR(library.Load("cublasLtGetVersion", &get_version));
  auto lt = std::make_unique<CublasLt>();
  lt->path = library.path();
  lt->version = static_cast<int64_t>(get_version());
  WEFT_RETURN_IF_ERROR(CheckCublasLtVersion(lt->version, lt->path));
  WEFT_RETURN_IF_ERROR(library.Load("cublasLtGetStatusString", &lt->GetStatusString));
  WEFT_RETURN_IF_ERROR(library.Load("cublasLtCreate", &lt->Create));
  WEFT_RETURN_IF_ERROR(library.Load("cublasLtDestroy", &lt->Destroy));
  WEFT_RETURN_IF_ERROR(library.Load("cublasLtMatmulDescCreate", &lt->MatmulDescCreate));
  WEFT_RETURN_IF_ERROR(library.Load("cublasLtMatmulDescDestroy", &lt->MatmulDescDestroy));
  WEFT_RETURN_IF_ERROR(library.Load("cublasLtMatmulDescSetAttribute", &lt->MatmulDescSetAttribute));
  WEFT_RETURN_IF_ERROR(library.Load("cublasLtMatrixLayoutCreate", &lt->MatrixLayoutCreate));
  WEFT_RETURN_IF_ERROR(library.Load("cublasLtMatrixLayoutDestroy", &lt->MatrixLayoutDestroy));
  WEFT_RETURN_IF_ERROR(library.Load("cublasLtMatrixLayoutSetAttribute", &lt->MatrixLayoutSetAttribute));
  WEFT_RETURN_IF_ERROR(library.Load("cublasLtMatmulPreferenceCreate", &lt->MatmulPreferenceCreate));
  WEFT_RETURN_IF_ERROR(library.Load("cublasLtMatmulPreferenceDestroy", &lt->MatmulPreferenceDestroy));
  WEFT_RETURN_IF_ERROR(library.Load("cublasLtMatmulPreferenceSetAttribute", &lt->MatmulPreferenceSetAttribute));
  WEFT_RETURN_IF_ERROR(library.Load("cublasLtMatmulAlgoGetHeuristic", &lt->MatmulAlgoGetHeuristic));
  WEFT_RETURN_IF_ERROR(library.Load("cublasLtMatmulAlgoCheck", &lt->MatmulAlgoCheck));
  WEFT_RETURN_IF_ERROR(library.Load("cublasLtMatmulAlgoConfigGetAttribute", &lt->MatmulAlgoConfigGetAttribute));
  WEFT_RETURN_IF_ERROR(library.Load("cublasLtMatmul", &lt->Matmul));
  return lt.release();
}

}  // namespace

absl::Status CublasLt::Error(absl::string_view doing, cublasStatus_t status) const {
  if (status == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  const std::string text = absl::StrCat("cuBLASLt, ", doing, ": ", GetStatusString(status));
  return status == CUBLAS_STATUS_NOT_SUPPORTED ? absl::UnimplementedError(text) : absl::InternalError(text);
}

absl::Status CheckCublasLtVersion(int64_t version, absl::string_view path) {
  // Version 13.1.0 is the number 130100.
  if (version / 10000 == 13) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("backend cuda: cuBLASLt in ", path, " has version ",
                                                    version / 10000, ".", version / 100 % 100, ".", version % 100,
                                                    "; allowed: 13.x"));
}

absl::StatusOr<const CublasLt*> OpenCublasLt() {
  // Never freed: the library stays loaded for the life of the process.
  static const absl::StatusOr<const CublasLt*>* opened = new absl::StatusOr<const CublasLt*>(Open());
  return *opened;
}

}  // namespace weft::exec::cuda
