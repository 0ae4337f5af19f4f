// A trace as Chrome trace JSON, for ui.perfetto.dev and chrome://tracing. Simulated and measured traces look alike.
#ifndef WEFT_SIMULATOR_REPORT_CHROME_TRACE_H_
#define WEFT_SIMULATOR_REPORT_CHROME_TRACE_H_

#include <string>

#include "absl/status/statusor.h"
#include "proto/program.pb.h"
#include "proto/trace.pb.h"

namespace weft::sim {

// One process per rank, one thread per stream. A slice per action, with the slices of its steps inside where it has
// several; arrows from sends to their recvs; a counter per rank of live device memory by class. Times are microseconds
// with six decimals, exact to the picosecond. The same trace gives the same bytes.
//
// `program` must have passed VerifyProgram, `trace` must be of it: InvalidArgument, naming rank and event, if a rank,
// stream, action or step does not exist.
absl::StatusOr<std::string> TraceToChromeJson(const Trace& trace, const Program& program);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_REPORT_CHROME_TRACE_H_
