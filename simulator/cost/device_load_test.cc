#include "simulator/cost/device_load.h"

#include <string>

#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "simulator/cost/cost_model.h"

namespace weft::sim {
namespace {

Cluster TestCluster(const std::string& load) {
  Cluster cluster;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"pb(
        device {
          memory_bytes_per_second: 1e12
          peaks { dtype: BF16 flops_per_second: 1e14 }
          kernel_rates {
            kernel: "GELU"
            dtype: FP32
            bytes_per_second: 1e9
            flops_per_second: 1e12
            overhead_seconds: 1e-6
          }
          tiles {
            multiprocessors: 100
            tiles { rows: 100 columns: 100 fraction: 0.5 }
            attention_fraction: 0.5
            attention_backward_fraction: 0.5
            attention_rows: 10
            memory_fraction: 0.5
          }
        }
        host { bytes_per_second: 1e10 }
      )pb",
      &cluster));
  EXPECT_TRUE(
      google::protobuf::TextFormat::ParseFromString(load, cluster.mutable_device()->mutable_communication_load()));
  return cluster;
}

constexpr char kLoad[] = "multiprocessors: 20 memory_bytes_per_second: 3e11";

double Seconds(const std::string& model, const std::string& text, const StepShapes& shapes, int collectives,
               const Cluster& cluster = TestCluster(kLoad)) {
  Step step;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &step));
  const auto entry = FindCostModel(model);
  EXPECT_TRUE(entry.ok());
  const auto time = (*entry)->cost(step, shapes, FORWARD, 0, cluster, {.collectives = collectives});
  EXPECT_TRUE(time.ok()) << time.status();
  return time.ok() ? static_cast<double>(time->ps) * 1e-12 : -1;
}

TEST(DeviceLoad, AQuarterIsLeft) {
  const Device device = TestCluster(kLoad).device();
  EXPECT_EQ(RemainingBeside(device, 0).multiprocessors, 100);
  EXPECT_EQ(RemainingBeside(device, 1).multiprocessors, 80);
  EXPECT_EQ(RemainingBeside(device, 2).compute, 0.6);
  EXPECT_DOUBLE_EQ(RemainingBeside(device, 1).memory, 0.7);
  EXPECT_DOUBLE_EQ(RemainingBeside(device, 2).memory, 0.4);
  const Device greedy = TestCluster("multiprocessors: 70 memory_bytes_per_second: 6e11").device();
  EXPECT_EQ(RemainingBeside(greedy, 1).multiprocessors, 30);
  EXPECT_EQ(RemainingBeside(greedy, 2).multiprocessors, 25);
  EXPECT_DOUBLE_EQ(RemainingBeside(greedy, 1).memory, 0.4);
  EXPECT_EQ(RemainingBeside(greedy, 2).memory, 0.25);
  EXPECT_TRUE(CollectivesTakePart(device));
  EXPECT_FALSE(CollectivesTakePart(TestCluster("").device()));
  EXPECT_FALSE(CollectivesTakePart(Device()));
}

TEST(DeviceLoad, WavesOfTilesOnWhatIsLeft) {
  // 100 tiles take one wave on 100 multiprocessors, two on 80 or 60, three on 40.
  const std::string product = "kernel: MATMUL work { flops: 2000000000 dtype: BF16 }";
  const StepShapes shapes = {1000, 1000, 1000, 1};
  const double wave = 2.0 * 100 * 100 * 1000 / (1e12 * 0.5);
  EXPECT_NEAR(Seconds("tiles", product, shapes, 0), wave, 1e-11);
  EXPECT_NEAR(Seconds("tiles", product, shapes, 1), 2 * wave, 1e-11);
  EXPECT_NEAR(Seconds("tiles", product, shapes, 2), 2 * wave, 1e-11);
  EXPECT_NEAR(Seconds("tiles", product, shapes, 2, TestCluster("multiprocessors: 30")), 3 * wave, 1e-11);
  // 160 units of attention take two waves on 100 or 80 multiprocessors, three on 60.
  const std::string attention = "kernel: ATTENTION work { flops: 1000000 dtype: BF16 } attributes { sequence: 1600 }";
  const double unit = 1e6 / (1e14 * 0.5) * 100 / 160;
  EXPECT_NEAR(Seconds("tiles", attention, {1600, 1600, 64, 1}, 0), 2 * unit, 1e-11);
  EXPECT_NEAR(Seconds("tiles", attention, {1600, 1600, 64, 1}, 1), 2 * unit, 1e-11);
  EXPECT_NEAR(Seconds("tiles", attention, {1600, 1600, 64, 1}, 2), 3 * unit, 1e-11);
  EXPECT_NEAR(Seconds("tiles", "kernel: ADD work { bytes: 1000000 dtype: BF16 }", {}, 1), 2e-6 / 0.7, 1e-11);
  // If the shape of a product is not known, its time depends on the fraction of multiprocessors that is left.
  EXPECT_NEAR(Seconds("tiles", product, {}, 1), 2e9 / (1e14 * 0.8 * 0.5), 1e-11);
}

TEST(DeviceLoad, RooflineAndStatedRatesByProportion) {
  for (const char* model : {"roofline", "tiles"}) {
    const std::string gelu = "kernel: GELU work { bytes: 1000 dtype: FP32 }";
    EXPECT_NEAR(Seconds(model, gelu, {}, 0), 2e-6, 1e-11);
    EXPECT_NEAR(Seconds(model, gelu, {}, 2), 1e-6 + 1e-6 / 0.4, 1e-11);
    EXPECT_NEAR(Seconds(model, "kernel: GELU work { flops: 1000000 dtype: FP32 }", {}, 1), 1e-6 + 1e-6 / 0.8, 1e-11);
    // Collectives do not slow copies down.
    EXPECT_NEAR(Seconds(model, "stream: D2H work { bytes: 10000 }", {}, 2), 1e-6, 1e-11);
  }
  EXPECT_NEAR(Seconds("roofline", "kernel: MATMUL work { flops: 100000000 dtype: BF16 }", {}, 2), 1e-6 / 0.6, 1e-11);
  EXPECT_NEAR(Seconds("roofline", "kernel: ADD work { bytes: 1000000 dtype: BF16 }", {}, 1), 1e-6 / 0.7, 1e-11);
  EXPECT_EQ(Seconds("unit", "", {}, 2), Seconds("unit", "", {}, 0));
}

}  // namespace
}  // namespace weft::sim
