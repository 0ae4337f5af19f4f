// Computes the fields of a SimulationReport from the engine's results. docs/simulator.md has the equation of each
// field.
#ifndef WEFT_SIMULATOR_METRICS_METRICS_H_
#define WEFT_SIMULATOR_METRICS_METRICS_H_

#include "absl/types/span.h"
#include "proto/cluster.pb.h"
#include "proto/report.pb.h"
#include "proto/trace.pb.h"
#include "simulator/engine/engine.h"
#include "simulator/network/placement.h"
#include "simulator/program/device_classes.h"
#include "simulator/program/program_view.h"

namespace weft::sim {

// Maximum number of repetitions that are simulated to find the steady period (rule P1).
inline constexpr int kSteadyRepetitions = 16;

// Returns the steady period from T(0), T(1), ... (rule P1). If the last two differences are equal, or there are fewer
// than kSteadyRepetitions, it is the last difference. Else it is the mean of the second half.
double SteadyPeriodSeconds(absl::Span<const Time> repetition_finish);

// `isolated` is a run of one repetition, `steady` is a run of kSteadyRepetitions that may have stopped early. In the
// long run no repetition is faster than `bounds`, so iteration_seconds is at least each of them. The caller fills in
// the fields that name the models, simulated_ranks, and whether the program fits (tightest_rank.h).
SimulationReport MakeReport(const ProgramView& view, const Cluster& cluster, const RankPlacement& placement,
                            const DeviceClasses& devices, const EngineResult& isolated, const EngineResult& steady,
                            const LowerBounds& bounds);

// Returns the trace of a run with EngineOptions::trace. For each rank, streams are in the order of their first use in
// the lists, events in order of (start, stream, list position).
Trace MakeTrace(const ProgramView& view, const EngineResult& result, int repetitions);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_METRICS_METRICS_H_
