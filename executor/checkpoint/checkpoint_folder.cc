#include "executor/checkpoint/checkpoint_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "executor/checkpoint/checkpoint.h"
#include "executor/checkpoint/checkpoint_manifest.h"
#include "proto/io/crc32c.h"
#include "proto/io/io.h"
#include "proto/util/status.h"
#include "proto/util/suggest.h"

namespace weft::exec {

namespace fs = std::filesystem;

absl::StatusOr<std::vector<std::string>> NamesIn(const std::string& directory, absl::string_view prefix) {
  std::error_code error;
  std::vector<std::string> names;
  fs::directory_iterator folder(directory, error);
  for (; !error && folder != fs::directory_iterator(); folder.increment(error)) {
    const std::string name = folder->path().filename().string();
    if (absl::StartsWith(name, prefix)) names.push_back(name);
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    return absl::UnknownError(absl::StrCat(directory, ": cannot list: ", error.message()));
  }
  std::sort(names.begin(), names.end());
  return names;
}

absl::StatusOr<std::vector<int64_t>> StepsIn(const std::string& directory) {
  WEFT_ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesIn(directory, "step-"));
  std::vector<int64_t> steps;
  for (const std::string& name : names) {
    const std::optional<int64_t> step = StepOfFolder(name);
    if (step.has_value()) steps.push_back(*step);
  }
  std::sort(steps.rbegin(), steps.rend());
  return steps;
}

bool IsWholeFolder(const std::string& folder) {
  std::error_code error;
  return fs::exists(folder + "/" + kManifestName, error);
}

absl::Status SyncFolder(const std::string& path) {
  const int folder = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return absl::UnknownError(absl::StrCat(path, ": cannot open: ", std::strerror(errno)));
  const bool synced = fsync(folder) == 0;
  const absl::Status status =
      synced ? absl::OkStatus() : absl::UnknownError(absl::StrCat(path, ": cannot sync: ", std::strerror(errno)));
  close(folder);
  return status;
}

absl::Status CheckFile(const std::string& path, const CheckpointFile& file) {
  const int opened = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (opened < 0) return absl::DataLossError(absl::StrCat(path, ": cannot open: ", std::strerror(errno)));
  std::vector<char> piece(1 << 20);
  int64_t bytes = 0;
  uint32_t crc = Crc32c("");
  ssize_t got = 0;
  while ((got = read(opened, piece.data(), piece.size())) > 0) {
    crc = Crc32cExtend(crc, absl::string_view(piece.data(), got));
    bytes += got;
  }
  close(opened);
  if (got < 0) return absl::DataLossError(path + ": cannot read");
  if (bytes != file.bytes()) {
    return absl::DataLossError(absl::StrCat(path, ": has ", bytes, " bytes, the manifest says ", file.bytes()));
  }
  if (crc != file.crc32c()) {
    return absl::DataLossError(
        absl::StrFormat("%s: CRC32C is %08x, the manifest says %08x: the file is corrupt", path, crc, file.crc32c()));
  }
  return absl::OkStatus();
}

absl::Status CheckCheckpoint(const std::string& folder) {
  WEFT_ASSIGN_OR_RETURN(const CheckpointManifest manifest, ReadManifest(folder));
  double bytes = 0;
  for (const CheckpointFile& file : manifest.files()) bytes += static_cast<double>(file.bytes());
  for (const CheckpointFile& file : manifest.files()) {
    const std::string path = folder + "/" + file.name();
    if (bytes <= static_cast<double>(kMaxBytesChecked)) {
      WEFT_RETURN_IF_ERROR(CheckFile(path, file));
      continue;
    }
    std::error_code error;
    if (static_cast<int64_t>(fs::file_size(path, error)) != file.bytes() || error) {
      return absl::DataLossError(absl::StrCat(path, ": is missing or of another size than the manifest says"));
    }
  }
  return absl::OkStatus();
}

namespace {

absl::StatusOr<std::optional<std::string>> FindStep(const std::string& directory, int64_t wanted) {
  const std::string folder = directory + "/" + FolderName(wanted);
  if (IsWholeFolder(folder)) return folder;
  WEFT_ASSIGN_OR_RETURN(std::vector<int64_t> steps, StepsIn(directory));
  steps.erase(std::remove_if(steps.begin(), steps.end(),
                             [&](int64_t step) { return !IsWholeFolder(directory + "/" + FolderName(step)); }),
              steps.end());
  if (steps.empty()) return absl::NotFoundError(absl::StrCat("--resume-step: ", directory, " has no checkpoint"));
  const int64_t nearest = *std::min_element(
      steps.begin(), steps.end(), [&](int64_t a, int64_t b) { return std::abs(a - wanted) < std::abs(b - wanted); });
  std::reverse(steps.begin(), steps.end());
  return absl::NotFoundError(absl::StrCat("--resume-step: ", directory, " has no checkpoint of step ", wanted,
                                          "; steps with a checkpoint: ", absl::StrJoin(steps, ", "),
                                          "; nearest valid: ", nearest));
}

}  // namespace

absl::StatusOr<std::optional<std::string>> FindCheckpoint(const std::string& directory, int64_t wanted) {
  if (wanted >= 0) return FindStep(directory, wanted);
  const std::string pointer = directory + "/latest";
  std::error_code error;
  std::string named;
  // Anything but a regular file is refused, because reading a pipe would block.
  if (fs::exists(pointer, error) && !fs::is_regular_file(pointer, error)) {
    return absl::FailedPreconditionError(
        absl::StrCat(pointer, ": is ", fs::is_directory(pointer, error) ? "a folder" : "not a regular file",
                     ", expected a file that holds a name like ", FolderName(20),
                     "; move it away to use the newest checkpoint, or name one with --resume-step N"));
  }
  if (fs::exists(pointer, error)) {
    WEFT_ASSIGN_OR_RETURN(std::string name, ReadFile(pointer, 4096));
    name = std::string(absl::StripAsciiWhitespace(name));
    if (!StepOfFolder(name).has_value()) {
      return absl::DataLossError(
          absl::StrCat(pointer, ": holds ", Quoted(name), ", expected a name like ", FolderName(20),
                       "; remove the file to use the newest checkpoint, or name one with --resume-step N"));
    }
    named = name;
    const std::string folder = directory + "/" + name;
    if (fs::exists(folder, error)) return folder;
    // A save of the same step may have been cut short between two renames; the old checkpoint then has this name.
    const std::string aside = directory + "/.old-" + name;
    if (IsWholeFolder(aside)) return aside;
  }
  WEFT_ASSIGN_OR_RETURN(const std::vector<int64_t> steps, StepsIn(directory));
  for (int64_t step : steps) {
    const std::string folder = directory + "/" + FolderName(step);
    if (IsWholeFolder(folder)) return folder;
  }
  // `latest` shows that a run has trained here. Beginning at step 0 would lose its result without a message.
  if (!named.empty()) {
    return absl::DataLossError(absl::StrCat(pointer, ": names ", named, ", which is not there, and ", directory,
                                            " has no other checkpoint; remove the file to start at step 0"));
  }
  return std::nullopt;
}

std::string NoteOnLatest(const std::string& directory, const std::string& found) {
  const std::string pointer = directory + "/latest";
  std::error_code error;
  if (!fs::is_regular_file(pointer, error)) return "";
  const absl::StatusOr<std::string> content = ReadFile(pointer, 4096);
  if (!content.ok()) return "";
  const std::string name(absl::StripAsciiWhitespace(*content));
  if (found == directory + "/" + name || found == directory + "/.old-" + name) return "";
  return absl::StrCat("note: ", pointer, " names ", name,
                      ", which is not there; weft uses the newest complete checkpoint, ", found);
}

absl::Status WithUndamaged(const absl::Status& damage, const std::string& directory, const std::string& checkpoint) {
  const absl::StatusOr<std::vector<int64_t>> steps = StepsIn(directory);
  for (size_t i = 0; steps.ok() && i < steps->size(); ++i) {
    const std::string folder = directory + "/" + FolderName((*steps)[i]);
    if (folder == checkpoint || !CheckCheckpoint(folder).ok()) continue;
    return absl::Status(damage.code(), absl::StrCat(damage.message(), "; the newest undamaged checkpoint is ", folder,
                                                    "; --resume-step ", (*steps)[i], " continues from it"));
  }
  return absl::Status(damage.code(),
                      absl::StrCat(damage.message(), "; ", directory, " has no other undamaged checkpoint"));
}

}  // namespace weft::exec
