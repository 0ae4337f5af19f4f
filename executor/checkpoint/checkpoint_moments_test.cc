// Tests which checkpoints get a note: those whose moments lose bits.
#include "executor/checkpoint/checkpoint_moments.h"

#include <filesystem>
#include <fstream>

#include "executor/checkpoint/checkpoint.h"
#include "executor/checkpoint/checkpoint_job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/util/units.h"

namespace weft::exec {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

Program WithMoments(Program program, DType moments) {
  for (Template& t : *program.mutable_templates()) {
    for (Buffer& buffer : *t.mutable_buffers()) {
      if (buffer.role() != MOMENT1 && buffer.role() != MOMENT2) continue;
      buffer.set_bytes(buffer.bytes() / DTypeBytes(buffer.dtype()) * DTypeBytes(moments));
      buffer.set_dtype(moments);
    }
  }
  return program;
}

std::string Saved(const Program& program, const std::string& name) {
  CheckpointJob job(program);
  job.Fill(3);
  const std::string directory = FreshDirectory(name);
  EXPECT_TRUE(job.Save(directory, 20).ok());
  return **FindCheckpoint(directory);
}

TEST(CheckpointMomentsTest, NotesRoundedMoments) {
  const Program whole = CheckpointProgram(1, 2, /*bf16=*/true), cut = CutCheckpointProgram(2, 1, 2);
  for (const Program& program : {whole, cut}) {
    const Program half = WithMoments(program, BF16);
    const std::string fp32 = Saved(program, "moments_fp32");
    const CheckpointManifest manifest = *ReadManifest(fp32);
    EXPECT_EQ(NoteOnMoments(fp32, manifest, program), "");
    const std::string note = NoteOnMoments(fp32, manifest, half);
    EXPECT_THAT(note, HasSubstr("the checkpoint's moments are FP32, but the program keeps them in BF16"));
    EXPECT_THAT(note, HasSubstr("and in every step from now on"));
    Program at_random = half;
    at_random.mutable_recipe()->set_weight_rounding(STOCHASTIC);
    EXPECT_THAT(NoteOnMoments(fp32, manifest, at_random), EndsWith("rounds them to the nearest now"));
    // Nothing is lost if the program keeps at least as many bits as the checkpoint.
    const std::string bf16 = Saved(half, "moments_bf16");
    EXPECT_EQ(NoteOnMoments(bf16, *ReadManifest(bf16), program), "");
    EXPECT_EQ(NoteOnMoments(bf16, *ReadManifest(bf16), half), "");
  }
}

// There is no note if the program has no moments. There is none if a file is damaged either, because loading the
// file reports the damage.
TEST(CheckpointMomentsTest, NothingIsSaidOfWhatIsNotThere) {
  Program program = CheckpointProgram(1, 1, /*bf16=*/true);
  const std::string checkpoint = Saved(program, "moments_absent");
  const CheckpointManifest manifest = *ReadManifest(checkpoint);
  Program without = program;
  for (Buffer& buffer : *without.mutable_templates(0)->mutable_buffers()) {
    if (buffer.role() == MOMENT1 || buffer.role() == MOMENT2) buffer.set_role(NO_ROLE);
  }
  EXPECT_EQ(NoteOnMoments(checkpoint, manifest, without), "");
  std::ofstream(checkpoint + "/" + manifest.files(0).name()) << "no header";
  EXPECT_EQ(NoteOnMoments(checkpoint, manifest, WithMoments(program, BF16)), "");
}

}  // namespace
}  // namespace weft::exec
