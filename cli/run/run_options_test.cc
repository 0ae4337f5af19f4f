#include "cli/run/run_options.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// The options of `weft run` with these flags.
absl::StatusOr<exec::RunOptions> Options(const std::vector<std::string>& args, RunFlags f = {}) {
  Flags flags("weft run", "PROGRAM [flags]", "");
  DeclareRunFlags(flags, f);
  EXPECT_EQ(flags.Parse(args, 0, 0), absl::OkStatus());
  static const exec::BackendEntry cpu = {.name = "cpu", .open = nullptr, .make = nullptr, .description = ""};
  return OptionsOf(flags, f, cpu);
}

TEST(RunOptions, FollowFromTheFlags) {
  const auto plain = Options({});
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_EQ(plain->resume_step, -1);
  EXPECT_EQ(plain->trace_repetitions, 0);
  EXPECT_NE(plain->fault_report, "");
  const auto given = Options({"--resume-step=7", "--trace=t.json", "--trace-steps=9", "--fault-report=none"});
  ASSERT_TRUE(given.ok()) << given.status();
  EXPECT_EQ(given->resume_step, 7);
  EXPECT_EQ(given->trace_repetitions, 9);
  EXPECT_EQ(given->fault_report, "");
}

TEST(RunOptions, OnlyGpusAreTuned) {
  RunFlags f;
  f.tuning = "read table";
  EXPECT_THAT(std::string(Options({}, f).status().message()),
              HasSubstr("backend cpu has nothing to tune; allowed: off"));
}

TEST(PredictTimes, AnErrorNamesTheFlag) {
  RunFlags f;
  f.predicted = "/no/such/trace.json";
  EXPECT_THAT(std::string(PredictTimes(Program(), f).status().message()), StartsWith("--predicted: "));
  f.predicted = "";
  f.cluster = "none";
  EXPECT_TRUE(PredictTimes(Program(), f).ok());
}

}  // namespace
}  // namespace weft
