// What weft predicts for a measured run: its model, recipe, plan and machine, compiled and simulated.
#ifndef WEFT_TESTS_ACCURACY_PREDICT_H_
#define WEFT_TESTS_ACCURACY_PREDICT_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/cluster.pb.h"
#include "proto/program.pb.h"
#include "proto/report.pb.h"
#include "tests/accuracy/measurement.h"

namespace weft {

// Machines of the catalog by name.
using Machines = std::map<std::string, Cluster>;
absl::StatusOr<Machines> LoadMachines();

// A run that is compiled, to be simulated with one set of figures or another.
struct CompiledRun {
  Program program;
  // The run's cluster; its figures are those of `machine`.
  Cluster cluster;
  std::string machine;
  std::vector<std::string> assumptions;
};

// An error is one line that says why weft cannot express the run.
absl::StatusOr<CompiledRun> CompileRun(const Measurement& run, const Machines& machines);

// The cluster of a run on `machine`, with all its figures: another set of figures for a run that is compiled.
absl::StatusOr<Cluster> MachineOfRun(const Measurement& run, const Cluster& machine);

// `cost` and `network` are names of models of the simulator.
absl::StatusOr<SimulationReport> SimulateRun(const Program& program, const Cluster& cluster, const std::string& cost,
                                             const std::string& network);

}  // namespace weft

#endif  // WEFT_TESTS_ACCURACY_PREDICT_H_
