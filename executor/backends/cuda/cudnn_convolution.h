// Implements FusedConvolution by cuDNN.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_CUDNN_CONVOLUTION_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_CUDNN_CONVOLUTION_H_

#include <memory>

#include "executor/backends/cuda/convolution.h"
#include "executor/backends/cuda/cudnn_session.h"

namespace weft::exec::cuda {

// Makes convolutions by cuDNN. Has is true for a shape if ChooseConvolution finds engines for the session's device,
// until an attempt to compile them fails.
std::unique_ptr<FusedConvolution> MakeCudnnConvolution(std::shared_ptr<CudnnSession> session);

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_CUDNN_CONVOLUTION_H_
