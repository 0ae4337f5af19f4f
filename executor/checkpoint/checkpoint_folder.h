// The folders of checkpoints in a directory: which there are, and whether they are damaged. Internal to checkpoint.h.
#ifndef WEFT_EXECUTOR_CHECKPOINT_CHECKPOINT_FOLDER_H_
#define WEFT_EXECUTOR_CHECKPOINT_CHECKPOINT_FOLDER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "executor/checkpoint/checkpoint.pb.h"

namespace weft::exec {

// Names in a directory that begin so, sorted; none if there is no directory.
absl::StatusOr<std::vector<std::string>> NamesIn(const std::string& directory, absl::string_view prefix);

// Steps of folders of checkpoints, newest first, whole or not.
absl::StatusOr<std::vector<int64_t>> StepsIn(const std::string& directory);

// Whether it was written to its end.
bool IsWholeFolder(const std::string& folder);

// Makes names in it durable.
absl::Status SyncFolder(const std::string& path);

// A whole file against what the manifest says of it.
absl::Status CheckFile(const std::string& path, const CheckpointFile& file);

// All of a checkpoint. Beyond this the checksums would take minutes, and sizes alone are compared.
inline constexpr int64_t kMostBytesChecked = int64_t{16} << 30;
absl::Status CheckCheckpoint(const std::string& folder);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_CHECKPOINT_CHECKPOINT_FOLDER_H_
