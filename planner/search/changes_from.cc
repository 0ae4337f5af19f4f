#include "planner/search/changes_from.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_join.h"

namespace weft::planner {
namespace {

// How much longer than the best plan a changed plan may take if the user's plan does not fit.
constexpr double kNearTheBest = 0.05;

class Changes {
 public:
  Changes(const SearchContext& context, const Space& space, const Recipe& recipe, const Plan& plan,
          const FoundPlan& best)
      : context_(context), space_(space), recipe_(recipe), plan_(plan), best_(best) {
    space.Apply(best.candidate, &best_recipe_, &best_plan_);
  }

  ChangesFrom Find(const TriedPlan& start, const std::function<bool()>& stop);

 private:
  // Bit i of a set stands for dimension i.
  using DimensionSet = uint32_t;

  void ApplyChanges(DimensionSet set, Recipe* recipe, Plan* plan) const;
  // Returns true if each dimension of the set matters for the plan with these changes.
  bool AllMatter(DimensionSet set) const;
  // Returns the dimensions in which the user's plan and the best plan differ.
  std::vector<size_t> Differing() const;
  ChangedPlan TryChanges(DimensionSet set) const;

  const SearchContext& context_;
  const Space& space_;
  const Recipe& recipe_;
  const Plan& plan_;
  const FoundPlan& best_;
  // The best plan before the stage cut and the recomputed layers were chosen.
  Recipe best_recipe_;
  Plan best_plan_;
};

void Changes::ApplyChanges(DimensionSet set, Recipe* recipe, Plan* plan) const {
  *recipe = recipe_;
  *plan = plan_;
  for (size_t d = 0; d < space_.dimensions().size(); ++d) {
    if ((set >> d & 1) != 0) space_.dimensions()[d].copy(best_recipe_, best_plan_, recipe, plan);
  }
}

bool Changes::AllMatter(DimensionSet set) const {
  Recipe recipe;
  Plan plan;
  ApplyChanges(set, &recipe, &plan);
  for (size_t d = 0; d < space_.dimensions().size(); ++d) {
    const Dimension& dimension = space_.dimensions()[d];
    if ((set >> d & 1) != 0 && dimension.matters != nullptr && !dimension.matters(recipe, plan)) return false;
  }
  return true;
}

std::vector<size_t> Changes::Differing() const {
  std::vector<size_t> differing;
  for (size_t d = 0; d < space_.dimensions().size(); ++d) {
    Recipe recipe;
    Plan plan;
    ApplyChanges(DimensionSet{1} << d, &recipe, &plan);
    if (recipe.SerializeAsString() != recipe_.SerializeAsString() ||
        plan.SerializeAsString() != plan_.SerializeAsString()) {
      differing.push_back(d);
    }
  }
  return differing;
}

ChangedPlan Changes::TryChanges(DimensionSet set) const {
  ChangedPlan changed;
  std::vector<std::string> settings;
  for (size_t d = 0; d < space_.dimensions().size(); ++d) {
    if ((set >> d & 1) == 0) continue;
    changed.dimensions.push_back(space_.dimensions()[d].name);
    const std::string& of_best = space_.dimensions()[d].choices[best_.candidate[d]].settings;
    settings.push_back(of_best.empty() ? "no " + space_.dimensions()[d].name : of_best);
  }
  changed.settings = absl::StrJoin(settings, " ");
  FoundPlan plan;
  ApplyChanges(set, &plan.recipe, &plan.plan);
  const TriedPlan tried = TryAsItIs(context_, std::move(plan));
  if (!tried.status.ok()) return changed;
  changed.device_bytes = tried.found.device_bytes;
  if (tried.fits) changed.iteration_seconds = tried.found.report.iteration_seconds();
  return changed;
}

ChangesFrom Changes::Find(const TriedPlan& start, const std::function<bool()>& stop) {
  ChangesFrom changes;
  changes.start.device_bytes = start.found.device_bytes;
  if (start.fits) changes.start.iteration_seconds = start.found.report.iteration_seconds();
  const double best = best_.report.iteration_seconds();
  const double gain = changes.start.iteration_seconds - best;
  const double wanted = start.fits ? best + (1 - kMostOfTheGain) * gain : best * (1 + kNearTheBest);
  if (start.fits && gain <= 0) return changes;
  const std::vector<size_t> differing = Differing();
  // Try all sets of 1 dimension, then of 2, and so on.
  for (size_t size = 1; size <= differing.size() && changes.change.dimensions.empty(); ++size) {
    std::vector<DimensionSet> sets;
    for (DimensionSet chosen = 1; chosen < DimensionSet{1} << differing.size(); ++chosen) {
      if (static_cast<size_t>(__builtin_popcount(chosen)) != size) continue;
      DimensionSet set = 0;
      for (size_t i = 0; i < differing.size(); ++i) set |= (chosen >> i & 1) << differing[i];
      if (AllMatter(set)) sets.push_back(set);
    }
    std::vector<ChangedPlan> made(sets.size());
    if (!ForAll(sets.size(), context_.threads, [&](size_t i) { made[i] = TryChanges(sets[i]); }, stop)) return changes;
    for (ChangedPlan& plan : made) {
      if (size == 1 && plan.device_bytes > 0) changes.single.push_back(plan);
      if (plan.iteration_seconds == 0 || plan.iteration_seconds > wanted) continue;
      const double fastest = changes.change.iteration_seconds;
      if (fastest == 0 || plan.iteration_seconds < fastest) changes.change = plan;
    }
  }
  return changes;
}

}  // namespace

ChangesFrom FindChangesFrom(const SearchContext& context, const Space& space, const Recipe& recipe, const Plan& plan,
                            const TriedPlan& start, const FoundPlan& best, const std::function<bool()>& stop) {
  return Changes(context, space, recipe, plan, best).Find(start, stop);
}

}  // namespace weft::planner
