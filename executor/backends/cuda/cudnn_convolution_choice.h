// Chooses cuDNN's engine for a convolution.
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

// Maximum bytes of workspace for one call.
inline constexpr int64_t kConvolutionWorkspaceLimit = int64_t{256} << 20;

// x and y are images with channels last. The weight has channels last too, [outputs, kernel_size, kernel_size,
// channels], because all of cuDNN's tensor-core kernels take this layout. A published weight has the layout [outputs,
// channels, kernel_size, kernel_size], which is the same only if kernel_size or the number of channels is 1.
struct ConvolutionGraph {
  CudnnGraph graph;
  CudnnGraph::Tensor x, weight, y;
};
// Makes the graph of a convolution or of one of its derivatives. If `accumulate`, the graph adds the result to the old
// value.
ConvolutionGraph MakeConvolutionGraph(const Cudnn* cudnn, const ConvolutionShape& shape, ConvolutionPart part,
                                      bool accumulate);

// Return the bytes of the weight, and whether cuDNN's layout of the weight differs from the published layout.
int64_t WeightBytes(const ConvolutionShape& shape);
inline bool IsWeightTurned(const ConvolutionShape& shape) { return shape.kernel_size > 1 && shape.channels > 1; }

// Returns why cuDNN is never used for this shape; empty if it may be used.
std::string UnsupportedConvolution(const ConvolutionShape& shape);

struct ConvolutionChoice {
  ConvolutionGraph call;
  CudnnEngine engine;
  // Other engines, in case `engine` does not compile.
  std::vector<CudnnEngine> others;
};
// Returns the best deterministic engine that keeps the precision: fp32 without TF32, sums in fp32, no transforms that
// lose bits. Returns Unimplemented, with the reason, if there is none: the backend's own kernels then run the
// convolution.
absl::StatusOr<std::unique_ptr<ConvolutionChoice>> ChooseConvolution(const Cudnn* cudnn, const ConvolutionShape& shape,
                                                                     ConvolutionPart part, bool accumulate,
                                                                     const CudnnTarget& target);

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_CUDNN_CONVOLUTION_CHOICE_H_
