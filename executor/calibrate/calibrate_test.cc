#include "executor/calibrate/calibrate.h"

#include <set>
#include <string>

#include "executor/calibrate/calibrate_kernels.h"
#include "executor/collective.h"
#include "gtest/gtest.h"
#include "proto/program.pb.h"
#include "proto/validate.h"

namespace weft {
namespace {

TEST(CalibrateTest, TheClusterIsValidAndKnowsEveryKernel) {
  int reports = 0;
  CalibrateOptions options;
  options.ranks = 3;
  options.seconds = 0.5;
  options.on_progress = [&](const std::string&) { ++reports; };
  const absl::StatusOr<Cluster> cluster = Calibrate(options);
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  EXPECT_TRUE(Validate(*cluster).ok()) << Validate(*cluster);
  EXPECT_EQ(cluster->devices_per_node(), 3);
  EXPECT_GE(cluster->compute_slots_per_node(), 1);
  EXPECT_LE(cluster->compute_slots_per_node(), 3);
  EXPECT_EQ(cluster->compute_turn_seconds() > 0, cluster->compute_slots_per_node() < 3);
  // Rule P7: at least one collective's messages.
  EXPECT_GE(cluster->device().reserved_bytes(), Communicator::kScratchBytes);
  EXPECT_GT(cluster->intra_node().overhead_seconds(), 0);
  EXPECT_GE(cluster->intra_node().latency_seconds(), 0);
  EXPECT_GT(cluster->intra_node().latency_seconds() + cluster->intra_node().overhead_seconds(), 1e-7);
  EXPECT_LT(cluster->intra_node().latency_seconds(), 0.1);
  EXPECT_GT(cluster->intra_node().bytes_per_second(), 1e6);
  EXPECT_GT(reports, 20);
  std::set<std::string> kernels;
  for (const KernelRate& rate : cluster->device().kernel_rates()) kernels.insert(rate.kernel());
  EXPECT_GE(kernels.size(), 34u);
  for (int k = KERNEL_UNSPECIFIED + 1; k < Kernel_ARRAYSIZE; ++k) {
    if (!Kernel_IsValid(k) || !HasCases(SmallShapes(), static_cast<Kernel>(k))) continue;
    EXPECT_EQ(kernels.count(Kernel_Name(static_cast<Kernel>(k))), 1u) << Kernel_Name(static_cast<Kernel>(k));
  }
  std::set<DType> peaks;
  for (const Peak& peak : cluster->device().peaks()) peaks.insert(peak.dtype());
  EXPECT_EQ(peaks, (std::set<DType>{FP64, FP32, TF32, BF16, FP16}));
}

TEST(CalibrateTest, RefusesNoRanks) {
  CalibrateOptions options;
  options.ranks = 0;
  EXPECT_FALSE(Calibrate(options).ok());
}

class KernelFamiliesTest : public testing::TestWithParam<const CalibrationShapes*> {};
INSTANTIATE_TEST_SUITE_P(Shapes, KernelFamiliesTest, testing::Values(&SmallShapes(), &LargeShapes()));

TEST_P(KernelFamiliesTest, SizesAscendInTheirWork) {
  for (const KernelFamily& family : KernelFamilies(*GetParam())) {
    ASSERT_FALSE(family.sizes.empty()) << Kernel_Name(family.kernel);
    double before = 0;
    for (const auto& size : family.sizes) {
      ASSERT_FALSE(size.empty());
      for (const KernelCase& kernel : size) {
        EXPECT_EQ(kernel.step.kernel(), family.kernel);
        EXPECT_GT(family.by_flops ? kernel.flops : kernel.bytes, before) << Kernel_Name(family.kernel);
      }
      before = family.by_flops ? size[0].flops : size[0].bytes;
    }
  }
}

// On a GPU they are measured as those of half precision are; on cores the peak is all that is.
TEST(KernelFamilies, ProductsInTf32AreOfFactorsInFp32) {
  for (const CalibrationShapes* shapes : {&SmallShapes(), &LargeShapes()}) {
    int families = 0;
    for (const KernelFamily& family : KernelFamilies(*shapes)) {
      if (family.dtype == TF32) {
        ++families;
        EXPECT_EQ(family.kernel, MATMUL);
        EXPECT_EQ(family.peak_only, shapes == &SmallShapes());
        EXPECT_EQ(family.sizes.size(), family.peak_only ? 1 : shapes->products.size());
      }
      for (const auto& size : family.sizes) {
        for (const KernelCase& kernel : size) {
          EXPECT_EQ(kernel.step.attributes().tf32(), family.dtype == TF32);
          for (const CaseTensor& tensor : kernel.inputs) EXPECT_NE(tensor.dtype, TF32);
          if (family.dtype == TF32) {
            EXPECT_EQ(kernel.inputs[0].dtype, FP32);
            EXPECT_EQ(kernel.outputs[0].dtype, FP32);
          }
        }
      }
    }
    EXPECT_EQ(families, 1);
  }
}

}  // namespace
}  // namespace weft
