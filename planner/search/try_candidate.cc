#include "planner/search/try_candidate.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "compiler/inputs/plan_inputs.h"
#include "compiler/inputs/stage_cut.h"
#include "planner/choose_recompute.h"
#include "planner/compile.h"
#include "planner/evaluate.h"
#include "planner/live_bytes.h"
#include "proto/util/status.h"

namespace weft::planner {
namespace {

// How many of its layers a pipe rank recomputes: a search for the fewest with which it fits.
class LayerCount {
 public:
  // At least `fewest` of `all` layers, each of which frees about `bytes`.
  LayerCount(int fewest, int all, int64_t bytes)
      : next_(std::min(fewest, all)), low_(next_ - 1), all_(all), high_(all + 1), bytes_(bytes) {}

  // The fewest layers that are not known to be too few.
  int fewest() const { return std::min(low_ + 1, all_); }

  // The number to try next. The fewest layers with which the rank fits, or all of them, if is_found().
  int next() const { return next_; }
  bool is_found() const { return high_ - low_ <= 1 && next_ == std::min(high_, all_); }

  // The rank takes more than the capacity by `over` bytes if it recomputes next() layers.
  void Add(int64_t over) {
    const int tried = next_;
    (over <= 0 ? high_ : low_) = tried;
    if (high_ - low_ <= 1) {
      next_ = std::min(high_, all_);
      return;
    }
    // The bytes of a layer, or of the last two numbers, show how many layers are missing.
    int64_t guess = before_ >= 0 ? low_ + (high_ - low_) / 2
                    : bytes_ > 0 ? tried + (over + bytes_ - 1) / bytes_
                                 : tried + 1;
    if (before_ >= 0 && before_ != tried) {
      const double of_layer = static_cast<double>(over_before_ - over) / (tried - before_);
      if (of_layer > 0) guess = tried + static_cast<int64_t>(std::ceil(static_cast<double>(over) / of_layer));
    }
    before_ = tried;
    over_before_ = over;
    next_ = static_cast<int>(std::clamp<int64_t>(guess, low_ + 1, high_ - 1));
  }

 private:
  int next_;
  // Too few, or fewer than the bound allows.
  int low_;
  int all_;
  // Enough; all_ + 1 = no number is known to be enough.
  int high_;
  int64_t bytes_;
  // The number before, and its bytes above the capacity.
  int before_ = -1;
  int64_t over_before_ = 0;
};

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
  // A framework cuts the model into stages in its own way, so the plan need not state the cut.
  const Partition own = plan.plan.partition();
  if (context.runtime != nullptr) CutStagesAs(*context.runtime, context.model, plan.recipe, &plan.plan);
  TriedPlan tried = Run(context, std::move(plan), /*quickly=*/false);
  *tried.found.plan.mutable_partition() = own;
  return tried;
}

TriedPlan TryCandidate(const SearchContext& context, FoundPlan plan, const ScheduleShape& shape,
                       const std::vector<int32_t>& layers_per_stage, const PlanBound& bound,
                       const std::function<bool(const std::vector<double>&)>& is_slower) {
  plan.least_seconds = bound.least_seconds;
  plan.least_bytes = bound.least_bytes;
  plan.plan.mutable_partition()->mutable_layers_per_stage()->Assign(layers_per_stage.begin(), layers_per_stage.end());
  const auto run = [&](const FoundPlan& exact) {
    TriedPlan tried = Run(context, exact, /*quickly=*/true);
    if (tried.status.ok() && !tried.fits && tried.may_fit) tried = TryAsItIs(context, exact);
    return tried;
  };
  if (plan.plan.recompute().mode() != Recompute::FIT) return run(plan);
  const std::vector<std::vector<int32_t>> layers =
      RecomputableLayers(shape.placement, static_cast<int64_t>(shape.held.size()), layers_per_stage);
  std::vector<LayerCount> counts;
  for (size_t p = 0; p < layers.size(); ++p) {
    counts.emplace_back(static_cast<int>(std::ceil(bound.recomputed_layers[p])), static_cast<int>(layers[p].size()),
                        bound.bytes_of_layer[p]);
  }
  const std::vector<int64_t> capacities = CapacitiesOf(context, plan.plan.mesh());
  while (true) {
    std::vector<int> tries;
    std::vector<double> fewest;
    for (const LayerCount& count : counts) {
      tries.push_back(count.next());
      fewest.push_back(count.fewest());
    }
    if (is_slower != nullptr && is_slower(fewest)) {
      TriedPlan given_up{.found = std::move(plan)};
      given_up.is_slower = true;
      return given_up;
    }
    *plan.plan.mutable_recompute() = RecomputeFirst(layers, tries);
    TriedPlan tried = run(plan);
    if (!tried.status.ok()) return tried;
    bool found = true;
    for (size_t p = 0; p < counts.size(); ++p) {
      if (counts[p].is_found()) continue;
      counts[p].Add(tried.rank_bytes[p] - capacities[p]);
      found &= counts[p].is_found() && counts[p].next() == tries[p];
    }
    if (found) return tried;
  }
}

}  // namespace weft::planner
