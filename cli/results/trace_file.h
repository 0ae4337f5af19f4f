// Reads and writes trace files, which serve trace viewers and weft itself.
#ifndef WEFT_CLI_RESULTS_TRACE_FILE_H_
#define WEFT_CLI_RESULTS_TRACE_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/program.pb.h"
#include "proto/trace.pb.h"

namespace weft {

// Returns `chrome`, a JSON object in Chrome's trace event format, with the trace itself added beside its events, where
// viewers ignore it. A viewer opens the file, and ReadTrace returns the trace exactly. The file also has a checksum of
// the events: ReadTrace refuses a file whose events were changed.
std::string WithTrace(absl::string_view chrome, const Trace& trace);

// Writes a trace. For a path that ends in .json, writes a file for viewers and for weft, with the names of `program`.
// For any other path, writes the binary message. Both contain Trace.crc.
absl::Status WriteTrace(const Trace& trace, const Program& program, const std::string& path);

// Reads the trace from a file that WithTrace made, or from one that holds the message as text, JSON or binary. A wrong
// CRC is an error. Only text or JSON of the message alone, which people and other programs write, may lack the CRC. The
// trace is valid by itself (ValidateTrace). Errors begin with the path.
absl::StatusOr<Trace> ReadTrace(const std::string& path);
absl::StatusOr<Trace> ParseTrace(absl::string_view bytes, const std::string& source);

// True if `bytes` are JSON for trace viewers, which contains "traceEvents".
bool IsForViewers(absl::string_view bytes);

}  // namespace weft

#endif  // WEFT_CLI_RESULTS_TRACE_FILE_H_
