// Costs a program on a cluster: iteration time, memory, idle time and, on request, the trace.
#ifndef WEFT_SIMULATOR_SIMULATE_H_
#define WEFT_SIMULATOR_SIMULATE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "proto/cluster.pb.h"
#include "proto/program.pb.h"
#include "proto/report.pb.h"
#include "proto/runtime.pb.h"
#include "proto/trace.pb.h"
#include "simulator/cost/cost_model.h"
#include "simulator/engine/jitter.h"

namespace weft::sim {

struct SimulateOptions {
  // Names from the registries; an unknown one is NotFound, listing those known.
  std::string cost = "roofline";
  std::string network = "analytic";
  CostOptions cost_options = {};
  // Keep the trace of `trace_repetitions` repetitions.
  bool trace = false;
  int trace_repetitions = 1;
  // Find the critical path of the isolated repetition: critical_kinds and critical_actions of the report. It keeps
  // every step, so ResourceExhausted as for a trace of one repetition.
  bool explain = false;
  // Of a post-validated program (rule P15): cost the run in which every verdict is that the norm was too large, instead
  // of the one in which none is.
  bool exceeded = false;
  // Predicts the run of a framework (docs/runtimes.md); null: that of weft's own executor. Valid, and complete: what
  // its `base` says is in it. Not with the cost "unit", which knows no kernels.
  const Runtime* runtime = nullptr;
  // Simulate one rank for all that behave like it, where there are such (fold.h). Changes nothing but the time it
  // takes, and the report's simulated_ranks.
  bool fold = true;
  // Of more than 0 runs, drawn from `seed`, the cluster's noise is told too (docs/simulator.md, "Noise").
  int64_t runs = 0;
  int64_t seed = 1;
  // Of one run of many: what its compute steps cost more or less. No two ranks are alike then.
  Jitter jitter = {};
};

struct Simulation {
  SimulationReport report;
  // The rank that the report's device_bytes and capacity_bytes are of.
  int64_t tightest_rank = 0;
  // What was costed, where that is not the program as it is: the one that the trace is of.
  std::optional<Program> as_run;
  std::optional<Trace> trace;
};

// `program` must have passed VerifyProgram. InvalidArgument if the cluster has fewer devices than the program ranks.
absl::StatusOr<Simulation> Simulate(const Program& program, const Cluster& cluster, const SimulateOptions& options);

// FailedPrecondition, naming what is missing, if a ratio of the report has no denominator, and so is 0 without being
// that: no step takes any time, or no device has a peak for the program's compute type. With the cost "unit", whose
// times are not the devices', there may be no MFU.
absl::Status CheckRatios(const Program& program, const SimulationReport& report);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_SIMULATE_H_
