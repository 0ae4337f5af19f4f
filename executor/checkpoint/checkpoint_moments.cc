#include "executor/checkpoint/checkpoint_moments.h"

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "executor/state/safetensors.h"
#include "proto/util/units.h"

namespace weft::exec {
namespace {

// The type in which the program stores moments; it is the same for all of them.
DType StoredMoments(const Program& program) {
  for (const Template& t : program.templates()) {
    for (const Buffer& buffer : t.buffers()) {
      if (buffer.role() == MOMENT1 || buffer.role() == MOMENT2) return buffer.dtype();
    }
  }
  return DTYPE_UNSPECIFIED;
}

// Reads only headers, and mostly only those of the first files, because the first file with moments is enough.
DType SavedMoments(const std::string& checkpoint, const CheckpointManifest& manifest) {
  for (const CheckpointFile& file : manifest.files()) {
    const auto reader = SafetensorsReader::Open(absl::StrCat(checkpoint, "/", file.name()));
    if (!reader.ok()) return DTYPE_UNSPECIFIED;
    for (const SafetensorsEntry& entry : (*reader)->entries()) {
      if (absl::StrContains(entry.name, "#moment")) return entry.dtype;
    }
  }
  return DTYPE_UNSPECIFIED;
}

}  // namespace

std::string NoteOnMoments(const std::string& checkpoint, const CheckpointManifest& manifest, const Program& program) {
  const DType stored = StoredMoments(program);
  if (stored == DTYPE_UNSPECIFIED) return "";
  const DType saved = SavedMoments(checkpoint, manifest);
  if (saved == DTYPE_UNSPECIFIED || DTypeBytes(saved) <= DTypeBytes(stored)) return "";
  std::string note =
      absl::StrCat("note: the checkpoint's moments are ", DType_Name(saved), ", but the program keeps them in ",
                   DType_Name(stored), "; weft rounds them to the nearest now");
  if (program.recipe().weight_rounding() != STOCHASTIC) {
    absl::StrAppend(&note, ", and in every step from now on (docs/precision.md)");
  }
  return note;
}

}  // namespace weft::exec
