#include "executor/platform/shared_library.h"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace weft::exec {
namespace {

namespace fs = std::filesystem;

std::vector<std::string>& MutableLibraryPath() {
  static std::vector<std::string>* path = new std::vector<std::string>;
  return *path;
}

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool IsFolder(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

// Folders in `parent` whose name begins with `prefix`, sorted.
std::vector<fs::path> FoldersIn(const fs::path& parent, absl::string_view prefix) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator entry(parent, fs::directory_options::skip_permission_denied, error), end;
       !error && entry != end; entry.increment(error)) {
    if (absl::StartsWith(entry->path().filename().string(), prefix) && IsFolder(entry->path())) {
      found.push_back(entry->path());
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

class FolderList {
 public:
  void Add(const fs::path& folder) {
    const std::string text = folder.lexically_normal().string();
    if (IsFolder(folder) && std::find(found_.begin(), found_.end(), text) == found_.end()) found_.push_back(text);
  }
  // Adds the folders nvidia/*/lib of a folder of Python packages.
  void AddPackages(const fs::path& packages) {
    for (const fs::path& package : FoldersIn(packages / "nvidia", "")) Add(package / "lib");
  }
  // Adds the packages of a Python that is installed in `prefix`.
  void AddPython(const fs::path& prefix) {
    for (const fs::path& python : FoldersIn(prefix / "lib", "python3")) {
      AddPackages(python / "site-packages");
      AddPackages(python / "dist-packages");
    }
  }

  std::vector<std::string> Take() { return std::move(found_); }

 private:
  std::vector<std::string> found_;
};

// Returns the path of the first python3 in PATH, as PATH spells it.
std::optional<fs::path> PythonOf(const std::string& path) {
  for (const std::string& folder : std::vector<std::string>(absl::StrSplit(path, ':', absl::SkipEmpty()))) {
    const fs::path python = fs::path(folder) / "python3";
    if (access(python.c_str(), X_OK) == 0) return python;
  }
  return std::nullopt;
}

std::string PathOf(void* handle, const std::string& name) {
  link_map* map = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr || map->l_name == nullptr) return name;
  return map->l_name;
}

std::string LoaderMessage() {
  const char* message = dlerror();
  return message == nullptr ? "the loader gives no reason" : message;
}

}  // namespace

void SetLibraryPath(std::vector<std::string> folders) { MutableLibraryPath() = std::move(folders); }

const std::vector<std::string>& LibraryPath() { return MutableLibraryPath(); }

LibraryEnvironment LibraryEnvironment::FromProcess() {
  LibraryEnvironment environment;
  environment.cuda_home = Variable("CUDA_HOME");
  environment.cuda_libraries = Variable("WEFT_CUDA_LIBRARIES");
  environment.virtual_env = Variable("VIRTUAL_ENV");
  environment.conda_prefix = Variable("CONDA_PREFIX");
  environment.path = Variable("PATH");
  environment.home = Variable("HOME");
  return environment;
}

std::vector<std::string> LibraryFolders(const LibraryEnvironment& environment) {
  FolderList list;
  list.Add(fs::path(environment.cuda_home.empty() ? "/usr/local/cuda" : environment.cuda_home) / "lib64");
  if (!environment.virtual_env.empty()) list.AddPython(environment.virtual_env);
  if (!environment.conda_prefix.empty()) list.AddPython(environment.conda_prefix);
  if (const std::optional<fs::path> python = PythonOf(environment.path)) {
    // bin/python3 of a virtual environment is a link. The packages beside the link come first, then those beside its
    // target.
    const fs::path prefix = python->parent_path().parent_path();
    list.AddPython(prefix);
    // Debian's own Python installs packages for all users here.
    if (prefix == "/usr" || prefix == "/") list.AddPython("/usr/local");
    std::error_code error;
    const fs::path real = fs::canonical(*python, error);
    if (!error) list.AddPython(real.parent_path().parent_path());
  }
  if (!environment.home.empty()) list.AddPython(fs::path(environment.home) / ".local");
  if (!environment.cuda_libraries.empty()) {
    list.AddPackages(environment.cuda_libraries);
  } else if (!environment.home.empty()) {
    list.AddPackages(fs::path(environment.home) / ".cache" / "weft_cuda");
  }
  return list.Take();
}

absl::StatusOr<SharedLibrary> SharedLibrary::Open(absl::string_view what, absl::Span<const std::string> names,
                                                  Scope scope) {
  return OpenFrom(what, names, scope, LibraryPath(), LibraryFolders(LibraryEnvironment::FromProcess()));
}

absl::StatusOr<SharedLibrary> SharedLibrary::OpenFrom(absl::string_view what, absl::Span<const std::string> names,
                                                      Scope scope, absl::Span<const std::string> first_folders,
                                                      absl::Span<const std::string> last_folders) {
  const int flags = RTLD_NOW | (scope == Scope::kGlobal ? RTLD_GLOBAL : RTLD_LOCAL);
  const std::string wanted = absl::StrCat(std::string(what), " (", absl::StrJoin(names, " or "), ")");
  std::string refused;
  // Null if the folder has no such file, or if the file cannot be loaded; `refused` then holds the reason.
  const auto open_in = [&](const std::string& folder, const std::string& name) -> void* {
    const std::string path = (fs::path(folder) / name).string();
    if (access(path.c_str(), F_OK) != 0) return nullptr;
    void* handle = dlopen(path.c_str(), flags);
    if (handle == nullptr && refused.empty()) refused = LoaderMessage();
    return handle;
  };
  const auto opened = [&](void* handle, const std::string& name) {
    return SharedLibrary(std::string(what), handle, PathOf(handle, name));
  };
  for (const std::string& folder : first_folders) {
    for (const std::string& name : names) {
      if (void* handle = open_in(folder, name)) return opened(handle, name);
      // The user named this folder, so a library of that name elsewhere is not what was asked for.
      if (!refused.empty()) {
        return absl::FailedPreconditionError(absl::StrCat("cannot load ", wanted, " from --lib-path: ", refused));
      }
    }
  }
  for (const std::string& name : names) {
    if (void* handle = dlopen(name.c_str(), flags)) return opened(handle, name);
    const std::string message = LoaderMessage();
    // The loader's message begins with this name if the file itself is missing. If a file that the library needs is
    // missing, the message begins with the name of that file.
    if (refused.empty() && !(absl::StartsWith(message, absl::StrCat(name, ":")) &&
                             absl::StrContains(message, "No such file or directory"))) {
      refused = message;
    }
  }
  for (const std::string& folder : last_folders) {
    for (const std::string& name : names) {
      if (void* handle = open_in(folder, name)) return opened(handle, name);
    }
  }
  if (!refused.empty()) return absl::FailedPreconditionError(absl::StrCat("cannot load ", wanted, ": ", refused));
  std::vector<std::string> searched;
  for (const std::string& folder : first_folders) searched.push_back(absl::StrCat(folder, " (--lib-path)"));
  searched.push_back("the loader's path");
  searched.insert(searched.end(), last_folders.begin(), last_folders.end());
  return absl::NotFoundError(
      absl::StrCat(wanted, " was not found in ", absl::StrJoin(searched, ", "), "; name its folder with --lib-path"));
}

void* SharedLibrary::Find(const char* name) const { return dlsym(handle_, name); }

absl::Status SharedLibrary::Missing(absl::string_view name) const {
  return absl::FailedPreconditionError(
      absl::StrCat(what_, " in ", path_, " has no ", std::string(name), ": it has another version"));
}

}  // namespace weft::exec
