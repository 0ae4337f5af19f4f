// The manifest of a checkpoint: its file name and version, and the name of its folder. Internal to checkpoint.h.
#ifndef WEFT_EXECUTOR_CHECKPOINT_CHECKPOINT_MANIFEST_H_
#define WEFT_EXECUTOR_CHECKPOINT_CHECKPOINT_MANIFEST_H_

#include <cstdint>
#include <optional>
#include <string>

#include "executor/checkpoint/checkpoint.pb.h"

namespace weft::exec {

inline constexpr char kManifestName[] = "manifest.textproto";

// The folder name of a step's checkpoint.
std::string FolderName(int64_t step);

// The step of a folder name that FolderName makes; nothing for other names.
std::optional<int64_t> StepOfFolder(const std::string& name);

// Returns the lowest format version that has every field of the manifest, so that earlier versions of weft can read it
// where possible. Version 2 adds pieces, version 3 the state of a loss scale.
int FormatVersionOf(const CheckpointManifest& manifest);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_CHECKPOINT_CHECKPOINT_MANIFEST_H_
