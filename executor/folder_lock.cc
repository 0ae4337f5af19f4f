#include "executor/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"

namespace weft {

absl::StatusOr<FolderLock> FolderLock::Take(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return absl::UnavailableError(absl::StrCat(folder, ": cannot create: ", error.message()));
  const int file = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0) return absl::UnavailableError(absl::StrCat(folder, ": cannot open: ", std::strerror(errno)));
  FolderLock lock(file);
  int locked = flock(file, LOCK_EX | LOCK_NB);
  while (locked != 0 && errno == EINTR) locked = flock(file, LOCK_EX | LOCK_NB);
  if (locked != 0 && errno == EWOULDBLOCK) {
    return absl::FailedPreconditionError(
        absl::StrCat(folder,
                     ": another run that has not ended saves its checkpoints here; wait for its end, or choose another "
                     "directory"));
  }
  return lock;
}

FolderLock::FolderLock(FolderLock&& other) noexcept : file_(std::exchange(other.file_, -1)) {}

FolderLock& FolderLock::operator=(FolderLock&& other) noexcept {
  std::swap(file_, other.file_);
  return *this;
}

FolderLock::~FolderLock() {
  if (file_ >= 0) close(file_);
}

}  // namespace weft
