// Loads the program that weft simulate or weft compare costs, and its cluster. Reads the program from a file or
// compiles it from its inputs.
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
#include "simulator/goodput/goodput.h"
#include "simulator/simulate.h"

namespace weft {

// The program to cost, and how to cost it.
struct CostRequest {
  // A program file. If empty, the program is compiled from `input`.
  std::string program;
  InputFlags input;
  // `options.cost` is empty unless the user gave it: the best cost model is known only once the cluster is known.
  sim::SimulateOptions options;
  // A catalog name or a file.
  std::string runtime = "weft";
  // Set if the goodput is asked for.
  std::optional<sim::GoodputOptions> goodput;
};

struct CostedProgram {
  Program program;
  Cluster cluster;
  // Unset for weft's own executor.
  std::optional<Runtime> runtime;
  // The compute capability from which on the runtime (weft's own included) joins steps into launches; 0 = it never
  // does.
  int joins_from = 0;
  std::vector<std::string> notes;
};

// Reads the program, or compiles it.
absl::StatusOr<CostedProgram> LoadOrCompile(const CostRequest& request, Progress* progress);

// Fills the fields of `options` that depend on the program: its cost model, and its runtime, which is borrowed. Returns
// a UsageError if the options need something that the program does not have.
absl::Status FinishOptions(const CostedProgram& loaded, sim::SimulateOptions* options);

// Simulates the program once, and then the noisy runs, if any are asked for.
absl::StatusOr<sim::Simulation> SimulateCosted(const CostedProgram& loaded, const sim::SimulateOptions& options,
                                               Progress* progress);

// Returns the notes of the program, and notes on the assumptions of the prediction, after a simulation with `options`.
std::vector<std::string> NotesOn(const CostedProgram& loaded, const sim::SimulateOptions& options);

}  // namespace weft

#endif  // WEFT_CLI_INPUTS_COSTED_PROGRAM_H_
