#include "executor/backends/cuda/cudnn_convolution_choice.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/util/status.h"

namespace weft::exec::cuda {
namespace {

constexpr int64_t kMaxExtent = int64_t{1} << 15;
// Some code of cuDNN counts the elements of a tensor in 31 bits.
constexpr int64_t kMaxElements = int64_t{1} << 31;

constexpr uint32_t Bit(cudnnBackendNumericalNote_t note) { return uint32_t{1} << note; }

cudnnDataType_t DataType(Type type) {
  return type == Type::kFp32 ? CUDNN_DATA_FLOAT : type == Type::kFp16 ? CUDNN_DATA_HALF : CUDNN_DATA_BFLOAT16;
}

// Returns the numerical notes (as bits) of engines that lose precision. Such engines are refused.
uint32_t Refused(Type type) {
  const uint32_t always = Bit(CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION) | Bit(CUDNN_NUMERICAL_NOTE_FFT) |
                          Bit(CUDNN_NUMERICAL_NOTE_WINOGRAD) | Bit(CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS);
  // On fp32, tensor cores compute in TF32.
  return type == Type::kFp32 ? always | Bit(CUDNN_NUMERICAL_NOTE_TENSOR_CORE) : always;
}

// Returns the shape of images. The extents are sample, channel, height and width; the channels of a pixel are adjacent
// in memory.
CudnnShape Images(int64_t samples, int64_t channels, int64_t height, int64_t width) {
  return {{samples, channels, height, width}, {height * width * channels, 1, width * channels, channels}};
}

}  // namespace

ConvolutionGraph MakeConvolutionGraph(const Cudnn* cudnn, const ConvolutionShape& shape, ConvolutionPart part,
                                      bool accumulate) {
  constexpr CudnnGraph::ConvolutionKind kKinds[] = {
      CudnnGraph::ConvolutionKind::kForward, CudnnGraph::ConvolutionKind::kData, CudnnGraph::ConvolutionKind::kFilter};
  constexpr const char* kNames[] = {"forward", "backward to its input", "backward to its weight"};
  const int index = static_cast<int>(part);
  const int64_t side = shape.kernel_size;
  ConvolutionGraph made{
      CudnnGraph(cudnn, absl::StrCat("convolution ", kNames[index], " of ", shape.samples, " x ", shape.height, " x ",
                                     shape.width, " positions, ", shape.channels, " to ", shape.outputs,
                                     " channels by ", side, " x ", side, ", stride ", shape.stride)),
      0, 0, 0};
  const cudnnDataType_t type = DataType(shape.type);
  made.x = made.graph.InMemory("x", type, Images(shape.samples, shape.channels, shape.height, shape.width));
  made.weight = made.graph.InMemory("weight", type, Images(shape.outputs, shape.channels, side, side));
  made.y = made.graph.InMemory("y", type, Images(shape.samples, shape.outputs, shape.out_height(), shape.out_width()));
  made.graph.Convolve(kKinds[index], {side / 2, shape.stride}, made.x, made.weight, made.y, accumulate ? 1.0f : 0.0f);
  return made;
}

int64_t WeightBytes(const ConvolutionShape& shape) {
  return shape.outputs * shape.channels * shape.kernel_size * shape.kernel_size * (shape.type == Type::kFp32 ? 4 : 2);
}

std::string UnsupportedConvolution(const ConvolutionShape& shape) {
  if (shape.type != Type::kFp32 && shape.type != Type::kBf16 && shape.type != Type::kFp16) {
    return "values that are neither fp32 nor bf16 nor fp16";
  }
  for (const int64_t extent : {shape.height, shape.width, shape.channels, shape.outputs, shape.samples}) {
    if (extent <= 0 || extent > kMaxExtent) return absl::StrCat("an extent of ", extent);
  }
  if (shape.kernel_size <= 0 || shape.kernel_size > 64 || shape.kernel_size % 2 == 0 || shape.stride <= 0 ||
      shape.stride > 64) {
    return absl::StrCat("a kernel of ", shape.kernel_size, " and a stride of ", shape.stride);
  }
  // These products do not overflow: extents are at most 2^15, and `positions` is at most 2^31 when it is multiplied.
  const int64_t positions = shape.samples * (shape.height * shape.width);
  if (positions > kMaxElements || positions * shape.channels > kMaxElements ||
      positions * shape.outputs > kMaxElements) {
    return absl::StrCat(positions, " positions: more elements than cuDNN can count");
  }
  return "";
}

absl::StatusOr<std::unique_ptr<ConvolutionChoice>> ChooseConvolution(const Cudnn* cudnn, const ConvolutionShape& shape,
                                                                     ConvolutionPart part, bool accumulate,
                                                                     const CudnnTarget& target) {
  if (const std::string reason = UnsupportedConvolution(shape); !reason.empty()) {
    return absl::UnimplementedError(absl::StrCat("weft does not ask cuDNN for convolutions of ", reason));
  }
  auto choice = std::make_unique<ConvolutionChoice>(
      ConvolutionChoice{MakeConvolutionGraph(cudnn, shape, part, accumulate), {}, {}});
  WEFT_RETURN_IF_ERROR(choice->call.graph.Finish(target));
  WEFT_ASSIGN_OR_RETURN(std::vector<CudnnEngine> engines, choice->call.graph.Engines(target));
  WEFT_ASSIGN_OR_RETURN(choice->engine, ChooseCudnnEngine(std::move(engines), kConvolutionWorkspaceLimit,
                                                          Refused(shape.type), &choice->others));
  return choice;
}

}  // namespace weft::exec::cuda
