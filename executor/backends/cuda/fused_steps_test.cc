// Runs steps that cuDNN supports. In place of cuDNN, a library of our own kernels runs them. It must get the same
// arguments as the backend's kernels, so results are bitwise equal. The backend must announce the shapes that a program
// needs before the first step.
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "executor/backends/cuda/conformance/conformance_case.h"
#include "executor/backends/cuda/cuda_backend.h"
#include "executor/backends/cuda/emulated_libraries.h"
#include "executor/backends/cuda/kernels/conv.h"
#include "executor/backends/cuda/kernels/flash_attention.h"
#include "executor/interface/device.h"
#include "gtest/gtest.h"

namespace weft::exec::cuda {
namespace {

absl::Status StatusOf(Outcome outcome) { return outcome == nullptr ? absl::OkStatus() : absl::InternalError(outcome); }

struct Calls {
  int prepared = 0, run = 0;
  // Shapes that were announced. If a shape was announced, a run must use the last of them.
  std::vector<AttentionShape> attention;
  std::vector<ConvolutionShape> convolution;
};

class KernelAttention : public FusedAttention {
 public:
  explicit KernelAttention(Calls* calls) : calls_(calls) {}

  bool Has(const AttentionShape& shape, bool backward) override { return true; }
  absl::Status Prepare(const AttentionShape& shape, bool backward) override {
    ++calls_->prepared;
    calls_->attention.push_back(shape);
    return absl::OkStatus();
  }
  absl::Status Settle(IdleMemory& memory) override { return absl::OkStatus(); }
  absl::Status Forward(const AttentionShape& shape, const AttentionPointers& p, const StreamRef& stream) override {
    Count(shape);
    return StatusOf(Launch(AttentionForward{ProblemOf(shape, p)}, stream.native));
  }
  absl::Status Backward(const AttentionShape& shape, const AttentionPointers& p, const StreamRef& stream) override {
    Count(shape);
    AttentionGradient args;
    args.problem = ProblemOf(shape, p);
    args.d_o = PartOf(shape, shape.o, p.gradient_o);
    args.dq = PartOf(shape, shape.q, p.gradient_q);
    args.dk = PartOf(shape, shape.k, p.gradient_k);
    args.dv = PartOf(shape, shape.v, p.gradient_v);
    return StatusOf(Launch(args, stream.native));
  }

 private:
  void Count(const AttentionShape& shape) {
    ++calls_->run;
    EXPECT_TRUE(calls_->attention.empty() || calls_->attention.back() == shape) << "another shape than announced";
  }
  static HeadPart PartOf(const AttentionShape& shape, const HeadLayout& layout, const void* data) {
    return {{const_cast<void*>(data), shape.type}, layout.row_stride, 0, layout.head_stride};
  }
  static AttentionProblem ProblemOf(const AttentionShape& shape, const AttentionPointers& p) {
    AttentionProblem problem;
    problem.shape = {shape.batch, shape.sequence, shape.heads, shape.kv_heads, shape.head_size};
    problem.causal = shape.causal;
    problem.window = shape.window;
    problem.scale = shape.scale;
    problem.q = PartOf(shape, shape.q, p.q);
    problem.k = PartOf(shape, shape.k, p.k);
    problem.v = PartOf(shape, shape.v, p.v);
    problem.o = PartOf(shape, shape.o, p.o);
    problem.lse = {p.statistics, Type::kFp32};
    return problem;
  }

  Calls* calls_;
};

class KernelConvolution : public FusedConvolution {
 public:
  explicit KernelConvolution(Calls* calls) : calls_(calls) {}

  bool Has(const ConvolutionShape& shape, ConvolutionPart part) override { return true; }
  absl::Status Prepare(const ConvolutionShape& shape, ConvolutionPart part) override {
    ++calls_->prepared;
    calls_->convolution.push_back(shape);
    return absl::OkStatus();
  }
  absl::Status Settle(IdleMemory& memory) override { return absl::OkStatus(); }
  absl::Status Forward(const ConvolutionShape& shape, const void* x, const void* weight, const void* bias, void* y,
                       const StreamRef& stream) override {
    return StatusOf(
        Launch(ConvForward{ShapeOf(shape, false), At(shape, x), At(shape, weight), At(shape, bias), At(shape, y)},
               stream.native));
  }
  absl::Status Input(const ConvolutionShape& shape, const void* dy, const void* weight, bool accumulate, void* dx,
                     const StreamRef& stream) override {
    return StatusOf(
        Launch(ConvInput{ShapeOf(shape, accumulate), At(shape, dy), At(shape, weight), At(shape, dx)}, stream.native));
  }
  absl::Status Weight(const ConvolutionShape& shape, const void* dy, const void* x, bool accumulate, void* dweight,
                      const StreamRef& stream) override {
    return StatusOf(
        Launch(ConvWeight{ShapeOf(shape, accumulate), At(shape, dy), At(shape, x), At(shape, dweight)}, stream.native));
  }

 private:
  static Array At(const ConvolutionShape& shape, const void* data) { return {const_cast<void*>(data), shape.type}; }
  ConvShape ShapeOf(const ConvolutionShape& shape, bool accumulate) {
    ++calls_->run;
    EXPECT_TRUE(calls_->convolution.empty() || calls_->convolution.back() == shape) << "another shape than announced";
    ConvShape result;
    result.places = {shape.height, shape.width, shape.kernel_size, shape.stride};
    result.inputs = shape.channels;
    result.outputs = shape.outputs;
    result.out_rows = shape.samples * shape.out_height() * shape.out_width();
    result.in_double = shape.type == Type::kFp64;
    result.accumulate = accumulate;
    return result;
  }

  Calls* calls_;
};

// Returns a program with only this step.
Program ProgramOf(const ConformanceCase& c) {
  Program program;
  program.mutable_recipe()->set_microbatch_sequences(1);
  Segment* segment = program.add_segments();
  Step* step = segment->add_steps();
  *step = c.step;
  const auto add = [&](const Tensor& tensor) {
    Value* value = segment->add_values();
    value->set_dtype(tensor.dtype());
    for (const int64_t extent : tensor.shape()) value->add_shape(extent);
    return segment->values_size() - 1;
  };
  for (const Tensor& tensor : c.in) step->add_inputs(add(tensor));
  for (const Tensor& tensor : c.out) step->add_outputs(add(tensor));
  return program;
}

std::vector<Tensor> Results(const ConformanceCase& c, Libraries libraries, const Program* program) {
  const std::unique_ptr<ComputeDevice> device = MakeHostDevice();
  BackendOptions options;
  options.program = program;
  auto backend = MakeBackend(device.get(), std::move(libraries), options);
  EXPECT_TRUE(backend.ok()) << backend.status();
  std::vector<Tensor> in = c.in, out = c.out;
  StepContext context = c.context;
  context.stream = device->NewStream(ComputeDevice::Priority::kNormal).value();
  std::vector<TensorView> in_views, out_views;
  for (Tensor& tensor : in) in_views.push_back(tensor.view());
  for (Tensor& tensor : out) out_views.push_back(tensor.view());
  const absl::Status status = (*backend)->Run(c.step, in_views, out_views, context);
  EXPECT_TRUE(status.ok()) << status;
  return out;
}

class FusedStepsTest : public testing::TestWithParam<Kernel> {};

TEST_P(FusedStepsTest, AreWhatTheKernelsMake) {
  int taken = 0;
  for (int round = 0; round < 24; ++round) {
    for (const DType dtype : {FP32, BF16}) {
      CaseMaker maker(static_cast<uint64_t>(round) * 10 + dtype, round, dtype);
      const ConformanceCase c = MakeCase(maker, GetParam());
      SCOPED_TRACE(c.step.ShortDebugString());
      Calls calls;
      Libraries with = EmulatedLibraries();
      with.attention = std::make_unique<KernelAttention>(&calls);
      with.convolution = std::make_unique<KernelConvolution>(&calls);
      const Program program = ProgramOf(c);
      const std::vector<Tensor> fused = Results(c, std::move(with), round % 2 == 0 ? &program : nullptr);
      const std::vector<Tensor> own = Results(c, EmulatedLibraries(), nullptr);
      for (size_t i = 0; i < own.size(); ++i) EXPECT_EQ(own[i].bytes(), fused[i].bytes()) << "output " << i;
      // Two kinds of steps run on the backend's own kernels: steps with dropout, because its random numbers are weft's,
      // and CONV2D steps that add to their output.
      const bool ours = c.step.attributes().dropout() > 0 || (GetParam() == CONV2D && c.step.accumulate());
      const bool empty = c.in[0].size() == 0 || c.out[0].size() == 0;
      if (!empty) {
        EXPECT_EQ(calls.run, ours ? 0 : 1);
      }
      if (calls.run == 1) {
        EXPECT_EQ(calls.prepared, round % 2 == 0 ? 1 : 0);
      }
      taken += calls.run;
    }
  }
  EXPECT_GT(taken, 5);
}

INSTANTIATE_TEST_SUITE_P(Kernels, FusedStepsTest,
                         testing::Values(ATTENTION, ATTENTION_BACKWARD, CONV2D, CONV2D_BACKWARD,
                                         CONV2D_BACKWARD_WEIGHT),
                         [](const auto& info) { return Kernel_Name(info.param); });

}  // namespace
}  // namespace weft::exec::cuda
