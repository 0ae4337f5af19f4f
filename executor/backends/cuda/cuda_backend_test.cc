#include "executor/backends/cuda/cuda_backend.h"

#include <vector>

#include "executor/backends/cpu_test_util.h"
#include "executor/backends/cuda/counting_device.h"
#include "executor/backends/cuda/emulated_libraries.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft::cuda {
namespace {

using cpu::Tensor;
using testing::HasSubstr;

int32_t AddValue(Segment& segment, const Tensor& tensor) {
  Value& value = *segment.add_values();
  value.set_dtype(tensor.dtype());
  for (int64_t extent : tensor.shape()) value.add_shape(extent);
  return segment.values_size() - 1;
}

struct StepCase {
  Step step;
  std::vector<Tensor> in, out;
};

// Steps that need memory of the backend's own.
std::vector<StepCase> Hungry() {
  std::vector<StepCase> cases(3);
  cases[0].step.set_kernel(BIAS_GRADIENT);
  cases[0].in.emplace_back(BF16, std::vector<int64_t>{2000, 512});
  cases[0].out.emplace_back(FP32, std::vector<int64_t>{512});
  cases[1].step.set_kernel(EMBEDDING_BACKWARD);
  cases[1].in.emplace_back(INT32, std::vector<int64_t>{64});
  cases[1].in.emplace_back(FP32, std::vector<int64_t>{64, 16});
  cases[1].out.emplace_back(FP32, std::vector<int64_t>{50000, 16});
  cases[2].step.set_kernel(ROPE);
  cases[2].step.mutable_attributes()->set_sequence(64);
  cases[2].step.mutable_attributes()->set_head_size(8);
  cases[2].step.mutable_attributes()->set_base(10000);
  cases[2].step.mutable_attributes()->set_magnitude(1);
  cases[2].in.emplace_back(FP32, std::vector<int64_t>{64, 16});
  cases[2].out.emplace_back(FP32, std::vector<int64_t>{64, 16});
  return cases;
}

TEST(CudaBackend, NothingIsAllocatedInStepsOfAProgram) {
  std::vector<StepCase> cases = Hungry();
  Program program;
  Segment& segment = *program.add_segments();
  for (StepCase& c : cases) {
    for (const Tensor& tensor : c.in) c.step.add_inputs(AddValue(segment, tensor));
    for (const Tensor& tensor : c.out) c.step.add_outputs(AddValue(segment, tensor));
    *segment.add_steps() = c.step;
  }
  CountingDevice device;
  BackendOptions options;
  options.program = &program;
  const auto backend = MakeBackend(&device, EmulatedLibraries(), options);
  ASSERT_TRUE(backend.ok()) << backend.status();
  const int before = device.allocations();
  EXPECT_GT(before, 0);
  for (StepCase& c : cases) {
    const absl::Status status = cpu::RunStep(**backend, c.step, c.in, c.out);
    EXPECT_TRUE(status.ok()) << status;
  }
  EXPECT_EQ(device.allocations(), before);
}

TEST(CudaBackend, AllocatesAsItGoesWithoutAProgram) {
  std::vector<StepCase> cases = Hungry();
  CountingDevice device;
  const auto backend = MakeBackend(&device, EmulatedLibraries(), {});
  ASSERT_TRUE(backend.ok()) << backend.status();
  EXPECT_EQ(device.allocations(), 0);
  for (int i = 0; i < 2; ++i) {
    for (StepCase& c : cases) EXPECT_TRUE(cpu::RunStep(**backend, c.step, c.in, c.out).ok());
  }
  EXPECT_LE(device.allocations(), 4);
}

TEST(CudaBackend, RefusesWhatItCannotDo) {
  CountingDevice device;
  EXPECT_FALSE(MakeBackend(&device, {}, {}).ok());
  const auto backend = MakeBackend(&device, EmulatedLibraries(), {});
  const auto refusal = [&](Step step, std::vector<Tensor> in, std::vector<Tensor> out) {
    step.set_name("the step");
    const absl::Status status = cpu::RunStep(**backend, step, in, out);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  Step step;
  step.set_kernel(GROUP_ALL_REDUCE);
  EXPECT_THAT(refusal(step, {}, {}), HasSubstr("the CUDA backend has no kernel 90"));
  step.set_kernel(MATMUL);
  EXPECT_THAT(refusal(step, {Tensor(BF16, {2, 3}), Tensor(FP32, {3, 4})}, {Tensor(FP32, {2, 4})}),
              HasSubstr("MATMUL of BF16 and FP32"));
  EXPECT_THAT(refusal(step, {Tensor(FP32, {2, 3}), Tensor(FP32, {5, 4})}, {Tensor(FP32, {2, 4})}),
              HasSubstr("matrices of 2 x 3 and 5 x 4 have no product of 2 x 4"));
  step.set_kernel(GELU);
  EXPECT_THAT(refusal(step, {Tensor(INT32, {4})}, {Tensor(FP32, {4})}),
              HasSubstr("input 0 is INT32; the CUDA backend takes FP64, FP32, BF16 or FP16"));
  EXPECT_THAT(refusal(step, {Tensor(FP32, {4})}, {Tensor(FP32, {5})}), HasSubstr("tensors of 4 and 5 elements"));
}

// A token that the table does not have is not read from elsewhere: it gives NaN, which ends the run by its loss.
TEST(CudaBackend, TokensWithoutARowGiveNaN) {
  CountingDevice device;
  const auto backend = MakeBackend(&device, EmulatedLibraries(), {});
  Step step;
  step.set_kernel(EMBEDDING);
  std::vector<Tensor> in = {Tensor(INT32, {3}), Tensor(FP32, {4, 2})}, out = {Tensor(FP32, {3, 2})};
  in[0].Set(0, 4);
  in[0].Set(1, -1);
  in[0].Set(2, 3);
  ASSERT_TRUE(cpu::RunStep(**backend, step, in, out).ok());
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(std::isnan(out[0].Get(i)));
  EXPECT_EQ(out[0].Get(4), 0);
  // Its gradient goes nowhere.
  step.set_kernel(EMBEDDING_BACKWARD);
  std::vector<Tensor> table = {Tensor(FP32, {4, 2})};
  in[1] = Tensor(FP32, {3, 2});
  for (int i = 0; i < 6; ++i) in[1].Set(i, 1);
  ASSERT_TRUE(cpu::RunStep(**backend, step, in, table).ok());
  for (int i = 0; i < 8; ++i) EXPECT_EQ(table[0].Get(i), i >= 6 ? 1 : 0);
}

}  // namespace
}  // namespace weft::cuda
