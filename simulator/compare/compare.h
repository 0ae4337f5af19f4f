// Summarizes a trace, and compares two traces of one program action by action: usually a predicted and a measured one.
#ifndef WEFT_SIMULATOR_COMPARE_COMPARE_H_
#define WEFT_SIMULATOR_COMPARE_COMPARE_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/program.pb.h"
#include "proto/report.pb.h"
#include "proto/trace.pb.h"

namespace weft::sim {

// Checks that the trace is consistent by itself: ranks ascend, stream numbers are in range, ready <= start <= end <=
// finish, the repetition of each event is in [0, Trace.repetitions). InvalidArgument names the rank and event.
absl::Status ValidateTrace(const Trace& trace);

// Checks that `trace` is a trace of `program`, which must be verified: every action and step exists in the template of
// its rank, and if the trace has a CRC, it is the program's.
absl::Status ValidateTogether(const Trace& trace, const Program& program);

// `trace` must be valid.
TraceReport SummarizeTrace(const Trace& trace);

// Compares two valid traces action by action. Without a program, actions are named by template and id. InvalidArgument
// if the traces are of different programs (their CRCs differ) or of different ranks, or if one has an action or a step
// that the other lacks.
absl::StatusOr<ComparisonReport> CompareTraces(const Trace& first, const Trace& second, const Program* program);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_COMPARE_COMPARE_H_
