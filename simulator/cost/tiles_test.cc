#include <cstdint>
#include <limits>
#include <string>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "simulator/cost/cost_model.h"

namespace weft::sim {
namespace {

using ::testing::HasSubstr;

Cluster TestCluster() {
  Cluster cluster;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"pb(
        device {
          memory_bytes_per_second: 1e12
          peaks { dtype: BF16 flops_per_second: 1e14 }
          launch_seconds: 1e-6
          kernel_rates { kernel: "GELU" dtype: FP32 bytes_per_second: 1e9 }
          tiles {
            multiprocessors: 10
            tiles { rows: 128 columns: 128 fraction: 0.5 }
            tiles { rows: 32 columns: 32 fraction: 0.25 }
            half_depth: 100
            attention_fraction: 0.5
            attention_backward_fraction: 0.25
            skips_masked: true
            attention_rows: 64
            memory_fraction: 0.5
            half_bytes: 1e6
          }
        }
        host { bytes_per_second: 1e10 }
      )pb",
      &cluster));
  return cluster;
}

double Seconds(const Step& step, const StepShapes& shapes, const Cluster& cluster = TestCluster()) {
  const auto entry = FindCostModel("tiles");
  EXPECT_TRUE(entry.ok());
  const auto time = (*entry)->cost(step, shapes, FORWARD, 0, cluster, {});
  EXPECT_TRUE(time.ok()) << time.status();
  return time.ok() ? static_cast<double>(time->ps) * 1e-12 : -1;
}

Step Product(int64_t rows, int64_t columns, int64_t depth) {
  Step step;
  step.set_kernel(MATMUL);
  step.mutable_work()->set_flops(2 * rows * columns * depth);
  step.mutable_work()->set_dtype(BF16);
  return step;
}

double ProductSeconds(int64_t rows, int64_t columns, int64_t depth) {
  return Seconds(Product(rows, columns, depth), {rows, columns, depth, 1}) - 1e-6;
}

TEST(Tiles, WavesOfTiles) {
  // 10 tiles of 128 x 128: one wave of 2 128^2 (900 + 100) flops at 1e13 * 0.5.
  const double wave = 2.0 * 128 * 128 * 1000 / 5e12;
  EXPECT_NEAR(ProductSeconds(1280, 128, 900), wave, 1e-11);
  // One more tile needs a second wave, and nine more fit into it.
  EXPECT_NEAR(ProductSeconds(1281, 128, 900), 2 * wave, 1e-11);
  EXPECT_NEAR(ProductSeconds(2560, 128, 900), 2 * wave, 1e-11);
}

TEST(Tiles, SmallProductsTakeTheSmallTile) {
  // A product of 32 x 320 takes one wave of 10 small tiles, or one wave of 3 large ones.
  const double small = 2.0 * 32 * 32 * 1000 / 2.5e12;
  EXPECT_NEAR(ProductSeconds(32, 320, 900), small, 1e-11);
}

TEST(Tiles, NeverFasterThanThePeakNorSlowerForMore) {
  for (int64_t rows : {1, 31, 128, 129, 1000, 5000}) {
    for (int64_t columns : {1, 64, 200, 4096}) {
      double before = 0;
      for (int64_t depth : {1, 64, 1000, 4096}) {
        const double seconds = ProductSeconds(rows, columns, depth);
        EXPECT_GE(seconds * 1e14, 2.0 * rows * columns * depth) << rows << " " << columns << " " << depth;
        EXPECT_GE(seconds, before);
        before = seconds;
      }
    }
  }
}

TEST(Tiles, BatchesFillWavesTogether) {
  Step step = Product(128, 128, 900);
  step.set_kernel(ATTENTION_SCORES);
  step.mutable_work()->set_flops(step.work().flops() * 10);
  const double wave = 2.0 * 128 * 128 * 1000 / 5e12;
  EXPECT_NEAR(Seconds(step, {128, 128, 900, 10}), wave + 1e-6, 1e-11);
  // This kernel computes two products.
  step.set_kernel(ATTENTION_SCORES_BACKWARD);
  step.mutable_work()->set_flops(step.work().flops() * 2);
  EXPECT_NEAR(Seconds(step, {128, 128, 900, 10}), 2 * wave + 1e-6, 1e-11);
}

TEST(Tiles, AttentionSkipsWhatTheMaskHides) {
  Step step;
  step.set_kernel(ATTENTION);
  step.mutable_work()->set_flops(1'000'000'000);
  step.mutable_work()->set_dtype(BF16);
  step.mutable_attributes()->set_sequence(640);
  // 640 rows are 10 units: one full wave.
  const StepShapes shapes = {640, 640, 64, 1};
  const double whole = 1e9 / 5e13;
  EXPECT_NEAR(Seconds(step, shapes), whole + 1e-6, 1e-10);
  step.mutable_attributes()->set_causal(true);
  EXPECT_NEAR(Seconds(step, shapes), whole * 641 / 1280 + 1e-6, 1e-10);
  // With a window of 1 a query sees only itself.
  step.mutable_attributes()->set_window(1);
  EXPECT_NEAR(Seconds(step, shapes), whole / 640 + 1e-6, 1e-10);
  step.mutable_attributes()->set_window(0);
  step.set_kernel(ATTENTION_BACKWARD);
  EXPECT_NEAR(Seconds(step, shapes), 2 * whole * 641 / 1280 + 1e-6, 1e-10);
  // Eleven units are two waves.
  step.mutable_attributes()->set_causal(false);
  EXPECT_NEAR(Seconds(step, {641, 641, 64, 1}), 2 * whole * 20 / 11 + 1e-6, 1e-10);
  Cluster all = TestCluster();
  all.mutable_device()->mutable_tiles()->set_skips_masked(false);
  step.mutable_attributes()->set_causal(true);
  EXPECT_NEAR(Seconds(step, shapes, all), 2 * whole + 1e-6, 1e-10);
}

TEST(Tiles, MemoryBoundKernelsByBytes) {
  Step step;
  step.set_kernel(ADD);
  step.mutable_work()->set_dtype(BF16);
  step.mutable_work()->set_bytes(9'000'000);
  EXPECT_NEAR(Seconds(step, {}), 1e7 / 5e11 + 1e-6, 1e-11);
  // For this product, moving the bytes takes longer than computing.
  Step product = Product(128, 128, 1);
  product.mutable_work()->set_bytes(9'000'000);
  EXPECT_NEAR(Seconds(product, {128, 128, 1, 1}), 1e7 / 5e11 + 1e-6, 1e-11);
  // A product whose shape is not known has the rate of the first tile.
  EXPECT_NEAR(Seconds(Product(100, 100, 100), {}), 2e6 / 5e13 + 1e-6, 1e-11);
}

TEST(Tiles, StatedCostsGoFirstAndMissingFiguresAreNamed) {
  Step gelu;
  gelu.set_kernel(GELU);
  gelu.mutable_work()->set_dtype(FP32);
  gelu.mutable_work()->set_bytes(1000);
  EXPECT_NEAR(Seconds(gelu, {}), 1e-6, 1e-11);
  gelu.set_stream(H2D);
  EXPECT_NEAR(Seconds(gelu, {}), 1e-7, 1e-11);
  const auto entry = FindCostModel("tiles");
  ASSERT_TRUE(entry.ok());
  Step step = Product(8, 8, 8);
  step.set_name("qkv");
  Cluster cluster = TestCluster();
  cluster.mutable_device()->clear_peaks();
  EXPECT_THAT(std::string((*entry)->cost(step, {8, 8, 8, 1}, FORWARD, 0, cluster, {}).status().message()),
              HasSubstr("cluster.device.peaks"));
  cluster.mutable_device()->clear_tiles();
  const auto none = (*entry)->cost(step, {8, 8, 8, 1}, FORWARD, 0, cluster, {});
  EXPECT_EQ(none.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(none.status().message()), HasSubstr("cluster.device.tiles"));
  EXPECT_THAT(std::string(none.status().message()), HasSubstr("qkv"));
}

TEST(Tiles, HugeWorkSaturates) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  Step step;
  step.set_kernel(MATMUL);
  step.mutable_work()->set_flops(kMax);
  step.mutable_work()->set_dtype(BF16);
  const auto entry = FindCostModel("tiles");
  ASSERT_TRUE(entry.ok());
  EXPECT_EQ((*entry)->cost(step, {kMax, kMax, kMax, kMax}, FORWARD, 0, TestCluster(), {})->ps, int64_t{1} << 62);
}

}  // namespace
}  // namespace weft::sim
