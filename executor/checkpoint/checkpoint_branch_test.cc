#include "executor/checkpoint/checkpoint_branch.h"

#include <set>
#include <string>

#include "executor/checkpoint/checkpoint.h"
#include "executor/checkpoint/checkpoint_manifest.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/io/io.h"
#include "tests/fresh_directory.h"

namespace weft::exec {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
namespace fs = std::filesystem;

// Writes a whole checkpoint that contains the name of the run that it belongs to.
void Put(const std::string& directory, int64_t step, const std::string& run) {
  const std::string folder = directory + "/" + FolderName(step);
  fs::create_directories(folder);
  ASSERT_TRUE(WriteFileAtomic(folder + "/" + kManifestName, run).ok());
}

std::string RunOf(const std::string& directory, int64_t step) {
  const auto text = ReadFile(directory + "/" + FolderName(step) + "/" + kManifestName);
  return text.ok() ? *text : "none";
}

std::set<std::string> NamesOf(const std::string& directory) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory)) names.insert(entry.path().filename().string());
  return names;
}

TEST(CheckpointBranch, MovesLaterCheckpointsToADirectoryOfTheirOwn) {
  const std::string directory = FreshDirectory("branch_moves");
  for (int64_t step : {10, 20, 30}) Put(directory, step, "old");
  ASSERT_TRUE(WriteFileAtomic(directory + "/latest", "step-00000030\n").ok());
  fs::create_directory(directory + "/step-00000040");  // Not whole.
  EXPECT_THAT(*StepsBeyond(directory, 10), ElementsAre(20, 30));
  EXPECT_EQ(*NoteOnBranch(directory, 10),
            "this run branches off an earlier run, whose later checkpoints (after 20, 30 steps) move to " + directory +
                "/abandoned-1 when this run saves");
  ASSERT_TRUE(SetAsideBeyond(directory, 10).ok());
  EXPECT_EQ(NamesOf(directory), std::set<std::string>({"abandoned-1", "latest", "step-00000010", "step-00000040"}));
  EXPECT_EQ(**FindCheckpoint(directory), directory + "/step-00000010");
  EXPECT_EQ(**FindCheckpoint(directory + "/abandoned-1"), directory + "/abandoned-1/step-00000030");
  EXPECT_EQ(RunOf(directory + "/abandoned-1", 20), "old");
  // Nothing is left to move or to report.
  ASSERT_TRUE(SetAsideBeyond(directory, 10).ok());
  EXPECT_EQ(*NoteOnBranch(directory, 10), "");
  EXPECT_FALSE(fs::exists(directory + "/abandoned-2"));
  // The checkpoints of the next abandoned run move to a second folder.
  Put(directory, 20, "new");
  ASSERT_TRUE(SetAsideBeyond(directory, 10).ok());
  EXPECT_EQ(RunOf(directory + "/abandoned-1", 20), "old");
  EXPECT_EQ(RunOf(directory + "/abandoned-2", 20), "new");
}

// Makes the state that a move leaves if it is cut short between two renames, and tests that the next call moves the
// rest.
TEST(CheckpointBranch, ACutShortMoveIsNoMixture) {
  const std::string directory = FreshDirectory("branch_cut");
  for (int64_t step : {10, 20}) Put(directory, step, "old");
  Put(directory + "/abandoned-1", 30, "old");
  ASSERT_TRUE(WriteFileAtomic(directory + "/latest", "step-00000010\n").ok());
  EXPECT_EQ(**FindCheckpoint(directory), directory + "/step-00000010");
  ASSERT_TRUE(SetAsideBeyond(directory, 10).ok());
  EXPECT_EQ(NamesOf(directory), std::set<std::string>({"abandoned-1", "abandoned-2", "latest", "step-00000010"}));
  EXPECT_EQ(RunOf(directory + "/abandoned-1", 30), "old");
  EXPECT_EQ(RunOf(directory + "/abandoned-2", 20), "old");
}

TEST(CheckpointBranch, AnEmptyDirectoryHasNone) {
  EXPECT_THAT(*StepsBeyond(FreshDirectory("branch_empty") + "/not_there", 3), IsEmpty());
  EXPECT_TRUE(SetAsideBeyond(FreshDirectory("branch_empty"), 3).ok());
}

}  // namespace
}  // namespace weft::exec
