#include "simulator/simulate_runs.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/util/mesh.h"
#include "proto/util/status.h"
#include "simulator/noise.h"

namespace weft::sim {

absl::StatusOr<NoiseReport> SimulateRuns(const Program& program, const Cluster& cluster, const SimulateOptions& options,
                                         const std::function<void(int64_t)>& on_run) {
  if (options.runs < 1 || options.runs > kMaxRuns) {
    return absl::InvalidArgumentError(absl::StrCat("runs = ", options.runs, " must be from 1 to ", kMaxRuns,
                                                   "; nearest valid: ", options.runs < 1 ? 1 : kMaxRuns));
  }
  WEFT_RETURN_IF_ERROR(CheckNoise(cluster));
  // Trace, critical path and other output of a single run are not needed here.
  SimulateOptions own;
  own.cost = options.cost;
  own.network = options.network;
  own.cost_options = options.cost_options;
  own.exceeded = options.exceeded;
  own.runtime = options.runtime;
  own.fold = options.fold;
  std::vector<double> seconds;
  for (int64_t run = 0; run < options.runs; ++run) {
    if (on_run) on_run(run + 1);
    WEFT_ASSIGN_OR_RETURN(const Cluster drawn, DrawCluster(cluster, MeshRanks(program.mesh()), options.seed, run));
    own.jitter = DrawJitter(cluster.noise(), options.seed, run);
    WEFT_ASSIGN_OR_RETURN(const Simulation simulation, Simulate(program, drawn, own));
    seconds.push_back(simulation.report.iteration_seconds());
  }
  return SummarizeRuns(std::move(seconds), options.seed);
}

}  // namespace weft::sim
