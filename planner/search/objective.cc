#include "planner/search/objective.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/util/mesh.h"
#include "proto/util/status.h"
#include "proto/util/suggest.h"
#include "simulator/goodput/goodput.h"

namespace weft::planner {
namespace {

constexpr double kHour = 3600;

absl::Status CheckStated(const Cluster& cluster, double figure, absl::string_view field) {
  if (figure > 0) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("cluster ", Quoted(cluster.name()), " does not state ", field,
                                                    "; set it in a cluster file (weft list clusters --show ",
                                                    cluster.name(),
                                                    " prints one to start from), or choose another --objective"));
}

double DeviceSeconds(const FoundPlan& plan) {
  return static_cast<double>(MeshRanks(plan.plan.mesh())) * plan.report.iteration_seconds();
}

// Seconds of an iteration divided by the share of the time that counts. The checkpoint's size needs the program.
absl::StatusOr<double> SecondsWithInterruptions(const ModelGraph& model, const Cluster& cluster,
                                                const SearchOptions& options, const FoundPlan& plan) {
  const SearchContext context = {
      .model = model, .cluster = cluster, .cost = options.cost, .network = options.network, .runtime = options.runtime};
  WEFT_ASSIGN_OR_RETURN(const Program program, ProgramOf(context, plan));
  WEFT_ASSIGN_OR_RETURN(const GoodputReport goodput, sim::PredictGoodput(program, cluster, plan.report, {}));
  return plan.report.iteration_seconds() / goodput.useful();
}

}  // namespace

const std::vector<Objective>& Objectives() {
  using M = const ModelGraph&;
  using C = const Cluster&;
  using O = const SearchOptions&;
  using P = const FoundPlan&;
  using Cost = absl::StatusOr<double>;
  static const auto* const objectives = new std::vector<Objective>{
      {"time", [](M, C, O, P plan) -> Cost { return plan.report.iteration_seconds(); }, nullptr},
      {"dollars",
       [](M, C cluster, O, P plan) -> Cost { return cluster.dollars_per_device_hour() / kHour * DeviceSeconds(plan); },
       [](C cluster) { return CheckStated(cluster, cluster.dollars_per_device_hour(), "dollars_per_device_hour"); }},
      {"energy", [](M, C cluster, O, P plan) -> Cost { return cluster.watts_per_device() * DeviceSeconds(plan); },
       [](C cluster) { return CheckStated(cluster, cluster.watts_per_device(), "watts_per_device"); }},
      {"goodput", SecondsWithInterruptions, sim::CheckReliability},
  };
  return *objectives;
}

absl::StatusOr<const Objective*> FindObjective(absl::string_view name) {
  std::vector<std::string> names;
  for (const Objective& objective : Objectives()) {
    if (objective.name == name) return &objective;
    names.push_back(objective.name);
  }
  return absl::NotFoundError(
      absl::StrCat("no objective is called ", Quoted(name), "; known: ", absl::StrJoin(names, ", ")));
}

}  // namespace weft::planner
