#include "executor/backends/cuda/cudnn_session.h"

#include "absl/strings/str_cat.h"
#include "executor/backends/cuda/cuda_device.h"
#include "proto/util/status.h"

namespace weft::exec::cuda {

absl::StatusOr<std::shared_ptr<CudnnSession>> CudnnSession::Open(ComputeDevice* device) {
  CudaDevice* cuda = AsCudaDevice(device);
  if (cuda == nullptr) return absl::InternalError(absl::StrCat("cuDNN does not run on device '", device->name(), "'"));
  WEFT_ASSIGN_OR_RETURN(const Cudnn* cudnn, OpenCudnn());
  WEFT_RETURN_IF_ERROR(cuda->Use());
  std::shared_ptr<CudnnSession> session(new CudnnSession(cudnn, device));
  WEFT_RETURN_IF_ERROR(cudnn->Error("starting it on the device", cudnn->Create(&session->handle_)));
  return session;
}

std::shared_ptr<CudnnSession> CudnnSession::ForDescribedDevice(const Cudnn* cudnn, const CudnnDescriptor* described,
                                                               ComputeDevice* memory) {
  std::shared_ptr<CudnnSession> session(new CudnnSession(cudnn, memory));
  session->described_ = described;
  return session;
}

CudnnSession::~CudnnSession() {
  if (handle_ != nullptr) cudnn_->Destroy(handle_);
}

absl::Status CudnnSession::Run(CudnnPlan& plan, absl::Span<const CudnnArgument> arguments, void* workspace,
                               const StreamRef& stream) {
  if (!has_stream_ || stream.native != stream_) {
    WEFT_RETURN_IF_ERROR(
        cudnn_->Error("choosing a stream", cudnn_->SetStream(handle_, static_cast<cudaStream_t>(stream.native))));
    stream_ = stream.native;
    has_stream_ = true;
  }
  return RunCudnnPlan(plan, handle_, arguments, workspace);
}

}  // namespace weft::exec::cuda
