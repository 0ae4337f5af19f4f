// The backend interface of cuDNN 9, opened at run time: its functions in a table, its descriptors as owned values.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_CUDNN_LIBRARY_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_CUDNN_LIBRARY_H_

#include <cudnn_graph.h>

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace weft::exec::cuda {

// The cuDNN functions that the backend uses, under their names without the prefix "cudnn".
struct Cudnn {
  // Path and version of the library that was opened; 91900 is version 9.19.0.
  std::string path;
  int64_t version = 0;

  decltype(&cudnnGetVersion) GetVersion = nullptr;
  decltype(&cudnnGetErrorString) GetErrorString = nullptr;
  decltype(&cudnnGetLastErrorString) GetLastErrorString = nullptr;
  decltype(&cudnnCreate) Create = nullptr;
  decltype(&cudnnDestroy) Destroy = nullptr;
  decltype(&cudnnSetStream) SetStream = nullptr;
  decltype(&cudnnBackendCreateDescriptor) BackendCreateDescriptor = nullptr;
  decltype(&cudnnBackendDestroyDescriptor) BackendDestroyDescriptor = nullptr;
  decltype(&cudnnBackendSetAttribute) BackendSetAttribute = nullptr;
  decltype(&cudnnBackendGetAttribute) BackendGetAttribute = nullptr;
  decltype(&cudnnBackendFinalize) BackendFinalize = nullptr;
  decltype(&cudnnBackendExecute) BackendExecute = nullptr;

  // Returns an error such as "cuDNN, finalising the operation graph: CUDNN_STATUS_NOT_SUPPORTED_LAYOUT: ...", with
  // cuDNN's last message.
  absl::Status Error(absl::string_view doing, cudnnStatus_t status) const;
};

// Opens cuDNN once per process, after the libraries that cuDNN itself opens (cuBLASLt, NVRTC), wherever they are
// installed (executor/platform/shared_library.h). Returns NotFound if a library is not installed, and
// FailedPrecondition if its version cannot be used; each error is one line. cuDNN 9.8 is the first version that answers
// queries without a device.
absl::StatusOr<const Cudnn*> OpenCudnn();

// Returns FailedPrecondition unless the backend can use this version.
absl::Status CheckCudnnVersion(int64_t version, absl::string_view path);

// A backend descriptor. Its attributes are set, then it is finalized.
class CudnnDescriptor {
 public:
  CudnnDescriptor() = default;
  CudnnDescriptor(CudnnDescriptor&& other) noexcept
      : cudnn_(other.cudnn_), descriptor_(std::exchange(other.descriptor_, nullptr)), what_(std::move(other.what_)) {}
  CudnnDescriptor& operator=(CudnnDescriptor&& other) noexcept {
    std::swap(cudnn_, other.cudnn_);
    std::swap(descriptor_, other.descriptor_);
    std::swap(what_, other.what_);
    return *this;
  }
  ~CudnnDescriptor();

  // `what` names the descriptor in errors, e.g. "the matmul q k".
  static absl::StatusOr<CudnnDescriptor> Make(const Cudnn* cudnn, cudnnBackendDescriptorType_t type, std::string what);

  absl::Status Set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
                   const void* values);
  absl::Status SetInts(cudnnBackendAttributeName_t name, absl::Span<const int64_t> values);
  absl::Status SetInt(cudnnBackendAttributeName_t name, int64_t value);
  absl::Status SetBool(cudnnBackendAttributeName_t name, bool value);
  absl::Status SetDataType(cudnnBackendAttributeName_t name, cudnnDataType_t value);
  absl::Status SetDescriptor(cudnnBackendAttributeName_t name, const CudnnDescriptor& value);
  absl::Status Finalise();

  cudnnBackendDescriptor_t get() const { return descriptor_; }
  const Cudnn* cudnn() const { return cudnn_; }
  const std::string& what() const { return what_; }

 private:
  const Cudnn* cudnn_ = nullptr;
  cudnnBackendDescriptor_t descriptor_ = nullptr;
  std::string what_;
};

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_CUDNN_LIBRARY_H_
