// What weft simulate and weft compare cost: a program that is read, or compiled on the way, on its cluster.
#ifndef WEFT_CLI_INPUTS_COSTED_PROGRAM_H_
#define WEFT_CLI_INPUTS_COSTED_PROGRAM_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/common/terminal.h"
#include "cli/inputs/inputs.h"
#include "proto/cluster.pb.h"
#include "proto/program.pb.h"
#include "proto/runtime.pb.h"
#include "simulator/simulate.h"

namespace weft {

// What is costed, and how.
struct CostRequest {
  // A program file; empty: one that is compiled from `input`.
  std::string program;
  InputFlags input;
  // Its `cost` is empty unless it was given: what is best is known once the cluster is.
  sim::SimulateOptions options;
  // Name or file.
  std::string runtime = "weft";
};

struct CostedProgram {
  Program program;
  Cluster cluster;
  // None of weft's own executor.
  std::optional<Runtime> runtime;
  // Of the runtime, weft's own too: from which compute capability on steps are joined to launches; 0 = nowhere.
  int joins_from = 0;
  std::vector<std::string> notes;
};

// Reads the program, or compiles it.
absl::StatusOr<CostedProgram> LoadOrCompile(const CostRequest& request, Progress* progress);

// Fills what of `options` is known with the program: its cost model, and its runtime, which is borrowed. UsageError if
// they ask for what the program has not.
absl::Status FinishOptions(const CostedProgram& loaded, sim::SimulateOptions* options);

// Simulates it, and then the runs that differ, if any are asked for.
absl::StatusOr<sim::Simulation> SimulateCosted(const CostedProgram& loaded, const sim::SimulateOptions& options,
                                               Progress* progress);

// Notes of the program and on what the prediction rests on, after a simulation with `options`.
std::vector<std::string> NotesOn(const CostedProgram& loaded, const sim::SimulateOptions& options);

}  // namespace weft

#endif  // WEFT_CLI_INPUTS_COSTED_PROGRAM_H_
