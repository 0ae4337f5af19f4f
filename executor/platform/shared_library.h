// Libraries that are opened at run time: cuBLASLt, cuDNN, NCCL, MPI. weft-run starts where none of them is installed.
// It finds the libraries of a CUDA toolkit, of the system, or of a Python environment (which PyTorch's packages bring).
#ifndef WEFT_EXECUTOR_PLATFORM_SHARED_LIBRARY_H_
#define WEFT_EXECUTOR_PLATFORM_SHARED_LIBRARY_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace weft::exec {

// The folders of --lib-path, which are searched before all others. main sets them before anything is opened.
void SetLibraryPath(std::vector<std::string> folders);
const std::vector<std::string>& LibraryPath();

// The environment variables that say where libraries may be. Empty = not set.
struct LibraryEnvironment {
  std::string cuda_home;       // CUDA_HOME; /usr/local/cuda if empty
  std::string cuda_libraries;  // WEFT_CUDA_LIBRARIES; ~/.cache/weft_cuda if empty: where tools/setup installs
  std::string virtual_env;     // VIRTUAL_ENV
  std::string conda_prefix;    // CONDA_PREFIX
  std::string path;            // PATH: its first python3 has packages beside it
  std::string home;            // HOME

  static LibraryEnvironment FromProcess();
};

// The folders that exist, each once, in the order in which they are searched after the loader's own path: lib64 of the
// toolkit, then nvidia/*/lib among the packages of the virtual environment, of the conda environment, of PATH's
// python3, of the user (~/.local), and of tools/setup. Entries of one folder are in alphabetical order.
std::vector<std::string> LibraryFolders(const LibraryEnvironment& environment);

// An open library, which stays open until the process ends: CUDA's libraries cannot be closed safely.
class SharedLibrary {
 public:
  enum class Scope {
    kLocal,
    // Libraries that are opened later find this library's symbols. The modules of Open MPI need that.
    kGlobal,
  };

  // Opens the first of `names` ("libcudnn.so.9", the most wanted first) that a place has. The places are LibraryPath,
  // the loader's path, then LibraryFolders of the process. Errors call the library `what` ("cuDNN 9"). NotFound lists
  // the places that were searched. FailedPrecondition, with the loader's reason, if a file is there and cannot be
  // loaded.
  static absl::StatusOr<SharedLibrary> Open(absl::string_view what, absl::Span<const std::string> names,
                                            Scope scope = Scope::kLocal);
  static absl::StatusOr<SharedLibrary> OpenFrom(absl::string_view what, absl::Span<const std::string> names,
                                                Scope scope, absl::Span<const std::string> first_folders,
                                                absl::Span<const std::string> last_folders);

  // The file that the library was loaded from.
  const std::string& path() const { return path_; }

  // Sets `*symbol` to the function or variable of that name. FailedPrecondition if the library has none.
  template <typename T>
  absl::Status Load(const char* name, T** symbol) const {
    void* found = Find(name);
    if (found == nullptr) return Missing(name);
    *symbol = reinterpret_cast<T*>(found);
    return absl::OkStatus();
  }
  // Null if the library has no such symbol.
  void* Find(const char* name) const;

 private:
  SharedLibrary(std::string what, void* handle, std::string path)
      : what_(std::move(what)), handle_(handle), path_(std::move(path)) {}
  absl::Status Missing(absl::string_view name) const;

  std::string what_;
  void* handle_;
  std::string path_;
};

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_PLATFORM_SHARED_LIBRARY_H_
