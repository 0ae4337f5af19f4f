// Tests that damaged checkpoints are refused with an error that names the damage and its place.
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "executor/checkpoint/checkpoint.h"
#include "executor/checkpoint/checkpoint_job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/io/io.h"

namespace weft::exec {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

TEST(CheckpointDamageTest, DamagedPieces) {
  CheckpointJob job(CutCheckpointProgram(2, 2, 2));
  job.Fill(3);
  const std::string directory = FreshDirectory("damaged_pieces");
  ASSERT_TRUE(job.Save(directory, 1).ok());
  const std::string checkpoint = **FindCheckpoint(directory);
  const CheckpointManifest manifest = *ReadManifest(checkpoint);
  const auto load = [&](const CheckpointManifest& changed) {
    absl::Status status = ParseManifest(changed.SerializeAsString(), "manifest").status();
    for (size_t i = 0; status.ok() && i < job.states.size(); ++i) {
      status = LoadCheckpoint(checkpoint, changed, job.program, job.states[i].get());
    }
    return std::string(status.message());
  };
  EXPECT_EQ(load(manifest), "");
  CheckpointManifest changed = manifest;
  changed.mutable_pieces()->RemoveLast();
  EXPECT_THAT(load(changed), HasSubstr("is in none of its pieces"));
  changed = manifest;
  *changed.add_pieces() = manifest.pieces(0);
  EXPECT_THAT(load(changed), HasSubstr("is in two of its pieces"));
  changed = manifest;
  changed.mutable_pieces(0)->set_file("rank-0099.safetensors");
  EXPECT_THAT(load(changed), HasSubstr("pieces[0].file = 'rank-0099.safetensors' is not in files"));
  changed = manifest;
  changed.mutable_pieces(0)->set_tensor(2);
  EXPECT_THAT(load(changed), HasSubstr("pieces[0].tensor = 2, of 2 tensors"));
  changed = manifest;
  changed.mutable_pieces(1)->set_part("#moment3");
  EXPECT_THAT(load(changed), HasSubstr("pieces[1].part = '#moment3'"));
  changed = manifest;
  changed.mutable_pieces(0)->mutable_dimensions(0)->set_end(0, 4);
  EXPECT_THAT(load(changed), HasSubstr("pieces[0]: dimension 0"));
  changed = manifest;
  changed.mutable_pieces(0)->mutable_dimensions(0)->add_begin(4);
  EXPECT_THAT(load(changed), HasSubstr("2 begins and 1 ends"));
  // Pieces of tensor 1 name the file of another rank, which has an entry of that name but of another length.
  changed = manifest;
  for (CheckpointPiece& piece : *changed.mutable_pieces()) {
    if (piece.tensor() == 1 && piece.part().empty())
      piece.set_file(piece.file() == "rank-0000.safetensors" ? "rank-0004.safetensors" : "rank-0000.safetensors");
  }
  EXPECT_THAT(load(changed), HasSubstr("elements of fp32"));
}

TEST(CheckpointDamageTest, DamageIsNamed) {
  CheckpointJob job(CheckpointProgram(1, 1));
  job.Fill(1);
  const std::string directory = FreshDirectory("damage");
  ASSERT_TRUE(job.Save(directory, 1).ok());
  const std::string checkpoint = **FindCheckpoint(directory);
  const std::string file = checkpoint + "/rank-0000.safetensors";
  const std::string good = *ReadFile(file), manifest = *ReadFile(checkpoint + "/manifest.textproto");
  auto load_with = [&](const std::string& path, const std::string& content) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
    return std::string(job.Load(checkpoint).message());
  };
  std::string flipped = good;
  flipped.back() ^= 1;
  EXPECT_THAT(load_with(file, flipped), HasSubstr("rank-0000.safetensors: CRC32C is"));
  EXPECT_THAT(load_with(file, good.substr(0, good.size() - 1)), HasSubstr("the manifest says"));
  fs::remove(file);
  EXPECT_THAT(std::string(job.Load(checkpoint).message()), HasSubstr("rank-0000.safetensors"));
  EXPECT_EQ(load_with(file, good), "");
  const std::string path = checkpoint + "/manifest.textproto";
  EXPECT_THAT(load_with(path, manifest.substr(0, manifest.size() / 2)), HasSubstr("manifest.textproto"));
  EXPECT_THAT(load_with(path, ""), HasSubstr("manifest.textproto"));
  EXPECT_THAT(load_with(path, "format_version: 4"), HasSubstr("format_version = 4"));
  for (const char* scale : {"scale: 0", "scale: -8", "scale: nan", "scale: 0.5", "scale: 1e300",
                            "scale: 8 skipped: 1000", "scale: 8 steady: -1"}) {
    EXPECT_THAT(load_with(path, absl::StrCat(manifest, "loss_scale { ", scale, " }")), HasSubstr("loss_scale has"));
  }
  std::string other_step = manifest;
  other_step.replace(other_step.find("step: 1"), 7, "step: 7");
  EXPECT_THAT(load_with(path, other_step),
              HasSubstr("manifest.textproto: step = 7, but its folder is named for step 1"));
  std::string elsewhere = manifest;
  elsewhere.replace(elsewhere.find("rank-0000"), 4, "../x");
  EXPECT_THAT(load_with(path, elsewhere), HasSubstr("not a file name"));
  std::ofstream(directory + "/latest", std::ios::trunc) << "../../etc";
  EXPECT_THAT(std::string(FindCheckpoint(directory).status().message()), HasSubstr("latest: holds '../../etc'"));
  // The checkpoint that `latest` names is gone. FindCheckpoint returns another whole one. If there is none, it returns
  // an error, because `latest` shows that there was one.
  std::ofstream(directory + "/latest", std::ios::trunc) << "step-00000099\n";
  EXPECT_TRUE(FindCheckpoint(directory)->has_value());
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    if (entry.is_directory()) std::filesystem::remove_all(entry.path());
  }
  EXPECT_THAT(std::string(FindCheckpoint(directory).status().message()),
              HasSubstr("latest: names step-00000099, which is not there, and "));
  std::filesystem::remove(directory + "/latest");
  EXPECT_FALSE(FindCheckpoint(directory)->has_value());
}

TEST(CheckpointDamageTest, NamesTheNewestUndamagedCheckpoint) {
  CheckpointJob job(CheckpointProgram(1, 1));
  const std::string directory = FreshDirectory("undamaged");
  for (int64_t step : {1, 2, 3}) {
    job.Fill(static_cast<int>(step));
    ASSERT_TRUE(job.Save(directory, step, /*keep=*/3).ok());
  }
  const std::string newest = **FindCheckpoint(directory);
  const absl::Status damage = absl::DataLossError("it is damaged");
  const auto advice = [&] { return std::string(WithUndamaged(damage, directory, newest).message()); };
  EXPECT_EQ(advice(), absl::StrCat("it is damaged; the newest undamaged checkpoint is ", directory,
                                   "/step-00000002; --resume-step 2 continues from it"));
  // The error does not recommend a checkpoint with a flipped bit in a file.
  const std::string file = directory + "/step-00000002/rank-0000.safetensors";
  std::string bytes = *ReadFile(file);
  bytes.back() ^= 1;
  std::ofstream(file, std::ios::binary | std::ios::trunc) << bytes;
  EXPECT_THAT(advice(), HasSubstr("--resume-step 1 continues from it"));
  EXPECT_EQ(**FindCheckpoint(directory, 1), directory + "/step-00000001");
  EXPECT_EQ(FindCheckpoint(directory, 7).status().message(),
            absl::StrCat("--resume-step: ", directory,
                         " has no checkpoint of step 7; steps with a checkpoint: 1, 2, 3; nearest valid: 3"));
  fs::remove(directory + "/step-00000001/manifest.textproto");
  EXPECT_EQ(advice(), absl::StrCat("it is damaged; ", directory, " has no other undamaged checkpoint"));
  EXPECT_THAT(std::string(FindCheckpoint(FreshDirectory("nothing"), 7).status().message()),
              HasSubstr("nothing has no checkpoint"));
}

}  // namespace
}  // namespace weft::exec
