// Trace files: for trace viewers and for weft itself.
#ifndef WEFT_CLI_RESULTS_TRACE_FILE_H_
#define WEFT_CLI_RESULTS_TRACE_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/program.pb.h"
#include "proto/trace.pb.h"

namespace weft {

// `chrome`, a JSON object in Chrome's trace event format, with the trace itself beside its events where viewers ignore
// it: one file that opens in a viewer and that ReadTrace gives back exactly. It has a checksum of the events too:
// ReadTrace refuses a file whose events are not those of its trace any more.
std::string WithTrace(absl::string_view chrome, const Trace& trace);

// PATH.json is for viewers and for weft, with the names of `program`; any other name gets the message in binary. Both
// hold Trace.crc.
absl::Status WriteTrace(const Trace& trace, const Program& program, const std::string& path);

// The trace in a file that WithTrace made or that holds the message as text, JSON or binary. Its CRC is right; only
// text and JSON of the message alone, which people and other programs write, may lack one. It is valid by itself
// (ValidateTrace); errors begin with the path.
absl::StatusOr<Trace> ReadTrace(const std::string& path);
absl::StatusOr<Trace> ParseTrace(absl::string_view bytes, const std::string& source);

// Whether it is JSON for trace viewers: its events have their name there.
bool IsForViewers(absl::string_view bytes);

}  // namespace weft

#endif  // WEFT_CLI_RESULTS_TRACE_FILE_H_
