// The report on a rank when a run fails: the reason, and what the rank did last.
#ifndef WEFT_EXECUTOR_FAULTS_FAULT_REPORT_H_
#define WEFT_EXECUTOR_FAULTS_FAULT_REPORT_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "executor/interpreter/flight_recorder.h"
#include "proto/program.pb.h"

namespace weft::exec {

// Returns the action at an index of PreparedProgram.actions: prologue, body, epilogue. Null if the rank has none there.
const Action* ActionAt(const Program& program, int rank, int64_t index);
// Number of all actions of the rank.
int64_t ActionCount(const Program& program, int rank);

// Returns, for example, "step 3, action 7 'F s1 m3'".
std::string DescribeEntry(const Program& program, int rank, const FlightRecorder::Entry& entry);

// The report as JSON (docs/faults.md). `first`: the rank was the first to fail.
std::string FaultReportJson(const Program& program, int rank, const absl::Status& reason, bool first,
                            const FlightRecorder& flight);

// The report file of a rank: "run/weft-fault.json" and rank 3 give "run/weft-fault-3.json". Rank -1 gives the pattern
// for all ranks, with a '*'.
std::string FaultFileOfRank(const std::string& path, int rank);

// The default report file: in the checkpoint directory, else beside the trace, else in the working directory.
std::string DefaultFaultFile(const std::string& checkpoint_directory, const std::string& trace_file);

// Writes FaultReportJson to the rank's file, as a whole or not at all.
absl::Status WriteFaultReport(const std::string& path, const Program& program, int rank, const absl::Status& reason,
                              bool first, const FlightRecorder& flight);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_FAULTS_FAULT_REPORT_H_
