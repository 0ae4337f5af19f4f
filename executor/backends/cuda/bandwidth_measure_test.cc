#include "executor/backends/cuda/bandwidth_measure.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "executor/backends/cuda/emulated_backend.h"
#include "executor/testing/clocked_device.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft::exec::cuda {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(BandwidthMeasure, OneRowForEachCaseInOrder) {
  std::vector<BandwidthCase> cases = BandwidthCases(256, 128, 500);
  // Adds launches that hold several steps. With 1025 to 8192 columns there are more kinds of launches.
  const size_t steps = cases.size();
  for (BandwidthCase& c : BandwidthCases(256, 1152, 500)) {
    if (!c.launch.empty()) cases.push_back(std::move(c));
  }
  ASSERT_GT(cases.size(), steps);
  std::vector<BandwidthRow> rows;
  const absl::Status status =
      MeasureBandwidth(EmulatedBackend(), cases, {}, [&](const BandwidthRow& row) { rows.push_back(row); });
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_EQ(rows.size(), cases.size());
  for (size_t i = 0; i < cases.size(); ++i) {
    EXPECT_EQ(rows[i].name, cases[i].name);
    EXPECT_EQ(rows[i].bytes, cases[i].Bytes());
    EXPECT_GE(rows[i].nanoseconds, 1);
    EXPECT_EQ(rows[i].error, "");
  }
}

TEST(BandwidthMeasure, NamesMissingKernelsAndMeasuresTheRest) {
  std::vector<BandwidthCase> cases = BandwidthCases(256, 128, 500);
  cases.resize(3);
  cases[1].step.set_kernel(KERNEL_UNSPECIFIED);
  std::vector<BandwidthRow> rows;
  const absl::Status status =
      MeasureBandwidth(EmulatedBackend(), cases, {}, [&](const BandwidthRow& row) { rows.push_back(row); });
  EXPECT_EQ(status.message(), "1 of 3 cases could not be measured");
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].error, "");
  EXPECT_THAT(rows[1].error, HasSubstr(cases[1].name));
  EXPECT_EQ(rows[2].error, "");
  EXPECT_GE(rows[2].nanoseconds, 1);
}

// State of the backend entry below: settings of the test, and records of what the backend has run. The state is global
// because the functions of an entry cannot capture variables.
struct Machine {
  ClockedDevice* device = nullptr;
  int64_t nanoseconds_of_run = 0;
  // The run that breaks the device, counted from 1; 0 = none.
  int breaking_run = 0;
  int runs = 0;
  bool broken = false;
  // Contents of the inputs of the first run.
  std::vector<std::vector<char>> first_inputs = {};
};
Machine machine;

class BreakableDevice : public ClockedDevice {
 public:
  BreakableDevice() : ClockedDevice({}, {}) {}
  absl::Status Synchronize(int) override {
    return machine.broken ? absl::InternalError("an illegal address") : absl::OkStatus();
  }
};

class CountingBackend : public Backend {
 public:
  absl::Status Run(const Step&, absl::Span<const TensorView> inputs, absl::Span<const TensorView>,
                   const StepContext& context) override {
    if (machine.runs++ == 0) {
      for (const TensorView& in : inputs) {
        int64_t bytes = in.dtype == BF16 ? 2 : in.dtype == FP64 ? 8 : 4;
        for (const int64_t extent : in.shape) bytes *= extent;
        const char* data = static_cast<const char*>(in.data);
        machine.first_inputs.emplace_back(data, data + bytes);
      }
    }
    if (machine.runs == machine.breaking_run) machine.broken = true;
    machine.device->Spend(context.stream, machine.nanoseconds_of_run);
    return absl::OkStatus();
  }
  std::string Digest() const override { return ""; }
};

const BackendEntry& CountingEntry() {
  static constexpr BackendEntry kEntry = {
      "counting",
      [](const DeviceOptions&) -> absl::StatusOr<std::unique_ptr<ComputeDevice>> {
        auto device = std::make_unique<BreakableDevice>();
        machine.device = device.get();
        return device;
      },
      [](ComputeDevice*, const BackendOptions&) -> absl::StatusOr<std::unique_ptr<Backend>> {
        return std::make_unique<CountingBackend>();
      },
      ""};
  return kEntry;
}

// The first input, in bf16, is larger than the block that the host copies at a time, and not a multiple of that block.
std::vector<BandwidthCase> LargeCases() {
  std::vector<BandwidthCase> cases = BandwidthCases(256, 128, 500);
  cases.resize(2);
  for (BandwidthCase& c : cases) {
    c.launch.clear();
    c.step = Step();
    c.step.set_kernel(CROSS_ENTROPY_BACKWARD);
    c.step.mutable_attributes()->set_vocabulary(3);
    c.in = {{BF16, {360001, 3}}, {FP32, {360001}}, {INT32, {360001}, 3}, {FP64, {3}}};
    c.out = {{BF16, {360001, 3}}};
    c.in_place = {-1};
  }
  return cases;
}

TEST(BandwidthMeasure, ADeviceIsKeptBusyBeforeItIsTimed) {
  machine = {.nanoseconds_of_run = 1'000'000};
  std::vector<BandwidthRow> rows;
  ASSERT_TRUE(MeasureBandwidth(CountingEntry(), LargeCases(), {.warm_nanoseconds = 50'000'000, .timed = 5},
                               [&](const BandwidthRow& row) { rows.push_back(row); })
                  .ok());
  // Each of the two cases warms up with 1 + 2 + 4 + 8 + 16 + 32 runs of a millisecond.
  EXPECT_EQ(machine.runs, 2 * (63 + 5));
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].nanoseconds, 1'000'000);
  // If the clock never advances, the warm-up ends after 8191 runs.
  machine = {};
  ASSERT_TRUE(
      MeasureBandwidth(CountingEntry(), LargeCases(), {.warm_nanoseconds = 1}, [](const BandwidthRow&) {}).ok());
  EXPECT_EQ(machine.runs, 2 * (8191 + 1));
}

TEST(BandwidthMeasure, OperandsAreFilledToTheirEnd) {
  machine = {};
  const std::vector<BandwidthCase> cases = LargeCases();
  ASSERT_TRUE(MeasureBandwidth(CountingEntry(), cases, {}, [](const BandwidthRow&) {}).ok());
  ASSERT_EQ(machine.first_inputs.size(), 4u);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(machine.first_inputs[i] == BandwidthContent(cases[0].in[i])) << i;
}

// After an error that leaves the device unusable, no other case is tried. Earlier measurements are kept.
TEST(BandwidthMeasure, ABrokenDeviceEndsIt) {
  machine = {.breaking_run = 3};
  std::vector<BandwidthCase> cases = LargeCases();
  cases.push_back(cases[0]);
  std::vector<BandwidthRow> rows;
  const absl::Status status =
      MeasureBandwidth(CountingEntry(), cases, {}, [&](const BandwidthRow& row) { rows.push_back(row); });
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(cases[1].name + ": an illegal address; nothing can be measured"));
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].error, "");
  EXPECT_EQ(rows[1].error, "an illegal address");
}

TEST(BandwidthMeasure, AnOutlierDoesNotMoveTheMedian) {
  EXPECT_EQ(MedianTime({7}), 7);
  EXPECT_EQ(MedianTime({1000, 3, 4, 5, 2}), 4);
  EXPECT_EQ(MedianTime({4, 1, 3, 2}), 3);
  // Two events may have the same time. The median of 0 is returned as 1.
  EXPECT_EQ(MedianTime({0, 0, 9}), 1);
}

TEST(BandwidthMeasure, ALineIsJsonWithTheQuotient) {
  // 3 GB in 1 ms.
  EXPECT_EQ(BandwidthLine({"ADD bf16", int64_t{3000000000}, 1000000, ""}),
            R"({"kernel": "ADD bf16", "bytes": 3000000000, "microseconds": 1000.0, "terabytes_per_second": 3.000})");
  EXPECT_EQ(BandwidthLine({"x", 1234567, 345, ""}),
            R"({"kernel": "x", "bytes": 1234567, "microseconds": 0.3, "terabytes_per_second": 3.578})");
  EXPECT_EQ(BandwidthLine({"x", 1, 0, "no \"y\""}), R"({"kernel": "x", "error": "no \"y\""})");
}

TEST(BandwidthContent, TokensAreAllDifferentAsLongAsTheyCanBe) {
  for (const int64_t below : {1, 2, 13, 500, 50304}) {
    const BandwidthOperand tokens = {INT32, {below}, below};
    const std::vector<char> bytes = BandwidthContent(tokens);
    std::vector<int32_t> values(below);
    std::memcpy(values.data(), bytes.data(), bytes.size());
    EXPECT_EQ(static_cast<int64_t>(std::set<int32_t>(values.begin(), values.end()).size()), below);
    EXPECT_GE(*std::min_element(values.begin(), values.end()), 0);
    EXPECT_LT(*std::max_element(values.begin(), values.end()), below);
  }
}

TEST(BandwidthContent, OthersAreOnes) {
  const auto values = [](DType dtype, auto zero) {
    const std::vector<char> bytes = BandwidthContent({dtype, {2, 1}});
    std::vector<decltype(zero)> out(2, zero);
    EXPECT_EQ(bytes.size(), 2 * sizeof zero);
    std::memcpy(out.data(), bytes.data(), bytes.size());
    return out;
  };
  EXPECT_THAT(values(FP32, 0.0f), ElementsAre(1, 1));
  EXPECT_THAT(values(FP64, 0.0), ElementsAre(1, 1));
  EXPECT_THAT(values(BF16, uint16_t{0}), ElementsAre(0x3f80, 0x3f80));
}

}  // namespace
}  // namespace weft::exec::cuda
