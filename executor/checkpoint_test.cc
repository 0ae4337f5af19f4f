#include "executor/checkpoint.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "executor/arena.h"
#include "executor/weights.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/io.h"
#include "proto/mesh.h"
#include "proto/units.h"

namespace weft {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

// Two tensors, the first padded from 3 to 4 rows. With pipe = 2 each stage holds one of them, and `tied` puts a copy of
// the first on both. Weights in bf16 have an fp32 master.
Program MakeProgram(int data, int pipe, bool bf16 = false, bool tied = false) {
  Program program;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"pb(
        name: "tiny"
        compiler_version: "test"
        recipe {
          sequence_length: 8
          global_batch_sequences: 4
          steps: 100
          seed: 7
          adamw { beta1: 0.9 }
          lr { peak: 0.5 }
        }
        tensors { name: "wte.weight" shape: 3 shape: 2 padded_shape: 4 padded_shape: 2 init_normal: 0.5 }
        tensors { name: "h.0.bias" shape: 5 padded_shape: 5 init_constant: 2 }
      )pb",
      &program));
  auto axis = [&](const char* name, int size) {
    program.mutable_mesh()->add_axes()->set_name(name);
    program.mutable_mesh()->mutable_axes()->rbegin()->set_size(size);
  };
  axis("data", data);
  axis("pipe", pipe);
  for (int stage = 0; stage < pipe; ++stage) {
    Template& t = *program.add_templates();
    Coordinate& pin = *t.add_pins();
    pin.set_axis("pipe");
    pin.set_index(stage);
    int64_t offset = 0;
    for (int tensor = 0; tensor < 2; ++tensor) {
      if (pipe == 2 && tensor != stage && !(tied && tensor == 0)) continue;
      for (BufferRole role : {PARAM, MASTER, MOMENT1, MOMENT2}) {
        if (role == MASTER && !bf16) continue;
        Buffer& buffer = *t.add_buffers();
        buffer.set_role(role);
        buffer.set_tensor(tensor);
        buffer.set_dtype(role == PARAM && bf16 ? BF16 : FP32);
        *buffer.mutable_shape() = program.tensors(tensor).padded_shape();
        buffer.set_bytes((tensor == 0 ? 8 : 5) * DTypeBytes(buffer.dtype()));
        buffer.set_offset(offset);
        buffer.set_persistent(true);
        offset += 256;
      }
    }
    t.set_device_arena_bytes(offset);
  }
  return program;
}

// The same tensors cut over x, z and data: blocks of rows, ranges of those, and an optimizer that is shared by
// replicas; or by pairs of neighbouring ones.
Program MakeCutProgram(int64_t x, int64_t z, int64_t data, int64_t shard_group = 0) {
  Program program = MakeProgram(1, 1, /*bf16=*/true);
  program.clear_mesh();
  for (const auto& [name, size] :
       {std::pair("x", x), std::pair("z", z), std::pair("data", data), std::pair("pipe", int64_t{1})}) {
    MeshAxis* axis = program.mutable_mesh()->add_axes();
    axis->set_name(name);
    axis->set_size(size);
  }
  int64_t offset = 0;
  for (Buffer& buffer : *program.mutable_templates(0)->mutable_buffers()) {
    Shard& shard = *buffer.mutable_shard();
    int64_t elements = 5;
    if (buffer.tensor() == 0) {
      shard.add_dimensions()->set_axis("x");
      shard.add_ranges()->set_axis("z");
      elements = (8 / x + z - 1) / z;
    }
    if (buffer.role() != PARAM) {
      RangeCut* cut = shard.add_ranges();
      cut->set_axis("data");
      cut->set_block(shard_group);
      const int64_t parts = shard_group > 0 ? shard_group : data;
      elements = (elements + parts - 1) / parts;
    }
    if (!shard.ranges().empty()) {
      buffer.clear_shape();
      buffer.add_shape(elements);
    }
    buffer.set_bytes(elements * DTypeBytes(buffer.dtype()));
    buffer.set_offset(offset);
    offset += 256;
  }
  return program;
}

struct Job {
  explicit Job(Program p) : program(std::move(p)) {
    endpoints = *(*FindTransport("inproc"))->open(static_cast<int>(MeshRanks(program.mesh())));
    for (const auto& endpoint : endpoints) {
      const Template& t = program.templates(TemplateOfRank(program, endpoint->rank()));
      arenas.push_back(*Arena::Allocate(t.device_arena_bytes(), 0));
      states.push_back(std::make_unique<RankState>(program, endpoint->rank(), arenas.back().get()));
    }
  }
  absl::Status Save(const std::string& directory, int64_t step, int64_t keep = 2) {
    std::vector<absl::Status> results(endpoints.size());
    std::vector<std::thread> threads;
    for (size_t i = 0; i < endpoints.size(); ++i) {
      threads.emplace_back([&, i] {
        results[i] = SaveCheckpoint({.directory = directory, .keep = keep}, program, step, *states[i], *endpoints[i]);
        if (!results[i].ok()) endpoints[i]->Abort(results[i]);
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const absl::Status& status : results) {
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }
  absl::Status Load(const std::string& checkpoint) {
    const auto manifest = ReadManifest(checkpoint);
    if (!manifest.ok()) return manifest.status();
    if (absl::Status status = CheckContinues(*manifest, checkpoint, program); !status.ok()) return status;
    for (auto& state : states) {
      if (absl::Status status = LoadCheckpoint(checkpoint, *manifest, program, state.get()); !status.ok())
        return status;
    }
    return absl::OkStatus();
  }
  // Element e of part p of tensor t becomes a number that bf16 cannot hold.
  void Fill(int64_t seed) {
    for (auto& state : states) {
      for (int t = 0; t < 2; ++t) {
        for (StatePart part : kStateParts) {
          if (!state->Holds(t, part)) continue;
          EXPECT_TRUE(state->Write(t, part, Expected(t, part, seed)).ok());
        }
      }
    }
  }
  static TensorData Expected(int tensor, StatePart part, int64_t seed) {
    TensorData data{
        .dtype = FP32, .shape = tensor == 0 ? std::vector<int64_t>{3, 2} : std::vector<int64_t>{5}, .bytes = {}};
    std::vector<float> values(tensor == 0 ? 6 : 5);
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>(seed) + 0.1f * static_cast<float>(i + 10 * tensor + 100 * static_cast<int>(part));
    }
    data.bytes.resize(values.size() * 4);
    std::memcpy(data.bytes.data(), values.data(), data.bytes.size());
    return data;
  }
  void ExpectFilled(int64_t seed) {
    for (auto& state : states) {
      for (int t = 0; t < 2; ++t) {
        for (StatePart part : kStateParts) {
          if (!state->Holds(t, part)) continue;
          EXPECT_TRUE(state->Read(t, part)->bytes == PieceOf(state.get(), t, part, Expected(t, part, seed)))
              << t << " seed " << seed;
        }
      }
    }
  }

  // What the state's rank holds of a whole FP32 tensor.
  std::vector<std::byte> PieceOf(const RankState* state, int tensor, StatePart part, const TensorData& whole) const {
    size_t i = 0;
    while (states[i].get() != state) ++i;
    const Buffer* leading = nullptr;
    for (const Buffer& buffer : program.templates(TemplateOfRank(program, i)).buffers()) {
      if (buffer.tensor() != tensor) continue;
      const bool is = part == StatePart::kWeight ? buffer.role() == MASTER || (buffer.role() == PARAM && !leading)
                                                 : buffer.role() == (part == StatePart::kMoment1 ? MOMENT1 : MOMENT2);
      if (is) leading = &buffer;
    }
    const TensorPiece piece = *PieceOfBuffer(program, i, *leading);
    std::vector<std::byte> bytes(piece.count * 4);
    for (const TensorRun& run : RunsOf(piece, whole.shape)) {
      std::memcpy(bytes.data() + run.position * 4, whole.bytes.data() + run.logical * 4, run.count * 4);
    }
    return bytes;
  }

  Program program;
  std::vector<std::unique_ptr<Endpoint>> endpoints;
  std::vector<std::unique_ptr<Arena>> arenas;
  std::vector<std::unique_ptr<RankState>> states;
};

std::string FreshDirectory(const std::string& name) {
  const std::string path = ::testing::TempDir() + "/" + name;
  fs::remove_all(path);
  return path;
}

TEST(CheckpointTest, AnyPlanLoadsAnyOthers) {
  const std::vector<Program> plans = {
      MakeProgram(1, 1),         MakeProgram(1, 2),       MakeProgram(2, 2, true), MakeProgram(1, 2, false, true),
      MakeProgram(3, 1, true),   MakeCutProgram(2, 2, 2), MakeCutProgram(1, 1, 2), MakeCutProgram(4, 1, 1),
      MakeCutProgram(1, 3, 4, 2)};
  for (size_t from = 0; from < plans.size(); ++from) {
    Job writer(plans[from]);
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
      Job reader(to);
      ASSERT_TRUE(reader.Load(checkpoint).ok()) << reader.Load(checkpoint);
      reader.ExpectFilled(3);
    }
  }
}

TEST(CheckpointTest, PiecesAreWrittenOnce) {
  // 8 ranks; tensor 0 has 6 elements in a padded block of 4 by x, 2 by z, and for the optimizer one by data.
  Job job(MakeCutProgram(2, 2, 2));
  job.Fill(3);
  const std::string directory = FreshDirectory("pieces");
  ASSERT_TRUE(job.Save(directory, 1).ok());
  const CheckpointManifest manifest = *ReadManifest(**FindCheckpoint(directory));
  EXPECT_EQ(manifest.format_version(), 2);
  // Weight (of the master copy), and two moments: 6 pieces of tensor 0 and 2 of tensor 1 each. Those that are nothing
  // but padding are in no file.
  EXPECT_EQ(manifest.pieces_size(), 3 * (6 + 2));
  int64_t elements = 0;
  for (const CheckpointPiece& piece : manifest.pieces()) elements += piece.count();
  EXPECT_EQ(elements, 3 * (6 + 5));
  // A plan that cuts nothing writes what earlier versions read.
  Job whole(MakeProgram(1, 1));
  whole.Fill(3);
  ASSERT_TRUE(whole.Save(directory, 2).ok());
  EXPECT_EQ(ReadManifest(**FindCheckpoint(directory))->format_version(), 1);
}

TEST(CheckpointTest, DamagedPieces) {
  Job job(MakeCutProgram(2, 2, 2));
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
  // Another rank's file has an entry of that name, but not of that length.
  changed = manifest;
  for (CheckpointPiece& piece : *changed.mutable_pieces()) {
    if (piece.tensor() == 1 && piece.part().empty())
      piece.set_file(piece.file() == "rank-0000.safetensors" ? "rank-0004.safetensors" : "rank-0000.safetensors");
  }
  EXPECT_THAT(load(changed), HasSubstr("elements of fp32"));
}

TEST(CheckpointTest, PaddingIsZeroAndLowPrecisionCopiesAreRounded) {
  Job job(MakeProgram(1, 1, true));
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
  Job one(MakeProgram(1, 1)), two(MakeProgram(2, 2, true, true)), cut(MakeCutProgram(2, 3, 2));
  for (Job* job : {&one, &two, &cut}) {
    for (auto& state : job->states) ASSERT_TRUE(state->Initialize().ok());
  }
  for (int t = 0; t < 2; ++t) {
    const TensorData expected = *one.states[0]->Read(t, StatePart::kWeight);
    for (Job* job : {&two, &cut}) {
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
  Job job(MakeProgram(1, 2));
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
  // Without the pointer, the newest whole one counts; what has no manifest does not.
  fs::remove(directory + "/latest");
  fs::create_directory(directory + "/step-00000050");
  fs::create_directory(directory + "/.tmp-step-00000060");
  EXPECT_EQ(**FindCheckpoint(directory), directory + "/step-00000040");
  // A step that is there already is replaced, leftovers go.
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
  Job job(MakeProgram(1, 2));
  const std::string directory = FreshDirectory("roll_back");
  auto save = [&](int64_t step, int64_t keep, int64_t fill) {
    job.Fill(fill);
    ASSERT_TRUE(job.Save(directory, step, keep).ok());
    // Whatever is removed, what was just saved is what the next resume finds.
    EXPECT_EQ(**FindCheckpoint(directory), absl::StrFormat("%s/step-%08d", directory, step));
    ASSERT_TRUE(job.Load(**FindCheckpoint(directory)).ok());
    job.ExpectFilled(fill);
  };
  for (int64_t step : {10, 20, 30, 40}) save(step, 4, step);
  // Back to 10, then on with other steps: the abandoned future goes first, then the oldest.
  PointTo(directory, "step-00000010");
  EXPECT_EQ(**FindCheckpoint(directory), directory + "/step-00000010");
  save(15, 3, 115);
  EXPECT_EQ(NamesIn(directory), std::set<std::string>({"latest", "step-00000010", "step-00000015", "step-00000020"}));
  save(17, 3, 117);
  EXPECT_EQ(NamesIn(directory), std::set<std::string>({"latest", "step-00000010", "step-00000015", "step-00000017"}));
  save(19, 3, 119);
  EXPECT_EQ(NamesIn(directory), std::set<std::string>({"latest", "step-00000015", "step-00000017", "step-00000019"}));
  // With one kept, and over a step that exists.
  PointTo(directory, "step-00000015");
  save(17, 1, 217);
  EXPECT_EQ(NamesIn(directory), std::set<std::string>({"latest", "step-00000017"}));
  PointTo(directory, "step-00000017");
  save(16, 1, 216);
  EXPECT_EQ(NamesIn(directory), std::set<std::string>({"latest", "step-00000016"}));
}

TEST(CheckpointTest, WhatACutShortReplacementLeavesIsLoaded) {
  Job job(MakeProgram(1, 2));
  const std::string directory = FreshDirectory("replace");
  job.Fill(5);
  ASSERT_TRUE(job.Save(directory, 30, 1).ok());
  auto expect_found = [&](const std::string& name, int64_t fill) {
    ASSERT_EQ(**FindCheckpoint(directory), directory + "/" + name);
    ASSERT_TRUE(job.Load(directory + "/" + name).ok());
    job.ExpectFilled(fill);
  };
  // Cut short when the old one was aside and the new one not there.
  fs::rename(directory + "/step-00000030", directory + "/.old-step-00000030");
  fs::create_directory(directory + "/.tmp-step-00000030");
  expect_found(".old-step-00000030", 5);
  // Another step's save puts it back into its place.
  job.Fill(6);
  ASSERT_TRUE(job.Save(directory, 40, 2).ok());
  EXPECT_EQ(NamesIn(directory), std::set<std::string>({"latest", "step-00000030", "step-00000040"}));
  PointTo(directory, "step-00000030");
  expect_found("step-00000030", 5);
  // Cut short when both were there: the new one counts.
  fs::copy(directory + "/step-00000040", directory + "/.old-step-00000040", fs::copy_options::recursive);
  PointTo(directory, "step-00000040");
  expect_found("step-00000040", 6);
  job.Fill(7);
  ASSERT_TRUE(job.Save(directory, 40, 1).ok());
  expect_found("step-00000040", 7);
  EXPECT_EQ(NamesIn(directory), std::set<std::string>({"latest", "step-00000040"}));
}

TEST(CheckpointTest, OtherDataAndStepsAreNoted) {
  Job job(MakeProgram(1, 1));
  const std::string directory = FreshDirectory("notes");
  const DataIdentity data{.tokens = 1000, .crc32c = 7};
  ASSERT_TRUE(
      SaveCheckpoint({.directory = directory, .data = data}, job.program, 1, *job.states[0], *job.endpoints[0]).ok());
  const CheckpointManifest manifest = *ReadManifest(**FindCheckpoint(directory));
  EXPECT_THAT(NotesOnContinuing(manifest, job.program, data), ElementsAre());
  EXPECT_THAT(NotesOnContinuing(manifest, job.program, {}), ElementsAre());
  EXPECT_THAT(NotesOnContinuing(manifest, job.program, {.tokens = 1001, .crc32c = 7}),
              ElementsAre(HasSubstr("has 1001 tokens, that of the checkpoint had 1000")));
  EXPECT_THAT(NotesOnContinuing(manifest, job.program, {.tokens = 1000, .crc32c = 8}),
              ElementsAre(HasSubstr("00000008, was 00000007")));
  Program longer = job.program;
  longer.mutable_recipe()->set_steps(200);
  // A constant rate does not care.
  EXPECT_THAT(NotesOnContinuing(manifest, longer, data), ElementsAre());
  longer.mutable_recipe()->mutable_lr()->set_decay("cosine");
  EXPECT_THAT(NotesOnContinuing(manifest, longer, data),
              ElementsAre(HasSubstr("recipe.steps is 200, in the checkpoint 100")));
}

TEST(CheckpointTest, DamageIsNamed) {
  Job job(MakeProgram(1, 1));
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
  EXPECT_THAT(load_with(path, other_step), HasSubstr("manifest.textproto: step = 7, but its folder is that of step 1"));
  std::string elsewhere = manifest;
  elsewhere.replace(elsewhere.find("rank-0000"), 4, "../x");
  EXPECT_THAT(load_with(path, elsewhere), HasSubstr("no file name"));
  std::ofstream(directory + "/latest", std::ios::trunc) << "../../etc";
  EXPECT_THAT(std::string(FindCheckpoint(directory).status().message()), HasSubstr("latest: holds '../../etc'"));
}

TEST(CheckpointTest, OfDamagedOnesTheNewestUndamagedIsNamed) {
  Job job(MakeProgram(1, 1));
  const std::string directory = FreshDirectory("undamaged");
  for (int64_t step : {1, 2, 3}) {
    job.Fill(static_cast<int>(step));
    ASSERT_TRUE(job.Save(directory, step, /*keep=*/3).ok());
  }
  const std::string newest = **FindCheckpoint(directory);
  const absl::Status damage = absl::DataLossError("it is damaged");
  const auto advice = [&] { return std::string(WithUndamaged(damage, directory, newest).message()); };
  EXPECT_EQ(advice(), absl::StrCat("it is damaged; the newest undamaged checkpoint is ", directory,
                                   "/step-00000002: --resume-step 2 takes it"));
  // Neither a file with a flipped bit nor one that is cut short.
  const std::string file = directory + "/step-00000002/rank-0000.safetensors";
  std::string bytes = *ReadFile(file);
  bytes.back() ^= 1;
  std::ofstream(file, std::ios::binary | std::ios::trunc) << bytes;
  EXPECT_THAT(advice(), HasSubstr("--resume-step 1 takes it"));
  EXPECT_EQ(**FindCheckpoint(directory, 1), directory + "/step-00000001");
  EXPECT_EQ(FindCheckpoint(directory, 7).status().message(),
            absl::StrCat("--resume-step: ", directory,
                         " has no checkpoint of step 7; there are those of 1, 2, 3; nearest valid: 3"));
  fs::remove(directory + "/step-00000001/manifest.textproto");
  EXPECT_EQ(advice(), absl::StrCat("it is damaged; ", directory, " has no other checkpoint that is undamaged"));
  EXPECT_THAT(std::string(FindCheckpoint(FreshDirectory("nothing"), 7).status().message()),
              HasSubstr("nothing has no checkpoint"));
}

TEST(CheckpointTest, AnotherModelOrRecipeIsNamedByField) {
  Job job(MakeProgram(1, 1));
  const std::string directory = FreshDirectory("mismatch");
  ASSERT_TRUE(job.Save(directory, 1).ok());
  const std::string checkpoint = **FindCheckpoint(directory);
  const CheckpointManifest manifest = *ReadManifest(checkpoint);
  auto check = [&](const std::function<void(Program&)>& change) {
    Program program = MakeProgram(1, 1);
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
  EXPECT_THAT(check([](Program& p) { p.mutable_tensors()->RemoveLast(); }), HasSubstr("has 2 tensors, the program 1"));
}

TEST(CheckpointTest, AKillAtAnyMomentOfSavingLeavesALoadableCheckpoint) {
  const int moments = 50;
  const uint32_t seed = 20241;
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  std::mt19937 random(seed);
  const std::string directory = FreshDirectory("kill");
  int64_t last = 0, interrupted = 0;
  // Kills come within three times what a save takes on this machine, so that they hit every part of it.
  int64_t save_us = 0;
  {
    Job job(MakeProgram(1, 2));
    job.Fill(1);
    const int64_t start = MonotonicNanoseconds();
    ASSERT_TRUE(job.Save(directory, 1).ok());
    save_us = (MonotonicNanoseconds() - start) / 1000 + 1;
    fs::remove_all(directory);
    fs::create_directory(directory);
  }
  for (int moment = 0; moment < moments; ++moment) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      Job job(MakeProgram(1, 2));
      for (int64_t step = last + 1;; ++step) {
        job.Fill(step);
        if (!job.Save(directory, step).ok()) _exit(3);
      }
    }
    usleep(500 + random() % (3 * save_us + 1000));
    kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the child ended by itself: " << status;
    for (const auto& entry : fs::directory_iterator(directory)) {
      interrupted += entry.path().filename().string().rfind(".tmp-", 0) == 0;
    }
    const auto found = FindCheckpoint(directory);
    ASSERT_TRUE(found.ok()) << found.status();
    if (!found->has_value()) {
      ASSERT_EQ(last, 0) << "a checkpoint was lost";
      continue;
    }
    Job reader(MakeProgram(1, 1));
    const absl::Status loaded = reader.Load(**found);
    ASSERT_TRUE(loaded.ok()) << loaded;
    const int64_t step = ReadManifest(**found)->step();
    ASSERT_GE(step, last) << "a newer checkpoint was lost";
    reader.ExpectFilled(step);
    last = step;
  }
  EXPECT_GT(last, 0);
  // The test means something only if some of the kills hit a save.
  EXPECT_GT(interrupted, 0);
}

// The same when saves go over an existing step and, in between, `latest` is set back.
TEST(CheckpointTest, AKillAtAnyMomentOfReplacingLeavesALoadableCheckpoint) {
  const int moments = 40;
  const uint32_t seed = 20242;
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  std::mt19937 random(seed);
  const std::string directory = FreshDirectory("kill_replace");
  int64_t last = 1, progress = 0, save_us = 0;
  {
    Job job(MakeProgram(1, 2));
    job.Fill(last);
    const int64_t start = MonotonicNanoseconds();
    ASSERT_TRUE(job.Save(directory, 7, 1).ok());
    save_us = (MonotonicNanoseconds() - start) / 1000 + 1;
  }
  for (int moment = 0; moment < moments; ++moment) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      Job job(MakeProgram(1, 2));
      // Steps 7, 7, 6, 7, 7, 6...: over what is there, with --keep 1; 6 after 7 is a run that was rolled back.
      for (int64_t fill = last + 1;; ++fill) {
        job.Fill(fill);
        if (!job.Save(directory, fill % 3 == 0 ? 6 : 7, 1).ok()) _exit(3);
      }
    }
    usleep(500 + random() % (3 * save_us + 1000));
    kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the child ended by itself: " << status;
    const auto found = FindCheckpoint(directory);
    ASSERT_TRUE(found.ok()) << found.status();
    ASSERT_TRUE(found->has_value()) << "the checkpoint was lost";
    Job reader(MakeProgram(1, 1));
    const absl::Status loaded = reader.Load(**found);
    ASSERT_TRUE(loaded.ok()) << loaded;
    // The first element of the first tensor is the number it was filled with.
    float first = 0;
    std::memcpy(&first, reader.states[0]->Read(0, StatePart::kWeight)->bytes.data(), sizeof(first));
    const int64_t fill = static_cast<int64_t>(first);
    ASSERT_GE(fill, last) << "a newer checkpoint was lost";
    reader.ExpectFilled(fill);
    progress += fill - last;
    last = fill;
  }
  EXPECT_GT(progress, 0);
}

// ---- Weight files.

absl::Status LoadFrom(const std::vector<SafetensorsWriter::Declaration>& tensors, const Program& program) {
  const std::string path = ::testing::TempDir() + "/weights.safetensors";
  std::remove(path.c_str());
  auto writer = SafetensorsWriter::Create(path, tensors, {});
  for (const auto& tensor : tensors) {
    std::vector<std::byte> bytes(*ElementCount(tensor.shape) * DTypeBytes(tensor.dtype));
    EXPECT_TRUE((*writer)->Append(bytes).ok());
  }
  int64_t size;
  uint32_t crc;
  EXPECT_TRUE((*writer)->Finish(&size, &crc).ok());
  const auto reader = SafetensorsReader::Open(path);
  if (!reader.ok()) return reader.status();
  Job job(program);
  return LoadWeights(**reader, program, job.states[0].get());
}

TEST(WeightsTest, HuggingFaceNamesMatch) {
  const Program program = MakeProgram(1, 1);
  const SafetensorsWriter::Declaration wte{"wte.weight", FP16, {3, 2}}, bias{"h.0.bias", FP32, {5}};
  EXPECT_TRUE(LoadFrom({wte, bias}, program).ok());
  EXPECT_TRUE(LoadFrom({{"transformer.wte.weight", FP64, {3, 2}},
                        {"transformer.h.0.bias", BF16, {5}},
                        {"h.0.attn.bias", FP32, {1, 1, 4, 4}},
                        {"transformer.h.11.attn.masked_bias", FP32, {}},
                        {"lm_head.weight", FP32, {3, 2}}},
                       program)
                  .ok());
  auto message = [&](const std::vector<SafetensorsWriter::Declaration>& tensors) {
    return std::string(LoadFrom(tensors, program).message());
  };
  EXPECT_THAT(message({wte}), HasSubstr("1 tensors of the program are missing, the first is 'h.0.bias'"));
  EXPECT_THAT(message({wte, bias, {"h.1.bias", FP32, {5}}}), HasSubstr("the first is 'h.1.bias'"));
  EXPECT_THAT(message({wte, {"h.0.bias", FP32, {6}}}), HasSubstr("has shape [6], the program expects [5]"));
  EXPECT_THAT(message({wte, {"h.0.bias", INT32, {5}}}), HasSubstr("is I32; allowed"));
  EXPECT_THAT(message({wte, bias, {"transformer.h.0.bias", FP32, {5}}}), HasSubstr("with and without"));
}

TEST(WeightsTest, AHeadThatIsNotTiedIsRefused) {
  const Program program = MakeProgram(1, 1);
  const std::string path = ::testing::TempDir() + "/head.safetensors";
  // The head's dtype, shape, and how much its last element differs from the table's.
  const auto match = [&](DType dtype, std::vector<int64_t> shape, float difference) {
    std::remove(path.c_str());
    const std::vector<SafetensorsWriter::Declaration> tensors = {
        {"wte.weight", FP32, {3, 2}}, {"h.0.bias", FP32, {5}}, {"lm_head.weight", dtype, shape}};
    auto writer = SafetensorsWriter::Create(path, tensors, {});
    for (const auto& tensor : tensors) {
      std::vector<float> values(*ElementCount(tensor.shape), 0.5f);
      if (tensor.name == "lm_head.weight") values.back() += difference;
      const auto* raw = reinterpret_cast<const std::byte*>(values.data());
      std::vector<std::byte> bytes(values.size() * DTypeBytes(tensor.dtype));
      EXPECT_TRUE(ConvertFloats(FP32, absl::MakeConstSpan(raw, values.size() * sizeof(float)), tensor.dtype,
                                absl::MakeSpan(bytes))
                      .ok());
      EXPECT_TRUE((*writer)->Append(bytes).ok());
    }
    int64_t size;
    uint32_t crc;
    EXPECT_TRUE((*writer)->Finish(&size, &crc).ok());
    return std::string(MatchWeights(**SafetensorsReader::Open(path), program).status().message());
  };
  EXPECT_EQ(match(FP32, {3, 2}, 0), "");
  EXPECT_EQ(match(BF16, {3, 2}, 0), "");
  EXPECT_THAT(match(FP32, {3, 2}, 1e-6f), HasSubstr("tensor 'lm_head.weight' differs from 'wte.weight'"));
  EXPECT_THAT(match(BF16, {3, 2}, 0.25f), HasSubstr("tensor 'lm_head.weight' differs from 'wte.weight'"));
  EXPECT_THAT(match(FP32, {4, 2}, 0), HasSubstr("tensor 'lm_head.weight' differs from 'wte.weight'"));
}

TEST(WeightsTest, DevicesAreNoTargets) {
  EXPECT_THAT(std::string(CheckWeightsTarget("/dev/full").message()), HasSubstr("/dev/full: exists and is no regular"));
  const std::string path = ::testing::TempDir() + "/target";
  std::remove(path.c_str());
  EXPECT_TRUE(CheckWeightsTarget(path).ok());
  std::ofstream(path) << "earlier";
  EXPECT_TRUE(CheckWeightsTarget(path).ok());
}

TEST(WeightsTest, SavedWeightsLoadAgain) {
  Job job(MakeProgram(1, 1, true));
  job.Fill(5);
  const std::string path = ::testing::TempDir() + "/saved.safetensors";
  std::remove(path.c_str());
  ASSERT_TRUE(SaveWeights(path, job.program, [&](int i) { return job.states[0]->Read(i, StatePart::kWeight); }).ok());
  Job other(MakeProgram(1, 1));
  ASSERT_TRUE(LoadWeights(**SafetensorsReader::Open(path), other.program, other.states[0].get()).ok());
  for (int t = 0; t < 2; ++t) {
    EXPECT_TRUE(other.states[0]->Read(t, StatePart::kWeight)->bytes == Job::Expected(t, StatePart::kWeight, 5).bytes);
  }
}

}  // namespace
}  // namespace weft
