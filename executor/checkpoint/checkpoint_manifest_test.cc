#include "executor/checkpoint/checkpoint_manifest.h"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "executor/checkpoint/checkpoint.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/io/io.h"
#include "tests/fresh_directory.h"
#include "tests/parse_text.h"

namespace weft::exec {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Returns why the manifest is refused; "" if it is accepted.
std::string Refused(const std::string& manifest) {
  return std::string(ParseManifest(manifest, "m").status().message());
}

TEST(CheckpointManifest, NamesOfFoldersAreOfSteps) {
  EXPECT_EQ(FolderName(20), "step-00000020");
  EXPECT_EQ(FolderName(1234567890), "step-1234567890");
  for (const int64_t step : {0, 20, 99999999, 1234567890}) EXPECT_EQ(StepOfFolder(FolderName(step)), step);
  for (const char* name : {"", "step-", "step-20", "step-0000002x", "step--0000020", "step-+0000020", "step-000000020",
                           "Step-00000020", ".old-step-00000020", "../step-00000020", "step-99999999999999999999"}) {
    EXPECT_EQ(StepOfFolder(name), std::nullopt) << name;
  }
}

TEST(CheckpointManifest, TheVersionIsTheLeastThatHasWhatItHas) {
  CheckpointManifest manifest;
  EXPECT_EQ(FormatVersionOf(manifest), 1);
  manifest.add_pieces();
  EXPECT_EQ(FormatVersionOf(manifest), 2);
  manifest.mutable_loss_scale();
  EXPECT_EQ(FormatVersionOf(manifest), 3);
}

TEST(CheckpointManifest, RefusesImpossibleContents) {
  EXPECT_EQ(Refused("format_version: 1 step: 5 files { name: 'a' bytes: 1 }"), "");
  EXPECT_THAT(Refused("step: 5"), HasSubstr("m: format_version = 0; this weft reads 1 to 3"));
  EXPECT_THAT(Refused("format_version: 4"), HasSubstr("format_version = 4; this weft reads 1 to 3"));
  EXPECT_THAT(Refused("format_version: 1 step: -1"), HasSubstr("step = -1 must be at least 0"));
  EXPECT_THAT(Refused("format_version: 1 stp: 1"), HasSubstr("stp"));
  // Nothing outside the checkpoint's folder is read.
  for (const char* name : {"", "../a", "/etc/passwd", "b/a"}) {
    EXPECT_THAT(Refused(std::string("format_version: 1 files { name: '") + name + "' }"),
                HasSubstr("is not a file name"))
        << name;
  }
}

TEST(CheckpointManifest, ALossScaleIsOneThatARunCanHave) {
  const auto with = [](const std::string& fields) {
    return Refused("format_version: 3 step: 5 loss_scale { " + fields + " }");
  };
  EXPECT_EQ(with("scale: 1 steady: 5 skipped: 5"), "");
  EXPECT_EQ(with("scale: 1152921504606846976"), "");  // 2^60
  for (const char* fields :
       {"scale: 0.5", "scale: 1152921504606847232", "scale: nan", "scale: inf", "scale: 1 steady: 6",
        "scale: 1 steady: -1", "scale: 1 skipped: 6", "scale: 1 skipped: -1"}) {
    EXPECT_THAT(with(fields), HasSubstr("the scale must be from 1 to 2^60, and the other two from 0 to step = 5"))
        << fields;
  }
}

TEST(CheckpointManifest, AFolderIsOfTheStepThatItNames) {
  const std::string directory = FreshDirectory("manifest_step");
  const auto read = [&](const std::string& folder) {
    const std::string path = directory + "/" + folder;
    std::filesystem::create_directory(path);
    EXPECT_TRUE(WriteFileAtomic(path + "/" + kManifestName, "format_version: 1 step: 20").ok());
    return std::string(ReadManifest(path).status().message());
  };
  EXPECT_EQ(read("step-00000020"), "");
  EXPECT_EQ(read(".old-step-00000020"), "");
  // A folder that was copied by hand may have another name, but not the name of another step.
  EXPECT_EQ(read("mine"), "");
  EXPECT_THAT(read("step-00000021"),
              HasSubstr("step = 20, but its folder is named for step 21: the manifest is damaged"));
  EXPECT_THAT(read(".old-step-00000021"), HasSubstr("its folder is named for step 21"));
  EXPECT_FALSE(ReadManifest(directory + "/nowhere").ok());
}

TEST(CheckpointManifest, ARunGoesOnWithItsOwnModelAndRecipe) {
  const auto manifest = Parse<CheckpointManifest>(R"(
    tensors { name: "w" shape: [2, 3] } recipe { steps: 10 clip_norm: 1 sgd { momentum: 0.9 } })");
  const auto program = Parse<Program>(R"(
    tensors { name: "w" shape: [2, 3] } recipe { steps: 20 clip_norm: 1 sgd { momentum: 0.9 } })");
  const auto refused = [&](const Program& changed) {
    return std::string(CheckContinues(manifest, "c", changed).message());
  };
  // A program with more steps continues the same run; one with fewer steps does not.
  EXPECT_EQ(refused(program), "");
  Program other = program;
  other.mutable_recipe()->set_steps(5);
  EXPECT_THAT(refused(other),
              HasSubstr("c: its recipe differs from the program's (checkpoint -> program): recipe.steps: 10 -> 5"));
  other = program;
  other.mutable_recipe()->mutable_sgd()->set_momentum(0.5);
  other.mutable_recipe()->clear_clip_norm();
  EXPECT_THAT(refused(other), HasSubstr("recipe.sgd.momentum: 0.9 -> 0.5"));
  EXPECT_THAT(refused(other), HasSubstr("recipe.clip_norm: 1 -> default"));
  other = program;
  other.mutable_recipe()->set_seed(3);
  EXPECT_THAT(refused(other), HasSubstr("recipe.seed: default -> 3"));
  other = program;
  other.mutable_tensors(0)->set_shape(1, 4);
  EXPECT_THAT(refused(other), HasSubstr("c: tensor 0 is 'w' [2, 3], but 'w' [2, 4] in the program: the models differ"));
  other.add_tensors();
  EXPECT_THAT(refused(other), HasSubstr("has 1 tensors, but the program has 2"));
}

TEST(CheckpointManifest, SeedAndNextSampleAreThoseOfRecipeAndStep) {
  const auto manifest =
      Parse<CheckpointManifest>("step: 3 next_sample: 12 seed: 7 recipe { global_batch_sequences: 4 seed: 7 }");
  const auto program = Parse<Program>("recipe { global_batch_sequences: 4 seed: 7 }");
  EXPECT_EQ(CheckContinues(manifest, "c", program), absl::OkStatus());
  CheckpointManifest other = manifest;
  other.set_seed(8);
  EXPECT_EQ(
      CheckContinues(other, "c", program),
      absl::DataLossError("c/manifest.textproto: seed = 8, but the seed of its recipe is 7: the manifest is damaged"));
  other = manifest;
  other.set_next_sample(16);
  EXPECT_EQ(CheckContinues(other, "c", program),
            absl::DataLossError("c/manifest.textproto: next_sample = 16 does not match step = 3 with 4 sequences per "
                                "step: the manifest is damaged"));
  other.set_step(INT64_MAX);
  EXPECT_EQ(CheckContinues(other, "c", program).code(), absl::StatusCode::kDataLoss);
}

TEST(CheckpointManifest, NotesChangesThatAreAllowed) {
  auto manifest = Parse<CheckpointManifest>("step: 5 data { tokens: 100 crc32c: 255 } recipe { steps: 10 }");
  auto program = Parse<Program>("recipe { steps: 20 lr { decay: 'cosine' } }");
  DataIdentity data;
  data.tokens = 100;
  data.crc32c = 255;
  EXPECT_THAT(
      NotesOnContinuing(manifest, program, data),
      ElementsAre(HasSubstr("recipe.steps is 20, but the checkpoint has 10; the learning rate's cosine decay")));
  program.mutable_recipe()->mutable_lr()->set_decay("constant");
  EXPECT_THAT(NotesOnContinuing(manifest, program, data), IsEmpty());
  data.crc32c = 254;
  EXPECT_THAT(NotesOnContinuing(manifest, program, data),
              ElementsAre(HasSubstr("differs from the data of the checkpoint, although both have the same length "
                                    "(CRC32C of both ends: 000000fe, was 000000ff)")));
  data.tokens = 99;
  EXPECT_THAT(NotesOnContinuing(manifest, program, data),
              ElementsAre(HasSubstr("the data has 99 tokens, but the data of the checkpoint had 100")));
  // Data of unknown identity gives no notes.
  data.tokens = 0;
  EXPECT_THAT(NotesOnContinuing(manifest, program, data), IsEmpty());
  manifest.mutable_loss_scale()->set_skipped(2);
  EXPECT_THAT(NotesOnContinuing(manifest, program, data),
              ElementsAre(HasSubstr("the 2 steps that the checkpoint's run")));
}

}  // namespace
}  // namespace weft::exec
