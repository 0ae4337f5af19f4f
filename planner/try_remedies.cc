#include "planner/try_remedies.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "compiler/memory_fit.h"
#include "planner/choices.h"
#include "planner/compile.h"
#include "planner/least_state_bytes.h"
#include "planner/try_budget.h"
#include "proto/util/mesh.h"

namespace weft::planner {
namespace {

int LayersOf(const ModelGraph& model) {
  return model.ops_size() == 0 ? 1 : model.ops(model.ops_size() - 1).layer() + 1;
}

int64_t ParametersOf(const ModelGraph& model) {
  double elements = 0;
  for (const GraphParameter& parameter : model.parameters()) {
    elements += std::accumulate(parameter.shape().begin(), parameter.shape().end(), 1.0, std::multiplies<>());
  }
  return static_cast<int64_t>(std::min(elements, 0x1p60));
}

Shortage ShortageOf(const Program& refused, const Cluster& cluster) {
  const Device& device = cluster.device();
  const bool host = DeviceMemoryFits(refused, cluster);
  return {host, host ? cluster.host_memory_bytes() : device.memory_bytes() - device.reserved_bytes()};
}

// True if the two recipes are equal and the two plans differ only in recompute.
bool SameButRecompute(const Recipe& recipe, Plan plan, const Recipe& other_recipe, Plan other_plan) {
  plan.clear_recompute();
  other_plan.clear_recompute();
  return recipe.SerializeAsString() == other_recipe.SerializeAsString() &&
         plan.SerializeAsString() == other_plan.SerializeAsString();
}

// True if the split of layers over pipe ranks does not depend on the cost of the layers.
bool PartitionIsFixed(const Plan& plan, const PlanInputs& inputs) {
  if (AxisSize(plan.mesh(), "pipe") == 1 || plan.partition().layers_per_stage_size() > 0) return true;
  // True if each stage has one layer: there is only one partition then.
  const auto& placement = inputs.schedule.placement;
  return !placement.empty() && static_cast<int>(placement[0].size()) >= LayersOf(inputs.model);
}

// True if the interval that INTERVAL without a number chooses is certain to need no more memory than interval 1. This
// holds if the choice compares the arenas of the final program.
bool FirstIntervalNeedsMost(const Plan& plan, const Cluster& cluster) {
  return plan.recompute().mode() == Recompute::INTERVAL && plan.recompute().interval() == 0 &&
         plan.transfer_placement() != FASTEST && !plan.schedule().freeze() && plan.offload().activation_layers() == 0 &&
         cluster.other_devices_size() == 0;
}

// Tries changed plans in place of one plan that was refused.
class Tries {
 public:
  Tries(const Program& refused, const Recipe& recipe, const Plan& plan, const PlanInputs& inputs)
      : recipe_(recipe),
        plan_(plan),
        inputs_(inputs),
        shortage_(ShortageOf(refused, inputs.cluster)),
        parameters_(ParametersOf(inputs.model)),
        budget_(refused, LayersOf(inputs.model)) {
    // Recomputation changes durations. Durations can change the order of transfers, and thus the arenas. A sixteenth of
    // the capacity is more than that effect.
    recomputing_all_is_vain_ = !shortage_.host && PartitionIsFixed(plan, inputs) &&
                               BytesWithoutSaved(refused) - shortage_.capacity > shortage_.capacity / 16;
  }

  const Shortage& shortage() const { return shortage_; }
  int64_t parameters() const { return parameters_; }

  // Implements TryPlan.
  TriedBytes Try(const Recipe& recipe, const Plan& plan) {
    if (const std::optional<TryOutcome> known = KnownOutcome(recipe, plan)) return *known;
    const Plan most = NeedingMost(plan);
    const int64_t times = MicrobatchesOfAReplica(recipe, plan) / MicrobatchesOfAReplica(recipe_, plan_);
    if (!budget_.Has(most.recompute(), times)) {
      // If only this plan is too slow, the search continues, because a plan that recomputes all layers, or one with
      // fewer microbatches, may be fast enough.
      const bool slow = most.recompute().mode() == Recompute::FIT || times > TryBudget::kFewTimes;
      return slow ? TryOutcome::kTooLong : TryOutcome::kStopped;
    }
    CompileOptions options;
    options.cost = inputs_.cost;
    options.remedies = false;
    const absl::StatusOr<Program> program = CompilePlan(inputs_.model, recipe, most, inputs_.cluster, options);
    if (program.ok() || absl::IsResourceExhausted(program.status())) budget_.Spend(most.recompute(), times);
    if (!program.ok()) return OutcomeOf(program.status());
    return shortage_.host ? PlannedNodeBytes(*program, inputs_.cluster) : PlannedDeviceBytes(*program);
  }

 private:
  // The outcome of an error of the compiler.
  static TryOutcome OutcomeOf(const absl::Status& error) {
    return absl::IsResourceExhausted(error) ? TryOutcome::kDoesNotFit : TryOutcome::kRefused;
  }

  // Returns the outcome if no compilation is needed to know it.
  std::optional<TryOutcome> KnownOutcome(const Recipe& recipe, const Plan& plan) const {
    const absl::StatusOr<PlanInputs> resolved = ResolveInputs(inputs_.model, recipe, plan, inputs_.cluster, {});
    if (!resolved.ok()) return OutcomeOf(resolved.status());
    if (!CheckChosenRecompute(*resolved).ok()) return TryOutcome::kRefused;
    // The states alone do not fit.
    if (!shortage_.host && LeastStateBytes(resolved->recipe, resolved->plan, parameters_) > shortage_.capacity) {
      return TryOutcome::kDoesNotFit;
    }
    // Recomputing more cannot help, because the plan does not fit even without saved activations.
    if (recomputing_all_is_vain_ && SameButRecompute(recipe_, plan_, recipe, plan)) return TryOutcome::kDoesNotFit;
    return std::nullopt;
  }

  // Replaces the plan's open choices by those that need the most of the memory that is short. One compilation is then
  // enough.
  Plan NeedingMost(Plan plan) const {
    // If nothing else fits, BY_BENEFIT chooses AFTER_FORWARD, which needs the least memory.
    if (plan.zero().reshard() == Zero::BY_BENEFIT) plan.mutable_zero()->set_reshard(Zero::AFTER_FORWARD);
    if (FirstIntervalNeedsMost(plan, inputs_.cluster)) plan.mutable_recompute()->set_interval(1);
    return plan;
  }

  const Recipe& recipe_;
  const Plan& plan_;
  const PlanInputs& inputs_;
  const Shortage shortage_;
  const int64_t parameters_;
  TryBudget budget_;
  bool recomputing_all_is_vain_ = false;
};

}  // namespace

absl::Status WithRemedies(const absl::Status& refusal, const Program& refused, const Recipe& recipe, const Plan& plan,
                          const PlanInputs& inputs, const OnTry& on_try) {
  constexpr int kWanted = 3;
  Tries tries(refused, recipe, plan, inputs);
  const auto try_plan = [&](const Recipe& r, const Plan& p) { return tries.Try(r, p); };
  const Remedies remedies = FindRemedies(recipe, plan, inputs.cluster, LayersOf(inputs.model), tries.parameters(),
                                         tries.shortage(), kWanted, try_plan, on_try);
  return absl::Status(refusal.code(), absl::StrCat(refusal.message(), "; ", DescribeRemedies(remedies)));
}

}  // namespace weft::planner
