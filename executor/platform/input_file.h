// A file that is read at any offset.
#ifndef WEFT_EXECUTOR_PLATFORM_INPUT_FILE_H_
#define WEFT_EXECUTOR_PLATFORM_INPUT_FILE_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace weft::exec {

// A file opened for reading at any offset. It is read, not mapped, so a file that shrinks during a run gives an error,
// not a signal.
class InputFile {
 public:
  // Opens a regular file that is not empty. Errors name the path.
  static absl::StatusOr<InputFile> Open(const std::string& path);

  InputFile(InputFile&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), size_(other.size_), path_(std::move(other.path_)) {}
  InputFile& operator=(InputFile&&) = delete;
  ~InputFile();

  int64_t size() const { return size_; }
  const std::string& path() const { return path_; }

  // Fills `out` with the bytes from `offset`.
  absl::Status Read(int64_t offset, absl::Span<char> out) const;

 private:
  InputFile(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}

  int fd_;
  int64_t size_ = 0;
  std::string path_;
};

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_PLATFORM_INPUT_FILE_H_
