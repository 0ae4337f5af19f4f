#include "planner/search/search.h"

#include <chrono>
#include <memory>

#include "absl/strings/str_cat.h"
#include "planner/search/device_kinds.h"
#include "planner/search/search_context.h"
#include "planner/search/searcher.h"
#include "proto/util/mesh.h"
#include "proto/util/status.h"
#include "proto/validate/validate.h"

namespace weft::planner {
namespace {

absl::Status CheckRecompute(const Recompute& recompute) {
  if (IsSearched(recompute.mode())) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("plan.recompute.mode = ", Recompute::Mode_Name(recompute.mode()),
                                                 " is not searched; allowed: NONE, FULL, SELECTIVE, FIT; leave it "
                                                 "out to let the search choose"));
}

}  // namespace

bool IsSearched(Recompute::Mode mode) {
  return mode == Recompute::NONE || mode == Recompute::FULL || mode == Recompute::SELECTIVE || mode == Recompute::FIT;
}

absl::StatusOr<SearchResult> Search(const ModelGraph& model, const Cluster& cluster, const SearchOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  WEFT_RETURN_IF_ERROR(Validate(cluster));
  const Cluster limited = WithMemoryLimit(cluster, options.memory_bytes);
  if (options.space.plan.schedule().scaling() != PlanSchedule::CONCATENATION) {
    return absl::InvalidArgumentError(
        absl::StrCat("plan.schedule.scaling = ", PlanSchedule::Scaling_Name(options.space.plan.schedule().scaling()),
                     " is not searched; allowed: CONCATENATION"));
  }
  const int64_t devices =
      options.space.devices > 0 ? options.space.devices : cluster.nodes() * cluster.devices_per_node();
  if (options.from) {
    if (const int64_t ranks = MeshRanks(options.from->plan.mesh()); ranks != devices) {
      return absl::InvalidArgumentError(absl::StrCat("--from: the plan is for ", ranks, " devices; the search is for ",
                                                     devices, "; set the number of replicas (dp) or --gpus=", ranks));
    }
  }
  SpaceOptions resolved = options.space;
  WEFT_RETURN_IF_ERROR(CheckRecompute(resolved.plan.recompute()));
  WEFT_RETURN_IF_ERROR(ResolveGiven(cluster.device(), &resolved.recipe, &resolved.plan));
  WEFT_ASSIGN_OR_RETURN(const Space space, Space::Make(resolved, cluster));
  WEFT_ASSIGN_OR_RETURN(const std::unique_ptr<DeviceKinds> kinds, DeviceKinds::Make(devices, limited));
  const SearchContext context = {.model = model,
                                 .cluster = limited,
                                 .cost = options.cost,
                                 .network = options.network,
                                 .runtime = options.runtime,
                                 .capacity = kinds->most_bytes(),
                                 .threads = options.threads,
                                 .cache = options.cache,
                                 .kinds = kinds->all_are_alike() ? nullptr : kinds.get()};
  SearchOptions timed = options;
  if (options.budget_seconds > 0) {
    timed.stop = [&stop = options.stop, begin, budget = std::chrono::duration<double>(options.budget_seconds)] {
      return (stop != nullptr && stop()) || std::chrono::steady_clock::now() - begin > budget;
    };
  }
  return Searcher(context, timed, resolved.recipe, space).Run();
}

}  // namespace weft::planner
