#include "planner/fit/changes.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "compiler/inputs/plan_inputs.h"
#include "planner/fit/node_bytes.h"
#include "planner/least_state_bytes.h"
#include "proto/io/set_field.h"
#include "proto/util/mesh.h"

namespace weft::planner {
namespace {

// At most this many plans are compiled, so that the answer does not take too long.
constexpr int kMostCompiled = 2;

int64_t ParametersOf(const ModelGraph& model) {
  double elements = 0;
  for (const GraphParameter& parameter : model.parameters()) {
    elements += std::accumulate(parameter.shape().begin(), parameter.shape().end(), 1.0, std::multiplies<>());
  }
  return static_cast<int64_t>(std::min(elements, 0x1p60));
}

int LayersOf(const ModelGraph& model) {
  return model.ops_size() == 0 ? 1 : model.ops(model.ops_size() - 1).layer() + 1;
}

std::optional<std::pair<Recipe, Plan>> Changed(const FitOptions& options, const std::vector<std::string>& settings) {
  std::pair<Recipe, Plan> changed(options.recipe, options.plan);
  for (const std::string& setting : settings) {
    if (!ApplySetting(setting, &changed.first, &changed.second).ok()) return std::nullopt;
  }
  return changed;
}

std::string FlagsOf(const std::vector<std::string>& settings) {
  std::string flags;
  for (const std::string& setting : settings) absl::StrAppend(&flags, flags.empty() ? "" : " ", "--set ", setting);
  return flags;
}

// Tries plans in place of one that does not fit.
class Tries {
 public:
  Tries(const FitOptions& options, const Shortage& shortage, MemoryEstimator* estimator)
      : options_(options), shortage_(shortage), estimator_(*estimator), parameters_(ParametersOf(options.model)) {}

  int64_t parameters() const { return parameters_; }

  TriedBytes Try(const Recipe& recipe, const Plan& plan) {
    const std::string key = absl::StrCat(recipe.SerializeAsString(), "|", plan.SerializeAsString());
    if (const auto known = tried_.find(key); known != tried_.end()) return known->second;
    return tried_[key] = Find(recipe, plan, key);
  }

  // Returns whether the bytes of a plan that was tried are compiled or estimated.
  FitBasis BasisOf(const std::string& settings) const { return compiled_.contains(settings) ? COMPILED : ESTIMATED; }

 private:
  TriedBytes Find(const Recipe& recipe, const Plan& plan, const std::string& key) {
    if (StatesDoNotFit(recipe, plan)) return TryOutcome::kDoesNotFit;
    const absl::StatusOr<PlanMemory> estimate = estimator_.Estimate(recipe, plan, /*fullest_only=*/!shortage_.host);
    if (!estimate.ok() && !absl::IsUnimplemented(estimate.status())) return TryOutcome::kRefused;
    if (estimate.ok()) {
      const int64_t bytes = BytesOf(*estimate, plan);
      const bool surely = shortage_.host ? bytes <= shortage_.capacity : estimate->SurelyEnough() <= shortage_.capacity;
      if (surely || bytes > shortage_.capacity || FitsIfAllIsRecomputed(recipe, plan)) return bytes;
    }
    if (compilations_ >= kMostCompiled) return TryOutcome::kTooLong;
    ++compilations_;
    const absl::StatusOr<PlanMemory> compiled = estimator_.Compile(recipe, plan, /*quickly=*/true);
    if (!compiled.ok()) return TryOutcome::kRefused;
    compiled_.insert(key);
    return BytesOf(*compiled, plan);
  }

  // True for a plan with recompute FIT that surely fits if all layers are recomputed. FIT then fits too, and recomputes
  // fewer layers.
  bool FitsIfAllIsRecomputed(const Recipe& recipe, Plan plan) {
    if (plan.recompute().mode() != Recompute::FIT) return false;
    plan.mutable_recompute()->set_mode(Recompute::FULL);
    const absl::StatusOr<PlanMemory> all = estimator_.Estimate(recipe, plan, /*fullest_only=*/!shortage_.host);
    return all.ok() && !shortage_.host && all->SurelyEnough() <= shortage_.capacity;
  }

  int64_t BytesOf(const PlanMemory& memory, const Plan& plan) const {
    return shortage_.host ? FullestNodeBytes(memory, plan.mesh(), options_.cluster) : memory.MostDeviceBytes();
  }

  // Returns true if the plan's states alone are too large. The plan then needs no estimate.
  bool StatesDoNotFit(const Recipe& recipe, const Plan& plan) const {
    if (shortage_.host || options_.runtime != nullptr) return false;
    const absl::StatusOr<PlanInputs> inputs =
        ResolveInputs(estimator_.short_model(), recipe, plan, options_.cluster, nullptr);
    return inputs.ok() && LeastStateBytes(inputs->recipe, inputs->plan, parameters_) > shortage_.capacity;
  }

  const FitOptions& options_;
  const Shortage shortage_;
  MemoryEstimator& estimator_;
  const int64_t parameters_;
  int compilations_ = 0;
  std::map<std::string, TriedBytes> tried_;
  std::set<std::string> compiled_;
};

// Returns the settings of flags such as "--set a=1 --set b=2".
std::vector<std::string> SettingsOf(const std::string& flags) {
  std::vector<std::string> settings;
  for (size_t at = 0; at < flags.size();) {
    const size_t begin = at + std::string("--set ").size(), end = std::min(flags.find(" --set ", begin), flags.size());
    settings.push_back(flags.substr(begin, end - begin));
    at = end + 1;
  }
  return settings;
}

// Returns the setting for sequence parallelism, which also cuts norms, dropout and the residual stream over the tensor
// ranks. Returns nothing if the plan has it already or cannot have it.
std::vector<std::string> SequenceParallel(const Plan& plan) {
  const Mesh& mesh = plan.mesh();
  if (AxisSize(mesh, "x") < 2 || AxisSize(mesh, "y") > 1 || plan.sequence_parallel()) return {};
  return {"sequence_parallel=true"};
}

}  // namespace

std::vector<FitChange> RemediesOf(const FitOptions& options, const Shortage& shortage, MemoryEstimator* estimator) {
  Tries tries(options, shortage, estimator);
  const auto try_plan = [&](const Recipe& recipe, const Plan& plan) { return tries.Try(recipe, plan); };
  std::vector<FitChange> changes;
  const auto add = [&](const std::string& flags, int64_t bytes) {
    const auto changed = Changed(options, SettingsOf(flags));
    FitChange change;
    change.set_settings(flags);
    change.set_bytes(bytes);
    change.set_headroom_bytes(shortage.capacity - bytes);
    if (changed) {
      change.set_basis(
          tries.BasisOf(absl::StrCat(changed->first.SerializeAsString(), "|", changed->second.SerializeAsString())));
    }
    changes.push_back(std::move(change));
  };
  // These changes cost no time.
  std::vector<std::string> gentle = SequenceParallel(options.plan);
  if (!gentle.empty() && !shortage.host) {
    const auto changed = Changed(options, gentle);
    const TriedBytes bytes = changed ? try_plan(changed->first, changed->second) : TriedBytes(TryOutcome::kRefused);
    if (const int64_t* known = std::get_if<int64_t>(&bytes); known != nullptr && *known <= shortage.capacity) {
      add(FlagsOf(gentle), *known);
    } else if (known == nullptr) {
      gentle.clear();
    }
  } else {
    gentle.clear();
  }
  // If they are not enough, add them to every other change, which can then be smaller.
  const bool together = !gentle.empty() && changes.empty();
  const auto begin = Changed(options, together ? gentle : std::vector<std::string>());
  const int wanted = std::max(1, options.wanted - static_cast<int>(changes.size()));
  const Remedies found = FindRemedies(begin->first, begin->second, options.cluster, LayersOf(options.model),
                                      tries.parameters(), shortage, wanted, try_plan);
  for (const Remedy& remedy : found.found) {
    add(together ? absl::StrCat(FlagsOf(gentle), " ", remedy.change) : remedy.change, remedy.planned_bytes);
  }
  return changes;
}

std::vector<FitChange> RelaxationsOf(const FitOptions& options, MemoryEstimator* estimator) {
  const int64_t capacity = estimator->capacity();
  std::vector<FitChange> changes;
  // Adds the change if it fits. Returns true if it fits.
  const auto attempt = [&](const std::string& setting) {
    const auto changed = Changed(options, {setting});
    if (!changed) return false;
    const absl::StatusOr<PlanMemory> memory =
        estimator->Estimate(changed->first, changed->second, /*fullest_only=*/true);
    if (!memory.ok() || memory->SurelyEnough() > capacity) return false;
    FitChange change;
    change.set_settings(FlagsOf({setting}));
    change.set_bytes(memory->MostDeviceBytes());
    change.set_headroom_bytes(capacity - memory->MostDeviceBytes());
    change.set_basis(ESTIMATED);
    changes.push_back(std::move(change));
    return true;
  };
  const Plan& plan = options.plan;
  const Recompute::Mode mode = plan.recompute().mode();
  if (mode == Recompute::FULL || mode == Recompute::SELECTIVE) {
    const bool none = attempt("recompute.mode=NONE");
    if (!none && mode == Recompute::FULL) attempt("recompute.mode=SELECTIVE");
  }
  if (plan.offload().optimizer()) attempt("offload.optimizer=false");
  for (int stage = 0; stage < plan.zero().stage(); ++stage) {
    if (attempt(absl::StrCat("zero.stage=", stage))) break;
  }
  const int64_t size = std::max<int64_t>(1, options.recipe.microbatch_sequences());
  attempt(absl::StrCat("mbs=", 2 * size));
  return changes;
}

}  // namespace weft::planner
