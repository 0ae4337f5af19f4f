#include "proto/io/io.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "google/protobuf/text_format.h"
#include "proto/io/content.h"
#include "proto/io/json_reader.h"
#include "proto/io/text_reader.h"
#include "proto/io/wire_reader.h"
#include "proto/util/status.h"
#include "proto/util/utf8.h"

namespace weft {
namespace {

absl::Status SystemError(absl::string_view what, const std::string& path, int error) {
  const std::string text = absl::StrCat(path, ": cannot ", what, ": ", std::generic_category().message(error));
  switch (error) {
    case ENOENT:
      return absl::NotFoundError(text);
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::PermissionDeniedError(text);
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return absl::ResourceExhaustedError(text);
    default:
      return absl::UnavailableError(text);
  }
}

// Closes a file descriptor at the end of its scope.
class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }
  // Close reports errors of writes that the system has delayed.
  int Close() {
    const int fd = fd_;
    fd_ = -1;
    return close(fd);
  }

 private:
  int fd_;
};

int OpenRetrying(const std::string& path, int flags, mode_t mode = 0) {
  int fd;
  do {
    fd = open(path.c_str(), flags | O_CLOEXEC, mode);
  } while (fd < 0 && errno == EINTR);
  return fd;
}

absl::Status WriteAll(int fd, absl::string_view content, const std::string& path) {
  while (!content.empty()) {
    const ssize_t written = write(fd, content.data(), content.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      return SystemError("write", path, errno);
    }
    content.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

// Returns the name of a file beside `target` that no other file has. The counter makes it unique in this process, and
// the process id makes it unique among processes. Even if `target` has the maximum length, the name is not too long for
// a file system.
std::string TemporaryName(const std::string& target) {
  static std::atomic<int> counter{0};
  const std::string own = absl::StrCat(".tmp-", getpid(), "-", counter.fetch_add(1));
  const size_t begin = target.rfind('/') + 1;  // 0 if there is no slash.
  size_t end = std::min(target.size(), begin + NAME_MAX - own.size());
  // Cut only between whole characters: some file systems refuse a name with part of a character.
  while (end > begin && end < target.size() && (target[end] & 0xc0) == 0x80) --end;
  return absl::StrCat(target.substr(0, end), own);
}

absl::Status CreateAndWrite(const std::string& name, const std::string& path, absl::string_view content) {
  // A device already exists and is opened directly. A temporary file must be new.
  const bool is_new = name != path;
  FileDescriptor file(OpenRetrying(name, is_new ? O_WRONLY | O_CREAT | O_EXCL : O_WRONLY, 0666));
  if (file.get() < 0) return SystemError(is_new ? "create a file beside it" : "open", path, errno);
  WEFT_RETURN_IF_ERROR(WriteAll(file.get(), content, path));
  if (is_new && fsync(file.get()) != 0) return SystemError("sync", path, errno);
  if (file.Close() != 0) return SystemError("close", path, errno);
  return absl::OkStatus();
}

// Checks that a path that is not a regular file can be written to.
absl::Status CheckInPlace(const std::string& path) {
  struct stat info;
  if (access(path.c_str(), W_OK) != 0 || stat(path.c_str(), &info) != 0) return SystemError("write", path, errno);
  // Do not open a pipe: that would wait for a reader.
  if (!S_ISCHR(info.st_mode)) return absl::OkStatus();
  FileDescriptor device(OpenRetrying(path, O_WRONLY | O_NONBLOCK | O_NOCTTY));
  if (device.get() < 0) return SystemError("open", path, errno);
  // This writes nothing, but a device that is full (/dev/full) still reports it.
  return write(device.get(), "", 0) == 0 ? absl::OkStatus() : SystemError("write", path, errno);
}

enum class Format { kText, kJson, kBinary };

// Offset of the first byte that cannot be part of a text file; size() if there is none.
size_t FirstNonText(absl::string_view bytes) {
  const size_t utf8_end = FirstInvalidUtf8(bytes);
  for (size_t i = 0; i < utf8_end; ++i) {
    const unsigned char c = static_cast<unsigned char>(bytes[i]);
    if ((c < 0x20 && (c < '\t' || c > '\r')) || c == 0x7f) return i;
  }
  return utf8_end;
}

Format FormatOf(absl::string_view bytes) {
  const size_t start = bytes.find_first_not_of(" \t\r\n");
  const bool bracket = start != absl::string_view::npos && (bytes[start] == '{' || bytes[start] == '[');
  // A binary message may also begin with '\n{' (field 1 with 123 bytes), but then it contains control characters.
  if (bracket && (start == 0 || FirstNonText(bytes) == bytes.size())) return Format::kJson;
  return FirstNonText(bytes) == bytes.size() ? Format::kText : Format::kBinary;
}

}  // namespace

absl::StatusOr<std::string> ReadFile(const std::string& path, int64_t max_bytes) {
  if (path.empty()) return absl::InvalidArgumentError("a file name is empty");
  if (path.find('\0') != std::string::npos) return absl::InvalidArgumentError("a file name holds a NUL byte");
  FileDescriptor file(OpenRetrying(path, O_RDONLY));
  if (file.get() < 0) return SystemError("open", path, errno);
  struct stat info;
  if (fstat(file.get(), &info) != 0) return SystemError("read", path, errno);
  if (S_ISDIR(info.st_mode)) return absl::InvalidArgumentError(absl::StrCat(path, ": is a directory, not a file"));
  const auto too_long = [&](absl::string_view size) {
    return absl::ResourceExhaustedError(
        absl::StrCat(path, ": the file has ", size, " bytes; weft reads at most ", max_bytes, " bytes"));
  };
  if (S_ISREG(info.st_mode) && info.st_size > max_bytes) return too_long(absl::StrCat(info.st_size));
  std::string content;
  size_t size = 0;
  // Asks for one byte more than the file's size, so that the end of the file is found before the buffer must grow.
  size_t chunk = S_ISREG(info.st_mode) ? static_cast<size_t>(info.st_size) + 1 : size_t{1} << 16;
  while (true) {
    if (size == content.size()) {
      content.resize(size + chunk);
      chunk = std::max<size_t>(size, size_t{1} << 16);
    }
    const ssize_t got = read(file.get(), content.data() + size, content.size() - size);
    if (got < 0) {
      if (errno == EINTR) continue;
      return SystemError("read", path, errno);
    }
    if (got == 0) break;
    size += static_cast<size_t>(got);
    if (static_cast<int64_t>(size) > max_bytes) return too_long(absl::StrCat("more than ", max_bytes));
  }
  content.resize(size);
  return content;
}

absl::Status ReplaceFile(const std::string& path, const std::function<absl::Status(const std::string& name)>& write) {
  if (path.empty()) return absl::InvalidArgumentError("a file name is empty");
  if (path.find('\0') != std::string::npos) return absl::InvalidArgumentError("a file name holds a NUL byte");
  struct stat info;
  const bool exists = stat(path.c_str(), &info) == 0;
  // Refuse a path that is too long, even if the temporary name is short enough.
  if (!exists && errno == ENAMETOOLONG) return SystemError("write", path, errno);
  if (exists && S_ISDIR(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": is a directory, not a file"));
  }
  if (exists && !S_ISREG(info.st_mode)) return write(path);
  std::string target = path;
  if (exists && lstat(path.c_str(), &info) == 0 && S_ISLNK(info.st_mode)) {
    const std::unique_ptr<char, decltype(&std::free)> resolved(realpath(path.c_str(), nullptr), &std::free);
    if (resolved == nullptr) return SystemError("follow", path, errno);
    target = resolved.get();
  }
  const std::string temporary = TemporaryName(target);
  absl::Status status = write(temporary);
  if (status.ok() && rename(temporary.c_str(), target.c_str()) != 0) status = SystemError("replace", path, errno);
  if (!status.ok()) {
    unlink(temporary.c_str());
    return status;
  }
  // A rename changes the folder, so sync the folder. Some file systems cannot do this; the content is safe either way.
  const size_t slash = target.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : target.substr(0, slash + 1);
  FileDescriptor directory(OpenRetrying(folder, O_RDONLY | O_DIRECTORY));
  if (directory.get() >= 0) fsync(directory.get());
  return absl::OkStatus();
}

absl::Status WriteFileAtomic(const std::string& path, absl::string_view content) {
  return ReplaceFile(path, [&](const std::string& name) { return CreateAndWrite(name, path, content); });
}

absl::Status CheckWritable(const std::string& path) {
  bool tried = false;
  absl::Status found;
  const absl::Status status = ReplaceFile(path, [&](const std::string& name) {
    tried = true;
    if (name == path) {
      found = CheckInPlace(path);
    } else {
      FileDescriptor file(OpenRetrying(name, O_WRONLY | O_CREAT | O_EXCL, 0666));
      if (file.get() < 0) found = SystemError("create a file beside it", path, errno);
    }
    return absl::CancelledError("only a trial");
  });
  return tried ? found : status;
}

absl::Status ParseMessage(absl::string_view bytes, absl::string_view source, google::protobuf::Message* message) {
  message->Clear();
  const std::string& type = message->GetDescriptor()->name();
  if (bytes.empty()) return absl::InvalidArgumentError(absl::StrCat(source, ": the file is empty"));
  if (bytes.substr(0, 8) == "WEFTPROG") {
    return absl::InvalidArgumentError(absl::StrCat(source, ": is a compiled program; expected a ", type));
  }
  // Neither the text parser nor the formats accept a byte order mark, so remove it. No binary message begins with one.
  const absl::string_view content = bytes.substr(0, 3) == "\xef\xbb\xbf" ? bytes.substr(3) : bytes;
  const Format format = FormatOf(content);
  switch (format) {
    case Format::kJson:
    case Format::kText: {
      const absl::Status status =
          format == Format::kJson ? ReadJson(content, source, message) : ReadText(content, source, message);
      // A small binary message can look like text, because its first bytes do, or because all of it looks like a
      // comment.
      if (status.ok() && message->ByteSizeLong() > 0) return status;
      const std::unique_ptr<google::protobuf::Message> binary(message->New());
      if (ReadWire(bytes, source, binary.get()).ok()) {
        message->GetReflection()->Swap(message, binary.get());
        return absl::OkStatus();
      }
      if (!status.ok()) message->Clear();
      return status;
    }
    case Format::kBinary: {
      const absl::Status binary = ReadWire(bytes, source, message);
      if (binary.ok()) return binary;
      message->Clear();
      const size_t bad = FirstNonText(bytes);
      const absl::string_view before = bytes.substr(0, bad);
      const size_t line = 1 + static_cast<size_t>(std::count(before.begin(), before.end(), '\n'));
      return absl::InvalidArgumentError(absl::StrCat(binary.message(), " (read as a binary ", type, ", because byte ",
                                                     absl::StrFormat("0x%02x", static_cast<unsigned char>(bytes[bad])),
                                                     " at ", line, ":", bad - (before.rfind('\n') + 1) + 1,
                                                     " is not text)"));
    }
  }
  return absl::InternalError("unknown format");
}

absl::Status ReadMessageInto(const std::string& path, google::protobuf::Message* message) {
  WEFT_ASSIGN_OR_RETURN(const std::string content, ReadFile(path));
  return ParseMessage(content, path, message);
}

std::string MessageToText(const google::protobuf::Message& message) {
  google::protobuf::TextFormat::Printer printer;
  printer.SetUseShortRepeatedPrimitives(true);
  std::string text;
  printer.PrintToString(message, &text);
  return text;
}

}  // namespace weft
