#include "simulator/cost/cost_model.h"

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace weft::sim {
namespace {

using ::testing::HasSubstr;

template <typename Message>
Message Parse(const std::string& text) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

Cluster TestCluster() {
  return Parse<Cluster>(R"pb(
    device {
      memory_bytes_per_second: 1e12
      peaks { dtype: BF16 flops_per_second: 1e14 }
      peaks { dtype: FP32 flops_per_second: 1e13 }
      matmul_efficiency { from: 1000 fraction: 0.5 }
      matmul_efficiency { from: 1e9 fraction: 0.8 }
      memory_efficiency { from: 0 fraction: 0.25 }
      memory_efficiency { from: 1e6 fraction: 0.5 }
      launch_seconds: 1e-6
      kernel_rates { kernel: "GELU" dtype: FP32 from_work: 0 bytes_per_second: 1e9 overhead_seconds: 2e-6 }
      kernel_rates { kernel: "GELU" dtype: FP32 from_work: 1e6 bytes_per_second: 1e10 overhead_seconds: 3e-6 }
      kernel_rates { kernel: "MATMUL" dtype: FP64 from_work: 0 flops_per_second: 1e9 bytes_per_second: 1e9 }
    }
    host { bytes_per_second: 1e10 latency_seconds: 5e-6 overhead_seconds: 1e-6 }
  )pb");
}

// A figure that a double cannot hold exactly may make a time one picosecond longer.
void ExpectTime(Time time, int64_t ps) {
  EXPECT_GE(time.ps, ps);
  EXPECT_LE(time.ps, ps + 1);
}

Time Roofline(const std::string& step) {
  const auto entry = FindCostModel("roofline");
  EXPECT_TRUE(entry.ok());
  const auto time = (*entry)->cost(Parse<Step>(step), {}, FORWARD, 0, TestCluster(), {});
  EXPECT_TRUE(time.ok()) << time.status();
  return time.value_or(Time{-1});
}

TEST(Roofline, SlowerOfArithmeticAndMemory) {
  // 1e9 flops at 0.8 of 1e14 = 12.5 us; 1e6 bytes at 0.5 of 1e12 = 2 us; launch 1 us.
  ExpectTime(Roofline("kernel: MATMUL work { flops: 1000000000 bytes: 1000000 dtype: BF16 }"), 13'500'000);
  ExpectTime(Roofline("kernel: MATMUL work { flops: 1000000 bytes: 1000000 dtype: BF16 }"), 3'000'000);
  ExpectTime(Roofline("kernel: ADD work { bytes: 500000 dtype: BF16 }"), 3'000'000);
  ExpectTime(Roofline("kernel: FILL work { dtype: BF16 }"), 1'000'000);
}

TEST(Roofline, EveryKernelIsCostedByItsWork) {
  for (int kernel = 0; kernel < Kernel_ARRAYSIZE; ++kernel) {
    if (!Kernel_IsValid(kernel)) continue;
    const std::string& name = Kernel_Name(static_cast<Kernel>(kernel));
    SCOPED_TRACE(name);
    // No measured rate applies: the only ones are for GELU in FP32 and MATMUL in FP64.
    ExpectTime(Roofline("kernel: " + name + " work { flops: 1000000000 bytes: 1000000 dtype: BF16 }"), 13'500'000);
    ExpectTime(Roofline("kernel: " + name + " work { bytes: 500000 dtype: BF16 }"), 3'000'000);
  }
}

TEST(Roofline, RowsOfATableAreLowerEdges) {
  // 999,999,999 flops belong to the row with efficiency 0.5, and 1e9 to the row with 0.8. 500 flops are below the edge
  // of the first row and take the first row.
  ExpectTime(Roofline("kernel: MATMUL work { flops: 1000000000 dtype: FP32 }"), 126'000'000);
  ExpectTime(Roofline("kernel: MATMUL work { flops: 999999999 dtype: FP32 }"), 201'000'000);
  ExpectTime(Roofline("kernel: MATMUL work { flops: 500 dtype: FP32 }"), 1'000'100);
}

TEST(Roofline, KernelRatesOverride) {
  ExpectTime(Roofline("kernel: GELU work { bytes: 1000 dtype: FP32 }"), 3'000'000);
  ExpectTime(Roofline("kernel: GELU work { bytes: 1000000 dtype: FP32 }"), 103'000'000);
  // There is no rate of this kernel for another dtype.
  ExpectTime(Roofline("kernel: GELU work { bytes: 1000000 dtype: BF16 }"), 3'000'000);
  // A kernel with a rate of its own needs no peak for FP64.
  ExpectTime(Roofline("kernel: MATMUL work { flops: 1000 bytes: 3000 dtype: FP64 }"), 3'000'000);
}

TEST(Roofline, CopiesTakeTheHostLink) {
  ExpectTime(Roofline("kernel: CAST stream: D2H work { bytes: 10000 dtype: FP32 }"), 7'000'000);
}

TEST(Roofline, MissingFigureIsNamed) {
  const auto entry = FindCostModel("roofline");
  ASSERT_TRUE(entry.ok());
  const Step step = Parse<Step>("name: 'qkv' kernel: ATTENTION work { flops: 1 dtype: FP16 }");
  const auto no_peak = (*entry)->cost(step, {}, FORWARD, 0, TestCluster(), {});
  EXPECT_EQ(no_peak.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(no_peak.status().message()), HasSubstr("cluster.device.peaks"));
  EXPECT_THAT(std::string(no_peak.status().message()), HasSubstr("qkv"));
  EXPECT_THAT(std::string(no_peak.status().message()), HasSubstr("fp16"));

  // P100s have no bf16.
  Cluster p100 = TestCluster();
  p100.mutable_device()->set_name("P100");
  p100.mutable_device()->clear_peaks();
  for (DType dtype : {FP32, FP16}) {
    Peak* peak = p100.mutable_device()->add_peaks();
    peak->set_dtype(dtype);
    peak->set_flops_per_second(1e12);
  }
  const Step bf16 = Parse<Step>("name: 'qkv' kernel: MATMUL work { flops: 1 dtype: BF16 }");
  EXPECT_EQ((*entry)->cost(bf16, {}, FORWARD, 0, p100, {}).status().message(),
            "P100 has no peak for bf16, which step 'qkv' (MATMUL) needs; cluster.device.peaks has fp32, fp16; "
            "plan.precision.compute selects one");

  const Step add = Parse<Step>("name: 'add' kernel: ADD work { bytes: 1 dtype: FP32 }");
  const auto no_memory = (*entry)->cost(add, {}, FORWARD, 0, Cluster(), {});
  EXPECT_THAT(std::string(no_memory.status().message()), HasSubstr("cluster.device.memory_bytes_per_second"));
  const Step copy = Parse<Step>("name: 'copy' stream: H2D work { bytes: 1 dtype: FP32 }");
  const auto no_host = (*entry)->cost(copy, {}, FORWARD, 0, Cluster(), {});
  EXPECT_THAT(std::string(no_host.status().message()), HasSubstr("cluster.host.bytes_per_second"));
}

TEST(Roofline, HugeWorkSaturates) {
  EXPECT_EQ(Roofline("kernel: MATMUL work { flops: 9223372036854775807 dtype: FP64 }").ps, int64_t{1} << 62);
}

TEST(Unit, ForwardOneBackwardTwo) {
  const auto entry = FindCostModel("unit");
  ASSERT_TRUE(entry.ok());
  const Step step = Parse<Step>("work { flops: 123 bytes: 456 }");
  EXPECT_EQ((*entry)->cost(step, {}, FORWARD, 0, Cluster(), {})->ps, 1'000'000);
  EXPECT_EQ((*entry)->cost(step, {}, BACKWARD, 0, Cluster(), {})->ps, 2'000'000);
  EXPECT_EQ((*entry)->cost(step, {}, FORWARD, 1, Cluster(), {})->ps, 0);
  EXPECT_EQ((*entry)->cost(step, {}, OPTIMIZER_STEP, 0, Cluster(), {})->ps, 0);
  const CostOptions options = {.unit_forward = {7}, .unit_backward = {5}};
  EXPECT_EQ((*entry)->cost(step, {}, FORWARD, 0, Cluster(), options)->ps, 7);
  EXPECT_EQ((*entry)->cost(step, {}, BACKWARD, 0, Cluster(), options)->ps, 5);
}

TEST(Unit, HalvesAndPairs) {
  const auto entry = FindCostModel("unit");
  ASSERT_TRUE(entry.ok());
  CostOptions options = {.unit_forward = {10}, .unit_backward = {25}, .unit_weight = {8}};
  const auto cost = [&](ActionKind kind) { return (*entry)->cost(Step(), {}, kind, 0, Cluster(), options)->ps; };
  EXPECT_EQ(cost(BACKWARD_INPUT), 17);
  EXPECT_EQ(cost(BACKWARD_WEIGHT), 8);
  EXPECT_EQ(cost(FORWARD_BACKWARD), 35);
  options.unit_pair = {30};
  EXPECT_EQ(cost(FORWARD_BACKWARD), 30);
}

TEST(CostModels, RegistryIsSortedAndUnknownNamesAreRefused) {
  for (size_t i = 1; i < CostModels().size(); ++i) EXPECT_LT(CostModels()[i - 1].name, CostModels()[i].name);
  const auto unknown = FindCostModel("rofline");
  EXPECT_EQ(unknown.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(unknown.status().message()), HasSubstr("nearest: 'roofline'"));
  EXPECT_THAT(std::string(unknown.status().message()), HasSubstr("unit"));
}

TEST(BestCostModel, IsTilesWhereAllKindsOfDevicesHaveTheFigures) {
  EXPECT_EQ(BestCostModel(Parse<Cluster>("device {}")), "roofline");
  EXPECT_EQ(BestCostModel(Parse<Cluster>("device { tiles {} }")), "tiles");
  EXPECT_EQ(BestCostModel(Parse<Cluster>("device { tiles {} } other_devices { speed: 0.5 }")), "tiles");
  EXPECT_EQ(BestCostModel(Parse<Cluster>("device { tiles {} } other_devices { device {} }")), "roofline");
  EXPECT_EQ(BestCostModel(Parse<Cluster>("device { tiles {} } other_devices { device { tiles {} } }")), "tiles");
}

}  // namespace
}  // namespace weft::sim
