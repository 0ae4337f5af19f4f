// Tests that runs that do not fit this machine are refused before anything is allocated.
#include "executor/program/arena_size.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "executor/run/run.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "verifier/testing/tiny_program.h"

namespace weft::exec {
namespace {

class Zeros : public DataSource {
 public:
  int64_t windows() const override { return 64; }
  absl::Status Sample(int64_t, absl::Span<int32_t> tokens, absl::Span<int32_t> targets) const override {
    std::fill(tokens.begin(), tokens.end(), 0);
    std::fill(targets.begin(), targets.end(), 0);
    return absl::OkStatus();
  }
};

constexpr int64_t kTooMuch = int64_t{1} << 50;

absl::Status StatusOfRun(const Program& program, bool evaluates) {
  const Zeros data;
  RunOptions options;
  options.steps = 1;
  if (evaluates) options.eval_data = &data;
  options.eval_batches = 1;
  return RunInProcess(program, data, options).status();
}

TEST(ArenaSize, ArenasOfTrainingMustFit) {
  Program program = TinyProgram();
  EXPECT_TRUE(StatusOfRun(program, false).ok()) << StatusOfRun(program, false);
  program.mutable_templates(0)->set_device_arena_bytes(kTooMuch);
  const absl::Status status = StatusOfRun(program, false);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("the arenas of 4 ranks take"));
}

// A device has its own memory, which does not count as the machine's.
TEST(ArenaSize, MemoryOfADeviceIsNotTheMachines) {
  Program program = TinyProgram();
  program.mutable_templates(0)->set_device_arena_bytes(kTooMuch);
  std::string note;
  EXPECT_TRUE(absl::IsResourceExhausted(CheckMachineMemory(program, false, /*on_host=*/true, 0, 4, &note)));
  EXPECT_TRUE(CheckMachineMemory(program, false, /*on_host=*/false, 0, 4, &note).ok());
  EXPECT_EQ(note, "");
  // Only the driver knows whether the host's memory can be pinned.
  program.mutable_templates(0)->set_host_arena_bytes(kTooMuch);
  EXPECT_TRUE(CheckMachineMemory(program, false, /*on_host=*/false, 0, 4, &note).ok());
  EXPECT_THAT(note, testing::HasSubstr("the arenas of 4 ranks take"));
  EXPECT_THAT(note, testing::HasSubstr("the driver may refuse to pin them"));
}

// Evaluation uses the memory of training, which must be large enough for both.
TEST(ArenaSize, ArenasOfEvaluationMustFitWhereThereIsOne) {
  Program program = TinyProgram();
  *program.mutable_evaluation() = TinyEvaluation();
  EXPECT_TRUE(StatusOfRun(program, true).ok()) << StatusOfRun(program, true);
  program.mutable_evaluation()->mutable_templates(1)->set_host_arena_bytes(kTooMuch);
  EXPECT_TRUE(StatusOfRun(program, false).ok()) << StatusOfRun(program, false);
  const absl::Status status = StatusOfRun(program, true);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("the arenas of 4 ranks take"));
}

}  // namespace
}  // namespace weft::exec
