#include "executor/platform/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <mutex>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace weft::exec {
namespace {

namespace fs = std::filesystem;

// The folders that RemoveUnusedFolders removes after a signal, outermost first; null = a free entry. One run has one
// folder, and a path is seldom deeper than this array. A folder that finds no free entry stays behind after a signal.
std::atomic<const char*> unused_folders[64];
static_assert(std::atomic<const char*>::is_always_lock_free);

// Returns a copy of the name that stays as long as the process runs: RemoveUnusedFolders may be reading a name at the
// moment when Forget removes it. There is one copy per name, so a process that locks the same folder again and again
// keeps no more.
const char* PermanentCopy(const std::string& folder) {
  static std::mutex one_at_a_time;
  static auto* const names = new std::set<std::string>;
  const std::lock_guard<std::mutex> lock(one_at_a_time);
  return names->insert(folder).first->c_str();
}

void Remember(const char* folder) {
  for (std::atomic<const char*>& place : unused_folders) {
    const char* free = nullptr;
    if (place.compare_exchange_strong(free, folder)) return;
  }
}

void Forget(const char* folder) {
  for (std::atomic<const char*>& place : unused_folders) {
    const char* known = folder;
    if (place.compare_exchange_strong(known, nullptr)) return;
  }
}

// Makes the folder and the missing folders above it. Appends those that it has made to `made`, also after an error.
absl::Status MakeFolders(const std::string& folder, std::vector<const char*>* made) {
  std::error_code error;
  std::vector<fs::path> missing;
  for (fs::path path = folder; !path.empty() && !fs::exists(path, error); path = path.parent_path()) {
    missing.push_back(path);
  }
  for (auto path = missing.rbegin(); path != missing.rend(); ++path) {
    // If create_directory returns false without an error, another process was faster, or the path ends in a slash.
    if (fs::create_directory(*path, error)) Remember(made->emplace_back(PermanentCopy(path->string())));
    if (error) return absl::UnavailableError(absl::StrCat(folder, ": cannot create: ", error.message()));
  }
  return absl::OkStatus();
}

// True if `folder` is still the name of the open folder `file`. Its last user may have removed that folder meanwhile.
bool IsStill(int file, const std::string& folder) {
  struct stat opened, named;
  return fstat(file, &opened) == 0 && stat(folder.c_str(), &named) == 0 && opened.st_dev == named.st_dev &&
         opened.st_ino == named.st_ino;
}

}  // namespace

absl::StatusOr<FolderLock> FolderLock::Take(const std::string& folder) {
  FolderLock lock;
  absl::Status made = MakeFolders(folder, &lock.made_);
  if (!made.ok()) return made;
  lock.file_ = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const int file = lock.file_;
  if (file < 0) return absl::UnavailableError(absl::StrCat(folder, ": cannot open: ", std::strerror(errno)));
  int locked = flock(file, LOCK_EX | LOCK_NB);
  while (locked != 0 && errno == EINTR) locked = flock(file, LOCK_EX | LOCK_NB);
  if (locked != 0 && errno == EWOULDBLOCK) {
    return absl::FailedPreconditionError(absl::StrCat(
        folder, ": another run is still saving its checkpoints here; wait until it ends, or choose another directory"));
  }
  if (locked == 0 && !IsStill(file, folder)) return Take(folder);
  return lock;
}

FolderLock::FolderLock(FolderLock&& other) noexcept
    : file_(std::exchange(other.file_, -1)), made_(std::exchange(other.made_, {})) {}

FolderLock& FolderLock::operator=(FolderLock&& other) noexcept {
  if (this == &other) return *this;
  Drop();
  file_ = std::exchange(other.file_, -1);
  made_ = std::exchange(other.made_, {});
  return *this;
}

FolderLock::~FolderLock() { Drop(); }

void FolderLock::Drop() {
  // rmdir leaves folders that contain something.
  for (auto folder = made_.rbegin(); folder != made_.rend(); ++folder) {
    Forget(*folder);
    rmdir(*folder);
  }
  made_.clear();
  if (file_ >= 0) close(file_);
  file_ = -1;
}

void RemoveUnusedFolders() {
  for (auto place = std::rbegin(unused_folders); place != std::rend(unused_folders); ++place) {
    if (const char* const folder = place->load(); folder != nullptr) rmdir(folder);
  }
}

}  // namespace weft::exec
