// A rank's session with cuDNN: a handle on its device, and the workspace of plans.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_CUDNN_SESSION_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_CUDNN_SESSION_H_

#include <cstdint>
#include <map>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "executor/backends/cuda/cudnn_graph.h"
#include "executor/backends/cuda/library_workspace.h"
#include "executor/backends/cuda/matmul.h"
#include "executor/interface/device.h"

namespace weft::exec::cuda {

class CudnnSession {
 public:
  // Opens a session on a CUDA device, which must outlive it. Returns the errors of OpenCudnn, and Internal if cuDNN
  // does not start on this device.
  static absl::StatusOr<std::shared_ptr<CudnnSession>> Open(ComputeDevice* device);
  // Makes a session for a device that is only described to cuDNN: it finds engines but runs no plan. The arguments must
  // outlive the session.
  static std::shared_ptr<CudnnSession> ForDescribedDevice(const Cudnn* cudnn, const CudnnDescriptor* described,
                                                          ComputeDevice* memory);
  CudnnSession(const CudnnSession&) = delete;
  ~CudnnSession();

  const Cudnn* cudnn() const { return cudnn_; }
  CudnnTarget target() const { return {handle_, described_}; }
  LibraryWorkspace& workspace() { return workspace_; }
  ComputeDevice* device() const { return device_; }

  // Enqueues the plan.
  absl::Status Run(CudnnPlan& plan, absl::Span<const CudnnArgument> arguments, void* workspace,
                   const StreamRef& stream);

 private:
  CudnnSession(const Cudnn* cudnn, ComputeDevice* device) : cudnn_(cudnn), device_(device), workspace_(device) {}

  const Cudnn* cudnn_;
  ComputeDevice* device_;
  cudnnHandle_t handle_ = nullptr;
  const CudnnDescriptor* described_ = nullptr;
  // The stream on which the handle enqueues.
  void* stream_ = nullptr;
  bool has_stream_ = false;
  LibraryWorkspace workspace_;
};

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_CUDNN_SESSION_H_
