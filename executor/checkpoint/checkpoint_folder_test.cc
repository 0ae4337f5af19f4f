#include "executor/checkpoint/checkpoint_folder.h"

#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "executor/checkpoint/checkpoint.h"
#include "executor/checkpoint/checkpoint_manifest.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/io/crc32c.h"
#include "proto/io/io.h"
#include "tests/fresh_directory.h"

namespace weft::exec {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
namespace fs = std::filesystem;

// Writes a checkpoint with one file that has the given content and that matches its manifest; returns its folder.
std::string Put(const std::string& directory, int64_t step, const std::string& content) {
  std::string folder = directory + "/" + FolderName(step);
  fs::create_directories(folder);
  CheckpointManifest manifest;
  manifest.set_format_version(FormatVersionOf(manifest));
  manifest.set_step(step);
  CheckpointFile* file = manifest.add_files();
  file->set_name("weights.safetensors");
  file->set_bytes(static_cast<int64_t>(content.size()));
  file->set_crc32c(Crc32c(content));
  EXPECT_TRUE(WriteFileAtomic(folder + "/weights.safetensors", content).ok());
  EXPECT_TRUE(WriteFileAtomic(folder + "/" + kManifestName, MessageToText(manifest)).ok());
  return folder;
}

std::string Message(const absl::Status& status) { return std::string(status.message()); }

TEST(CheckpointFolder, NamesAreThoseThatBeginSo) {
  const std::string directory = FreshDirectory("folder_names");
  for (const char* name : {"step-b", "step-a", "other", ".step-c"}) fs::create_directory(directory + "/" + name);
  EXPECT_THAT(*NamesIn(directory, "step-"), ElementsAre("step-a", "step-b"));
  EXPECT_THAT(*NamesIn(directory + "/nowhere", "step-"), IsEmpty());
  ASSERT_TRUE(WriteFileAtomic(directory + "/file", "x").ok());
  EXPECT_THAT(Message(NamesIn(directory + "/file", "").status()), HasSubstr("/file: cannot list: "));
}

TEST(CheckpointFolder, StepsAreThoseOfFoldersNewestFirst) {
  const std::string directory = FreshDirectory("folder_steps");
  for (int64_t step : {9, 100, 20}) Put(directory, step, "a");
  // Add a folder that is not whole, which StepsIn returns too, and folders whose names stand for no step, which it
  // leaves out.
  fs::create_directory(directory + "/" + FolderName(30));
  for (const char* name : {"step-30", "step-0000003x", "step-", ".old-step-00000040"}) {
    fs::create_directory(directory + "/" + name);
  }
  EXPECT_THAT(*StepsIn(directory), ElementsAre(100, 30, 20, 9));
  EXPECT_TRUE(IsWholeFolder(directory + "/" + FolderName(9)));
  EXPECT_FALSE(IsWholeFolder(directory + "/" + FolderName(30)));
  EXPECT_FALSE(IsWholeFolder(directory + "/nowhere"));
  EXPECT_TRUE(SyncFolder(directory).ok());
  EXPECT_THAT(Message(SyncFolder(directory + "/nowhere")), HasSubstr("cannot open: No such file"));
}

TEST(CheckpointFolder, AFileIsWhatTheManifestSays) {
  const std::string directory = FreshDirectory("folder_file");
  // The content is longer than one read.
  const std::string content(3'000'001, 'w');
  const std::string path = Put(directory, 1, content) + "/weights.safetensors";
  CheckpointFile file;
  file.set_bytes(static_cast<int64_t>(content.size()));
  file.set_crc32c(Crc32c(content));
  EXPECT_TRUE(CheckFile(path, file).ok());
  file.set_bytes(file.bytes() + 1);
  EXPECT_THAT(Message(CheckFile(path, file)), HasSubstr("has 3000001 bytes, the manifest says 3000002"));
  file.set_bytes(file.bytes() - 1);
  file.set_crc32c(file.crc32c() ^ 1);
  EXPECT_THAT(Message(CheckFile(path, file)), HasSubstr("the file is corrupt"));
  EXPECT_THAT(Message(CheckFile(directory + "/nowhere", file)), HasSubstr("cannot open"));
  EXPECT_THAT(Message(CheckFile(directory, file)), HasSubstr("cannot read"));
}

TEST(CheckpointFolder, DamageNamesTheNewestCheckpointWithoutIt) {
  const std::string directory = FreshDirectory("folder_damage");
  std::vector<std::string> folders;
  for (int64_t step : {10, 20, 30}) folders.push_back(Put(directory, step, "weights"));
  EXPECT_TRUE(CheckCheckpoint(folders[2]).ok());
  ASSERT_TRUE(WriteFileAtomic(folders[2] + "/weights.safetensors", "weighty").ok());
  const absl::Status damage = CheckCheckpoint(folders[2]);
  EXPECT_THAT(Message(damage), HasSubstr(folders[2] + "/weights.safetensors: CRC32C is "));
  EXPECT_THAT(Message(WithUndamaged(damage, directory, folders[2])),
              HasSubstr("is corrupt; the newest undamaged checkpoint is " + folders[1] +
                        "; --resume-step 20 continues from it"));
  ASSERT_TRUE(fs::remove(folders[1] + "/weights.safetensors"));
  EXPECT_THAT(Message(WithUndamaged(damage, directory, folders[2])), HasSubstr("--resume-step 10 continues from it"));
  fs::remove_all(folders[0]);
  EXPECT_THAT(Message(WithUndamaged(damage, directory, folders[2])),
              HasSubstr(directory + " has no other undamaged checkpoint"));
  // The damage may be outside the files that CheckCheckpoint compares. The damaged checkpoint is still never
  // recommended as its own replacement.
  const std::string whole = Put(directory, 40, "weights");
  EXPECT_THAT(Message(WithUndamaged(absl::DataLossError("x"), directory, whole)),
              HasSubstr(directory + " has no other undamaged checkpoint"));
}

TEST(CheckpointFolder, LatestNamesTheOneThatIsFound) {
  const std::string directory = FreshDirectory("folder_latest");
  EXPECT_FALSE(FindCheckpoint(directory)->has_value());
  for (int64_t step : {10, 20}) Put(directory, step, "a");
  fs::create_directory(directory + "/" + FolderName(30));
  // Without `latest`, the newest whole checkpoint is found.
  EXPECT_EQ(**FindCheckpoint(directory), directory + "/step-00000020");
  EXPECT_EQ(NoteOnLatest(directory, directory + "/step-00000020"), "");
  ASSERT_TRUE(WriteFileAtomic(directory + "/latest", "step-00000010\n").ok());
  EXPECT_EQ(**FindCheckpoint(directory), directory + "/step-00000010");
  EXPECT_EQ(NoteOnLatest(directory, directory + "/step-00000010"), "");
  // A save that was cut short has set the checkpoint aside.
  fs::rename(directory + "/step-00000010", directory + "/.old-step-00000010");
  EXPECT_EQ(**FindCheckpoint(directory), directory + "/.old-step-00000010");
  EXPECT_EQ(NoteOnLatest(directory, directory + "/.old-step-00000010"), "");
  fs::remove_all(directory + "/.old-step-00000010");
  EXPECT_EQ(**FindCheckpoint(directory), directory + "/step-00000020");
  EXPECT_EQ(NoteOnLatest(directory, directory + "/step-00000020"),
            absl::StrCat("note: ", directory,
                         "/latest names step-00000010, which is not there; weft uses the newest complete ",
                         "checkpoint, ", directory, "/step-00000020"));
  fs::remove_all(directory + "/step-00000020");
  EXPECT_THAT(Message(FindCheckpoint(directory).status()),
              HasSubstr("names step-00000010, which is not there, and " + directory + " has no other checkpoint"));
  ASSERT_TRUE(WriteFileAtomic(directory + "/latest", "newest").ok());
  EXPECT_THAT(Message(FindCheckpoint(directory).status()), HasSubstr("latest: holds 'newest', expected a name like"));
}

TEST(CheckpointFolder, AFolderNamedLatestIsNoName) {
  const std::string directory = FreshDirectory("folder_folder");
  Put(directory, 20, "a");
  fs::create_directory(directory + "/latest");
  const absl::Status status = FindCheckpoint(directory).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Message(status),
            absl::StrCat(directory,
                         "/latest: is a folder, expected a file that holds a name like step-00000020; "
                         "move it away to use the newest checkpoint, or name one with --resume-step N"));
  EXPECT_EQ(**FindCheckpoint(directory, 20), directory + "/step-00000020");
}

TEST(CheckpointFolder, APipeIsNotWaitedFor) {
  const std::string directory = FreshDirectory("folder_pipe");
  Put(directory, 20, "a");
  ASSERT_EQ(mkfifo((directory + "/latest").c_str(), 0600), 0);
  EXPECT_THAT(Message(FindCheckpoint(directory).status()),
              HasSubstr("/latest: is not a regular file, expected a file"));
  fs::create_directory(directory + "/step-00000030");
  ASSERT_EQ(mkfifo((directory + "/step-00000030/" + kManifestName).c_str(), 0600), 0);
  EXPECT_THAT(Message(ReadManifest(directory + "/step-00000030").status()), HasSubstr(": is not a regular file"));
}

TEST(CheckpointFolder, AStepThatThereIsNotNamesTheNearest) {
  const std::string directory = FreshDirectory("folder_wanted");
  EXPECT_THAT(Message(FindCheckpoint(directory, 10).status()), HasSubstr(directory + " has no checkpoint"));
  for (int64_t step : {10, 20, 40}) Put(directory, step, "a");
  fs::create_directory(directory + "/" + FolderName(33));
  EXPECT_EQ(**FindCheckpoint(directory, 10), directory + "/step-00000010");
  EXPECT_THAT(Message(FindCheckpoint(directory, 33).status()),
              HasSubstr("has no checkpoint of step 33; steps with a checkpoint: 10, 20, 40; nearest valid: 40"));
}

}  // namespace
}  // namespace weft::exec
