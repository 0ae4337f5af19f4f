#include "executor/calibrate/calibrate_device.h"

#include <set>
#include <string>

#include "executor/testing/deferred_device.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/row.h"
#include "proto/validate/validate.h"

namespace weft::exec {
namespace {

CalibrateDeviceOptions Options() {
  CalibrateDeviceOptions options;
  options.shapes = &SmallShapes();
  options.seconds = 0.2;
  options.copy_bytes = 1 << 20;
  return options;
}

TEST(CalibrateDevice, EveryKernelHasARateThatIsMeasuredOnTheDevice) {
  DeferredDevice device(7);
  const auto backend = MakeDeferredBackend(&device, MakeCpuBackend(1));
  const absl::StatusOr<Cluster> cluster = CalibrateDevice(&device, backend.get(), Options());
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  std::set<std::string> kernels;
  for (const KernelRate& rate : cluster->device().kernel_rates()) kernels.insert(rate.kernel());
  for (int k = KERNEL_UNSPECIFIED + 1; k < Kernel_ARRAYSIZE; ++k) {
    if (!Kernel_IsValid(k) || !kernels::RowOf(static_cast<Kernel>(k)).calibrated) continue;
    EXPECT_EQ(kernels.count(Kernel_Name(static_cast<Kernel>(k))), 1u) << Kernel_Name(static_cast<Kernel>(k));
  }
  EXPECT_EQ(cluster->device().peaks_size(), 5);
  EXPECT_GT(cluster->host().bytes_per_second(), 1e6);
  EXPECT_GT(cluster->intra_node().bytes_per_second(), 1e6);
  EXPECT_GT(cluster->device().launch_seconds(), 0);
}

TEST(CalibrateDevice, TakesUnmeasurableFiguresFromTheBaseCluster) {
  Cluster base;
  base.set_name("two-nodes");
  base.set_nodes(2);
  base.set_devices_per_node(4);
  base.mutable_intra_node()->set_bytes_per_second(3e11);
  base.mutable_inter_node()->set_bytes_per_second(5e10);
  base.set_nics_per_node(4);
  base.mutable_device()->set_name("other");
  base.mutable_device()->set_memory_bytes(1 << 30);
  base.mutable_device()->add_matmul_efficiency()->set_fraction(0.1);
  DeferredDevice device(7);
  const auto backend = MakeDeferredBackend(&device, MakeCpuBackend(1));
  CalibrateDeviceOptions options = Options();
  options.base = &base;
  const absl::StatusOr<Cluster> cluster = CalibrateDevice(&device, backend.get(), options);
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  EXPECT_TRUE(Validate(*cluster).ok()) << Validate(*cluster);
  EXPECT_EQ(cluster->name(), "two-nodes");
  EXPECT_EQ(cluster->nodes(), 2);
  EXPECT_EQ(cluster->intra_node().bytes_per_second(), 3e11);
  EXPECT_EQ(cluster->device().memory_bytes(), 1 << 30);
  EXPECT_EQ(cluster->device().matmul_efficiency_size(), 0);
  EXPECT_GT(cluster->device().kernel_rates_size(), 30);
  EXPECT_THAT(cluster->source(), testing::HasSubstr("other figures from two-nodes"));
}

// A backend that fails in every kernel.
class BrokenBackend : public Backend {
 public:
  absl::Status Run(const Step&, absl::Span<const TensorView>, absl::Span<const TensorView>,
                   const StepContext&) override {
    return absl::InternalError("out of order");
  }
};

TEST(CalibrateDevice, ErrorsNameTheKernel) {
  DeferredDevice device(7);
  BrokenBackend backend;
  const absl::Status status = CalibrateDevice(&device, &backend, Options()).status();
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("kernel LOAD_TOKENS: out of order"));
}

}  // namespace
}  // namespace weft::exec
