// The critical path of a run: the chain of steps that its end was waiting for, back to time 0. Each hop of the chain
// begins where the hop before it ends, because its step waited for one of these: the stream's earlier step, a
// dependency, the partner or member that was ready last, the rank that left the compute slot, or the end of the
// previous repetition (step barrier). So the hops add up to the makespan exactly.
//
// If several things happened at the instant that a step waited for, one of them is on the path: the earlier step of its
// own stream if that is among them, else the first by list order. Making a step faster that is not on the path does not
// help. Making a step on the path faster helps by at most the time of that step, and by less if another chain is nearly
// as long.
#ifndef WEFT_SIMULATOR_METRICS_CRITICAL_PATH_H_
#define WEFT_SIMULATOR_METRICS_CRITICAL_PATH_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/report.pb.h"
#include "proto/util/units.h"
#include "simulator/engine/engine.h"
#include "simulator/metrics/trace_index.h"
#include "simulator/program/program_view.h"

namespace weft::sim {

struct CriticalHop {
  // The step; for a transfer, its SEND.
  TracedStep step;
  // True if the hop is the latency of the step, from its end to its finish. Else the hop is from its start to its end.
  bool latency = false;
  Time from;
  Time to;
};

// Returns the path in order of time; empty if nothing was run. `result` must come from a run with EngineOptions::trace
// in which every rank was simulated. Internal, naming the step, if its events contradict the program.
absl::StatusOr<std::vector<CriticalHop>> FindCriticalPath(const ProgramView& view, const EngineResult& result,
                                                          const EngineOptions& options);

// Sets critical_kinds and critical_actions of `report`. A step counts under its action's kind, a collective among the
// steps of a segment under its kernel, a transfer under SEND.
void ReportCriticalPath(const ProgramView& view, const EngineResult& result, const std::vector<CriticalHop>& path,
                        SimulationReport* report);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_METRICS_CRITICAL_PATH_H_
