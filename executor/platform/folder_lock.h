// A lock that lets only one run at a time save its checkpoints into a folder.
#ifndef WEFT_EXECUTOR_PLATFORM_FOLDER_LOCK_H_
#define WEFT_EXECUTOR_PLATFORM_FOLDER_LOCK_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace weft::exec {

// The lock is held until the object is destroyed or the process ends, however it ends. It leaves nothing in the folder.
// Folders that were made for the lock and are still empty are removed with it, so a run that is refused leaves nothing
// behind. If the file system does not support such locks, nothing is locked.
class FolderLock {
 public:
  // Makes the folder and the folders above it if they do not exist. FailedPrecondition, naming the folder, while
  // another lock on it is held, in this process too.
  static absl::StatusOr<FolderLock> Take(const std::string& folder);

  FolderLock() = default;
  FolderLock(FolderLock&& other) noexcept;
  FolderLock& operator=(FolderLock&& other) noexcept;
  ~FolderLock();

 private:
  // Removes the folders in `made_` that are still empty, and releases the lock if it is held.
  void Drop();

  // File descriptor of the folder; -1 = not locked.
  int file_ = -1;
  // The folders that were made, outermost first. The names are never freed, because RemoveUnusedFolders may be reading
  // one.
  std::vector<const char*> made_;
};

// For the handler of a signal that ends the process at once. Removes the folders that locks of this process have made
// and that are still empty. Safe at any moment, in any thread.
void RemoveUnusedFolders();

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_PLATFORM_FOLDER_LOCK_H_
