#include "planner/search/try_candidate.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <utility>

#include "compiler/inputs/plan_inputs.h"
#include "planner/compile.h"
#include "planner/evaluate.h"
#include "planner/live_bytes.h"
#include "proto/util/status.h"

namespace weft::planner {
namespace {

// The first counts[p] layers of each pipe rank p.
std::set<int32_t> FirstLayers(const std::vector<std::vector<int32_t>>& layers, const std::vector<int>& counts) {
  std::set<int32_t> chosen;
  for (size_t p = 0; p < layers.size(); ++p) chosen.insert(layers[p].begin(), layers[p].begin() + counts[p]);
  return chosen;
}

void RecomputeLayers(const std::set<int32_t>& chosen, Plan& plan) {
  plan.mutable_recompute()->Clear();
  if (chosen.empty()) return;
  plan.mutable_recompute()->set_mode(Recompute::LAYERS);
  for (const int32_t layer : chosen) plan.mutable_recompute()->add_layers(layer);
}

// Returns the layers of each pipe rank, ascending, without the layer of the loss, which is never recomputed.
std::vector<std::vector<int32_t>> LayersOfRanks(const ScheduleShape& shape, const std::vector<int32_t>& cut) {
  std::vector<std::vector<int32_t>> layers(shape.held.size());
  for (const std::vector<int>& lane : shape.placement) {
    int32_t layer = 0;
    for (size_t stage = 0; stage < cut.size(); ++stage) {
      for (const int32_t end = layer + cut[stage]; layer < end; ++layer) layers[lane[stage]].push_back(layer);
    }
  }
  const int32_t loss = std::accumulate(cut.begin(), cut.end(), -1);
  for (std::vector<int32_t>& of_rank : layers) {
    std::erase(of_rank, loss);
    std::sort(of_rank.begin(), of_rank.end());
  }
  return layers;
}

// Tries a plan that leaves only the compiler's own choices open. `quickly`: arenas may be higher, and there is no
// evaluation program.
TriedPlan Run(const SearchContext& context, FoundPlan plan, bool quickly) {
  TriedPlan tried{.found = std::move(plan)};
  FoundPlan& found = tried.found;
  const bool evaluation = context.runtime == nullptr && !quickly;
  const auto run = [&]() -> absl::Status {
    WEFT_ASSIGN_OR_RETURN(PlanInputs inputs,
                          ResolveInputs(context.model, found.recipe, found.plan, context.cluster, /*notes=*/nullptr));
    inputs.cost = context.cost;
    WEFT_RETURN_IF_ERROR(planner::Resolve(inputs, /*evaluation=*/true, context.runtime, nullptr).status());
    // A framework has no arenas.
    inputs.quick_arenas = quickly || context.runtime != nullptr;
    WEFT_ASSIGN_OR_RETURN(Evaluation made, Evaluate({.inputs = inputs,
                                                     .evaluation = evaluation,
                                                     .network = context.network,
                                                     .runtime = context.runtime,
                                                     .most_bytes = context.capacity}));
    const std::vector<int64_t> capacities = CapacitiesOf(context, found.plan.mesh());
    *found.plan.mutable_recompute() = inputs.plan.recompute();
    tried.rank_bytes = made.rank_bytes;
    found.device_bytes = *std::max_element(made.rank_bytes.begin(), made.rank_bytes.end());
    found.report = std::move(made.report);
    tried.fits = context.runtime != nullptr || made.fits;
    for (size_t p = 0; p < capacities.size(); ++p) tried.fits &= made.rank_bytes[p] <= capacities[p];
    if (!tried.fits && quickly && context.runtime == nullptr) {
      const auto& templates = made.program.templates();
      tried.may_fit = std::all_of(templates.begin(), templates.end(),
                                  [&](const Template& t) { return FullestMoment(t) <= capacities[PipeRankOf(t)]; });
    }
    return absl::OkStatus();
  };
  tried.status = run();
  return tried;
}

}  // namespace

absl::StatusOr<Program> ProgramOf(const SearchContext& context, const FoundPlan& plan) {
  WEFT_ASSIGN_OR_RETURN(PlanInputs inputs,
                        ResolveInputs(context.model, plan.recipe, plan.plan, context.cluster, /*notes=*/nullptr));
  inputs.cost = context.cost;
  inputs.quick_arenas = true;
  WEFT_RETURN_IF_ERROR(planner::Resolve(inputs, /*evaluation=*/false, context.runtime, nullptr).status());
  WEFT_ASSIGN_OR_RETURN(Evaluation made, Evaluate({.inputs = inputs, .simulate = false}));
  return std::move(made.program);
}

TriedPlan TryAsItIs(const SearchContext& context, FoundPlan plan) {
  return Run(context, std::move(plan), /*quickly=*/false);
}

TriedPlan TryCandidate(const SearchContext& context, FoundPlan plan, const ScheduleShape& shape,
                       const std::vector<int32_t>& layers_per_stage, const PlanBound& bound,
                       const std::function<bool(const std::set<int32_t>&)>& is_slower) {
  plan.least_seconds = bound.least_seconds;
  plan.least_bytes = bound.least_bytes;
  plan.estimated_seconds = bound.estimated_seconds;
  plan.plan.mutable_partition()->mutable_layers_per_stage()->Assign(layers_per_stage.begin(), layers_per_stage.end());
  const auto run = [&](const FoundPlan& exact) {
    TriedPlan tried = Run(context, exact, /*quickly=*/true);
    if (tried.status.ok() && !tried.fits && tried.may_fit) tried = TryAsItIs(context, exact);
    return tried;
  };
  if (plan.plan.recompute().mode() != Recompute::FIT) return run(plan);
  const std::vector<std::vector<int32_t>> layers = LayersOfRanks(shape, layers_per_stage);
  std::vector<int> counts(layers.size());
  for (size_t p = 0; p < counts.size(); ++p) {
    const double share = bound.recomputed_share[p] * static_cast<double>(layers[p].size());
    counts[p] = std::min(static_cast<int>(std::ceil(share)), static_cast<int>(layers[p].size()));
  }
  const std::vector<int64_t> capacities = CapacitiesOf(context, plan.plan.mesh());
  std::vector<int64_t> before;
  std::vector<int> counts_before;
  while (true) {
    const std::set<int32_t> chosen = FirstLayers(layers, counts);
    if (is_slower != nullptr && is_slower(chosen)) {
      TriedPlan tried{.found = std::move(plan)};
      tried.is_slower = true;
      return tried;
    }
    RecomputeLayers(chosen, plan.plan);
    TriedPlan tried = run(plan);
    if (!tried.status.ok() || tried.fits) return tried;
    // Ranks that do not fit recompute more layers: as many as the bytes that each layer saved last time ask for, at
    // first a quarter of the rest.
    const std::vector<int64_t>& bytes = tried.rank_bytes;
    std::vector<int> next = counts;
    bool grows = false;
    for (size_t p = 0; p < counts.size(); ++p) {
      const int64_t over = bytes[p] - capacities[p];
      if (over <= 0 || counts[p] == static_cast<int>(layers[p].size())) continue;
      int64_t more = (static_cast<int64_t>(layers[p].size()) - counts[p] + 3) / 4;
      const auto of_all = static_cast<int64_t>(layers[p].size()) * over;
      if (bound.recomputable_bytes[p] > 0) more = std::max<int64_t>(1, of_all / bound.recomputable_bytes[p]);
      if (!before.empty() && counts[p] > counts_before[p] && before[p] > bytes[p]) {
        const int64_t of_layer = (before[p] - bytes[p]) / (counts[p] - counts_before[p]);
        more = (over + of_layer - 1) / std::max<int64_t>(1, of_layer);
      }
      next[p] = static_cast<int>(std::min<int64_t>(static_cast<int64_t>(layers[p].size()), counts[p] + more));
      grows = true;
    }
    if (!grows) return tried;
    before = bytes;
    counts_before = std::exchange(counts, std::move(next));
  }
}

}  // namespace weft::planner
