// The manifest of a checkpoint: its name and version, and its folder's name. Internal to checkpoint.h.
#ifndef WEFT_EXECUTOR_CHECKPOINT_CHECKPOINT_MANIFEST_H_
#define WEFT_EXECUTOR_CHECKPOINT_CHECKPOINT_MANIFEST_H_

#include <cstdint>
#include <optional>
#include <string>

#include "executor/checkpoint/checkpoint.pb.h"

namespace weft::exec {

inline constexpr char kManifestName[] = "manifest.textproto";

// The folder of a step's checkpoint.
std::string FolderName(int64_t step);

// The step of a folder name as FolderName makes it.
std::optional<int64_t> StepOfFolder(const std::string& name);

// The least that has what the manifest has, so that earlier versions of weft read what they can: 2 has pieces, 3 the
// state of a loss scale.
int FormatVersionOf(const CheckpointManifest& manifest);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_CHECKPOINT_CHECKPOINT_MANIFEST_H_
