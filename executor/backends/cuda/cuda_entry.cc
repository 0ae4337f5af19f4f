// Registers the backend `cuda`: how to open the GPU, and how to make the backend with CUDA's libraries.
#include <cstdlib>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "executor/backends/cuda/cublaslt_library.h"
#include "executor/backends/cuda/cublaslt_matmul.h"
#include "executor/backends/cuda/cuda_backend.h"
#include "executor/backends/cuda/cuda_device.h"
#include "executor/backends/cuda/cuda_switches.h"
#include "executor/backends/cuda/cudnn_attention.h"
#include "executor/backends/cuda/cudnn_convolution.h"
#include "executor/backends/cuda/cudnn_session.h"
#include "executor/interface/backend.h"
#include "executor/interface/tuning_options.h"
#include "proto/util/status.h"

namespace weft::exec {
namespace {

absl::StatusOr<cuda::Libraries> OpenLibraries(cuda::CudaDevice* device, const BackendOptions& options) {
  const auto variable = [](const char* name) {
    const char* const value = std::getenv(name);
    return value == nullptr ? "" : value;
  };
  WEFT_ASSIGN_OR_RETURN(const cuda::Switches switches,
                        cuda::ParseSwitches(variable("WEFT_CUDA_WITH"), variable("WEFT_CUDA_WITHOUT")));
  WEFT_ASSIGN_OR_RETURN(const TuningOptions tuning, ParseTuningOptions(options.tuning));
  WEFT_ASSIGN_OR_RETURN(const cuda::CublasLt* lt, cuda::OpenCublasLt());
  WEFT_RETURN_IF_ERROR(device->Use());
  cuda::Libraries libraries;
  const cuda::TuningDevice described = {device->architecture(), device->multiprocessors(), lt->version,
                                        device->product()};
  WEFT_ASSIGN_OR_RETURN(libraries.matmul, cuda::MakeCublasLtMatmul(lt, device, described, tuning));
  WEFT_ASSIGN_OR_RETURN(const std::shared_ptr<cuda::CudnnSession> cudnn, cuda::CudnnSession::Open(device));
  if (switches.cudnn_attention) libraries.attention = cuda::MakeCudnnAttention(cudnn);
  if (switches.cudnn_convolution) libraries.convolution = cuda::MakeCudnnConvolution(cudnn);
  libraries.joins_launches = switches.joined_launches;
  return libraries;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ComputeDevice>> OpenCudaDevice(const DeviceOptions& options) {
  return cuda::CudaDevice::Open(options);
}

absl::StatusOr<std::unique_ptr<Backend>> MakeCuda(ComputeDevice* device, const BackendOptions& options) {
  cuda::CudaDevice* const gpu = cuda::AsCudaDevice(device);
  if (gpu == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("the CUDA backend does not run on device '", device->name(), "'"));
  }
  WEFT_ASSIGN_OR_RETURN(cuda::Libraries libraries, OpenLibraries(gpu, options));
  return cuda::MakeBackend(device, std::move(libraries), options);
}

}  // namespace weft::exec
