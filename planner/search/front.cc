#include "planner/search/front.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "planner/search/device_kinds.h"
#include "proto/util/mesh.h"
#include "proto/util/status.h"

namespace weft::planner {
namespace {

int64_t DevicesOf(const Cluster& cluster, const SearchOptions& options) {
  return options.space.devices > 0 ? options.space.devices : cluster.nodes() * cluster.devices_per_node();
}

// Divides the time of a front among its searches.
class SharedBudget {
 public:
  // 0 = no limit.
  explicit SharedBudget(double seconds) : seconds_(seconds) {}

  // The budget of the next search, if `searches` are left.
  double Next(size_t searches) const {
    if (!(seconds_ > 0)) return 0;
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin_;
    // 0 would be no limit.
    return std::max(1e-9, (seconds_ - spent.count()) / static_cast<double>(searches));
  }

 private:
  const double seconds_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

// Returns a result without plans that has the error as its refusal.
SearchResult Refused(const absl::Status& status) {
  SearchResult result;
  result.refusal = std::string(status.message());
  return result;
}

// Adds a point with the result of a search, and keeps `best` up to date.
void AddPoint(const ModelGraph& model, const Cluster& cluster, SearchResult result, const SearchOptions& options,
              const Objective& objective, Front* front) {
  const int64_t devices = DevicesOf(cluster, options);
  FrontPoint point{.devices = devices,
                   .memory_bytes = CapacitiesOfDevices(cluster, devices, options.memory_bytes).most,
                   .result = std::move(result)};
  if (!point.result.plans.empty()) {
    const absl::StatusOr<double> cost = objective.cost(model, cluster, options, point.result.plans.front());
    if (cost.ok()) {
      point.cost = *cost;
    } else {
      // The objective refuses the plan, for example because the job would be interrupted too often.
      point.result = Refused(cost.status());
    }
  }
  front->points.push_back(std::move(point));
  // Find the lowest cost. If no point has a plan, `best` is the number of points.
  front->best = front->points.size();
  for (size_t i = front->points.size(); i-- > 0;) {
    const FrontPoint& at = front->points[i];
    if (at.result.plans.empty()) continue;
    if (front->best == front->points.size() || at.cost <= front->points[front->best].cost) front->best = i;
  }
}

}  // namespace

std::vector<int64_t> DeviceCounts(int64_t fewest, int64_t most) {
  std::vector<int64_t> counts;
  for (int64_t count = fewest; count < most; count *= 2) counts.push_back(count);
  counts.push_back(most);
  return counts;
}

absl::StatusOr<Front> SearchDevices(const ModelGraph& model, const Cluster& cluster, const SearchOptions& options,
                                    const std::vector<int64_t>& counts, const Objective& objective) {
  if (objective.check != nullptr) WEFT_RETURN_IF_ERROR(objective.check(cluster));
  Front front;
  absl::Status first;
  bool any = false;
  const SharedBudget budget(options.budget_seconds);
  for (const int64_t count : counts) {
    SearchOptions at = options;
    at.space.devices = count;
    at.budget_seconds = budget.Next(counts.size() - front.points.size());
    // The user's plan is for one number of devices.
    if (at.from && counts.size() > 1 && MeshRanks(at.from->plan.mesh()) != count) at.from.reset();
    absl::StatusOr<SearchResult> result = Search(model, cluster, at);
    if (!result.ok()) {
      first.Update(result.status());
      result = Refused(result.status());
    } else {
      any = true;
    }
    AddPoint(model, cluster, *std::move(result), at, objective, &front);
  }
  if (!any) return first;
  return front;
}

absl::StatusOr<Front> SearchMemoryLimits(const ModelGraph& model, const Cluster& cluster, const SearchOptions& options,
                                         const Objective& objective) {
  if (objective.check != nullptr) WEFT_RETURN_IF_ERROR(objective.check(cluster));
  Front front;
  SearchOptions at = options;
  const SharedBudget budget(options.budget_seconds);
  while (front.points.size() < kMaxLimits) {
    at.budget_seconds = budget.Next(kMaxLimits - front.points.size());
    WEFT_ASSIGN_OR_RETURN(SearchResult result, Search(model, cluster, at));
    if (result.plans.empty() && !front.points.empty()) break;
    const bool ends = result.plans.empty() || (options.stop != nullptr && options.stop());
    const int64_t bytes = ends ? 0 : result.plans.front().device_bytes;
    AddPoint(model, cluster, std::move(result), at, objective, &front);
    if (ends) break;
    at.memory_bytes = static_cast<int64_t>(kMemoryStep * static_cast<double>(bytes));
    // The user's plan is compared once.
    at.from.reset();
  }
  return front;
}

}  // namespace weft::planner
