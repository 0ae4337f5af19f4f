#include "executor/checkpoint/checkpoint_branch.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "executor/checkpoint/checkpoint_folder.h"
#include "executor/checkpoint/checkpoint_manifest.h"
#include "proto/io/io.h"
#include "proto/util/status.h"

namespace weft::exec {
namespace {

constexpr absl::string_view kAbandoned = "abandoned-";

absl::Status Failed(const std::string& path, absl::string_view what) {
  return absl::UnknownError(absl::StrCat(path, ": ", what, ": ", std::strerror(errno)));
}

// Returns the folder for the next abandoned run: "DIR/abandoned-3" if the last one is abandoned-2.
absl::StatusOr<std::string> NextFolder(const std::string& directory) {
  WEFT_ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesIn(directory, kAbandoned));
  int64_t last = 0;
  for (const std::string& name : names) {
    int64_t number = 0;
    if (absl::SimpleAtoi(absl::string_view(name).substr(kAbandoned.size()), &number) && number < INT32_MAX) {
      last = std::max(last, number);
    }
  }
  return absl::StrCat(directory, "/", kAbandoned, last + 1);
}

}  // namespace

absl::StatusOr<std::vector<int64_t>> StepsBeyond(const std::string& directory, int64_t step) {
  WEFT_ASSIGN_OR_RETURN(std::vector<int64_t> steps, StepsIn(directory));
  steps.erase(
      std::remove_if(steps.begin(), steps.end(),
                     [&](int64_t each) { return each <= step || !IsWholeFolder(directory + "/" + FolderName(each)); }),
      steps.end());
  std::reverse(steps.begin(), steps.end());
  return steps;
}

absl::Status SetAsideBeyond(const std::string& directory, int64_t step) {
  WEFT_ASSIGN_OR_RETURN(const std::vector<int64_t> steps, StepsBeyond(directory, step));
  if (steps.empty()) return absl::OkStatus();
  // Change `latest` before the move, because it may name one of the checkpoints that are moved.
  if (IsWholeFolder(directory + "/" + FolderName(step))) {
    WEFT_RETURN_IF_ERROR(WriteFileAtomic(directory + "/latest", FolderName(step) + "\n"));
    WEFT_RETURN_IF_ERROR(SyncFolder(directory));
  }
  WEFT_ASSIGN_OR_RETURN(const std::string aside, NextFolder(directory));
  if (mkdir(aside.c_str(), 0777) != 0) return Failed(aside, "cannot create");
  for (const int64_t each : steps) {
    const std::string from = directory + "/" + FolderName(each), to = aside + "/" + FolderName(each);
    if (std::rename(from.c_str(), to.c_str()) != 0) return Failed(to, "cannot rename " + from);
  }
  WEFT_RETURN_IF_ERROR(WriteFileAtomic(aside + "/latest", FolderName(steps.back()) + "\n"));
  WEFT_RETURN_IF_ERROR(SyncFolder(aside));
  return SyncFolder(directory);
}

absl::StatusOr<std::string> NoteOnBranch(const std::string& directory, int64_t step) {
  WEFT_ASSIGN_OR_RETURN(const std::vector<int64_t> steps, StepsBeyond(directory, step));
  if (steps.empty()) return std::string();
  WEFT_ASSIGN_OR_RETURN(const std::string aside, NextFolder(directory));
  return absl::StrCat("this run branches off an earlier run, whose later checkpoints (after ",
                      absl::StrJoin(steps, ", "), " steps) move to ", aside, " when this run saves");
}

}  // namespace weft::exec
