#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "simulator/cost/cost_model.h"

namespace weft::sim {
namespace {

using ::testing::HasSubstr;

template <typename Message>
Message Parse(const std::string& text) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

const char* const kDevice = R"pb(
  memory_bytes_per_second: 1e12
  peaks { dtype: BF16 flops_per_second: 1e14 }
  matmul_efficiency { fraction: 0.5 }
  memory_efficiency { fraction: 0.25 }
  launch_seconds: 1e-6
  kernel_rates { kernel: "GELU" dtype: BF16 bytes_per_second: 1e9 overhead_seconds: 2e-6 }
  communication_load { multiprocessors: 10 memory_bytes_per_second: 5e11 }
)pb";

absl::StatusOr<Time> Cost(const std::string& model, const std::string& step, const std::string& device = kDevice,
                          int collectives = 0) {
  const Cluster cluster =
      Parse<Cluster>(absl::StrCat("device {", device, "} host { bytes_per_second: 1e10 latency_seconds: 5e-6 }"));
  return (*FindCostModel(model))->cost(Parse<Step>(step), {}, FORWARD, 0, cluster, {.collectives = collectives});
}

int64_t Picoseconds(const std::string& step, int collectives = 0) {
  const absl::StatusOr<Time> time = Cost("ideal", step, kDevice, collectives);
  EXPECT_TRUE(time.ok()) << time.status();
  return time.ok() ? time->ps : -1;
}

TEST(IdealTest, IsThePeakOrTheBandwidth) {
  EXPECT_NEAR(Picoseconds("kernel: MATMUL work { flops: 1000000000 bytes: 1000000 dtype: BF16 }"), 10'000'000, 1);
  EXPECT_NEAR(Picoseconds("kernel: MATMUL work { flops: 1000000 bytes: 1000000 dtype: BF16 }"), 1'000'000, 1);
  EXPECT_NEAR(Picoseconds("kernel: GELU work { bytes: 1000000 dtype: BF16 }", 2), 1'000'000, 1);
  EXPECT_EQ(Picoseconds("kernel: FILL"), 0);
  // A copy goes over the link to the host: 10 us for the bytes, 5 us of latency.
  EXPECT_NEAR(Picoseconds("kernel: CAST stream: H2D work { bytes: 100000 }"), 15'000'000, 1);
}

TEST(IdealTest, NoOtherModelOfDevicesIsFaster) {
  int compared = 0;
  for (const std::string& model : DeviceCostModels()) {
    for (const char* work : {"flops: 1000000000 bytes: 1000000", "flops: 10 bytes: 1000000000", "bytes: 1", ""}) {
      for (const char* kernel : {"MATMUL", "GELU", "ADD"}) {
        const std::string step = absl::StrCat("kernel: ", kernel, " work { dtype: BF16 ", work, " }");
        for (int collectives : {0, 1, 2}) {
          const absl::StatusOr<Time> other = Cost(model, step, kDevice, collectives);
          // Some models need figures that this device lacks.
          if (!other.ok()) continue;
          compared += model != "ideal";
          EXPECT_LE(Picoseconds(step), other->ps) << model << ": " << step;
        }
      }
    }
  }
  EXPECT_GE(compared, 36);
}

TEST(IdealTest, NamesTheMissingFigure) {
  EXPECT_THAT(std::string(Cost("ideal", "kernel: ADD work { bytes: 1 dtype: BF16 }", "").status().message()),
              HasSubstr("cluster.device.memory_bytes_per_second must be positive"));
  EXPECT_THAT(std::string(Cost("ideal", "kernel: MATMUL work { flops: 1 dtype: BF16 }", "").status().message()),
              HasSubstr("has no peak for bf16"));
}

}  // namespace
}  // namespace weft::sim
