#include "cli/trace_file.h"

#include <cstring>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "proto/io.h"
#include "proto/status.h"
#include "simulator/chrome_trace.h"
#include "simulator/compare/compare.h"

namespace weft {
namespace {

// Quotes within JSON strings are escaped, so this text cannot be part of one.
constexpr char kMarker[] = "\"weft_trace\":\"";

std::string Serialize(const Trace& trace) {
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  trace.SerializeToCodedStream(&coded);
  coded.Trim();
  return bytes;
}

}  // namespace

std::string WithTrace(absl::string_view chrome, const Trace& trace) {
  chrome = absl::StripTrailingAsciiWhitespace(chrome);
  absl::ConsumeSuffix(&chrome, "}");
  return absl::StrCat(chrome, ",\n", kMarker, absl::Base64Escape(Serialize(trace)), "\"}\n");
}

absl::Status WriteTrace(const Trace& trace, const Program& program, const std::string& path) {
  if (!absl::EndsWith(path, ".json")) return WriteFileAtomic(path, Serialize(trace));
  WEFT_ASSIGN_OR_RETURN(const std::string chrome, TraceToChromeJson(trace, program));
  return WriteFileAtomic(path, WithTrace(chrome, trace));
}

absl::StatusOr<Trace> ReadTrace(const std::string& path) {
  WEFT_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path));
  Trace trace;
  const size_t marker = bytes.rfind(kMarker);
  if (marker != std::string::npos) {
    const size_t begin = marker + std::strlen(kMarker);
    std::string message;
    if (!absl::Base64Unescape(absl::string_view(bytes).substr(begin, bytes.find('"', begin) - begin), &message)) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": weft_trace is damaged"));
    }
    WEFT_RETURN_IF_ERROR(ParseMessage(message, path, &trace));
  } else if (absl::StrContains(bytes, "\"traceEvents\"")) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": a trace for viewers that weft did not write: it has no weft_trace"));
  } else {
    WEFT_RETURN_IF_ERROR(ParseMessage(bytes, path, &trace));
  }
  if (absl::Status status = ValidateTrace(trace); !status.ok()) {
    return absl::Status(status.code(), absl::StrCat(path, ": ", status.message()));
  }
  return trace;
}

}  // namespace weft
