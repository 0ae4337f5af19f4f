// Writes a trace as Chrome trace JSON, for ui.perfetto.dev and chrome://tracing. Simulated and measured traces look
// alike.
#ifndef WEFT_SIMULATOR_REPORT_CHROME_TRACE_H_
#define WEFT_SIMULATOR_REPORT_CHROME_TRACE_H_

#include <string>

#include "absl/status/statusor.h"
#include "proto/program.pb.h"
#include "proto/trace.pb.h"

namespace weft::sim {

// One process per rank, one thread per stream. Each action has a slice, with slices of its steps inside if it has
// several. Arrows lead from sends to their recvs, and each rank has a counter of live device memory by class. Times are
// microseconds with six decimals, exact to the picosecond. The same trace gives the same bytes.
//
// `program` must have passed VerifyProgram, and `trace` must be a trace of it. InvalidArgument, naming rank and event,
// if a rank, stream, action or step does not exist.
absl::StatusOr<std::string> TraceToChromeJson(const Trace& trace, const Program& program);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_REPORT_CHROME_TRACE_H_
