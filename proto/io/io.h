// Reads and writes files, and the messages in them.
#ifndef WEFT_PROTO_IO_IO_H_
#define WEFT_PROTO_IO_IO_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"
#include "proto/util/status.h"

namespace weft {

inline constexpr int64_t kMaxFileBytes = int64_t{1} << 30;

// Returns the whole content of a file or pipe. Errors name the path: NotFound, PermissionDenied, InvalidArgument (a
// directory) or ResourceExhausted (longer than `max_bytes`).
absl::StatusOr<std::string> ReadFile(const std::string& path, int64_t max_bytes = kMaxFileBytes);

// Calls `write` with a temporary name in the folder of `path`. `write` must write and sync this file, which then
// replaces `path` by renaming. So `path` always holds the old or the new content. A failure removes the temporary file.
// If `path` is a symbolic link, its target is replaced. Pipes and devices (/dev/stdout) are written in place: `write`
// gets `path` itself.
absl::Status ReplaceFile(const std::string& path, const std::function<absl::Status(const std::string& name)>& write);

// Calls ReplaceFile to write `content`.
absl::Status WriteFileAtomic(const std::string& path, absl::string_view content);

// Returns OK if WriteFileAtomic(path) could begin, otherwise the reason why not. Creates no lasting file.
absl::Status CheckWritable(const std::string& path);

// Reads a contract message from text proto, JSON or binary. The content decides: JSON begins with '{' (or '['), text
// has no control characters, everything else is binary. All three refuse unknown fields and enum values, fields given
// twice and invalid UTF-8. Errors begin with `source` and the position.
absl::Status ParseMessage(absl::string_view bytes, absl::string_view source, google::protobuf::Message* message);

// Calls ReadFile and ParseMessage.
absl::Status ReadMessageInto(const std::string& path, google::protobuf::Message* message);

template <typename T>
absl::StatusOr<T> ReadMessage(const std::string& path) {
  T message;
  WEFT_RETURN_IF_ERROR(ReadMessageInto(path, &message));
  return message;
}

// Text proto as a person would write it; reading it back gives the same message.
std::string MessageToText(const google::protobuf::Message& message);

}  // namespace weft

#endif  // WEFT_PROTO_IO_IO_H_
