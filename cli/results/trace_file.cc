#include "cli/results/trace_file.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "proto/io/crc32c.h"
#include "proto/io/io.h"
#include "proto/util/status.h"
#include "simulator/compare/compare.h"
#include "simulator/report/chrome_trace.h"

namespace weft {
namespace {

// This text cannot occur inside a JSON string, because quotes within strings are escaped.
constexpr char kMarker[] = "\"weft_trace\":\"";
// This field is before kMarker in the file. Its value is the CRC of all bytes before the field, as eight hexadecimal
// digits.
constexpr char kEventsCrc[] = "\"weft_events_crc\":\"";

std::string Bytes(const Trace& trace) {
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  trace.SerializeToCodedStream(&coded);
  coded.Trim();
  return bytes;
}

uint32_t CrcOf(Trace trace) {
  trace.clear_crc();
  // 0 means "no checksum".
  return std::max(uint32_t{1}, Crc32c(Bytes(trace)));
}

std::string Serialize(Trace trace) {
  trace.set_crc(CrcOf(trace));
  return Bytes(trace);
}

// Checks the trace's checksum. `may_lack` is true for text files: people may write them by hand, without a checksum.
// Files that weft writes have a checksum.
absl::Status CheckCrc(const Trace& trace, bool may_lack, absl::string_view source) {
  if (trace.crc() == 0) {
    if (may_lack) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(source,
                     ": the trace has no checksum: the file is damaged, or an early version of weft wrote it; write it "
                     "again with weft run --trace or weft simulate --trace"));
  }
  const uint32_t found = CrcOf(trace);
  if (found == trace.crc()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(source, ": the file is damaged: trace.crc is ", absl::Hex(trace.crc(), absl::kZeroPad8),
                   ", but the content of the file has the checksum ", absl::Hex(found, absl::kZeroPad8)));
}

std::string EventsCrc(absl::string_view events) {
  return absl::StrCat(kEventsCrc, absl::Hex(Crc32c(events), absl::kZeroPad8), "\",\n");
}

// Checks that the events that viewers show belong to the trace that weft reads. `front` and `behind` are the parts of
// the file before and after its weft_trace field. Early versions of weft wrote no checksum of the events.
absl::Status CheckEvents(absl::string_view front, absl::string_view behind, absl::string_view source) {
  const size_t crc = front.rfind(kEventsCrc);
  const bool unchanged = crc == absl::string_view::npos || front.substr(crc) == EventsCrc(front.substr(0, crc));
  if (unchanged && absl::StripAsciiWhitespace(behind) == "}") return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(source,
                   ": the events for viewers were changed after weft wrote the file; weft reads only weft_trace, which "
                   "still holds the original events; use the file as weft wrote it"));
}

}  // namespace

std::string WithTrace(absl::string_view chrome, const Trace& trace) {
  chrome = absl::StripTrailingAsciiWhitespace(chrome);
  absl::ConsumeSuffix(&chrome, "}");
  const std::string events = absl::StrCat(chrome, ",\n");
  return absl::StrCat(events, EventsCrc(events), kMarker, absl::Base64Escape(Serialize(trace)), "\"}\n");
}

absl::Status WriteTrace(const Trace& trace, const Program& program, const std::string& path) {
  if (!absl::EndsWith(path, ".json")) return WriteFileAtomic(path, Serialize(trace));
  WEFT_ASSIGN_OR_RETURN(const std::string chrome, sim::TraceToChromeJson(trace, program));
  return WriteFileAtomic(path, WithTrace(chrome, trace));
}

bool IsForViewers(absl::string_view bytes) { return absl::StrContains(bytes, "\"traceEvents\""); }

absl::StatusOr<Trace> ReadTrace(const std::string& path) {
  WEFT_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path));
  return ParseTrace(bytes, path);
}

absl::StatusOr<Trace> ParseTrace(absl::string_view bytes, const std::string& source) {
  Trace trace;
  bool text = false;
  const size_t marker = bytes.rfind(kMarker);
  if (marker != std::string::npos) {
    const size_t begin = marker + std::strlen(kMarker);
    std::string message;
    const size_t end = bytes.find('"', begin);
    if (end == absl::string_view::npos || !absl::Base64Unescape(bytes.substr(begin, end - begin), &message)) {
      return absl::InvalidArgumentError(absl::StrCat(source, ": weft_trace is damaged"));
    }
    WEFT_RETURN_IF_ERROR(CheckEvents(bytes.substr(0, marker), bytes.substr(end + 1), source));
    WEFT_RETURN_IF_ERROR(ParseMessage(message, source, &trace));
  } else if (IsForViewers(bytes)) {
    // weft_trace comes last in the file, so a file that is cut off lacks it.
    const bool whole = absl::EndsWith(absl::StripTrailingAsciiWhitespace(bytes), "}");
    return absl::InvalidArgumentError(
        absl::StrCat(source, whole ? ": weft did not write this trace for viewers: it has no weft_trace"
                                   : ": this trace for viewers is cut off: it does not end with a '}'"));
  } else {
    WEFT_RETURN_IF_ERROR(ParseMessage(bytes, source, &trace));
    // A file without control bytes is text: a binary message contains such bytes, at least in its times.
    text = std::all_of(bytes.begin(), bytes.end(), [](char c) {
      const unsigned char byte = static_cast<unsigned char>(c);
      return byte >= 0x20 || byte == '\n' || byte == '\t' || byte == '\r';
    });
  }
  WEFT_RETURN_IF_ERROR(CheckCrc(trace, text, source));
  if (absl::Status status = sim::ValidateTrace(trace); !status.ok()) {
    return absl::Status(status.code(), absl::StrCat(source, ": ", status.message()));
  }
  return trace;
}

}  // namespace weft
