#include "executor/platform/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace weft::exec {
namespace {

absl::Status Error(absl::string_view what, const std::string& path) {
  const int error = errno;
  const std::string text = absl::StrCat(path, ": cannot ", what, ": ", std::generic_category().message(error));
  if (error == ENOENT) return absl::NotFoundError(text);
  if (error == EACCES) return absl::PermissionDeniedError(text);
  return absl::UnavailableError(text);
}

}  // namespace

absl::StatusOr<InputFile> InputFile::Open(const std::string& path) {
  if (path.empty()) return absl::InvalidArgumentError("data: a file name is empty");
  // Without O_NONBLOCK, opening a pipe would wait for its writer.
  const int fd = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return Error("open", path);
  InputFile file(fd, path);
  struct stat info;
  if (fstat(fd, &info) != 0) return Error("read", path);
  if (S_ISDIR(info.st_mode)) return absl::InvalidArgumentError(absl::StrCat(path, ": is a directory, not a file"));
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": is not a regular file; weft reads data in random order, so it cannot be a pipe or a device"));
  }
  if (info.st_size == 0) return absl::InvalidArgumentError(absl::StrCat(path, ": the file is empty"));
  file.size_ = info.st_size;
  return file;
}

InputFile::~InputFile() {
  if (fd_ >= 0) close(fd_);
}

absl::Status InputFile::Read(int64_t offset, absl::Span<char> out) const {
  while (!out.empty()) {
    const ssize_t got = pread(fd_, out.data(), out.size(), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Error("read", path_);
    if (got == 0) {
      return absl::DataLossError(absl::StrCat(path_, ": ends at byte ", offset, "; it had ", size_, " bytes before"));
    }
    offset += got;
    out.remove_prefix(static_cast<size_t>(got));
  }
  return absl::OkStatus();
}

}  // namespace weft::exec
