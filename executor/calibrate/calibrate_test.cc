#include "executor/calibrate/calibrate.h"

#include <set>
#include <string>

#include "executor/calibrate/calibrate_kernels.h"
#include "executor/collective/collective.h"
#include "gtest/gtest.h"
#include "kernels/row.h"
#include "proto/program.pb.h"
#include "proto/validate/validate.h"

namespace weft::exec {
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
  // Rule P7: the reserve holds at least one collective's messages.
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
    if (!Kernel_IsValid(k) || !kernels::RowOf(static_cast<Kernel>(k)).calibrated) continue;
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

}  // namespace
}  // namespace weft::exec
