#include "cli/run/run_output.h"

#include "cli/run/stop_signals.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using ::testing::internal::CaptureStdout;
using ::testing::internal::GetCapturedStdout;

TEST(RunOutput, WaitsUntilNothingIsRefused) {
  CaptureStdout();
  RunOutput output;
  output.Write("one\n");
  output.Write("two\n");
  EXPECT_EQ(GetCapturedStdout(), "");
  CaptureStdout();
  output.Accept(/*met=*/false);
  output.Write("three\n");
  EXPECT_EQ(GetCapturedStdout(), "one\ntwo\nthree\n");
  EXPECT_EQ(output.status(), absl::OkStatus());
  EXPECT_FALSE(stop_requested);
}

}  // namespace
}  // namespace weft
