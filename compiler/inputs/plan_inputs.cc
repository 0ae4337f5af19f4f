#include "compiler/inputs/plan_inputs.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compiler/inputs/plan_check.h"
#include "compiler/inputs/plan_schedule.h"
#include "compiler/inputs/weight_decay.h"
#include "compiler/rewrite/buckets.h"
#include "kernels/graph_row.h"
#include "proto/util/mesh.h"
#include "proto/util/status.h"
#include "proto/util/units.h"
#include "proto/validate/validate.h"
#include "schedules/collective/plan.h"

namespace weft {
namespace {

// Refuses stochastic rounding unless weights are in half precision: other weights are not rounded, and moments in bf16
// are kept only beside bf16 weights.
absl::Status CheckWeightRounding(const Recipe& recipe, const Plan& plan) {
  const DType params = plan.precision().params();
  if (recipe.weight_rounding() != STOCHASTIC || params == BF16 || params == FP16) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "recipe.weight_rounding = STOCHASTIC rounds the optimizer's weights to half precision; ",
      "plan.precision.params = ", DType_Name(params), "; allowed: BF16 or FP16, or recipe.weight_rounding = NEAREST"));
}

// Largest beta2 for moments in bf16 that are rounded to nearest. With a larger one, the second moment of a constant
// gradient ends below 0.9 of its true value (docs/precision.md).
constexpr double kMaxBeta2 = 0.98;
void NoteMoments(const Recipe& recipe, const Plan& plan, std::vector<std::string>* notes) {
  if (notes == nullptr || plan.precision().moments() != BF16 || recipe.weight_rounding() == STOCHASTIC) return;
  if (!recipe.has_adamw() || !(recipe.adamw().beta2() > kMaxBeta2)) return;
  notes->push_back(absl::StrFormat(
      "plan.precision.moments = BF16 with rounding to nearest loses most of what a step adds to the second moment if "
      "recipe.adamw.beta2 = %g; set recipe.weight_rounding = STOCHASTIC, which rounds moments too",
      recipe.adamw().beta2()));
}

// Without `recipe.dropout` a model trains without dropout, whatever its config says. If the config has dropout, a note
// reports this.
void ResolveDropout(const ModelGraph& model, Recipe& recipe, std::vector<std::string>* notes) {
  if (recipe.has_dropout()) return;
  double most = 0;
  for (const GraphOp& op : model.ops()) most = std::max(most, op.attributes().dropout());
  recipe.set_dropout(0);
  if (most > 0 && notes != nullptr) {
    notes->push_back(absl::StrFormat(
        "the model's config has dropout %g, but recipe.dropout is not set, so the model trains without dropout", most));
  }
}

// Adds a note if groups are too large to run. Running a collective needs the list of all its messages; simulating it
// does not. So a plan that is only simulated may have larger groups.
void NoteLargeGroups(const Mesh& mesh, std::vector<std::string>* notes) {
  if (notes == nullptr) return;
  for (const MeshAxis& axis : mesh.axes()) {
    if (axis.size() <= kMaxPlanMembers) continue;
    notes->push_back(absl::StrCat("plan.mesh: axis '", axis.name(), "' has ", axis.size(),
                                  " ranks; sums over more than ", kMaxPlanMembers,
                                  " ranks can be simulated, but weft run refuses them"));
  }
}

// With backward halving, one forward processes the recipe's microbatch, and each half of the microbatch has its own
// backward. The program counts the halves as its microbatches.
absl::Status HalveMicrobatches(Recipe& recipe) {
  const int64_t sequences = recipe.microbatch_sequences();
  if (sequences % 2 != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "plan.schedule.scaling = BACKWARD_HALVING halves microbatches: "
        "recipe.microbatch_sequences = ",
        sequences, " must be even; nearest: ", sequences > 1 ? absl::StrCat(sequences - 1, ", ") : "", sequences + 1));
  }
  recipe.set_microbatch_sequences(sequences / 2);
  return absl::OkStatus();
}

// Fills in the defaults of plan.offload. Unless the plan states otherwise, the buckets in which gradients are summed
// are multiples of the buckets of plan.offload.
absl::Status ResolveOffload(PlanInputs& inputs) {
  const bool activations = inputs.plan.offload().activation_layers() > 0;
  if (!inputs.plan.offload().optimizer() && !activations) return absl::OkStatus();
  const auto refuse = [&](const auto&... parts) {
    return absl::InvalidArgumentError(
        absl::StrCat("plan.offload.",
                     inputs.plan.offload().optimizer()
                         ? "optimizer = true"
                         : absl::StrCat("activation_layers = ", inputs.plan.offload().activation_layers()),
                     " ", parts...));
  };
  if (!(inputs.cluster.host().bytes_per_second() > 0)) {
    return refuse("needs cluster.host.bytes_per_second, the link between a device and its node's memory; cluster '",
                  inputs.cluster.name(), "' does not state it");
  }
  if (inputs.plan.post_validation()) {
    return refuse(
        "does not go with plan.post_validation = true, which can run forwards and updates twice; leave one out");
  }
  if (inputs.asynchronous) {
    return refuse("does not go with schedule '", inputs.plan.schedule().name(),
                  "', which updates the weights without a flush; use one that flushes");
  }
  if (!inputs.plan.offload().optimizer()) return absl::OkStatus();
  Offload& offload = *inputs.plan.mutable_offload();
  if (offload.bucket_elements() == 0) offload.set_bucket_elements(int64_t{1} << 24);
  if (offload.bucket_elements() < kMinBucketElements) {
    return absl::InvalidArgumentError(absl::StrCat("plan.offload.bucket_elements = ", offload.bucket_elements(),
                                                   " must be at least ", kMinBucketElements, "; the default is 16 Mi"));
  }
  if (inputs.plan.gradient_bucket_bytes() > 0) {
    if (offload.buckets_per_reduce() == 0) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        "plan.offload.buckets_per_reduce = ", offload.buckets_per_reduce(), " and plan.gradient_bucket_bytes = ",
        inputs.plan.gradient_bucket_bytes(), " both set how many gradients are summed at a time; leave one out"));
  }
  if (offload.buckets_per_reduce() == 0) offload.set_buckets_per_reduce(4);
  const DType held = inputs.plan.accumulation() == EXACT ? EXACT192 : inputs.plan.precision().grads();
  const double bytes = static_cast<double>(offload.bucket_elements()) * offload.buckets_per_reduce() *
                       static_cast<double>(DTypeBytes(held));
  constexpr double kMax = 0x1p50;
  inputs.plan.set_gradient_bucket_bytes(static_cast<int64_t>(std::min(bytes, kMax)));
  return absl::OkStatus();
}

absl::Status CheckLayersPerStage(const Plan& plan, int stages) {
  const int given = plan.partition().layers_per_stage_size();
  if (given == 0 || given == stages) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("plan.partition.layers_per_stage has ", given,
                                                 " entries; it must have ", stages, ", one per stage, or none"));
}

}  // namespace

absl::StatusOr<PlanInputs> ResolveInputs(const ModelGraph& model, const Recipe& recipe, const Plan& plan,
                                         const Cluster& cluster, std::vector<std::string>* notes) {
  PlanInputs inputs{model, recipe, plan, cluster, recipe, plan};
  WEFT_RETURN_IF_ERROR(kernels::ValidateModelGraph(inputs.model));
  WEFT_RETURN_IF_ERROR(ValidateTogether(inputs.recipe, inputs.model));
  WEFT_RETURN_IF_ERROR(ValidateAndResolve(&inputs.recipe));
  WEFT_RETURN_IF_ERROR(CheckDecayOverrides(inputs.model, inputs.recipe));
  WEFT_RETURN_IF_ERROR(Validate(inputs.cluster));
  WEFT_RETURN_IF_ERROR(ValidateAndResolve(&inputs.plan, inputs.cluster.device()));
  WEFT_RETURN_IF_ERROR(ValidateTogether(inputs.plan, inputs.cluster));
  WEFT_RETURN_IF_ERROR(CheckWeightRounding(inputs.recipe, inputs.plan));
  NoteMoments(inputs.recipe, inputs.plan, notes);
  const PlanSchedule& schedule = inputs.plan.schedule();
  if (schedule.scaling() == PlanSchedule::BACKWARD_HALVING) WEFT_RETURN_IF_ERROR(HalveMicrobatches(inputs.recipe));
  WEFT_ASSIGN_OR_RETURN(int64_t microbatches, MicrobatchesPerReplica(inputs.recipe, inputs.plan.mesh()));
  // The limit is checked before any list is built. A program has at least one action per stage and microbatch.
  constexpr int64_t kMaxPairs = int64_t{1} << 18;
  const int64_t ranks = AxisSize(inputs.plan.mesh(), "pipe");
  auto check_pairs = [&](int64_t stages) {
    if (microbatches <= kMaxPairs / stages) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("recipe.global_batch_sequences = ", inputs.recipe.global_batch_sequences(), " gives ",
                     microbatches, " microbatches per replica; at most ", kMaxPairs / stages, " for ", stages,
                     stages == ranks ? " pipe ranks" : " stages",
                     ": use a larger recipe.microbatch_sequences or more data replicas"));
  };
  WEFT_RETURN_IF_ERROR(check_pairs(ranks));
  inputs.microbatches = static_cast<int32_t>(microbatches);
  WEFT_RETURN_IF_ERROR(FindCollective(inputs.plan.collective()).status());
  WEFT_RETURN_IF_ERROR(CheckScheduleName(schedule));
  const ScheduleChoice choice = ChoiceOf(schedule, static_cast<int>(ranks), inputs.microbatches, {});
  Recipe asked = inputs.recipe;
  asked.set_steps(recipe.steps());
  WEFT_ASSIGN_OR_RETURN(inputs.asynchronous, AsynchronousOf(choice, asked, inputs.plan));
  if (inputs.asynchronous) {
    inputs.schedule = inputs.asynchronous->schedule;
    // If the recipe does not state the number of iterations, takes the smallest possible number.
    if (recipe.steps() == 0) inputs.recipe.set_steps(inputs.asynchronous->steps_per_repetition);
  } else {
    WEFT_ASSIGN_OR_RETURN(inputs.schedule, ScheduleOf(choice));
  }
  WEFT_RETURN_IF_ERROR(check_pairs(inputs.schedule.stages));
  WEFT_RETURN_IF_ERROR(CheckFreeze(schedule, inputs.schedule));
  WEFT_RETURN_IF_ERROR(CheckTensorParallel(inputs.model, inputs.plan, inputs.recipe, inputs.schedule));
  WEFT_RETURN_IF_ERROR(CheckLayersPerStage(inputs.plan, inputs.schedule.stages));
  WEFT_RETURN_IF_ERROR(CheckStages(inputs.model, ranks, inputs.schedule.stages));
  WEFT_RETURN_IF_ERROR(CheckRecomputeLayers(inputs.model, inputs.plan.recompute()));
  WEFT_RETURN_IF_ERROR(CheckKeptLayers(inputs.model, inputs.plan.zero()));
  if (inputs.plan.schedule().name().empty()) inputs.plan.mutable_schedule()->set_name("definition");
  WEFT_RETURN_IF_ERROR(ResolveOffload(inputs));
  ResolveDropout(inputs.model, inputs.recipe, notes);
  NoteLargeGroups(inputs.plan.mesh(), notes);
  return inputs;
}

}  // namespace weft
