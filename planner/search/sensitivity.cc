#include "planner/search/sensitivity.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <utility>

#include "proto/util/status.h"
#include "simulator/simulate.h"
#include "simulator/what_if.h"

namespace weft::planner {
namespace {

constexpr const char* kFigures[] = {"nic", "intra", "compute", "memory"};
// A bracket is narrowed until its ends differ by this factor.
constexpr double kNarrow = 1.05;

sim::WhatIfChanges Change(const std::string& figure, double factor) {
  return {{.name = figure, .factor = factor, .text = ""}};
}

class Resimulator {
 public:
  Resimulator(const SearchContext& context, std::vector<Program> programs)
      : context_(context), programs_(std::move(programs)) {
    options_.cost = context.cost;
    options_.network = context.network;
    options_.runtime = context.runtime;
  }

  // True if the cost and network models use the figure, and it changes the time of a plan.
  bool Uses(const std::string& figure) const {
    const sim::WhatIfChanges changes = Change(figure, 1 / kMaxFactor);
    if (!sim::CheckWhatIf(changes, options_).ok()) return false;
    const auto cluster = sim::ChangedCluster(context_.cluster, changes);
    return cluster.ok() && SecondsOn(*cluster) != SecondsOn(context_.cluster);
  }

  // Returns the index of the fastest plan with the figure multiplied by `factor`, the first of equals; nullopt if a
  // simulation fails.
  std::optional<size_t> Fastest(const std::string& figure, double factor) const {
    const auto cluster = sim::ChangedCluster(context_.cluster, Change(figure, factor));
    if (!cluster.ok()) return std::nullopt;
    const std::vector<double> seconds = SecondsOn(*cluster);
    if (std::find(seconds.begin(), seconds.end(), 0) != seconds.end()) return std::nullopt;
    return std::min_element(seconds.begin(), seconds.end()) - seconds.begin();
  }

 private:
  // Returns iteration times; 0 = the simulation fails.
  std::vector<double> SecondsOn(const Cluster& cluster) const {
    std::vector<double> seconds(programs_.size());
    ForAll(programs_.size(), context_.threads, [&](size_t i) {
      const auto simulation = sim::Simulate(programs_[i], cluster, options_);
      if (simulation.ok()) seconds[i] = simulation->report.iteration_seconds();
    });
    return seconds;
  }

  const SearchContext& context_;
  const std::vector<Program> programs_;
  sim::SimulateOptions options_;
};

// Returns the smallest change after which another plan is the fastest, and that plan; (0, 0) = no change up to
// kMaxFactor. Returns nullopt if a simulation fails.
std::optional<std::pair<double, size_t>> FirstChange(const Resimulator& simulator, const std::string& figure,
                                                     bool upwards) {
  const auto fastest = [&](double factor) { return simulator.Fastest(figure, upwards ? factor : 1 / factor); };
  double same = 1, other = kMaxFactor;
  std::optional<size_t> plan = fastest(other);
  if (!plan) return std::nullopt;
  if (*plan == 0) return std::pair<double, size_t>(0, 0);
  while (other / same > kNarrow) {
    const double middle = std::sqrt(same * other);
    const std::optional<size_t> found = fastest(middle);
    if (!found) return std::nullopt;
    if (*found == 0) {
      same = middle;
    } else {
      other = middle;
      plan = found;
    }
  }
  return std::pair<double, size_t>(upwards ? other : 1 / other, *plan);
}

}  // namespace

std::vector<Sensitivity> FindSensitivities(const SearchContext& context, absl::Span<const FoundPlan> plans,
                                           const std::function<bool()>& stop) {
  std::vector<Sensitivity> found;
  if (plans.size() < 2) return found;
  std::vector<absl::StatusOr<Program>> made(plans.size(), absl::UnknownError(""));
  if (!ForAll(plans.size(), context.threads, [&](size_t i) { made[i] = ProgramOf(context, plans[i]); }, stop)) {
    return found;
  }
  std::vector<Program> programs;
  for (absl::StatusOr<Program>& program : made) {
    if (!program.ok()) return found;
    programs.push_back(*std::move(program));
  }
  const Resimulator simulator(context, std::move(programs));
  for (const char* figure : kFigures) {
    if (!simulator.Uses(figure)) continue;
    const auto lower = FirstChange(simulator, figure, /*upwards=*/false);
    const auto upper = FirstChange(simulator, figure, /*upwards=*/true);
    if (stop != nullptr && stop()) return found;
    if (!lower || !upper) continue;
    found.push_back({figure, lower->first, lower->second, upper->first, upper->second});
  }
  return found;
}

}  // namespace weft::planner
