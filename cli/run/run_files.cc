#include "cli/run/run_files.h"

#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "executor/faults/fault_report.h"
#include "executor/interface/tuning_options.h"
#include "executor/state/weights.h"
#include "proto/io/io.h"
#include "proto/util/status.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

absl::Status WithFlag(absl::string_view flag, const absl::Status& status) {
  return status.ok() ? status : absl::Status(status.code(), absl::StrCat(flag, ": ", status.message()));
}

// True if the path names an open descriptor of this process. Opening it never waits, even if it is a pipe.
bool IsOpenAlready(absl::string_view path) {
  if (path == "/dev/stdout" || path == "/dev/stderr") return true;
  int descriptor = 0;
  return (absl::ConsumePrefix(&path, "/dev/fd/") || absl::ConsumePrefix(&path, "/proc/self/fd/")) &&
         absl::SimpleAtoi(path, &descriptor);
}

absl::Status CheckWritten(const std::string& path) {
  WEFT_RETURN_IF_ERROR(CheckWritable(path));
  std::error_code error;
  if (IsOpenAlready(path) || !fs::is_fifo(path, error)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      path, ": is a named pipe, and weft would wait until another program reads it; give a file, or /dev/stdout"));
}

absl::Status CheckCheckpointFolder(const std::string& folder) {
  // Check the nearest folder that exists: the run creates `folder` only after all checks have passed.
  std::error_code error;
  fs::path there = folder;
  while (!there.empty() && !fs::exists(there, error)) there = there.parent_path();
  if (!there.empty() && !fs::is_directory(there, error)) {
    return absl::UnavailableError(absl::StrCat(folder, ": cannot create: ", there.string(), " is not a folder"));
  }
  if (const fs::path latest = fs::path(folder) / "latest"; fs::is_directory(latest, error)) {
    return absl::FailedPreconditionError(absl::StrCat(
        latest.string(),
        ": is a folder, but weft writes a file of this name to mark the newest checkpoint; move the folder away"));
  }
  // If `folder` does not exist yet, try to write a file in the existing folder, under a name that no file has.
  const bool is_there = there == fs::path(folder);
  const absl::Status status = CheckWritable((there / (is_there ? "latest" : ".weft-checkpoint")).string());
  if (status.ok()) return status;
  const absl::string_view message = status.message();
  // Keep only the reason of the error: the user did not name the file that was tried.
  return absl::Status(status.code(), absl::StrCat(folder, ": cannot write in ", there.empty() ? "." : there.string(),
                                                  message.substr(message.rfind(": "))));
}

}  // namespace

absl::Status CheckRead(absl::string_view flag, const std::string& path) {
  std::error_code error;
  const fs::file_status status = path.empty() ? fs::file_status() : fs::status(path, error);
  if (!fs::exists(status) || fs::is_regular_file(status) || fs::is_directory(status)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(flag, ": ", path,
                   ": is not a regular file; every process of a run reads it, so it cannot be a pipe or a device"));
}

absl::Status CheckOutputs(const RunFlags& f) {
  if (!f.checkpoint.empty()) WEFT_RETURN_IF_ERROR(WithFlag("--checkpoint", CheckCheckpointFolder(f.checkpoint)));
  std::vector<std::pair<const char*, std::string>> outputs = {
      {"--trace", f.trace}, {"--save-weights", f.save_weights}, {"--report", f.report}};
  // The check of the flags has already refused a value that cannot be parsed.
  if (const auto tuning = exec::ParseTuningOptions(f.tuning); tuning.ok())
    outputs.push_back({"--tuning", tuning->written()});
  for (const auto& [flag, path] : outputs) {
    if (path.empty()) continue;
    if (absl::string_view(flag) == "--save-weights")
      WEFT_RETURN_IF_ERROR(WithFlag(flag, exec::CheckWeightsTarget(path)));
    WEFT_RETURN_IF_ERROR(WithFlag(flag, CheckWritten(path)));
  }
  return absl::OkStatus();
}

absl::Status CheckFaultReport(const std::string& path, int rank) {
  if (path.empty() || path == "none") return absl::OkStatus();
  std::error_code error;
  if (path.back() == '/' || fs::is_directory(path, error)) {
    const std::string file = (fs::path(path) / "weft-fault.json").string();
    return absl::InvalidArgumentError(
        absl::StrCat("--fault-report: ", path, ": is a folder; give a file, e.g. ", file));
  }
  return WithFlag("--fault-report", CheckWritten(exec::FaultFileOfRank(path, rank)));
}

bool HasFaultReport(const std::string& path, int64_t ranks) {
  std::error_code error;
  for (int rank = 0; !path.empty() && rank < ranks; ++rank) {
    if (fs::exists(exec::FaultFileOfRank(path, rank), error)) return true;
  }
  return false;
}

}  // namespace weft
