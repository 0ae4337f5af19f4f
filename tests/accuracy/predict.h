// weft's prediction for a measured run: compiles and simulates the run's model, recipe and plan for its machine.
#ifndef WEFT_TESTS_ACCURACY_PREDICT_H_
#define WEFT_TESTS_ACCURACY_PREDICT_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/cluster.pb.h"
#include "proto/program.pb.h"
#include "proto/report.pb.h"
#include "proto/runtime.pb.h"
#include "tests/accuracy/measurement.h"

namespace weft {

// Clusters of the catalog by name.
using Machines = std::map<std::string, Cluster>;
absl::StatusOr<Machines> LoadMachines();

// Runtimes of the catalog by name, with all fields resolved.
using Runtimes = std::map<std::string, Runtime>;
absl::StatusOr<Runtimes> LoadRuntimes();

// A compiled run. It can be simulated with different cluster figures.
struct CompiledRun {
  Program program;
  // A static schedule repeats itself while its pipeline is full. For a run with many microbatches, `program` has just
  // enough to fill the pipeline, and `longer` has a few more. The difference between the two times gives the time of
  // the remaining microbatches.
  std::optional<Program> longer;
  // (microbatches of the run - microbatches of `program`) / (microbatches of `longer` - microbatches of `program`).
  double lengths = 0;
  // The run's cluster, with the figures of the catalog's `machine`.
  Cluster cluster;
  std::string machine;
  // The run's runtime, with the switches that the run states.
  Runtime runtime;
  std::vector<std::string> assumptions;
};

// Compiles a run. If weft cannot express the run, the error gives the reason in one line. The cost model `cost` prices
// choices that depend on time. With `whole`, the program has all microbatches; otherwise two shorter programs may
// replace it (CompiledRun::longer).
absl::StatusOr<CompiledRun> CompileRun(const Measurement& run, const Machines& machines, const Runtimes& runtimes,
                                       const std::string& cost, bool whole = false);

// Returns the numbers of microbatches of the two shorter programs, CompiledRun's `program` and `longer`, for a run of
// `microbatches` on a pipeline of `ranks` ranks. `schedule` is a name in the schedule registry. Nullopt if the two
// programs would not be shorter, or if the schedule does not repeat itself.
std::optional<std::pair<int64_t, int64_t>> ShorterRuns(int64_t microbatches, int64_t ranks, absl::string_view schedule);

// Returns `machine`, a cluster with the figures to use, adapted to what the run states about its machine. Use it to
// simulate a compiled run with figures that differ from the catalog's.
absl::StatusOr<Cluster> MachineOfRun(const Measurement& run, const Cluster& machine);

// Simulates `run` on `cluster` under `runtime`. `cost` and `network` name models of the simulator.
absl::StatusOr<SimulationReport> SimulateRun(const CompiledRun& run, const Cluster& cluster, const Runtime& runtime,
                                             const std::string& cost, const std::string& network);

}  // namespace weft

#endif  // WEFT_TESTS_ACCURACY_PREDICT_H_
