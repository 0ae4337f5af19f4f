#include "executor/backends/cuda/bandwidth_cases.h"

#include <list>
#include <set>

#include "executor/backends/cpu/cpu_test_util.h"
#include "executor/backends/cuda/emulated_backend.h"
#include "gtest/gtest.h"
#include "kernels/check_alone.h"

namespace weft::exec::cuda {
namespace {

// Every step that is measured alone, not in a launch of several steps, could be a step of a Program.
TEST(BandwidthCases, FitTheirRows) {
  for (const BandwidthCase& c : BandwidthCases(256, 128, 500)) {
    std::vector<kernels::StepTensor> in, out;
    for (const BandwidthOperand& operand : c.in) {
      in.push_back({"in", operand.dtype, operand.shape, static_cast<int>(in.size())});
    }
    for (size_t i = 0; i < c.out.size(); ++i) {
      const int place = c.in_place[i] >= 0 ? c.in_place[i] : static_cast<int>(c.in.size() + i);
      out.push_back({"out", c.out[i].dtype, c.out[i].shape, place});
    }
    if (!c.launch.empty()) continue;
    EXPECT_EQ(kernels::CheckAlone(c.step, in, out), "") << c.name;
  }
}

// The backend accepts the step of every case that is not a launch of several steps.
TEST(BandwidthCases, RunOnTheEmulation) {
  const auto device = EmulatedBackend().open({});
  const auto backend = EmulatedBackend().make(device->get(), {});
  std::set<std::string> names;
  for (const BandwidthCase& c : BandwidthCases(256, 128, 500)) {
    SCOPED_TRACE(c.name);
    EXPECT_TRUE(names.insert(c.name).second);
    std::vector<cpu::Tensor> tensors;
    for (const auto* operands : {&c.in, &c.out}) {
      for (const BandwidthOperand& operand : *operands) {
        tensors.emplace_back(operand.dtype, operand.shape);
        EXPECT_EQ(static_cast<int64_t>(tensors.back().bytes().size()), operand.Bytes() + 64);
      }
    }
    std::vector<TensorView> in, out;
    for (size_t i = 0; i < c.in.size(); ++i) in.push_back(tensors[i].view());
    for (size_t i = 0; i < c.out.size(); ++i) {
      out.push_back(c.in_place[i] >= 0 ? in[c.in_place[i]] : tensors[c.in.size() + i].view());
    }
    if (!c.launch.empty()) continue;
    const absl::Status status = (*backend)->Run(c.step, in, out, c.context);
    EXPECT_TRUE(status.ok()) << status;
  }
}

TEST(BandwidthCases, LaunchesOfSeveralStepsAreOne) {
  const auto device = EmulatedBackend().open({});
  const auto backend = EmulatedBackend().make(device->get(), {});
  std::multiset<Kernel> begin_with;
  for (const BandwidthCase& c : BandwidthCases(256, 1152, 500)) {
    if (c.launch.empty()) continue;
    SCOPED_TRACE(c.name);
    std::vector<cpu::Tensor> tensors;
    for (const auto* operands : {&c.in, &c.out}) {
      for (const BandwidthOperand& operand : *operands) tensors.emplace_back(operand.dtype, operand.shape);
    }
    std::list<std::vector<TensorView>> views;
    std::vector<StepOfRun> steps;
    for (const BandwidthStep& step : c.launch) {
      std::vector<TensorView>&in = views.emplace_back(), &out = views.emplace_back();
      for (const int i : step.in) in.push_back(tensors[i].view());
      for (const int i : step.out) out.push_back(tensors[i].view());
      steps.push_back({&step.step, in, out});
    }
    const auto run = (*backend)->PrepareRun(steps);
    ASSERT_TRUE(run.ok()) << run.status();
    ASSERT_NE(*run, nullptr);
    EXPECT_TRUE((*run)->Run(c.context).ok());
    begin_with.insert(c.step.kernel());
  }
  for (const Kernel kernel : {RMS_NORM_BACKWARD, LAYER_NORM_BACKWARD}) EXPECT_EQ(begin_with.count(kernel), 1u);
  for (const Kernel kernel : {ADD, GELU_BACKWARD}) EXPECT_GE(begin_with.count(kernel), 1u);
}

// A new kernel must either be measured or be listed as not bound by memory.
TEST(BandwidthCases, AreOfEveryKernelThatMemoryBounds) {
  // Kernels that are not bound by memory: the host makes their tensors, or they are products, handle at most one number
  // per row, or compute functions of angles.
  std::set<Kernel> others = {KERNEL_UNSPECIFIED, GROUP_ALL_REDUCE, GROUP_ALL_GATHER, GROUP_REDUCE_SCATTER};
  others.insert({LOAD_TOKENS, LOAD_TARGETS, LOAD_TIMESTEPS, LOAD_NOISY_IMAGE, LOAD_NOISE});
  others.insert({MATMUL, ATTENTION, ATTENTION_BACKWARD, CONV2D, CONV2D_BACKWARD, CONV2D_BACKWARD_WEIGHT});
  others.insert({ATTENTION_SCORES, ATTENTION_SCORES_BACKWARD, ATTENTION_VALUES, ATTENTION_VALUES_BACKWARD});
  others.insert({NORM_COMBINE, NORM_TOTAL, UPDATE_LOSS_SCALE, CROSS_ENTROPY_COMBINE, TIMESTEP_EMBEDDING});
  std::set<Kernel> measured;
  for (const BandwidthCase& c : BandwidthCases(256, 128, 500)) measured.insert(c.step.kernel());
  for (int i = 0; i < Kernel_descriptor()->value_count(); ++i) {
    const auto kernel = static_cast<Kernel>(Kernel_descriptor()->value(i)->number());
    EXPECT_NE(measured.count(kernel), others.count(kernel)) << Kernel_Name(kernel);
  }
}

// Checks the sizes of kernel_bandwidth.cc. The GPU's caches hold 50 MB.
TEST(BandwidthCases, AreLargerThanAnyCache) {
  for (const BandwidthCase& c : BandwidthCases(32768, 4096, 50304)) EXPECT_GT(c.Bytes(), int64_t{250} << 20) << c.name;
}

TEST(BandwidthCases, CountEachOperandOnce) {
  for (const BandwidthCase& c : BandwidthCases(256, 128, 500)) {
    if (c.name == "ADD bf16") {
      EXPECT_EQ(c.Bytes(), 3 * 256 * 128 * 2);
    }
    // Bytes per element: the gradient, three fp32 states that are read and written, and the parameter.
    if (c.name == "ADAMW fp32") {
      EXPECT_EQ(c.Bytes(), 256 * 128 * (2 + 12 + 12 + 2));
    }
    if (c.name == "ADAMW bf16 at random") {
      EXPECT_EQ(c.Bytes(), 256 * 128 * (2 + 8 + 8 + 2));
    }
    // The kernel accumulates into dx, so it reads dx too. It also reads weights and statistics.
    if (c.name == "LAYER_NORM_BACKWARD bf16") {
      EXPECT_EQ(c.Bytes(), 4 * 256 * 128 * 2 + 128 * 2 + 2 * 256 * 4);
    }
    // The tokens name 256 of 500 rows.
    if (c.name == "EMBEDDING bf16") {
      EXPECT_EQ(c.Bytes(), 256 * 4 + 2 * 256 * 128 * 2);
    }
    if (c.name == "EMBEDDING_BACKWARD bf16") {
      EXPECT_EQ(c.Bytes(), 256 * 4 + 256 * 128 * 2 + 2 * 256 * 128 * 4);
    }
    if (c.name == "SLICE_COLUMNS bf16") {
      EXPECT_EQ(c.Bytes(), 2 * 256 * 64 * 2);
    }
  }
}

}  // namespace
}  // namespace weft::exec::cuda
