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
  // Names of models in the registries. An unknown name is a NotFound error, which lists the known names.
  std::string cost = "roofline";
  std::string network = "analytic";
  CostOptions cost_options = {};
  // Return the trace of `trace_repetitions` repetitions.
  bool trace = false;
  int trace_repetitions = 1;
  // Find the critical path of the isolated repetition: critical_kinds and critical_actions of the report. This keeps
  // every step, so Simulate returns ResourceExhausted if a trace of one repetition would be too large.
  bool explain = false;
  // For a post-validated program (rule P15): simulate the run in which every VALIDATE finds the norm too large, instead
  // of the run in which none does.
  bool exceeded = false;
  // The framework whose run is predicted (docs/runtimes.md); null = weft's own executor. It must be valid and complete:
  // it must include the fields of its `base`. Must be null with the cost "unit", which does not model kernels.
  const Runtime* runtime = nullptr;
  // Simulate one rank for all ranks that behave like it, if there are any (fold.h). This changes only the time that the
  // simulation takes, and the report's simulated_ranks.
  bool fold = true;
  // If not 0, also simulate this many runs with the cluster's noise, drawn from `seed` (docs/simulator.md, "Noise").
  int64_t runs = 0;
  int64_t seed = 1;
  // Jitter of the compute steps, for one of many runs. With jitter no two ranks are alike.
  Jitter jitter = {};
};

struct Simulation {
  SimulationReport report;
  // The rank to which device_bytes and capacity_bytes of the report belong.
  int64_t tightest_rank = 0;
  // The program that was costed and traced, if it is not the given one.
  std::optional<Program> as_run;
  std::optional<Trace> trace;
};

// `program` must have passed VerifyProgram. InvalidArgument if the cluster has fewer devices than the program has
// ranks.
absl::StatusOr<Simulation> Simulate(const Program& program, const Cluster& cluster, const SimulateOptions& options);

// Returns FailedPrecondition, naming what is missing, if a ratio of the report is 0 only because it has no denominator:
// no step takes any time, or no device has a peak for the program's compute type. With the cost "unit", whose times are
// not the devices' times, MFU may be missing.
absl::Status CheckRatios(const Program& program, const SimulationReport& report);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_SIMULATE_H_
