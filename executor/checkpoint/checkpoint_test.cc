#include "executor/checkpoint/checkpoint.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "executor/checkpoint/checkpoint_job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/io/io.h"
#include "proto/util/state_part.h"

namespace weft::exec {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

TEST(CheckpointTest, AnyPlanLoadsAnyOthers) {
  const std::vector<Program> plans = {CheckpointProgram(1, 1),         CheckpointProgram(1, 2),
                                      CheckpointProgram(2, 2, true),   CheckpointProgram(1, 2, false, true),
                                      CheckpointProgram(3, 1, true),   CutCheckpointProgram(2, 2, 2),
                                      CutCheckpointProgram(1, 1, 2),   CutCheckpointProgram(4, 1, 1),
                                      CutCheckpointProgram(1, 3, 4, 2)};
  for (size_t from = 0; from < plans.size(); ++from) {
    CheckpointJob writer(plans[from]);
    writer.Fill(3);
    const std::string directory = FreshDirectory("plans");
    ASSERT_TRUE(writer.Save(directory, 20).ok());
    const std::string checkpoint = **FindCheckpoint(directory);
    EXPECT_EQ(checkpoint, directory + "/step-00000020");
    const CheckpointManifest manifest = *ReadManifest(checkpoint);
    EXPECT_EQ(manifest.step(), 20);
    EXPECT_EQ(manifest.next_sample(), 80);
    EXPECT_EQ(manifest.seed(), 7u);
    for (const Program& to : plans) {
      CheckpointJob reader(to);
      ASSERT_TRUE(reader.Load(checkpoint).ok()) << reader.Load(checkpoint);
      reader.ExpectFilled(3);
    }
  }
}

// Bytes of the tensors in all files of a checkpoint: the files without their headers and the lengths of the headers.
int64_t BytesOfTensors(const std::string& checkpoint) {
  const CheckpointManifest manifest = *ReadManifest(checkpoint);
  int64_t bytes = 0;
  for (const CheckpointFile& file : manifest.files()) {
    uint64_t header = 0;
    std::ifstream(checkpoint + "/" + file.name(), std::ios::binary).read(reinterpret_cast<char*>(&header), 8);
    bytes += file.bytes() - 8 - static_cast<int64_t>(header);
  }
  return bytes;
}

TEST(CheckpointTest, ItsSizeIsKnownFromTheProgram) {
  for (const Program& program : {CheckpointProgram(1, 1), CheckpointProgram(2, 2, true, true),
                                 CutCheckpointProgram(2, 2, 2), CutCheckpointProgram(1, 3, 4, 2)}) {
    CheckpointJob job(program);
    job.Fill(3);
    const std::string directory = FreshDirectory("size");
    ASSERT_TRUE(job.Save(directory, 1).ok());
    EXPECT_EQ(BytesOfTensors(**FindCheckpoint(directory)), CheckpointBytes(program));
  }
}

TEST(CheckpointTest, PiecesAreWrittenOnce) {
  // 8 ranks. Tensor 0 has 6 elements. A rank's padded part has 4 elements after the cut by x, 2 after z and, for the
  // optimizer, 1 after data.
  CheckpointJob job(CutCheckpointProgram(2, 2, 2));
  job.Fill(3);
  const std::string directory = FreshDirectory("pieces");
  ASSERT_TRUE(job.Save(directory, 1).ok());
  const CheckpointManifest manifest = *ReadManifest(**FindCheckpoint(directory));
  EXPECT_EQ(manifest.format_version(), 2);
  // Three parts of the state are written: the weight (from its master copy) and two moments. Each part has 6 pieces of
  // tensor 0 and 2 pieces of tensor 1. Pieces that are only padding are in no file.
  EXPECT_EQ(manifest.pieces_size(), 3 * (6 + 2));
  int64_t elements = 0;
  for (const CheckpointPiece& piece : manifest.pieces()) elements += piece.count();
  EXPECT_EQ(elements, 3 * (6 + 5));
  // A plan that cuts nothing writes a format that earlier versions read.
  CheckpointJob whole(CheckpointProgram(1, 1));
  whole.Fill(3);
  ASSERT_TRUE(whole.Save(directory, 2).ok());
  EXPECT_EQ(ReadManifest(**FindCheckpoint(directory))->format_version(), 1);
}

TEST(CheckpointTest, PaddingIsZeroAndLowPrecisionCopiesAreRounded) {
  CheckpointJob job(CheckpointProgram(1, 1, true));
  std::memset(job.arenas[0]->Data(job.program.templates(0).buffers(0)), 0xff, 16);
  job.Fill(1);
  const Buffer& param = job.program.templates(0).buffers(0);
  ASSERT_EQ(param.dtype(), BF16);
  const auto* bits = reinterpret_cast<const uint16_t*>(job.arenas[0]->Data(param));
  EXPECT_EQ(bits[0], 0x3f80);
  EXPECT_EQ(bits[1], 0x3f8d);  // 1.1 to bf16.
  EXPECT_EQ(bits[6], 0);
  EXPECT_EQ(bits[7], 0);
}

TEST(CheckpointTest, InitialValuesDoNotDependOnThePlan) {
  CheckpointJob one(CheckpointProgram(1, 1)), two(CheckpointProgram(2, 2, true, true)),
      cut(CutCheckpointProgram(2, 3, 2));
  for (CheckpointJob* job : {&one, &two, &cut}) {
    for (auto& state : job->states) ASSERT_TRUE(state->Initialize().ok());
  }
  for (int t = 0; t < 2; ++t) {
    const TensorData expected = *one.states[0]->Read(t, StatePart::kWeight);
    for (CheckpointJob* job : {&two, &cut}) {
      for (auto& state : job->states) {
        if (!state->Holds(t, StatePart::kWeight)) continue;
        EXPECT_TRUE(state->Read(t, StatePart::kWeight)->bytes ==
                    job->PieceOf(state.get(), t, StatePart::kWeight, expected));
      }
    }
  }
  float first = 0, constant = 0;
  std::memcpy(&first, one.states[0]->Read(0, StatePart::kWeight)->bytes.data(), 4);
  std::memcpy(&constant, one.states[0]->Read(1, StatePart::kWeight)->bytes.data(), 4);
  EXPECT_NE(first, 0);
  EXPECT_EQ(constant, 2);
}

TEST(CheckpointTest, TheNewestAreKept) {
  CheckpointJob job(CheckpointProgram(1, 2));
  const std::string directory = FreshDirectory("keep");
  EXPECT_FALSE(FindCheckpoint(directory)->has_value());
  for (int64_t step : {10, 20, 30, 40}) {
    job.Fill(step);
    ASSERT_TRUE(job.Save(directory, step, 2).ok());
    EXPECT_EQ(**FindCheckpoint(directory), absl::StrCat(directory, "/step-000000", step));
  }
  EXPECT_FALSE(fs::exists(directory + "/step-00000020"));
  EXPECT_TRUE(fs::exists(directory + "/step-00000030"));
  EXPECT_EQ(*ReadFile(directory + "/latest"), "step-00000040\n");
  // Without `latest`, the newest whole checkpoint counts; a folder without a manifest does not.
  fs::remove(directory + "/latest");
  fs::create_directory(directory + "/step-00000050");
  fs::create_directory(directory + "/.tmp-step-00000060");
  EXPECT_EQ(**FindCheckpoint(directory), directory + "/step-00000040");
  // A step that exists already is replaced, and leftovers are removed.
  job.Fill(41);
  ASSERT_TRUE(job.Save(directory, 40).ok());
  ASSERT_TRUE(job.Load(**FindCheckpoint(directory)).ok());
  job.ExpectFilled(41);
  EXPECT_FALSE(fs::exists(directory + "/.tmp-step-00000060"));
}

std::set<std::string> NamesIn(const std::string& directory) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory)) names.insert(entry.path().filename().string());
  return names;
}

void PointTo(const std::string& directory, const std::string& name) {
  std::ofstream(directory + "/latest", std::ios::trunc) << name << "\n";
}

TEST(CheckpointTest, ARollBackLosesNeitherTheNewNorWhatLatestNames) {
  CheckpointJob job(CheckpointProgram(1, 2));
  const std::string directory = FreshDirectory("roll_back");
  auto save = [&](int64_t step, int64_t keep, int64_t fill) {
    job.Fill(fill);
    ASSERT_TRUE(job.Save(directory, step, keep).ok());
    // Whatever is removed, the next resume finds what was just saved.
    EXPECT_EQ(**FindCheckpoint(directory), absl::StrFormat("%s/step-%08d", directory, step));
    ASSERT_TRUE(job.Load(**FindCheckpoint(directory)).ok());
    job.ExpectFilled(fill);
  };
  for (int64_t step : {10, 20, 30, 40}) save(step, 4, step);
  // Continues from step 10 with other steps: the checkpoints of the abandoned run are removed first, then the oldest.
  PointTo(directory, "step-00000010");
  EXPECT_EQ(**FindCheckpoint(directory), directory + "/step-00000010");
  save(15, 3, 115);
  EXPECT_EQ(NamesIn(directory), std::set<std::string>({"latest", "step-00000010", "step-00000015", "step-00000020"}));
  save(17, 3, 117);
  EXPECT_EQ(NamesIn(directory), std::set<std::string>({"latest", "step-00000010", "step-00000015", "step-00000017"}));
  save(19, 3, 119);
  EXPECT_EQ(NamesIn(directory), std::set<std::string>({"latest", "step-00000015", "step-00000017", "step-00000019"}));
  // Saves over a step that exists, and keeps one checkpoint.
  PointTo(directory, "step-00000015");
  save(17, 1, 217);
  EXPECT_EQ(NamesIn(directory), std::set<std::string>({"latest", "step-00000017"}));
  PointTo(directory, "step-00000017");
  save(16, 1, 216);
  EXPECT_EQ(NamesIn(directory), std::set<std::string>({"latest", "step-00000016"}));
}

TEST(CheckpointTest, LoadsAfterAnInterruptedReplacement) {
  CheckpointJob job(CheckpointProgram(1, 2));
  const std::string directory = FreshDirectory("replace");
  job.Fill(5);
  ASSERT_TRUE(job.Save(directory, 30, 1).ok());
  auto expect_found = [&](const std::string& name, int64_t fill) {
    ASSERT_EQ(**FindCheckpoint(directory), directory + "/" + name);
    ASSERT_TRUE(job.Load(directory + "/" + name).ok());
    job.ExpectFilled(fill);
  };
  // The save was cut short after the old checkpoint was set aside and before the new one was in its place.
  fs::rename(directory + "/step-00000030", directory + "/.old-step-00000030");
  fs::create_directory(directory + "/.tmp-step-00000030");
  expect_found(".old-step-00000030", 5);
  // A save of another step restores the checkpoint that was set aside.
  job.Fill(6);
  ASSERT_TRUE(job.Save(directory, 40, 2).ok());
  EXPECT_EQ(NamesIn(directory), std::set<std::string>({"latest", "step-00000030", "step-00000040"}));
  PointTo(directory, "step-00000030");
  expect_found("step-00000030", 5);
  // The save was cut short when both checkpoints were in place: the new one counts.
  fs::copy(directory + "/step-00000040", directory + "/.old-step-00000040", fs::copy_options::recursive);
  PointTo(directory, "step-00000040");
  expect_found("step-00000040", 6);
  job.Fill(7);
  ASSERT_TRUE(job.Save(directory, 40, 1).ok());
  expect_found("step-00000040", 7);
  EXPECT_EQ(NamesIn(directory), std::set<std::string>({"latest", "step-00000040"}));
}

TEST(CheckpointTest, OtherDataAndStepsAreNoted) {
  CheckpointJob job(CheckpointProgram(1, 1));
  const std::string directory = FreshDirectory("notes");
  const DataIdentity data{.tokens = 1000, .crc32c = 7};
  ASSERT_TRUE(
      SaveCheckpoint({.directory = directory, .data = data}, job.program, 1, *job.states[0], *job.endpoints[0]).ok());
  const CheckpointManifest manifest = *ReadManifest(**FindCheckpoint(directory));
  EXPECT_THAT(NotesOnContinuing(manifest, job.program, data), ElementsAre());
  EXPECT_THAT(NotesOnContinuing(manifest, job.program, {}), ElementsAre());
  EXPECT_THAT(NotesOnContinuing(manifest, job.program, {.tokens = 1001, .crc32c = 7}),
              ElementsAre(HasSubstr("has 1001 tokens, but the data of the checkpoint had 1000")));
  EXPECT_THAT(NotesOnContinuing(manifest, job.program, {.tokens = 1000, .crc32c = 8}),
              ElementsAre(HasSubstr("00000008, was 00000007")));
  Program longer = job.program;
  longer.mutable_recipe()->set_steps(200);
  // A constant learning rate does not depend on the number of steps, so there is no note.
  EXPECT_THAT(NotesOnContinuing(manifest, longer, data), ElementsAre());
  longer.mutable_recipe()->mutable_lr()->set_decay("cosine");
  EXPECT_THAT(NotesOnContinuing(manifest, longer, data),
              ElementsAre(HasSubstr("recipe.steps is 200, but the checkpoint has 100")));
}

TEST(CheckpointTest, AnotherModelOrRecipeIsNamedByField) {
  CheckpointJob job(CheckpointProgram(1, 1));
  const std::string directory = FreshDirectory("mismatch");
  ASSERT_TRUE(job.Save(directory, 1).ok());
  const std::string checkpoint = **FindCheckpoint(directory);
  const CheckpointManifest manifest = *ReadManifest(checkpoint);
  auto check = [&](const std::function<void(Program&)>& change) {
    Program program = CheckpointProgram(1, 1);
    change(program);
    return std::string(CheckContinues(manifest, checkpoint, program).message());
  };
  EXPECT_EQ(check([](Program&) {}), "");
  EXPECT_EQ(check([](Program& p) { p.mutable_recipe()->set_steps(200); }), "");
  EXPECT_THAT(check([](Program& p) { p.mutable_recipe()->set_steps(50); }), HasSubstr("recipe.steps: 100 -> 50"));
  EXPECT_THAT(check([](Program& p) { p.mutable_recipe()->mutable_lr()->set_peak(0.25); }),
              HasSubstr("recipe.lr.peak: 0.5 -> 0.25"));
  EXPECT_THAT(check([](Program& p) { p.mutable_recipe()->set_seed(8); }), HasSubstr("recipe.seed: 7 -> 8"));
  EXPECT_THAT(check([](Program& p) { p.mutable_recipe()->set_seed(0); }), HasSubstr("recipe.seed: 7 -> default"));
  EXPECT_THAT(check([](Program& p) { p.mutable_recipe()->set_weight_rounding(STOCHASTIC); }),
              HasSubstr("recipe.weight_rounding: default -> STOCHASTIC"));
  EXPECT_THAT(check([](Program& p) { p.mutable_tensors(1)->set_shape(0, 6); }), HasSubstr("'h.0.bias' [5]"));
  EXPECT_THAT(check([](Program& p) { p.mutable_tensors()->RemoveLast(); }),
              HasSubstr("has 2 tensors, but the program has 1"));
}

}  // namespace
}  // namespace weft::exec
