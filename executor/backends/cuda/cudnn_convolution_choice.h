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

// Most bytes of workspace for one call.
inline constexpr int64_t kConvolutionWorkspaceLimit = int64_t{256} << 20;

// x and y are images with channels last. The weight has channels last too, [outputs, kernel_size, kernel_size,
// channels], because all of cuDNN's tensor-core kernels take this layout. A published weight has its channels before
// its places, which is the same layout only if there is one place or one channel.
struct ConvolutionGraph {
  CudnnGraph graph;
  CudnnGraph::Tensor x, weight, y;
};
// If `accumulate`, the result is added to the old value.
ConvolutionGraph MakeConvolutionGraph(const Cudnn* cudnn, const ConvolutionShape& shape, ConvolutionPart part,
                                      bool accumulate);

// Bytes of the weight, and true if cuDNN's layout of the weight differs from the published one.
int64_t WeightBytes(const ConvolutionShape& shape);
inline bool IsWeightTurned(const ConvolutionShape& shape) { return shape.kernel_size > 1 && shape.channels > 1; }

// Returns why cuDNN is not asked for this shape; empty if it is asked.
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
