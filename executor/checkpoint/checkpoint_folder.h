// Finds the folders of checkpoints in a directory, and checks whether they are damaged. Internal to checkpoint.h.
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

// Names in a directory that begin with `prefix`, sorted; none if the directory does not exist.
absl::StatusOr<std::vector<std::string>> NamesIn(const std::string& directory, absl::string_view prefix);

// Steps of the checkpoint folders, newest first, whole or not.
absl::StatusOr<std::vector<int64_t>> StepsIn(const std::string& directory);

// True if the checkpoint was written to its end.
bool IsWholeFolder(const std::string& folder);

// Syncs a folder, so that files created or renamed in it survive a crash of the machine.
absl::Status SyncFolder(const std::string& path);

// Checks a whole file against its entry in the manifest.
absl::Status CheckFile(const std::string& path, const CheckpointFile& file);

// Checks all files of a checkpoint against its manifest. If they have more than kMaxBytesChecked bytes together,
// checksums would take minutes, so only file sizes are compared.
inline constexpr int64_t kMaxBytesChecked = int64_t{16} << 30;
absl::Status CheckCheckpoint(const std::string& folder);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_CHECKPOINT_CHECKPOINT_FOLDER_H_
