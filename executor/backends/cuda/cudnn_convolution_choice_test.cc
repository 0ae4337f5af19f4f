// Shows without a GPU that cuDNN has kernels for our convolutions, as cudnn_attention_choice_test.cc does for
// attention.
#include "executor/backends/cuda/cudnn_convolution_choice.h"

#include <gtest/gtest.h>

#include <vector>

#include "executor/backends/cuda/cudnn_described_device_testing.h"

namespace weft::exec::cuda {
namespace {

ConvolutionShape Shape(int64_t samples, int64_t side, int64_t channels, int64_t outputs, int64_t kernel_size,
                       int64_t stride) {
  ConvolutionShape shape;
  shape.type = Type::kBf16;
  shape.samples = samples;
  shape.height = shape.width = side;
  shape.channels = channels;
  shape.outputs = outputs;
  shape.kernel_size = kernel_size;
  shape.stride = stride;
  return shape;
}

// Returns convolutions of diffusion models: the first and the last of a model, two within a level, one to the next
// level (stride 2), one with a 1 x 1 kernel, and one of odd sizes.
std::vector<ConvolutionShape> Shapes() {
  ConvolutionShape odd = Shape(3, 9, 24, 40, 3, 2);
  odd.width = 7;
  return {Shape(8, 32, 3, 128, 3, 1),
          Shape(8, 32, 128, 3, 3, 1),
          Shape(8, 32, 128, 128, 3, 1),
          Shape(8, 16, 256, 256, 3, 1),
          Shape(8, 32, 128, 128, 3, 2),
          Shape(8, 16, 128, 256, 1, 1),
          odd};
}

constexpr ConvolutionPart kParts[] = {ConvolutionPart::kForward, ConvolutionPart::kInput, ConvolutionPart::kWeight};

TEST(ConvolutionChoice, HasDeterministicEnginesOfThePrecisionAskedFor) {
  const auto cudnn = OpenCudnnWithoutDriver();
  ASSERT_TRUE(cudnn.ok()) << cudnn.status();
  const auto device = Describe(*cudnn, kH200);
  ASSERT_TRUE(device.ok()) << device.status();
  const CudnnTarget target = {nullptr, &*device};
  for (ConvolutionShape shape : Shapes()) {
    for (const Type type : {Type::kBf16, Type::kFp16, Type::kFp32}) {
      shape.type = type;
      for (const ConvolutionPart part : kParts) {
        for (const bool accumulate : {false, true}) {
          if (accumulate && part == ConvolutionPart::kForward) continue;
          const auto choice = ChooseConvolution(*cudnn, shape, part, accumulate, target);
          ASSERT_TRUE(choice.ok()) << choice.status() << " type " << static_cast<int>(type);
          const CudnnEngine& engine = (*choice)->engine;
          EXPECT_TRUE(engine.deterministic());
          EXPECT_LE(engine.workspace_bytes, kConvolutionWorkspaceLimit);
          EXPECT_FALSE(engine.Has(CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION));
          if (type == Type::kFp32) {
            EXPECT_FALSE(engine.Has(CUDNN_NUMERICAL_NOTE_TENSOR_CORE));
          }
        }
      }
    }
  }
}

// Shows that the check can fail: cuDNN refuses a weight whose number of channels differs from the image's.
TEST(ConvolutionChoice, WrongGraphsAreRefused) {
  const auto cudnn = OpenCudnnWithoutDriver();
  ASSERT_TRUE(cudnn.ok()) << cudnn.status();
  const auto device = Describe(*cudnn, kH200);
  ASSERT_TRUE(device.ok()) << device.status();
  const CudnnTarget target = {nullptr, &*device};
  const CudnnShape images = {{8, 64, 32, 32}, {32 * 32 * 64, 1, 32 * 64, 64}};
  for (const int64_t channels : {64, 48}) {
    CudnnGraph graph(*cudnn, "by hand");
    const auto x = graph.InMemory("x", CUDNN_DATA_BFLOAT16, images);
    const auto weight = graph.InMemory("weight", CUDNN_DATA_BFLOAT16, CudnnShape::Dense(64, channels, 3, 3));
    const auto y = graph.InMemory("y", CUDNN_DATA_BFLOAT16, images);
    graph.Convolve(CudnnGraph::ConvolutionKind::kForward, {1, 1}, x, weight, y, 0);
    const bool closed = graph.Finish(target).ok();
    EXPECT_EQ(closed && graph.Engines(target).ok(), channels == 64);
  }
}

TEST(UnsupportedConvolution, SaysWhy) {
  ConvolutionShape shape = Shapes()[0];
  EXPECT_EQ(UnsupportedConvolution(shape), "");
  shape.type = Type::kFp64;
  EXPECT_EQ(UnsupportedConvolution(shape), "values that are neither fp32 nor bf16 nor fp16");
  shape = Shapes()[0];
  shape.kernel_size = 2;
  EXPECT_EQ(UnsupportedConvolution(shape), "a kernel of 2 and a stride of 1");
  shape = Shapes()[0];
  shape.height = int64_t{1} << 40;
  EXPECT_EQ(UnsupportedConvolution(shape), "an extent of 1099511627776");
  shape = Shapes()[0];
  shape.height = shape.width = shape.samples = 1 << 15;
  EXPECT_EQ(UnsupportedConvolution(shape), "35184372088832 positions: more elements than cuDNN can count");
}

}  // namespace
}  // namespace weft::exec::cuda
