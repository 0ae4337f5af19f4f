// CONV2D and its derivatives, for convolutions that cuDNN does not support.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_CONV_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_CONV_H_

#include "executor/backends/cuda/kernels/conv_places.h"
#include "executor/backends/cuda/kernels/types.h"

namespace weft::exec::cuda {

struct ConvShape {
  ConvPlaces places;
  // Channels of input and output, and rows of the output.
  int64_t inputs = 0, outputs = 0, out_rows = 0;
  bool in_double = false, accumulate = false;

  int64_t samples() const { return out_rows / (places.out_height() * places.out_width()); }
  int64_t in_rows() const { return samples() * places.height * places.width; }
};

// The weight is [outputs, inputs, places]. The bias is optional.
struct ConvForward {
  ConvShape shape;
  Array x, weight, bias;
  Array y;
};
Outcome Launch(const ConvForward& args, void* stream);

struct ConvInput {
  ConvShape shape;
  Array dy, weight;
  Array dx;
};
Outcome Launch(const ConvInput& args, void* stream);

struct ConvWeight {
  ConvShape shape;
  Array dy, x;
  Array dweight;
};
Outcome Launch(const ConvWeight& args, void* stream);

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_CONV_H_
