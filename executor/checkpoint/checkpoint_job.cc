#include "executor/checkpoint/checkpoint_job.h"

#include <cstring>
#include <thread>
#include <utility>

#include "executor/checkpoint/checkpoint.h"
#include "executor/program/tensor_piece.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/util/mesh.h"
#include "proto/util/units.h"

namespace weft::exec {

Program CheckpointProgram(int data, int pipe, bool bf16, bool tied) {
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

Program CutCheckpointProgram(int64_t x, int64_t z, int64_t data, int64_t shard_group) {
  Program program = CheckpointProgram(1, 1, /*bf16=*/true);
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

CheckpointJob::CheckpointJob(Program p) : program(std::move(p)) {
  endpoints = *(*FindTransport("inproc"))->open(static_cast<int>(MeshRanks(program.mesh())));
  for (const auto& endpoint : endpoints) {
    const Template& t = program.templates(TemplateOfRank(program, endpoint->rank()));
    arenas.push_back(*Arena::Allocate(t.device_arena_bytes(), 0));
    states.push_back(std::make_unique<RankState>(program, endpoint->rank(), arenas.back().get()));
  }
}

absl::Status CheckpointJob::Save(const std::string& directory, int64_t step, int64_t keep) {
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

absl::Status CheckpointJob::Load(const std::string& checkpoint) {
  const auto manifest = ReadManifest(checkpoint);
  if (!manifest.ok()) return manifest.status();
  if (absl::Status status = CheckContinues(*manifest, checkpoint, program); !status.ok()) return status;
  for (auto& state : states) {
    if (absl::Status status = LoadCheckpoint(checkpoint, *manifest, program, state.get()); !status.ok()) return status;
  }
  return absl::OkStatus();
}

void CheckpointJob::Fill(int64_t seed) {
  for (auto& state : states) {
    for (int t = 0; t < 2; ++t) {
      for (StatePart part : kStateParts) {
        if (!state->Holds(t, part)) continue;
        EXPECT_TRUE(state->Write(t, part, Expected(t, part, seed)).ok());
      }
    }
  }
}

TensorData CheckpointJob::Expected(int tensor, StatePart part, int64_t seed) {
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

void CheckpointJob::ExpectFilled(int64_t seed) {
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

std::vector<std::byte> CheckpointJob::PieceOf(const RankState* state, int tensor, StatePart part,
                                              const TensorData& whole) const {
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

}  // namespace weft::exec
