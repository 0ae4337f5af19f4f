#include "executor/backends/cuda/cudnn_library.h"

#include <filesystem>
#include <memory>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "executor/platform/shared_library.h"
#include "proto/util/status.h"

namespace weft::exec::cuda {
namespace {

// Formats 91900 as "9.19.0".
std::string Version(int64_t version) {
  return absl::StrCat(version / 10000, ".", version % 10000 / 100, ".", version % 100);
}

// Opens NVRTC, which compiles the kernels that cuDNN writes, and NVRTC's builtins, whose file names contain their
// version. They are opened here because NVRTC opens them by name without looking in its own folder.
absl::Status OpenCompiler() {
  static const std::string kCompiler[] = {"libnvrtc.so.13"};
  WEFT_ASSIGN_OR_RETURN(const SharedLibrary compiler, SharedLibrary::Open("NVRTC 13, which cuDNN needs", kCompiler));
  const std::filesystem::path folder = std::filesystem::path(compiler.path()).parent_path();
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (!absl::StartsWith(name, "libnvrtc-builtins.so.13.")) continue;
    const std::string names[] = {name}, folders[] = {folder.string()};
    WEFT_RETURN_IF_ERROR(SharedLibrary::OpenFrom("the builtins of NVRTC 13, which cuDNN needs", names,
                                                 SharedLibrary::Scope::kLocal, folders, {})
                             .status());
  }
  return absl::OkStatus();
}

absl::StatusOr<const Cudnn*> Open() {
  // cuDNN opens these libraries by name when it first needs them. If a library of that name is already open, cuDNN gets
  // that library.
  static const std::string kCublas[] = {"libcublasLt.so.13"};
  WEFT_RETURN_IF_ERROR(SharedLibrary::Open("cuBLASLt 13, which cuDNN needs", kCublas).status());
  WEFT_RETURN_IF_ERROR(OpenCompiler());
  static const std::string kNames[] = {"libcudnn.so.9"};
  WEFT_ASSIGN_OR_RETURN(const SharedLibrary library, SharedLibrary::Open("cuDNN 9", kNames));
  auto cudnn = std::make_unique<Cudnn>();
  cudnn->path = library.path();
  WEFT_RETURN_IF_ERROR(library.Load("cudnnGetVersion", &cudnn->GetVersion));
  cudnn->version = static_cast<int64_t>(cudnn->GetVersion());
  WEFT_RETURN_IF_ERROR(CheckCudnnVersion(cudnn->version, cudnn->path));
  WEFT_RETURN_IF_ERROR(library.Load("cudnnGetErrorString", &cudnn->GetErrorString));
  WEFT_RETURN_IF_ERROR(library.Load("cudnnGetLastErrorString", &cudnn->GetLastErrorString));
  WEFT_RETURN_IF_ERROR(library.Load("cudnnCreate", &cudnn->Create));
  WEFT_RETURN_IF_ERROR(library.Load("cudnnDestroy", &cudnn->Destroy));
  WEFT_RETURN_IF_ERROR(library.Load("cudnnSetStream", &cudnn->SetStream));
  WEFT_RETURN_IF_ERROR(library.Load("cudnnBackendCreateDescriptor", &cudnn->BackendCreateDescriptor));
  WEFT_RETURN_IF_ERROR(library.Load("cudnnBackendDestroyDescriptor", &cudnn->BackendDestroyDescriptor));
  WEFT_RETURN_IF_ERROR(library.Load("cudnnBackendSetAttribute", &cudnn->BackendSetAttribute));
  WEFT_RETURN_IF_ERROR(library.Load("cudnnBackendGetAttribute", &cudnn->BackendGetAttribute));
  WEFT_RETURN_IF_ERROR(library.Load("cudnnBackendFinalize", &cudnn->BackendFinalize));
  WEFT_RETURN_IF_ERROR(library.Load("cudnnBackendExecute", &cudnn->BackendExecute));
  return cudnn.release();
}

}  // namespace

absl::Status Cudnn::Error(absl::string_view doing, cudnnStatus_t status) const {
  if (status == CUDNN_STATUS_SUCCESS) return absl::OkStatus();
  char detail[512] = {};
  GetLastErrorString(detail, sizeof detail);
  const std::string text = absl::StrCat("cuDNN, ", doing, ": ", GetErrorString(status), detail[0] == '\0' ? "" : ": ",
                                        static_cast<const char*>(detail));
  return status >= CUDNN_STATUS_NOT_SUPPORTED && status < CUDNN_STATUS_INTERNAL_ERROR ? absl::UnimplementedError(text)
                                                                                      : absl::InternalError(text);
}

absl::Status CheckCudnnVersion(int64_t version, absl::string_view path) {
  constexpr int64_t kOldest = 90800, kNewer = 100000;
  // NVIDIA's own frontend refuses attention in these versions, "due to known bugs".
  const bool wrong = version == 91000 || version == 91001;
  if (version >= kOldest && version < kNewer && !wrong) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("backend cuda: cuDNN in ", path, " has version ", Version(version),
                                                    "; allowed: 9.8.0 and later 9.x, except 9.10.0 and 9.10.1"));
}

absl::StatusOr<const Cudnn*> OpenCudnn() {
  // Never freed: the library stays loaded for the life of the process.
  static const absl::StatusOr<const Cudnn*>* opened = new absl::StatusOr<const Cudnn*>(Open());
  return *opened;
}

CudnnDescriptor::~CudnnDescriptor() {
  if (descriptor_ != nullptr) cudnn_->BackendDestroyDescriptor(descriptor_);
}

absl::StatusOr<CudnnDescriptor> CudnnDescriptor::Make(const Cudnn* cudnn, cudnnBackendDescriptorType_t type,
                                                      std::string what) {
  CudnnDescriptor made;
  made.cudnn_ = cudnn;
  made.what_ = std::move(what);
  WEFT_RETURN_IF_ERROR(
      cudnn->Error(absl::StrCat("making ", made.what_), cudnn->BackendCreateDescriptor(type, &made.descriptor_)));
  return made;
}

absl::Status CudnnDescriptor::Set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
                                  const void* values) {
  const cudnnStatus_t status = cudnn_->BackendSetAttribute(descriptor_, name, type, count, values);
  if (status == CUDNN_STATUS_SUCCESS) return absl::OkStatus();
  return cudnn_->Error(absl::StrCat("setting attribute ", static_cast<int>(name), " of ", what_), status);
}

absl::Status CudnnDescriptor::SetInts(cudnnBackendAttributeName_t name, absl::Span<const int64_t> values) {
  return Set(name, CUDNN_TYPE_INT64, static_cast<int64_t>(values.size()), values.data());
}

absl::Status CudnnDescriptor::SetInt(cudnnBackendAttributeName_t name, int64_t value) {
  return Set(name, CUDNN_TYPE_INT64, 1, &value);
}

absl::Status CudnnDescriptor::SetBool(cudnnBackendAttributeName_t name, bool value) {
  return Set(name, CUDNN_TYPE_BOOLEAN, 1, &value);
}

absl::Status CudnnDescriptor::SetDataType(cudnnBackendAttributeName_t name, cudnnDataType_t value) {
  return Set(name, CUDNN_TYPE_DATA_TYPE, 1, &value);
}

absl::Status CudnnDescriptor::SetDescriptor(cudnnBackendAttributeName_t name, const CudnnDescriptor& value) {
  return Set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value.descriptor_);
}

absl::Status CudnnDescriptor::Finalise() {
  const cudnnStatus_t status = cudnn_->BackendFinalize(descriptor_);
  if (status == CUDNN_STATUS_SUCCESS) return absl::OkStatus();
  return cudnn_->Error(absl::StrCat("finalising ", what_), status);
}

}  // namespace weft::exec::cuda
