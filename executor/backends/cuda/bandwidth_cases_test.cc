#include "executor/backends/cuda/bandwidth_cases.h"

#include <set>

#include "executor/backends/cpu_test_util.h"
#include "executor/backends/cuda/emulated_backend.h"
#include "gtest/gtest.h"

namespace weft::cuda {
namespace {

// They are steps that the backend takes.
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
    const absl::Status status = (*backend)->Run(c.step, in, out, c.context);
    EXPECT_TRUE(status.ok()) << status;
  }
  EXPECT_GT(names.size(), 20u);
}

TEST(BandwidthCases, CountEachOperandOnce) {
  for (const BandwidthCase& c : BandwidthCases(256, 128, 500)) {
    if (c.step.kernel() == ADD) {
      EXPECT_EQ(c.Bytes(), 3 * 256 * 128 * 2);
    }
    // Gradient, three of fp32 in and out, and the parameter.
    if (c.step.kernel() == ADAMW) {
      EXPECT_EQ(c.Bytes(), 256 * 128 * (2 + 12 + 12 + 2));
    }
    if (c.step.kernel() == LAYER_NORM_BACKWARD) {
      EXPECT_GE(c.Bytes(), 4 * 256 * 128 * 2);
    }
  }
}

}  // namespace
}  // namespace weft::cuda
