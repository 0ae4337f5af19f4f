// Which of cuDNN's engines runs a convolution.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_CUDNN_CONVOLUTION_CHOICE_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_CUDNN_CONVOLUTION_CHOICE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "executor/backends/cuda/convolution.h"
#include "executor/backends/cuda/cudnn_graph.h"

namespace weft::exec::cuda {

// Of workspace for one call.
inline constexpr int64_t kConvolutionWorkspaceLimit = int64_t{256} << 20;

// x and y are images with their channels last, and so is the weight: [outputs, kernel_size, kernel_size, channels],
// which all of cuDNN's kernels for tensor cores take. As it is published the channels come before the places, which is
// the same only where there is one place.
struct ConvolutionGraph {
  CudnnGraph graph;
  CudnnGraph::Tensor x, weight, y;
};
// What is made is added to what is there if `accumulate`.
ConvolutionGraph MakeConvolutionGraph(const Cudnn* cudnn, const ConvolutionShape& shape, ConvolutionPart part,
                                      bool accumulate);

// Bytes of the weight; whether it lies otherwise in memory than it is published.
int64_t WeightBytes(const ConvolutionShape& shape);
inline bool IsWeightTurned(const ConvolutionShape& shape) { return shape.kernel_size > 1 && shape.channels > 1; }

// Why cuDNN is not asked for this shape; empty if it is.
std::string UnsupportedConvolution(const ConvolutionShape& shape);

struct ConvolutionChoice {
  ConvolutionGraph call;
  CudnnEngine engine;
  // What else there is, should that one not compile.
  std::vector<CudnnEngine> others;
};
// The best deterministic engine that keeps the precision: fp32 without TF32, sums in fp32, no transforms that lose
// bits. Unimplemented, with the reason, if there is none: kernels of our own are for that.
absl::StatusOr<std::unique_ptr<ConvolutionChoice>> ChooseConvolution(const Cudnn* cudnn, const ConvolutionShape& shape,
                                                                     ConvolutionPart part, bool accumulate,
                                                                     const CudnnTarget& target);

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_CUDNN_CONVOLUTION_CHOICE_H_
