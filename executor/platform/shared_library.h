// Libraries that are opened at run time: cuBLASLt, cuDNN with NVRTC, NCCL, MPI. So weft-run also starts on a machine
// that has none of them. It finds the libraries of a CUDA toolkit, of the system, or of a Python environment (PyTorch's
// packages install them there).
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

// Sets the folders of --lib-path, which are searched before all others. weft-run and `weft calibrate` call it before
// they open any library.
void SetLibraryPath(std::vector<std::string> folders);
const std::vector<std::string>& LibraryPath();

// The environment variables that help to find libraries. Empty = not set.
struct LibraryEnvironment {
  std::string cuda_home;       // CUDA_HOME; /usr/local/cuda if empty
  std::string cuda_libraries;  // WEFT_CUDA_LIBRARIES; ~/.cache/weft_cuda if empty: where tools/setup installs
  std::string virtual_env;     // VIRTUAL_ENV
  std::string conda_prefix;    // CONDA_PREFIX
  std::string path;            // PATH; packages beside its first python3 are searched
  std::string home;            // HOME

  static LibraryEnvironment FromProcess();
};

// Returns the folders that exist, each once, in the order of the search. They are searched after the loader's own path.
// First comes lib64 of the toolkit. Then comes nvidia/*/lib among the Python packages of the virtual environment, of
// the conda environment, of PATH's python3, of the user (~/.local), and of tools/setup. Entries of one folder are in
// alphabetical order.
std::vector<std::string> LibraryFolders(const LibraryEnvironment& environment);

// An open library, which stays open until the process ends: CUDA's libraries cannot be closed safely.
class SharedLibrary {
 public:
  enum class Scope {
    kLocal,
    // Libraries that are opened later find this library's symbols. The modules of Open MPI need that.
    kGlobal,
  };

  // Searches LibraryPath, then the loader's path, then LibraryFolders of the process. Opens the first library with one
  // of `names` (e.g. "libcudnn.so.9"; each place is searched in this order). Errors call the library `what` ("cuDNN
  // 9"). Returns NotFound, with the places that were searched, if there is no such file. Returns FailedPrecondition,
  // with the loader's reason, if a file in LibraryPath cannot be loaded, or if a file elsewhere cannot be loaded and no
  // other is found.
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
