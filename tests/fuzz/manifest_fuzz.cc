// Fuzz target: the manifest of a checkpoint, and the check that a program may resume from it.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "executor/checkpoint/checkpoint.h"
#include "executor/checkpoint/checkpoint_pieces.h"
#include "proto/io/io.h"
#include "tests/fuzz/require.h"

using weft::Require;

namespace {

weft::Program SmallProgram() {
  weft::Program program;
  program.mutable_recipe()->set_sequence_length(8);
  program.mutable_recipe()->set_global_batch_sequences(4);
  program.mutable_recipe()->set_steps(10);
  weft::LogicalTensor& tensor = *program.add_tensors();
  tensor.set_name("wte");
  tensor.add_shape(50);
  tensor.add_shape(8);
  return program;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto manifest = weft::exec::ParseManifest(bytes, "fuzz");
  if (!manifest.ok()) {
    Require(manifest.status().message().substr(0, 5) == "fuzz:");
    return 0;
  }
  Require(manifest->step() >= 0);
  for (const weft::CheckpointFile& file : manifest->files()) {
    // File names stay inside the checkpoint's directory.
    Require(!file.name().empty() && file.name().find('/') == std::string::npos);
  }
  Require(weft::exec::ParseManifest(manifest->SerializeAsString(), "again").ok());
  for (const weft::CheckpointPiece& piece : manifest->pieces()) {
    const auto& shape = manifest->tensors(piece.tensor()).shape();
    int64_t elements = 1;
    for (const int64_t extent : shape) elements *= extent;
    if (elements > 100000) continue;
    // Every run lies within the tensor, and the runs together make up the piece.
    int64_t next = 0;
    for (const weft::exec::TensorRun& run : weft::exec::RunsOf(weft::exec::GetPiece(piece), shape)) {
      Require(run.position == next && run.count > 0 && run.logical >= 0 && run.logical + run.count <= elements);
      next += run.count;
    }
    Require(next == piece.count());
  }
  std::vector<const weft::CheckpointPiece*> all;
  for (const weft::CheckpointPiece& piece : manifest->pieces()) {
    if (piece.tensor() == manifest->pieces(0).tensor()) all.push_back(&piece);
  }
  int64_t elements = 0;
  if (!all.empty()) {
    elements = 1;
    for (const int64_t extent : manifest->tensors(all[0]->tensor()).shape()) elements *= extent;
  }
  if (!all.empty() && elements <= 100000) {
    const auto joined = weft::exec::JoinPieces(*manifest, all, [](const weft::CheckpointPiece& piece) {
      return absl::StatusOr<weft::exec::TensorData>(
          weft::exec::TensorData{weft::FP32, {piece.count()}, std::vector<std::byte>(piece.count() * 4)});
    });
    if (joined.ok()) Require(static_cast<int64_t>(joined->bytes.size()) == elements * 4);
  }
  const absl::Status continues = weft::exec::CheckContinues(*manifest, "fuzz", SmallProgram());
  if (continues.ok()) Require(manifest->tensors_size() == 1 && manifest->tensors(0).name() == "wte");
  return 0;
}
