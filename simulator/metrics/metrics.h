// The figures of a SimulationReport, from what the engine measured. docs/simulator.md has the equation of each.
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

// Repetitions within which a run must become steady (rule P1).
inline constexpr int kSteadyRepetitions = 16;

// The steady period from T(0), T(1), ... (rule P1): the difference at the end of the list if the last two differences
// are equal; else, of kSteadyRepetitions, the mean of the second half; else, of fewer, the last difference.
double SteadyPeriodSeconds(absl::Span<const Time> repetition_finish);

// `isolated` is a run of one repetition, `steady` one of kSteadyRepetitions that may have stopped early; no repetition
// is faster than `bounds` in the long run, so neither is iteration_seconds. Fields that name the models used,
// simulated_ranks, and whether it fits (least_room.h) are left to the caller.
SimulationReport MakeReport(const ProgramView& view, const Cluster& cluster, const RankPlacement& placement,
                            const DeviceClasses& devices, const EngineResult& isolated, const EngineResult& steady,
                            const LowerBounds& bounds);

// The trace of a run with EngineOptions::trace. Per rank, streams are in the order of their first use in the lists,
// events in order of (start, stream, list position).
Trace MakeTrace(const ProgramView& view, const EngineResult& result, int repetitions);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_METRICS_METRICS_H_
