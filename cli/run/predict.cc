#include "cli/run/predict.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "catalog/catalog.h"
#include "catalog/load.h"
#include "executor/interface/channels.h"
#include "proto/io/cluster_digest.h"
#include "proto/util/mesh.h"
#include "proto/util/status.h"
#include "simulator/cost/cost_model.h"
#include "simulator/simulate.h"

namespace weft {
namespace {

// Two repetitions: in the first the pipeline fills; in the second, ranks wait for ranks that are late.
constexpr int kRepetitions = 2;

// Returns an upper bound of the number of steps of the trace. Stops counting beyond kMaxStepsUnasked.
int64_t Steps(const Program& program) {
  std::vector<int64_t> of_template;
  for (const Template& t : program.templates()) {
    int64_t& steps = of_template.emplace_back(0);
    for (const auto* list : {&t.prologue(), &t.body(), &t.epilogue()}) {
      for (const Action& action : *list) {
        steps += exec::IsCompute(action) ? program.segments(action.segment()).steps_size() : 1;
      }
    }
  }
  int64_t steps = 0;
  const int64_t ranks = MeshRanks(program.mesh());
  for (int64_t rank = 0; rank < ranks && steps <= kMaxStepsUnasked; ++rank) {
    const int t = TemplateOfRank(program, rank);
    if (t >= 0) steps += kRepetitions * of_template[t];
  }
  return steps;
}

absl::StatusOr<Prediction> PredictOn(const Program& program, const Cluster& cluster) {
  sim::SimulateOptions options;
  options.cost = sim::BestCostModel(cluster);
  options.trace = true;
  options.trace_repetitions = kRepetitions;
  WEFT_ASSIGN_OR_RETURN(sim::Simulation simulation, sim::Simulate(program, cluster, options));
  return Prediction{.trace = std::move(simulation.trace), .cluster = cluster.name()};
}

}  // namespace

absl::StatusOr<Prediction> PredictRun(const Program& program, const std::string& cluster) {
  if (cluster == "none") return Prediction{};
  if (cluster.empty()) {
    // Use only clusters of the catalog: a file that happens to have this name has nothing to do with the program.
    if (!FindInCatalog("clusters", program.cluster_name()).ok()) return Prediction{};
    const absl::StatusOr<Cluster> known = LoadCluster(program.cluster_name());
    if (!known.ok() || ClusterDigest(*known) != program.cluster_digest()) return Prediction{};
    if (Steps(program) > kMaxStepsUnasked) return Prediction{};
    absl::StatusOr<Prediction> prediction = PredictOn(program, *known);
    return prediction.ok() ? *std::move(prediction) : Prediction{};
  }
  WEFT_ASSIGN_OR_RETURN(const Cluster known, LoadCluster(cluster));
  absl::StatusOr<Prediction> prediction = PredictOn(program, known);
  if (prediction.ok()) return prediction;
  return absl::Status(prediction.status().code(),
                      absl::StrCat("--cluster=", cluster, ": cannot predict the run: ", prediction.status().message()));
}

}  // namespace weft
