// Interface for the convolutions of cuDNN in the CUDA backend. Shapes that cuDNN does not support run on the backend's
// own kernels.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_CONVOLUTION_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_CONVOLUTION_H_

#include <cstdint>

#include "absl/status/status.h"
#include "executor/backends/cuda/idle_memory.h"
#include "executor/backends/cuda/kernels/types.h"
#include "executor/backends/cuda/matmul.h"

namespace weft::exec::cuda {

// x: [samples * height * width, channels], y: [samples * out_height * out_width, outputs], channels last. weight:
// [outputs, channels, kernel_size, kernel_size], row-major. kernel_size is odd; the padding is kernel_size / 2 on every
// side. out_height = ceil(height / stride), and out_width likewise.
struct ConvolutionShape {
  // Type of x, y, weight and bias.
  Type type = Type::kNone;
  int64_t samples = 0;
  int64_t height = 0, width = 0;
  int64_t channels = 0, outputs = 0;
  int64_t kernel_size = 1;
  int64_t stride = 1;

  int64_t out_height() const { return (height + stride - 1) / stride; }
  int64_t out_width() const { return (width + stride - 1) / stride; }
  bool operator==(const ConvolutionShape&) const = default;
};

enum class ConvolutionPart { kForward, kInput, kWeight };

class FusedConvolution {
 public:
  virtual ~FusedConvolution() = default;

  // True if the library supports this part of this shape. The answer changes only if a Prepare fails: from then on the
  // part is refused.
  virtual bool Has(const ConvolutionShape& shape, ConvolutionPart part) = 0;
  // Makes the plan of a supported shape before the first step, so that no step has to make it.
  virtual absl::Status Prepare(const ConvolutionShape& shape, ConvolutionPart part) = 0;
  // Does the same as FusedAttention::Settle: allocates the workspace and runs each plan once in `memory`.
  virtual absl::Status Settle(IdleMemory& memory) = 0;
  // Enqueue one part of the convolution. Every run gives the same bits. `bias` may be null.
  virtual absl::Status Forward(const ConvolutionShape& shape, const void* x, const void* weight, const void* bias,
                               void* y, const StreamRef& stream) = 0;
  virtual absl::Status Input(const ConvolutionShape& shape, const void* dy, const void* weight, bool accumulate,
                             void* dx, const StreamRef& stream) = 0;
  virtual absl::Status Weight(const ConvolutionShape& shape, const void* dy, const void* x, bool accumulate,
                              void* dweight, const StreamRef& stream) = 0;
};

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_CONVOLUTION_H_
