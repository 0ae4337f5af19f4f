#include "executor/faults/end_guard.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "executor/run/run.h"
#include "executor/testing/deferred_device.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "verifier/testing/split_program.h"

namespace weft::exec {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

TEST(EndGuard, GivesUpOnlyOnStuckRuns) {
  std::atomic<int> given_up{0};
  const auto give_up = [&](const absl::Status& reason, bool reports) {
    EXPECT_EQ(reason.message(), "why");
    EXPECT_TRUE(reports);
    ++given_up;
  };
  {
    EndGuard guard(give_up, milliseconds(1));
  }
  {
    EndGuard guard(give_up, std::chrono::minutes(10));
    guard.Failed(absl::InternalError("why"), true);
  }
  {
    EndGuard guard(nullptr, milliseconds(1));
    guard.Failed(absl::InternalError("why"), true);
    std::this_thread::sleep_for(milliseconds(20));
  }
  EXPECT_EQ(given_up, 0);
  EndGuard guard(give_up, milliseconds(1));
  guard.Failed(absl::InternalError("why"), true);
  while (given_up == 0) std::this_thread::sleep_for(milliseconds(1));
  EXPECT_EQ(given_up, 1);
}

std::atomic<bool> kernel_is_over{false};

// Like a GPU with a kernel that never ends: releasing anything waits for it.
class StuckDevice : public DeferredDevice {
 public:
  StuckDevice() : DeferredDevice(3) {}
  ~StuckDevice() override {
    while (!kernel_is_over) std::this_thread::sleep_for(milliseconds(1));
  }
};

class NoData : public DataSource {
 public:
  int64_t windows() const override { return 64; }
  absl::Status Sample(int64_t, absl::Span<int32_t>, absl::Span<int32_t>) const override { return absl::OkStatus(); }
};

TEST(EndGuard, ARunWhoseDeviceIsStuckSaysWhy) {
  const BackendEntry entry = {
      "stuck",
      [](const DeviceOptions&) -> absl::StatusOr<std::unique_ptr<ComputeDevice>> {
        return std::unique_ptr<ComputeDevice>(std::make_unique<StuckDevice>());
      },
      [](ComputeDevice* device, const BackendOptions&) -> absl::StatusOr<std::unique_ptr<Backend>> {
        return MakeDeferredBackend(dynamic_cast<DeferredDevice*>(device), MakeCpuBackend(1));
      },
      ""};
  const Program program = SplitProgram(/*zero=*/false);
  RunOptions options;
  options.backend = &entry;
  options.steps = 2;
  options.failure = InjectedFailure{.rank = 0, .repetition = 0, .action = program.templates(0).body(0).id()};
  std::string reason;
  options.on_stuck = [&](const absl::Status& status, bool reports) {
    if (reports) reason = std::string(status.message());
    kernel_is_over = true;
  };
  const auto start = std::chrono::steady_clock::now();
  const absl::Status status = RunInProcess(program, NoData(), options).status();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
  EXPECT_THAT(reason, HasSubstr("injected failure"));
  EXPECT_EQ(reason, status.message());
}

}  // namespace
}  // namespace weft::exec
