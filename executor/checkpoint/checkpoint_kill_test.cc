// Tests that a job that is killed while it saves leaves a checkpoint that can be loaded.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <optional>
#include <random>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "executor/checkpoint/checkpoint.h"
#include "executor/checkpoint/checkpoint_job.h"
#include "gtest/gtest.h"
#include "proto/util/units.h"

namespace weft::exec {
namespace {

namespace fs = std::filesystem;

// Starts a child that saves without end, and kills it within three times the time of one save, so that kills hit every
// part of a save.
void KillAtAnyMoment(int64_t save_us, std::mt19937& random, absl::FunctionRef<void()> save) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    save();
    _exit(4);
  }
  usleep(500 + random() % (3 * save_us + 1000));
  kill(child, SIGKILL);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status)) << "the child ended by itself: " << status;
}

// Fills a job with the numbers of seed `fill`, saves it as step `step`, and returns the wall time of the save in
// microseconds.
int64_t MicrosecondsOfASave(const std::string& directory, int64_t fill, int64_t step, int64_t keep) {
  CheckpointJob job(CheckpointProgram(1, 2));
  job.Fill(fill);
  const int64_t start = MonotonicNanoseconds();
  EXPECT_TRUE(job.Save(directory, step, keep).ok());
  return (MonotonicNanoseconds() - start) / 1000 + 1;
}

// Starts and kills `moments` children, one after another. Each child calls `save`, which saves into `directory` without
// end. After each kill, if FindCheckpoint returns a checkpoint, it must load. `check` receives the checkpoint's path,
// if there is one, and a job that has loaded it.
void KillAtManyMoments(const std::string& directory, int moments, uint32_t seed, int64_t save_us,
                       absl::FunctionRef<void()> save,
                       absl::FunctionRef<void(const std::optional<std::string>&, CheckpointJob&)> check) {
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  std::mt19937 random(seed);
  for (int moment = 0; moment < moments && !testing::Test::HasFatalFailure(); ++moment) {
    KillAtAnyMoment(save_us, random, save);
    if (testing::Test::HasFatalFailure()) return;
    const auto found = FindCheckpoint(directory);
    ASSERT_TRUE(found.ok()) << found.status();
    CheckpointJob reader(CheckpointProgram(1, 1));
    if (found->has_value()) {
      const absl::Status loaded = reader.Load(**found);
      ASSERT_TRUE(loaded.ok()) << loaded;
    }
    check(*found, reader);
  }
}

TEST(CheckpointKillTest, AKillAtAnyMomentOfSavingLeavesALoadableCheckpoint) {
  const std::string directory = FreshDirectory("kill");
  int64_t last = 0, interrupted = 0;
  const int64_t save_us = MicrosecondsOfASave(directory, 1, 1, /*keep=*/2);
  fs::remove_all(directory);
  fs::create_directory(directory);
  const auto save = [&] {
    CheckpointJob job(CheckpointProgram(1, 2));
    for (int64_t step = last + 1;; ++step) {
      job.Fill(step);
      if (!job.Save(directory, step).ok()) _exit(3);
    }
  };
  const auto check = [&](const std::optional<std::string>& found, CheckpointJob& reader) {
    for (const auto& entry : fs::directory_iterator(directory)) {
      interrupted += entry.path().filename().string().rfind(".tmp-", 0) == 0;
    }
    if (!found.has_value()) {
      ASSERT_EQ(last, 0) << "a checkpoint was lost";
      return;
    }
    const int64_t step = ReadManifest(*found)->step();
    ASSERT_GE(step, last) << "a newer checkpoint was lost";
    reader.ExpectFilled(step);
    last = step;
  };
  KillAtManyMoments(directory, /*moments=*/50, /*seed=*/20241, save_us, save, check);
  EXPECT_GT(last, 0);
  // The test is meaningful only if some of the kills hit a save.
  EXPECT_GT(interrupted, 0);
}

// Like the test above, but saves replace existing steps, and some saves set `latest` back to a lower step.
TEST(CheckpointKillTest, AKillAtAnyMomentOfReplacingLeavesALoadableCheckpoint) {
  const std::string directory = FreshDirectory("kill_replace");
  int64_t last = 1, progress = 0;
  const int64_t save_us = MicrosecondsOfASave(directory, last, 7, /*keep=*/1);
  const auto save = [&] {
    CheckpointJob job(CheckpointProgram(1, 2));
    // Saves steps 7, 7, 6, 7, 7, 6... over existing ones, with --keep 1. A 6 after a 7 is a run that was rolled back.
    for (int64_t fill = last + 1;; ++fill) {
      job.Fill(fill);
      if (!job.Save(directory, fill % 3 == 0 ? 6 : 7, 1).ok()) _exit(3);
    }
  };
  const auto check = [&](const std::optional<std::string>& found, CheckpointJob& reader) {
    ASSERT_TRUE(found.has_value()) << "the checkpoint was lost";
    // The first element of the first tensor is the number it was filled with.
    float first = 0;
    std::memcpy(&first, reader.states[0]->Read(0, StatePart::kWeight)->bytes.data(), sizeof(first));
    const int64_t fill = static_cast<int64_t>(first);
    ASSERT_GE(fill, last) << "a newer checkpoint was lost";
    reader.ExpectFilled(fill);
    progress += fill - last;
    last = fill;
  };
  KillAtManyMoments(directory, /*moments=*/40, /*seed=*/20242, save_us, save, check);
  EXPECT_GT(progress, 0);
}

}  // namespace
}  // namespace weft::exec
