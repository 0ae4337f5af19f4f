// Fuzz target: the manifest of a checkpoint, and whether a program may continue from it.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "executor/checkpoint.h"
#include "proto/io.h"

namespace {

void Require(bool condition) {
  if (!condition) std::abort();
}

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
  const auto manifest = weft::ParseManifest(bytes, "fuzz");
  if (!manifest.ok()) {
    Require(manifest.status().message().substr(0, 5) == "fuzz:");
    return 0;
  }
  Require(manifest->step() >= 0);
  for (const weft::CheckpointFile& file : manifest->files()) {
    // Names stay within the folder of the checkpoint.
    Require(!file.name().empty() && file.name().find('/') == std::string::npos);
  }
  Require(weft::ParseManifest(manifest->SerializeAsString(), "again").ok());
  const absl::Status continues = weft::CheckContinues(*manifest, "fuzz", SmallProgram());
  if (continues.ok()) Require(manifest->tensors_size() == 1 && manifest->tensors(0).name() == "wte");
  return 0;
}
