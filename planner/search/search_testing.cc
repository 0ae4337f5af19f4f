#include "planner/search/search_testing.h"

#include <optional>

#include "catalog/load.h"
#include "compiler/models/load_model.h"
#include "proto/validate/validate_runtime.h"
#include "tests/parse_text.h"

namespace weft::planner {

std::ostream& operator<<(std::ostream& out, const Problem& problem) {
  return out << problem.model << " " << problem.devices << " " << problem.schedule << " " << problem.network << " "
             << problem.runtime << " " << problem.memory << " " << problem.plan << " " << problem.others;
}

SearchOptions OptionsFor(const Problem& problem) {
  SearchOptions options;
  options.space.plan = Parse<Plan>(problem.plan);
  options.space.recipe.set_global_batch_sequences(problem.batch);
  options.space.recipe.set_sequence_length(problem.sequence);
  options.space.devices = problem.devices;
  options.space.schedules = {problem.schedule};
  options.space.excluded = problem.excluded;
  options.cost = "roofline";
  options.network = problem.network;
  options.gap = 0;
  options.threads = 2;
  options.wanted = 3;
  options.memory_bytes = problem.memory << 20;
  return options;
}

Cluster ClusterFor(const Problem& problem) {
  Cluster cluster = *LoadCluster("dgx-a100-80g");
  cluster.MergeFrom(Parse<Cluster>(problem.others));
  for (OtherDevices& other : *cluster.mutable_other_devices()) {
    if (other.device().name() != "H100") continue;
    const int64_t memory = other.device().memory_bytes();
    *other.mutable_device() = LoadCluster("dgx-h100")->device();
    if (memory > 0) other.mutable_device()->set_memory_bytes(memory + other.device().reserved_bytes());
  }
  return cluster;
}

absl::StatusOr<SearchResult> RunSearch(const Problem& problem, const HowToRun& how) {
  SearchOptions options = OptionsFor(problem);
  std::optional<Runtime> runtime;
  if (!problem.runtime.empty()) {
    runtime = *LoadRuntime(problem.runtime);
    options.runtime = &*runtime;
    options.space.under_runtime = true;
    options.space.plan = PlanUnder(*runtime, options.space.plan);
    options.space.plan.clear_recompute();
  }
  options.exhaustive = how.exhaustive;
  options.threads = how.threads;
  int64_t simulated = 0;
  options.on_progress = [&](const SearchProgress& progress) { simulated = progress.simulated; };
  options.stop = [&] { return how.stop_after > 0 && simulated >= how.stop_after; };
  return Search(*LoadModel(problem.model), ClusterFor(problem), options);
}

}  // namespace weft::planner
