// What weft predicts for a measured run: its model, recipe, plan and machine, compiled and simulated.
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

// Machines of the catalog by name.
using Machines = std::map<std::string, Cluster>;
absl::StatusOr<Machines> LoadMachines();

// Runtimes of the catalog by name, complete.
using Runtimes = std::map<std::string, Runtime>;
absl::StatusOr<Runtimes> LoadRuntimes();

// A run that is compiled, to be simulated with one set of figures or another.
struct CompiledRun {
  Program program;
  // A static schedule repeats itself while its pipeline is full. Of a run with many microbatches, `program` has as many
  // as fill it, `longer` some more, and each of the rest takes what one of those takes.
  std::optional<Program> longer;
  // (microbatches of the run - those of `program`) / (those of `longer` - those of `program`).
  double lengths = 0;
  // The run's cluster; its figures are those of `machine`.
  Cluster cluster;
  std::string machine;
  // As the run has it: with what it says of overlap.
  Runtime runtime;
  std::vector<std::string> assumptions;
};

// An error is one line that says why weft cannot express the run. Choices are made by the cost model `cost`. With
// `whole`, all microbatches are compiled.
absl::StatusOr<CompiledRun> CompileRun(const Measurement& run, const Machines& machines, const Runtimes& runtimes,
                                       const std::string& cost, bool whole = false);

// Microbatches of the two programs that stand for one of `microbatches` over the `ranks` of a pipeline, by a schedule
// of the registry; nothing where that would not be shorter, or the schedule does not repeat itself.
std::optional<std::pair<int64_t, int64_t>> ShorterRuns(int64_t microbatches, int64_t ranks, absl::string_view schedule);

// The cluster of a run on `machine`, with all its figures: another set of figures for a run that is compiled.
absl::StatusOr<Cluster> MachineOfRun(const Measurement& run, const Cluster& machine);

// `run` on `cluster`, by `runtime`; `cost` and `network` are names of models of the simulator.
absl::StatusOr<SimulationReport> SimulateRun(const CompiledRun& run, const Cluster& cluster, const Runtime& runtime,
                                             const std::string& cost, const std::string& network);

}  // namespace weft

#endif  // WEFT_TESTS_ACCURACY_PREDICT_H_
