// That one run at a time saves its checkpoints into a folder.
#ifndef WEFT_EXECUTOR_PLATFORM_FOLDER_LOCK_H_
#define WEFT_EXECUTOR_PLATFORM_FOLDER_LOCK_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace weft::exec {

// Held until it goes, or the process ends, however it ends; nothing is left in the folder. Folders that were made for
// it and into which nobody has put anything go with it: a run that is refused leaves nothing behind. Where the file
// system knows no such locks, nothing is locked.
class FolderLock {
 public:
  // Makes the folder, and those around it, if there is none. FailedPrecondition, naming it, while another one is held,
  // in this process too.
  static absl::StatusOr<FolderLock> Take(const std::string& folder);

  FolderLock() = default;
  FolderLock(FolderLock&& other) noexcept;
  FolderLock& operator=(FolderLock&& other) noexcept;
  ~FolderLock();

 private:
  // Gives up what is held.
  void Drop();

  // Of the folder; -1: not locked.
  int file_ = -1;
  // Outermost first. The names are never freed, as RemoveUnusedFolders may be reading one.
  std::vector<const char*> made_;
};

// For the handler of a signal that ends the process at once: what locks of this process have made and nobody has put
// anything into goes. Safe at any moment, in any thread.
void RemoveUnusedFolders();

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_PLATFORM_FOLDER_LOCK_H_
